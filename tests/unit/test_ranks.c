/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* user/ranks: which calls are the same collective, several captures as one session, the
 * criterion of a slow rank and its causes. */
#include "ranks/join.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "rank_world.h"
#include "ranks/match.h"
#include "ranks/rank_times.h"
#include "ranks/remap.h"
#include "ranks/skew.h"
#include "seed_capture.h"
#include "slice_log.h"
#include "suite.h"

static const struct rank_machine here = { "a", "boot-a", 5000 * RW_MS, 0, 100 };
static const struct rank_machine also_here = { "a", "boot-a", 5000 * RW_MS, 0, 200 };
static const struct rank_machine there = { "b", "boot-b", 90000000 * RW_MS, 0, 100 };

/* ---- matching ---- */

#define CALLS 12

/* Calls of a rank: one in every ms, not at equal distances, done 300 us after rank 0 called. */
static struct rank_calls list_of(struct collective calls[CALLS], uint32_t first, int64_t clock,
				 uint64_t own)
{
	for (uint32_t i = 0; i < CALLS; i++) {
		uint64_t k = first + i,
			 t = 1000 * RW_MS + k * RW_MS + rank_world__mix((uint32_t)k) % 600000;

		calls[i] = (struct collective){ .begin_ns = t + own + (uint64_t)clock,
						.end_ns = t + own + 10000 + (uint64_t)clock,
						.until_ns = t + 300000 + (uint64_t)clock,
						.name = 1 + (uint32_t)k % 3 / 2,
						.waits = true };
	}
	return (struct rank_calls){ .calls = calls, .cnt = CALLS };
}

static void test_match(void)
{
	static const int64_t clocks[] = { 0, 50000, -400000, 3 * (int64_t)RW_MS };
	struct collective x[CALLS], y[CALLS];

	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		struct rank_calls a = list_of(x, 0, 0, 0), b = list_of(y, 2, clocks[i], 200000);
		struct calls_match m = calls_match__find(&a, &b, 0, 0);

		CU_ASSERT_EQUAL(m.lag, 2);
		CU_ASSERT_EQUAL(m.pairs, CALLS - 2);
		CU_ASSERT(calls_match__consistent(&m));
		/* b called 200 us after a, 100 us before it was done; a itself waited for 300 us */
		CU_ASSERT_EQUAL(m.hi_ns, 100000 - clocks[i]);
		CU_ASSERT_EQUAL(m.lo_ns, -300000 - clocks[i]);
	}
}

static void test_no_match(void)
{
	struct collective x[CALLS], y[CALLS];
	struct rank_calls a = list_of(x, 0, 0, 0), b = list_of(y, 0, 0, 0), none = { .cnt = 0 };
	struct calls_match m;

	for (uint32_t i = 0; i < CALLS; i++)
		y[i].name = 7;
	CU_ASSERT_EQUAL(calls_match__find(&a, &b, 0, 0).pairs, 0);
	CU_ASSERT_EQUAL(calls_match__find(&a, &none, 0, 0).pairs, 0);
	/* nor windows that have no time in common */
	for (uint32_t i = 0; i < CALLS; i++)
		y[i].name = x[i].name;
	CU_ASSERT_EQUAL(calls_match__find(&a, &b, 0, 0).pairs, CALLS);
	CU_ASSERT_EQUAL(calls_match__find(&a, &b, 1000 * (int64_t)RW_MS, 0).pairs, 0);
	/* calls for which nobody waits say nothing, and those that contradict each other say so */
	for (uint32_t i = 0; i < CALLS; i++)
		x[i].waits = y[i].waits = false;
	memcpy(y, x, sizeof(x));
	m = calls_match__find(&a, &b, 0, 0);
	CU_ASSERT(m.pairs == CALLS && !m.bounds && m.lo_ns == INT64_MIN && m.hi_ns == INT64_MAX);
	for (uint32_t i = 0; i < CALLS; i++) {
		x[i].waits = y[i].waits = true;
		x[i].until_ns = x[i].begin_ns + 10;
		y[i].until_ns = y[i].begin_ns + 10;
		y[i].begin_ns += i % 2 * 1000;
		y[i].until_ns += i % 2 * 1000;
	}
	m = calls_match__at(&a, &b, 0, 0);
	CU_ASSERT(m.pairs == CALLS && m.lo_ns == 990 - 1000 && m.hi_ns == 10 - 1000);
	CU_ASSERT(!calls_match__consistent(&m));
}

/* ---- several captures as one ---- */

struct joined {
	struct join *j;
	struct session *s;
	struct slice_log *log;
};

static int join(struct builder *a, struct builder *b, bool by_collectives, struct joined *out)
{
	const char *paths[] = { builder__path(a), builder__path(b) };
	const struct join_opts opts = { .paths = paths, .cnt = 2, .by_collectives = by_collectives };
	int err = join__open(&opts, &out->j);

	if (err)
		return err;
	CU_ASSERT_FATAL(!session__open(join__reader(out->j), NULL, &out->s));
	out->log = slice_log__run(out->s);
	CU_ASSERT(slice_log__valid(out->log));
	return 0;
}

static void close_joined(struct joined *m)
{
	slice_log__free(m->log);
	session__free(m->s);
	join__close(m->j);
}

static struct joined join_two(struct builder *a, struct builder *b, bool by_collectives)
{
	struct joined m;

	CU_ASSERT_FATAL(!join(a, b, by_collectives, &m));
	builder__free(a);
	builder__free(b);
	return m;
}

static const struct rank_job even = { .ranks = 2, .steps = RW_STEPS, .slow = UINT32_MAX };

/* The nth slice of that name of the input. */
static const struct slice *slice_of(const struct joined *m, uint32_t input, const char *name, uint32_t n)
{
	const struct session_info *info = session__info(m->s);
	const struct slice *sl;

	for (uint32_t i = 0; (sl = slice_log__nth(m->log, name, i)); i++)
		for (uint32_t p = 0; p < info->process_cnt; p++)
			if (info->processes[p].tgid == sl->tgid &&
			    info->processes[p].input == input && !n--)
				return sl;
	CU_FAIL_FATAL("no such slice");
	return NULL;
}

static void check_overlap(const struct joined *m)
{
	for (uint32_t i = 0; i < 10; i++) {
		const struct slice *a = slice_of(m, 0, "c10d::allreduce_", i),
				   *b = slice_of(m, 1, "c10d::allreduce_", i);
		int64_t apart = (int64_t)(a->begin_ns - b->begin_ns);

		CU_ASSERT(apart > -500000 && apart < 500000);
	}
}

/* Two machines: processes of one number, ids of one value, other clocks. */
static void test_two_machines(void)
{
	struct builder *a = rank_world__capture(&even, &here, 0, 0),
		       *b = rank_world__capture(&even, &there, 1, 0);
	struct joined m = join_two(a, b, false);
	const struct session_info *info = session__info(m.s);

	CU_ASSERT(info->merged && info->sealed && info->process_cnt == 2);
	CU_ASSERT(info->processes[0].tgid == 100 && info->processes[1].tgid == 100 + REMAP_PIDS);
	CU_ASSERT(info->processes[0].pid == 100 && info->processes[1].pid == 100);
	CU_ASSERT_STRING_EQUAL(info->processes[0].host, "a");
	CU_ASSERT_STRING_EQUAL(info->processes[1].host, "b");
	CU_ASSERT_EQUAL(info->mono_to_unix_ns, 0);
	CU_ASSERT_EQUAL(info->begin_ns, RW_UNIX + 50);
	CU_ASSERT_EQUAL(slice_log__count(m.log, "c10d::allreduce_"), 2 * RW_STEPS);
	CU_ASSERT_EQUAL(slice_log__count(m.log, "aten::add"), 2 * RW_STEPS);
	CU_ASSERT_EQUAL(m.log->totals.bad_records, 0);
	CU_ASSERT_STRING_EQUAL(session__thread_comm(m.s, 100 + REMAP_PIDS, 100 + REMAP_PIDS), "python3");
	check_overlap(&m);
	close_joined(&m);
}

/* One boot: no number is moved, and wrong clock pairs do not part what has one clock. */
static void test_one_machine(void)
{
	struct rank_machine wrong = also_here;
	struct joined m;
	int64_t apart;

	wrong.wrong_ns = 7 * (int64_t)RW_MS;
	m = join_two(rank_world__capture(&even, &here, 0, 0),
		     rank_world__capture(&even, &wrong, 1, 3), false);
	CU_ASSERT_EQUAL(session__info(m.s)->processes[1].tgid, 200);
	apart = (int64_t)(slice_of(&m, 0, "c10d::allreduce_", 3)->begin_ns -
			  slice_of(&m, 1, "c10d::allreduce_", 0)->begin_ns);
	CU_ASSERT(apart > -500000 && apart < 500000);
	/* its own window began later */
	CU_ASSERT_EQUAL(slice_log__count(m.log, "c10d::allreduce_"), 2 * RW_STEPS - 3);
	close_joined(&m);
}

/* A machine whose Unix time is wrong: only on request collectives move its times. */
static void test_wrong_clock(void)
{
	struct rank_machine wrong = there;

	wrong.wrong_ns = 3 * (int64_t)RW_MS + 12345;
	for (int by_collectives = 0; by_collectives < 2; by_collectives++) {
		struct joined m = join_two(rank_world__capture(&even, &here, 0, 0),
					   rank_world__capture(&even, &wrong, 1, 0), by_collectives);
		const char *json = session__meta(m.s, "merged.1");
		int64_t apart = (int64_t)(slice_of(&m, 1, "c10d::allreduce_", 5)->begin_ns -
					  slice_of(&m, 0, "c10d::allreduce_", 5)->begin_ns);

		CU_ASSERT_FATAL(json != NULL);
		CU_ASSERT(strstr(json, "\"contradicts_clock\": true") != NULL);
		CU_ASSERT_EQUAL(strstr(json, "\"correction_ns\": 0") != NULL, !by_collectives);
		if (by_collectives)
			check_overlap(&m);
		else
			CU_ASSERT(apart > 2 * (int64_t)RW_MS);
		close_joined(&m);
	}
}

/* What ended early ends there: an operator that was open then does not last until the other window's end. */
static void test_windows(void)
{
	struct rank_job longer = even;
	struct builder *a, *b;
	struct joined m;
	uint64_t end;

	longer.steps = RW_STEPS / 2;
	a = rank_world__capture(&longer, &here, 0, 0);
	builder__enter(a, 1, here.mono_ns + 100 * RW_MS, 0x5000);
	b = rank_world__capture(&even, &there, 1, 0);
	m = join_two(a, b, false);
	end = session__info(m.s)->processes[0].end_ns;
	CU_ASSERT(end < session__info(m.s)->end_ns);
	for (uint32_t i = 0; i < m.log->cnt; i++)
		if (m.log->slices[i].tgid == 100)
			CU_ASSERT(m.log->slices[i].end_ns <= end + 100);
	close_joined(&m);
}

/* Every kind of record: what the model makes of a capture does not change where it is one of two. */
static void test_every_kind(void)
{
	struct builder *seed = seed_capture__new(""), *other = rank_world__capture(&even, &there, 1, 0);
	struct session_totals before;
	struct slice_log *log;
	struct joined m;
	uint32_t n = 0;

	builder__meta(other, "args", "\"full\"");
	builder__meta(other, "profile_memory", "true");
	builder__meta(other, "kernel_memory", "true");
	CU_ASSERT_FATAL(!join(other, seed, false, &m));
	log = slice_log__run(builder__session(seed, NULL));
	before = log->totals;
	for (uint32_t i = 0; i < m.log->cnt; i++) {
		const struct slice *sl = &m.log->slices[i], *old;

		if (sl->tgid < REMAP_PIDS)
			continue;
		CU_ASSERT_FATAL(n < log->cnt);
		old = &log->slices[n++];
		CU_ASSERT_STRING_EQUAL(sl->name, old->name);
		CU_ASSERT_EQUAL(sl->end_ns - sl->begin_ns, old->end_ns - old->begin_ns);
		CU_ASSERT_EQUAL(sl->begin_ns, old->begin_ns + 1000); /* the seed's clock pair */
		CU_ASSERT(sl->tid == old->tid + REMAP_PIDS && sl->flags == old->flags &&
			  sl->seq == old->seq);
	}
	CU_ASSERT_EQUAL(n, log->cnt);
	CU_ASSERT_EQUAL(m.log->totals.flows, before.flows);
	CU_ASSERT_EQUAL(m.log->totals.live_blocks, before.live_blocks);
	CU_ASSERT_EQUAL(m.log->totals.freed_unknown, before.freed_unknown);
	CU_ASSERT_EQUAL(m.log->totals.gpu_work, before.gpu_work);
	CU_ASSERT_EQUAL(m.log->totals.gpu_calls, before.gpu_calls);
	CU_ASSERT_EQUAL(m.log->totals.gpu_outside, before.gpu_outside);
	CU_ASSERT_EQUAL(m.log->totals.gpu_unlinked, before.gpu_unlinked);
	CU_ASSERT_EQUAL(m.log->totals.stacks, before.stacks);
	CU_ASSERT_EQUAL(m.log->totals.bad_records, before.bad_records);
	slice_log__free(log);
	builder__free(seed);
	builder__free(other);
	close_joined(&m);
}

static void test_damaged(void)
{
	struct builder *a = rank_world__capture(&even, &here, 0, 0),
		       *b = rank_world__capture(&even, &there, 1, 0);
	struct ptb_thread big = { .h = { .kind = PTB_REC_THREAD, .len = sizeof(big), .tgid = REMAP_PIDS } };
	struct ptb_thread future = { .h = { .kind = 250, .len = sizeof(future), .ts_ns = 1 } };
	struct ptb_op_enter when = { .h = { .kind = PTB_REC_OP_ENTER, .site = 2 } };
	struct ptb_site site = { .h = { .kind = PTB_REC_SITE, .len = sizeof(site) },
				 .id = UINT32_MAX,
				 .func = 1 };
	struct joined m;

	builder__raw(b, &big.h);
	builder__raw(b, &future.h);
	builder__raw(b, &site.h);
	builder__thread(b, UINT32_MAX, 1);
	builder__ring_rec(b, &when.h, PTB_REC_OP_ENTER, sizeof(when), there.mono_ns + 1000);
	CU_ASSERT_FATAL(!join(a, b, false, &m));
	CU_ASSERT_EQUAL(m.log->totals.bad_records, 4);
	CU_ASSERT_EQUAL(slice_log__count(m.log, "c10d::allreduce_"), 2 * RW_STEPS);
	close_joined(&m);
	builder__free(a);
	builder__free(b);
}

static void test_refused(void)
{
	struct builder *a = rank_world__capture(&even, &here, 0, 0),
		       *b = rank_world__capture(&even, &there, 1, 0);
	struct builder *old = rank_world__capture(&even, &here, 0, 0);
	struct capture_reader *cr;
	struct session *s;
	struct joined m;

	builder__meta(b, "profile_memory", "true");
	CU_ASSERT_EQUAL(join(a, b, false, &m), -EINVAL);
	builder__free(b);
	b = builder__new(1000, 2000); /* no clock */
	CU_ASSERT_EQUAL(join(a, b, false, &m), -ENODATA);
	builder__meta(old, "merged", "{}");
	CU_ASSERT_FATAL(!capture_reader__open(builder__path(old), &cr));
	CU_ASSERT_EQUAL(session__open(cr, NULL, &s), -EINVAL);
	capture_reader__close(cr);
	CU_ASSERT_EQUAL(join(a, old, false, &m), -EINVAL);
	builder__free(old);
	builder__free(a);
	builder__free(b);
}

/* ---- the criterion ---- */

#define STEPS 60

static double noise(uint32_t rank, uint32_t step)
{
	return (double)(rank_world__mix(rank * 7919 + step) >> 8) / (1 << 24);
}

/* own times of 8 ms, of rank `slow` in [from, to) more; steps of 10 ms. */
static struct skew_verdict judge(uint32_t ranks, uint32_t slow, uint32_t from, uint32_t to,
				 double more_ms, double noise_ms, uint32_t *others)
{
	double own[4 * STEPS], step_ns[STEPS];
	struct skew_verdict v[4];

	for (uint32_t s = 0; s < STEPS; s++) {
		step_ns[s] = 10e6;
		for (uint32_t r = 0; r < ranks; r++)
			own[r * STEPS + s] = 8e6 + noise(r, s) * noise_ms * 1e6 +
					     (r == slow && s >= from && s < to ? more_ms * 1e6 : 0);
	}
	CU_ASSERT_FATAL(!skew__judge(own, step_ns, ranks, STEPS, v));
	*others = 0;
	for (uint32_t r = 0; r < ranks; r++)
		*others += r != slow && v[r].slow;
	return slow < ranks ? v[slow] : v[0];
}

static void test_criterion(void)
{
	static const struct {
		uint32_t ranks, from, to;
		double more_ms, noise_ms;
		bool slow;
	} rows[] = {
		{ 2, 0, STEPS, 2, 0.2, true },  { 4, 0, STEPS, 2, 2, true },
		{ 3, 0, STEPS, 2, 1, true },    { 3, 20, 40, 2, 0.5, true },
		{ 4, 20, STEPS, 2, 0.5, true }, { 4, 20, 40, 2, 0.5, true },
		{ 2, 30, STEPS, 3, 0.5, true }, { 4, 0, STEPS, 0, 2, false },
		{ 2, 0, STEPS, 0, 4, false },   { 4, 0, STEPS, 0.2, 0.1, false },
		{ 4, 30, 33, 50, 0.5, false },  { 2, 10, 11, 200, 0, false },
		{ 4, 0, STEPS, 0.6, 0, true },
	};
	uint32_t others;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct skew_verdict v = judge(rows[i].ranks, 1, rows[i].from, rows[i].to,
					      rows[i].more_ms, rows[i].noise_ms, &others);

		CU_ASSERT_EQUAL(v.slow, rows[i].slow);
		CU_ASSERT_EQUAL(others, 0);
		if (!v.slow)
			continue;
		CU_ASSERT(v.first + 2 >= rows[i].from && v.first <= rows[i].from + 2);
		CU_ASSERT(v.last + 3 >= rows[i].to && v.last <= rows[i].to + 1);
		CU_ASSERT(v.excess_ns > rows[i].more_ms * 0.7e6 &&
			  v.excess_ns < rows[i].more_ms * 1.3e6 + 1e5);
	}
}

static void test_too_little(void)
{
	double own[8] = { 1, 1, 1, 1, 9, 9, 9, 9 }, step_ns[4] = { 10, 10, 10, 10 };
	struct skew_verdict v[2];

	CU_ASSERT(!skew__judge(own, step_ns, 2, 4, v));
	CU_ASSERT(!v[0].slow && !v[1].slow);
	CU_ASSERT(!skew__judge(own, step_ns, 1, 4, v));
	CU_ASSERT(!v[0].slow);
}

/* ---- causes, from captures ---- */

struct found {
	struct joined m;
	struct rank_times *rt;
	const struct rank_times_result *r;
};

static struct found find(const struct rank_job *job)
{
	struct found f = { .m = join_two(rank_world__capture(job, &here, 0, 0),
					 rank_world__capture(job, &there, 1, 2), false) };
	struct session_totals totals;
	struct session_sink sink;

	f.rt = rank_times__new(f.m.s);
	CU_ASSERT_FATAL(f.rt != NULL);
	sink = rank_times__sink(f.rt);
	CU_ASSERT_FATAL(!session__run(f.m.s, &sink, 1, &totals));
	CU_ASSERT_FATAL(!rank_times__finish(f.rt, &f.r));
	CU_ASSERT_FATAL(f.r->rank_cnt == 2);
	CU_ASSERT_EQUAL(f.r->matched, RW_STEPS - 2);
	return f;
}

static void end_find(struct found *f)
{
	rank_times__free(f->rt);
	close_joined(&f->m);
}

static void test_causes(void)
{
	static const struct {
		struct rank_job job;
		const char *what;
	} rows[] = {
		{ { .loading_ns = 4 * RW_MS, .slow = 1 }, RANK_LOADING },
		{ { .op_ns = 3 * RW_MS, .slow = 0, .since = 15 }, "aten::add" },
		{ { .other_ns = 5 * RW_MS, .slow = 1, .since = 10 }, RANK_OUTSIDE },
		{ { .op_ns = 3 * RW_MS, .slow = 1, .since = 20, .no_optimizer = true }, "aten::add" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rank_job job = rows[i].job;
		double more = (double)(job.loading_ns + job.op_ns + job.other_ns);
		const struct rank_time *t;
		struct found f;

		job.ranks = 2;
		job.steps = RW_STEPS;
		f = find(&job);
		t = &f.r->ranks[job.slow];
		CU_ASSERT(t->verdict.slow && !f.r->ranks[!job.slow].verdict.slow);
		CU_ASSERT_EQUAL(f.r->by_steps, !job.no_optimizer);
		CU_ASSERT(t->verdict.excess_ns > 0.85 * more && t->verdict.excess_ns < 1.15 * more);
		CU_ASSERT_FATAL(t->what_cnt > 0);
		CU_ASSERT_STRING_EQUAL(t->what[0].name, rows[i].what);
		CU_ASSERT(t->what[0].excess_ns > 0.9 * more && t->what[0].excess_ns < 1.1 * more);
		CU_ASSERT_STRING_EQUAL(t->before, "c10d::allreduce_");
		CU_ASSERT(f.r->ranks[job.slow].caused_ns > f.r->ranks[!job.slow].caused_ns);
		CU_ASSERT(f.r->waits[0].last == job.slow && f.r->waits[0].ns > 0.9 * more);
		if (job.since)
			CU_ASSERT(t->verdict.first + 4 >= job.since - 2 &&
				  t->verdict.first <= job.since + 1);
		end_find(&f);
	}
}

static void test_none_slow(void)
{
	struct found f = find(&even);

	CU_ASSERT(!f.r->ranks[0].verdict.slow && !f.r->ranks[1].verdict.slow);
	CU_ASSERT(f.r->step_cnt > RW_STEPS - 8);
	end_find(&f);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "match", test_match },
		{ "no_match", test_no_match },
		{ "two_machines", test_two_machines },
		{ "one_machine", test_one_machine },
		{ "wrong_clock", test_wrong_clock },
		{ "windows", test_windows },
		{ "every_kind", test_every_kind },
		{ "damaged", test_damaged },
		{ "refused", test_refused },
		{ "criterion", test_criterion },
		{ "too_little", test_too_little },
		{ "causes", test_causes },
		{ "none_slow", test_none_slow },
		CU_TEST_INFO_NULL,
	};

	return run_suite("ranks", tests);
}
