/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* schedule: every step of many schedules does what torch.profiler.schedule() says (pytorch torch/profiler/profiler.py). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sample/schedule.h"
#include "suite.h"

#define STEP 1000000000ULL

struct numbers {
	unsigned int skip_first, wait, warmup, active, repeat, skip_first_wait;
};

/* 'N'one, 'W'armup, 'R'ecord: torch's rule. */
static char torch_action(const struct numbers *n, unsigned int step)
{
	unsigned int cycle = n->wait + n->warmup + n->active, at;

	if (step < n->skip_first)
		return 'N';
	step -= n->skip_first;
	if (n->skip_first_wait)
		step += n->wait;
	if (n->repeat && step / cycle >= n->repeat)
		return 'N';
	at = step % cycle;
	return at < n->wait ? 'N' : at < n->wait + n->warmup ? 'W' : 'R';
}

/* What the windows say of the middle of a step of one second. */
static char our_action(const struct schedule *s, unsigned int step)
{
	uint64_t t = step * STEP + STEP / 2;
	struct schedule_window w;

	for (uint64_t k = 0; schedule__window(s, k, &w) && w.warmup <= t; k++)
		if (t < w.end)
			return t < w.begin ? 'W' : 'R';
	return 'N';
}

static void parse(const struct numbers *n, struct schedule *s)
{
	char text[200];

	snprintf(text, sizeof(text),
		 "wait=%us,warmup=%us,active=%us,repeat=%u,skip_first=%us,skip_first_wait=%u",
		 n->wait, n->warmup, n->active, n->repeat, n->skip_first, n->skip_first_wait);
	CU_ASSERT_EQUAL_FATAL(schedule__parse(text, s), 0);
}

static void test_table(void)
{
	static const char expected[] = "NNNNNWRRRRNNWRRRRNNNNNNN";
	const struct numbers n = { 3, 2, 1, 4, 2, 0 };
	struct schedule s;

	parse(&n, &s);
	for (unsigned int i = 0; i < sizeof(expected) - 1; i++)
		CU_ASSERT_EQUAL(our_action(&s, i), expected[i]);
}

static void test_random(void)
{
	unsigned int wrong = 0, recorded = 0;

	srandom(1);
	for (int i = 0; i < 2000; i++) {
		const struct numbers n = {
			(unsigned int)random() % 4, (unsigned int)random() % 4,
			(unsigned int)random() % 3, (unsigned int)random() % 4 + 1,
			(unsigned int)random() % 4, (unsigned int)random() % 2
		};
		struct schedule s;

		parse(&n, &s);
		for (unsigned int step = 0; step < 40; step++) {
			char action = our_action(&s, step);

			wrong += action != torch_action(&n, step);
			recorded += action == 'R';
		}
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(recorded > 10000);
}

static void test_refused(void)
{
	static const char *const texts[] = { "",
					     "wait=1s",
					     "active=0",
					     "active=5",
					     "active=1s,active=2s",
					     "active",
					     "active=",
					     "=1s",
					     "active=1s,,",
					     "active=1s,repeat=1s",
					     "active=1s,repeat=-1",
					     "active=1s,step=2",
					     "active=-1s",
					     "active=1e300s",
					     "active=9999d",
					     "active=1s,repeat=99999999999",
					     "active=10000h",
					     "active=nan" };
	struct schedule s;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!schedule__parse(texts[i], &s)) {
			fprintf(stderr, "'%s' is accepted\n", texts[i]);
			CU_FAIL("accepted");
		}
}

/* Units, and windows that are a year long, for ever. */
static void test_large(void)
{
	struct schedule s;
	struct schedule_window w;
	uint64_t last = 0, k;

	CU_ASSERT_EQUAL_FATAL(schedule__parse("active=250ms,wait=1.5m", &s), 0);
	CU_ASSERT_EQUAL(s.active, 250000000);
	CU_ASSERT_EQUAL(s.wait, 90 * STEP);
	CU_ASSERT_EQUAL_FATAL(schedule__parse("wait=8000h,warmup=8000h,active=8000h,skip_first=8000h", &s),
			      0);
	for (k = 0; schedule__window(&s, k, &w); k++) {
		CU_ASSERT_FATAL(w.warmup >= last && w.begin >= w.warmup && w.end > w.begin);
		last = w.end;
	}
	CU_ASSERT(k > 10);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "torch's table", test_table },
		{ "random schedules", test_random },
		{ "refused", test_refused },
		{ "large", test_large },
		CU_TEST_INFO_NULL,
	};

	return run_suite("schedule", tests);
}
