/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* export/loss_account: what makes a session incomplete, and that the sentence names it. */
#include <stdlib.h>
#include <string.h>

#include "export/loss_account.h"
#include "fake_session.h"
#include "suite.h"

static char text[2048];

static bool account(const struct session *s, const struct session_totals *t)
{
	return loss_account__incomplete(session__info(s), t, text, sizeof(text));
}

static bool says(const char *part)
{
	if (strstr(text, part))
		return true;
	fprintf(stderr, "\"%s\" is not in \"%s\"\n", part, text);
	return false;
}

static void test_complete(void)
{
	struct session s = fake_session();
	struct session_totals t = { .slices = 10, .unwound = 3, .open_at_begin = 2, .unfinished = 1 };

	s.counters[PTB_CNT_HITS] = 1000;
	s.counters[PTB_CNT_READ_FAULT] = 5;
	s.counters[PTB_CNT_PROBES] = 900;
	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT_STRING_EQUAL(text, "complete: nothing lost");
	t.truncated_annotations = 1;
	t.truncated_ops = 7;
	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT(says("nothing lost; cut where they cross an annotation (marked ptbpf.truncated): 1 annotation, 7 "
		       "operators"));
}

/* What is open all the time is not seen where ptbpf came later than the program, and only annotations show that annotations are recorded. */
static void test_open_all_the_time(void)
{
	struct session s = fake_session();
	struct session_totals t = { 0 };

	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT_STRING_EQUAL(text, "complete: nothing lost");
	s.info.open_unknown = true;
	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT(says("; nothing began or ended: an operator or annotation that is open all the time is not seen"));
	t.slices = t.ops = 4;
	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT(says("; no annotation began or ended: one that is open all the time is not seen"));
	t.annotations = 1;
	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT_STRING_EQUAL(text, "complete: nothing lost");
	t.silent_threads = 1;
	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT_STRING_EQUAL(text, "complete: nothing lost");
	t.silent_threads = 4;
	t.silent_mains = 1;
	t.silent_main = 100;
	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT(says(
		"; nothing began or ended on 4 threads, the main thread of process 100 among them: an operator or "
		"annotation that is open there all the time is not seen (--sample-stacks says where threads are)"));
	t.silent_mains = 2;
	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT(says(" on 4 threads, the main threads of 2 processes among them: an operator"));
}

/* Operators that cannot be seen are counted; other refusals are not, and neither makes the session incomplete. */
static void test_refused(void)
{
	static const struct session_refusal refusals[] = {
		{ "at::_ops::neg", PTB_FUNC_OP, PTB_REFUSE_NO_NAME },
		{ "torch::jit::general_trace_function", PTB_FUNC_OP, PTB_REFUSE_NO_NAME },
		{ "aten::add.Tensor", PTB_FUNC_OP, PTB_REFUSE_NO_EXIT },
		{ "Node::operator() (inlined)", PTB_FUNC_NODE_CALL, PTB_REFUSE_NO_ENTRY },
		{ "aten::mm", PTB_FUNC_OP, PTB_REFUSE_KERNEL_REFUSED },
		{ "c10::Dispatcher::callBoxed", PTB_FUNC_BOXED, PTB_REFUSE_NO_ENTRY },
	};
	struct session s = fake_session();
	struct session_totals t = { 0 };

	s.info.refusals = refusals;
	s.info.refusal_cnt = 1;
	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT(says("complete: nothing lost; 1 operator not visible (attach --dry-run lists them)"));
	s.info.refusal_cnt = 4;
	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT(says("; 1 operator not visible"));
	s.info.refusal_cnt = 6;
	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT(says("; 3 operators not visible"));
	s.info.refusals++;
	s.info.refusal_cnt = 3;
	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT_STRING_EQUAL(text, "complete: nothing lost");
}

/* Each counter of the table: incomplete exactly if its row is a loss, and named with its number. */
static void test_every_counter(void)
{
	static const struct {
		uint32_t id;
		bool loss;
		const char *text;
	} rows[] = {
#define X(name, nr, where, loss, text) { nr, loss, text },
		PTB_COUNTERS(X)
#undef X
	};
	struct session_totals t = { .samples = 1000000000 }; /* of which a few may be missing */

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct session s = fake_session();
		size_t len = strlen(rows[i].text);

		s.counters[rows[i].id] = 1234567;
		CU_ASSERT_EQUAL(account(&s, &t), rows[i].loss);
		if (!rows[i].loss)
			continue;
		if (len > 4 && !strcmp(rows[i].text + len - 4, ", ns")) {
			CU_ASSERT(says("1.235 ms of"));
		} else {
			CU_ASSERT(says("1234567 ") && says(rows[i].text));
		}
	}
}

/* A hundredth of the samples. */
static void test_late_samples(void)
{
	struct session s = fake_session();
	struct session_totals t = { .samples = 1000 };

	s.counters[PTB_CNT_SAMPLES_LATE] = 11;
	CU_ASSERT_FALSE(account(&s, &t));
	s.counters[PTB_CNT_SAMPLES_LATE] = 12;
	CU_ASSERT(account(&s, &t));
	CU_ASSERT(says("12 samples missed, 1000 taken"));
}

static void test_advice(void)
{
	struct session s = fake_session();
	struct session_totals t = { 0 };

	s.counters[PTB_CNT_RING_FULL] = 12;
	CU_ASSERT(account(&s, &t));
	CU_ASSERT_STRING_EQUAL(text, "12 records lost: ring buffer full (raise --ringbuf)");
}

static void test_intervals(void)
{
	static const struct session_lost lost[] = {
		{ .begin_ns = 5100000000ULL, .end_ns = 5100500000ULL, .cnt = 7, .ring = 0 },
		{ .begin_ns = 5200000000ULL, .end_ns = 5201000000ULL, .cnt = 5, .ring = 1 },
	};
	struct session s = fake_session();
	struct session_totals t = { 0 };

	s.info.lost = lost;
	s.info.lost_cnt = 2;
	CU_ASSERT(account(&s, &t));
	CU_ASSERT(says("12 records missing from 2 intervals of 1.500 ms in all"));
	CU_ASSERT(says("--ringbuf"));
}

static void test_unsealed(void)
{
	struct session s = fake_session();
	struct session_totals t = { 0 };

	s.info.sealed = false;
	CU_ASSERT(account(&s, &t));
	CU_ASSERT(says("not sealed"));
}

static void test_totals(void)
{
	struct session s = fake_session();
	struct session_totals t = { .end_lost = 3 };

	CU_ASSERT(account(&s, &t));
	CU_ASSERT(says("3 slices whose end may be"));
	t = (struct session_totals){ .bad_records = 1 };
	CU_ASSERT(account(&s, &t));
	CU_ASSERT(says("1 malformed record skipped"));
}

/* Impossible times of GPU work are reported, but nothing is missing. Records without a clock are missing. */
static void test_gpu(void)
{
	struct session s = fake_session();
	struct session_totals t = { .gpu_work = 100, .gpu_before_launch = 2, .gpu_outside = 7 };

	s.info.has_gpu = true;
	CU_ASSERT_FALSE(account(&s, &t));
	CU_ASSERT(says("complete: nothing lost; 2 of 100 GPU activities began before their launch"));
	t.gpu_no_clock = 5;
	CU_ASSERT(account(&s, &t));
	CU_ASSERT(says("5 GPU records of processes whose agent sent no clock pair; 2 of 100"));
	t = (struct session_totals){ .gpu_wrong_times = 4 };
	CU_ASSERT(account(&s, &t));
	CU_ASSERT(says("4 GPU records left out: they end before they begin"));
}

/* All at once: one sentence with all parts. */
static void test_everything(void)
{
	static const struct session_lost lost = { .begin_ns = 1, .end_ns = 2, .cnt = 9 };
	static const struct session_refusal refusal = { "at::_ops::neg", PTB_FUNC_OP,
							PTB_REFUSE_NO_ENTRY };
	struct session s = fake_session();
	struct session_totals t = { .end_lost = 3 };

	s.counters[PTB_CNT_RING_FULL] = 9;
	s.counters[PTB_CNT_CAPTURE_DROPPED] = 4;
	s.info.lost = &lost;
	s.info.lost_cnt = 1;
	s.info.sealed = false;
	s.info.refusals = &refusal;
	s.info.refusal_cnt = 1;
	CU_ASSERT(account(&s, &t));
	CU_ASSERT(says("the capture was not sealed"));
	CU_ASSERT(says("; 9 records lost: ring buffer full"));
	CU_ASSERT(says("; 4 records lost: the capture file could not be written"));
	CU_ASSERT(says("; 9 records missing from 1 interval of"));
	CU_ASSERT(says("; 3 slices"));
	CU_ASSERT(says("; 1 operator not visible"));
	CU_ASSERT_PTR_NULL(strchr(text, '\n'));
}

/* Any buffer size is safe and cuts visibly. */
static void test_small_buffer(void)
{
	struct session s = fake_session();
	struct session_totals t = { .end_lost = 3 };

	for (size_t cap = 0; cap < 60; cap++) {
		char *small = malloc(cap ? cap : 1);

		s.info.sealed = false;
		CU_ASSERT(loss_account__incomplete(session__info(&s), &t, small, cap));
		if (cap)
			CU_ASSERT(strlen(small) < cap);
		if (cap > 10)
			CU_ASSERT_STRING_EQUAL(small + strlen(small) - 3, "...");
		free(small);
	}
	s = fake_session();
	s.info.counter_cnt = 3; /* an older capture knows fewer counters */
	s.counters[PTB_CNT_CAPTURE_DROPPED] = 4;
	t.end_lost = 0;
	CU_ASSERT_FALSE(account(&s, &t));
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "complete", test_complete },
		{ "open all the time", test_open_all_the_time },
		{ "refused", test_refused },
		{ "every counter", test_every_counter },
		{ "late samples", test_late_samples },
		{ "advice", test_advice },
		{ "intervals", test_intervals },
		{ "unsealed", test_unsealed },
		{ "totals", test_totals },
		{ "gpu", test_gpu },
		{ "everything", test_everything },
		{ "small buffer", test_small_buffer },
		CU_TEST_INFO_NULL,
	};

	return run_suite("loss_account", tests);
}
