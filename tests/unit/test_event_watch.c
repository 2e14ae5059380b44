/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* sample/step_history, event_rules, event_watch: which steps are slow, what --open-on may say, which events there are. */
#include <stdlib.h>
#include <string.h>

#include "sample/event_watch.h"
#include "suite.h"

#define MS 1000000ULL
#define SEC (1000 * MS)
#define MIB (1ULL << 20)
#define PID 7

static struct event_watch *watch;
static uint64_t now;

/* ---- history ---- */

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Against the median of the last steps as a sort of all of them has it. */
TEST("median")
{
	struct step_history h = { .cnt = 0 };
	uint64_t all[500], last[STEP_HISTORY_MAX];

	CU_ASSERT_EQUAL(step_history__median(&h), 0);
	srand(5);
	for (uint32_t n = 1; n <= 500; n++) {
		uint32_t keep = n < STEP_HISTORY_MAX ? n : STEP_HISTORY_MAX;
		uint64_t want;

		all[n - 1] = (uint64_t)rand() % 1000;
		step_history__add(&h, all[n - 1]);
		memcpy(last, all + n - keep, keep * sizeof(*last));
		qsort(last, keep, sizeof(*last), by_size);
		want = keep % 2 ? last[keep / 2] : (last[keep / 2 - 1] + last[keep / 2]) / 2;
		CU_ASSERT_EQUAL(step_history__median(&h), want);
	}
}

TEST("slow")
{
	struct step_history h = { .cnt = 0 };

	for (int i = 0; i < STEP_HISTORY_MIN; i++) {
		CU_ASSERT_FALSE(step_history__is_slow(&h, 10000 * MS, 1.5));
		step_history__add(&h, 1000 * MS);
	}
	CU_ASSERT_FALSE(step_history__is_slow(&h, 1500 * MS, 1.5));
	CU_ASSERT(step_history__is_slow(&h, 1501 * MS, 1.5));
	step_history__add(&h, 2000 * MS);
	CU_ASSERT_FALSE(step_history__is_slow(&h, 2000 * MS, 1.5));
	CU_ASSERT(step_history__is_slow(&h, 2001 * MS, 1.5));
	for (int i = 0; i < STEP_HISTORY_MAX; i++)
		step_history__add(&h, 1000 * MS);
	CU_ASSERT(step_history__is_slow(&h, 1501 * MS, 1.5));
}

/* ---- rules ---- */

TEST("rules")
{
	static const char *const bad[] = { "",
					   "slow",
					   "slow=",
					   "slow=1x",
					   "slow=1.5",
					   "slow=0.5x",
					   "slow=nanx",
					   "slow=infx",
					   "slow=1e9x",
					   "slow=2x,slow=3x",
					   "grows=0",
					   "grows=-1",
					   "grows=1parsec",
					   "hang=0",
					   "hang=10ms",
					   "annotation=",
					   "annotation=a,annotation=b",
					   "oom=1",
					   "oom=",
					   "oom,oom",
					   "oomph",
					   "fast=2x",
					   "slow=2x,,grows=1",
					   "slow=2x grows=1" };
	struct event_rules r;
	char text[EVENT_NAME_MAX + 32] = "annotation=";

	CU_ASSERT_EQUAL(event_rules__parse("slow=1.5x,grows=1GiB,hang=60s,annotation=my step#3", &r), 0);
	CU_ASSERT(r.slow > 1.49 && r.slow < 1.51);
	CU_ASSERT_EQUAL(r.grows, 1024 * MIB);
	CU_ASSERT_EQUAL(r.hang_ns, 60 * SEC);
	CU_ASSERT_STRING_EQUAL(r.annotation, "my step#3");
	CU_ASSERT_FALSE(r.oom);
	CU_ASSERT_EQUAL(event_rules__parse("grows=5", &r), 0);
	CU_ASSERT(r.slow == 0 && !r.hang_ns && !r.annotation[0]);
	CU_ASSERT_EQUAL(event_rules__parse("oom,slow=2x", &r), 0);
	CU_ASSERT(r.oom && r.slow == 2);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CU_ASSERT(event_rules__parse(bad[i], &r) != 0);
	}
	memset(text + strlen(text), 'n', EVENT_NAME_MAX - 1);
	CU_ASSERT_EQUAL(event_rules__parse(text, &r), 0);
	text[strlen(text)] = 'n';
	CU_ASSERT(event_rules__parse(text, &r) != 0);
}

/* ---- watch ---- */

static void fresh(const char *rules)
{
	struct event_rules r;

	CU_ASSERT_EQUAL_FATAL(event_rules__parse(rules, &r), 0);
	event_watch__free(watch);
	watch = event_watch__new(&r);
	CU_ASSERT_PTR_NOT_NULL_FATAL(watch);
	now = 1000 * SEC;
	CU_ASSERT(event_watch__add(watch, PID, now));
}

static void step(uint64_t ms)
{
	uint64_t begin = now;

	now += ms * MS;
	event_watch__step(watch, PID, PID, begin, now);
}

static void steps(uint32_t n, uint64_t ms)
{
	while (n--)
		step(ms);
}

static bool is_event(enum event_kind kind, const char *text)
{
	struct event ev;

	return event_watch__any(watch) && event_watch__take(watch, &ev) && ev.kind == kind &&
	       ev.pid == PID && !strcmp(ev.text, text) && !event_watch__any(watch);
}

TEST("slow step")
{
	fresh("slow=1.5x");
	steps(2, 5000); /* the first ones */
	steps(20, 610);
	CU_ASSERT_FALSE(event_watch__any(watch));
	step(1920);
	CU_ASSERT(is_event(EVENT_SLOW, "step of 1.92 s against a median of 0.61 s"));
	step(610);
	step(1930);
	CU_ASSERT(is_event(EVENT_SLOW, "step of 1.93 s against a median of 0.61 s"));
	steps(50, 30);
	step(135);
	CU_ASSERT(is_event(EVENT_SLOW, "step of 0.14 s against a median of 30 ms"));
}

/* Steps of 14 ms with the jitter of a busy machine: none is slow, whatever the factor, until one takes 100 ms more. */
TEST("jitter")
{
	fresh("slow=1.5x");
	srand(14);
	for (int i = 0; i < 40000; i++) /* ten minutes */
		step(12 + (uint64_t)rand() % 5 + (rand() % 100 ? 0 : (uint64_t)rand() % 80));
	CU_ASSERT_FALSE(event_watch__any(watch));
	step(120);
	CU_ASSERT(event_watch__any(watch));
}

/* Steps that ptbpf itself, or a loss, may have lengthened. */
TEST("not counted")
{
	struct event ev;

	fresh("slow=1.5x");
	steps(20, 100);
	event_watch__disturbed(watch, now + 50 * MS);
	step(400);
	CU_ASSERT_FALSE(event_watch__any(watch));
	event_watch__pause(watch, true, now);
	steps(5, 400);
	now += 10 * MS;
	event_watch__pause(watch, false, now + 1);
	step(400);
	event_watch__step(watch, PID, PID, 0, now += 400 * MS);
	event_watch__step(watch, PID + 1, PID, now - 400 * MS, now);
	CU_ASSERT_FALSE(event_watch__any(watch));
	step(400);
	CU_ASSERT(event_watch__any(watch));
	event_watch__remove(watch, PID);
	CU_ASSERT(event_watch__take(watch, &ev));
	step(4000);
	CU_ASSERT_FALSE(event_watch__any(watch));
}

/* Each thread has a history of its own. */
TEST("threads")
{
	fresh("slow=2x");
	for (uint32_t i = 0; i < 40; i++) {
		now += 100 * MS;
		event_watch__step(watch, PID, 1, now - 10 * MS, now);
		event_watch__step(watch, PID, 2, now - 90 * MS, now);
		for (uint32_t t = 3; t < 20; t++)
			event_watch__step(watch, PID, t, now - t * MS, now);
	}
	CU_ASSERT_FALSE(event_watch__any(watch));
	event_watch__step(watch, PID, 1, now, now + 30 * MS);
	CU_ASSERT_FALSE(event_watch__any(watch));
	event_watch__step(watch, PID, 1, now, now + 130 * MS);
	CU_ASSERT(is_event(EVENT_SLOW, "step of 0.13 s against a median of 10 ms"));
}

static void read_memory(uint64_t mib)
{
	uint32_t pid = 0;

	step(1000);
	CU_ASSERT(event_watch__wants_memory(watch, now, &pid) && pid == PID);
	CU_ASSERT_FALSE(event_watch__wants_memory(watch, now, &pid));
	event_watch__memory(watch, PID, mib * MIB, now);
}

TEST("grows")
{
	uint32_t pid;

	fresh("grows=1GiB");
	steps(5, 1000);
	CU_ASSERT_FALSE(event_watch__wants_memory(watch, now, &pid)); /* it is still growing */
	steps(5, 1000);
	read_memory(500);
	read_memory(1523);
	CU_ASSERT_FALSE(event_watch__any(watch));
	read_memory(1524);
	CU_ASSERT(is_event(EVENT_GROWS, "resident memory of 1524.0 MiB against 500.0 MiB"));
	read_memory(2000);
	read_memory(100);
	CU_ASSERT_FALSE(event_watch__any(watch));
	read_memory(2548);
	CU_ASSERT(is_event(EVENT_GROWS, "resident memory of 2548.0 MiB against 1524.0 MiB"));
	now += 5 * SEC;
	CU_ASSERT_FALSE(event_watch__wants_memory(watch, now, &pid)); /* between two steps it is not read */
}

TEST("hang")
{
	uint32_t pid;

	fresh("hang=60s");
	event_watch__tick(watch, now + 1000 * SEC);
	CU_ASSERT_FALSE(event_watch__any(watch)); /* it has not begun to make steps */
	CU_ASSERT(event_watch__silent(watch, now + 60 * SEC, &pid) && pid == PID);
	CU_ASSERT_FALSE(event_watch__silent(watch, now + 60 * SEC, &pid));
	steps(5, 100);
	event_watch__annotation(watch, PID, false, now + 30 * SEC);
	event_watch__tick(watch, now + 89 * SEC);
	CU_ASSERT_FALSE(event_watch__any(watch));
	event_watch__tick(watch, now + 90 * SEC);
	CU_ASSERT(is_event(EVENT_HANG, "no step ended and no annotation began for 60.0 s"));
	event_watch__tick(watch, now + 900 * SEC);
	CU_ASSERT_FALSE(event_watch__any(watch));
	event_watch__again(watch, PID, now + 1000 * SEC);
	event_watch__tick(watch, now + 999 * SEC);
	CU_ASSERT_FALSE(event_watch__any(watch));
	event_watch__tick(watch, now + 1000 * SEC);
	CU_ASSERT(is_event(EVENT_HANG, "no step ended and no annotation began for 970.0 s"));
	event_watch__again(watch, PID, now + 1200 * SEC);
	step(100); /* it goes on */
	event_watch__tick(watch, now + 59 * SEC);
	CU_ASSERT_FALSE(event_watch__any(watch));
	event_watch__pause(watch, true, now);
	now += 100 * SEC;
	event_watch__tick(watch, now);
	event_watch__pause(watch, false, now);
	event_watch__tick(watch, now + 59 * SEC);
	CU_ASSERT_FALSE(event_watch__any(watch));
	event_watch__tick(watch, now + 60 * SEC);
	CU_ASSERT(event_watch__any(watch));
}

/* Of several at one time. */
TEST("kinds")
{
	struct event ev;

	fresh("slow=2x,oom,annotation=evaluate");
	steps(20, 100);
	step(1000);
	event_watch__annotation(watch, PID, true, now);
	event_watch__oom(watch, PID, "CPU", MIB, 0, 0, now);
	CU_ASSERT(event_watch__take(watch, &ev) && ev.kind == EVENT_OOM);
	CU_ASSERT(event_watch__take(watch, &ev) && ev.kind == EVENT_ANNOTATION);
	CU_ASSERT(event_watch__take(watch, &ev) && ev.kind == EVENT_SLOW);
	CU_ASSERT_FALSE(event_watch__take(watch, &ev));
}

TEST("annotation")
{
	fresh("annotation=evaluate,slow=2x");
	event_watch__annotation(watch, PID, false, now);
	CU_ASSERT_FALSE(event_watch__any(watch));
	event_watch__annotation(watch, PID, true, now);
	event_watch__annotation(watch, PID, true, now); /* one of a kind waits */
	CU_ASSERT(is_event(EVENT_ANNOTATION, "'evaluate' began"));
	event_watch__pause(watch, true, now);
	event_watch__annotation(watch, PID, true, now);
	CU_ASSERT_FALSE(event_watch__any(watch));
}

/* A process that has an event all the time does not take the place of others; what is merged is counted. */
TEST("each process")
{
	struct event ev;
	bool seen[2] = { false, false };

	fresh("annotation=evaluate,oom");
	CU_ASSERT(event_watch__add(watch, PID + 1, now));
	for (int i = 0; i < 1000; i++)
		event_watch__annotation(watch, PID, true, now);
	event_watch__annotation(watch, PID + 1, true, now);
	for (int i = 0; i < 2; i++) {
		CU_ASSERT_FATAL(event_watch__take(watch, &ev) && ev.kind == EVENT_ANNOTATION);
		CU_ASSERT_EQUAL(ev.more, ev.pid == PID ? 999 : 0);
		seen[ev.pid - PID] = true;
	}
	CU_ASSERT(seen[0] && seen[1] && !event_watch__take(watch, &ev));
	for (uint32_t pid = 1000; pid < 1000 + 2 * EVENT_PROCS_MAX; pid++) { /* that come and go */
		if (!event_watch__add(watch, pid, now))
			event_watch__remove(watch, pid - 200);
		event_watch__add(watch, pid, now);
		event_watch__oom(watch, pid, "CPU", MIB, 0, 0, now);
	}
	CU_ASSERT(event_watch__take(watch, &ev) && ev.kind == EVENT_OOM);
	CU_ASSERT_EQUAL(ev.more, EVENT_PROCS_MAX);
}

TEST("oom")
{
	fresh("slow=2x");
	event_watch__oom(watch, PID, "CPU", MIB, 0, 0, now);
	CU_ASSERT_FALSE(event_watch__any(watch));
	fresh("oom");
	event_watch__oom(watch, PID + 1, "CPU", MIB, 0, 0, now);
	CU_ASSERT_FALSE(event_watch__any(watch));
	event_watch__oom(watch, PID, "CPU", 1ULL << 45, 0, 0, now); /* before the first step */
	event_watch__oom(watch, PID, "CPU", 5, 0, 0, now);
	CU_ASSERT(is_event(EVENT_OOM, "CPU: 32.00 TiB could not be allocated"));
	event_watch__oom(watch, PID, "CPU", 1000, 0, 0, now);
	CU_ASSERT(is_event(EVENT_OOM, "CPU: 1000 bytes could not be allocated"));
	event_watch__oom(watch, PID, "cuda:0", 2560 * MIB, 1536, 77 * 1024 * MIB, now);
	CU_ASSERT(is_event(EVENT_OOM,
			   "cuda:0: 2.50 GiB could not be allocated; PyTorch has 1.50 KiB in use of 77.00 GiB reserved there"));
	event_watch__oom(watch, PID, "CPU", UINT64_MAX, 0, 0, now);
	CU_ASSERT(is_event(EVENT_OOM, "CPU: 16.00 EiB could not be allocated"));
	event_watch__pause(watch, true, now);
	event_watch__oom(watch, PID, "CPU", MIB, 0, 0, now);
	CU_ASSERT_FALSE(event_watch__any(watch));
}

TEST("many")
{
	fresh("slow=2x");
	for (uint32_t pid = 1000; pid < 1000 + EVENT_PROCS_MAX - 1; pid++) {
		CU_ASSERT(event_watch__add(watch, pid, now));
	}
	CU_ASSERT_FALSE(event_watch__add(watch, 1, now));
	CU_ASSERT(event_watch__add(watch, PID, now));
	event_watch__remove(watch, 1000);
	CU_ASSERT(event_watch__add(watch, 1, now));
	event_watch__free(watch);
	watch = NULL;
}

/* Whose place another one may have. */
TEST("idle")
{
	uint32_t pid;

	fresh("slow=2x");
	CU_ASSERT(event_watch__add(watch, 8, now + SEC));
	CU_ASSERT(event_watch__add(watch, 9, now + 2 * SEC));
	CU_ASSERT_FALSE(event_watch__idle(watch, now + 59 * SEC, &pid));
	CU_ASSERT(event_watch__idle(watch, now + 60 * SEC, &pid) && pid == PID);
	event_watch__annotation(watch, PID, false, now);
	CU_ASSERT_FALSE(event_watch__idle(watch, now + 60 * SEC, &pid));
	CU_ASSERT(event_watch__idle(watch, now + 61 * SEC, &pid) && pid == 8);
	event_watch__remove(watch, 8);
	event_watch__step(watch, 9, 9, 0, now + 3 * SEC);
	CU_ASSERT_FALSE(event_watch__idle(watch, now + 900 * SEC, &pid));
}

SUITE("event_watch")
