/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* steps/step_count: steps as they are counted while they are recorded, and when they are awaited no more. What ends a step is in tests/cases/steps. */
#include <stdlib.h>

#include "steps/step_count.h"
#include "suite.h"

#define MS 1000000ULL
#define TIMEOUT (1000 * MS)
#define SGD 11
#define ADAM 12

static struct step_count *sc;
static uint64_t now;

static struct step_event event(enum step_event_kind kind, uint32_t tgid, uint64_t id)
{
	return (struct step_event){ .ts_ns = now += MS, .id = id, .tgid = tgid, .tid = tgid, .kind = kind };
}

static void put(enum step_event_kind kind, uint32_t tgid, uint64_t id, enum step_what what,
		uint64_t text, uint64_t sp)
{
	struct step_event ev = event(kind, tgid, id);

	ev.what = what;
	ev.text = text;
	ev.sp = sp;
	step_count__put(sc, &ev);
}

/* A constructor that takes the name that was announced on its thread. */
static void begin(uint32_t tgid, uint64_t id, enum step_what what, uint64_t text)
{
	put(STEP_NAME, tgid, 0, what, text, 900);
	put(STEP_BEGIN, tgid, id, STEP_OTHER, 0, 700);
}

static void end(uint32_t tgid, uint64_t id)
{
	put(STEP_END, tgid, id, STEP_OTHER, 0, 0);
}

static void mark(uint32_t tgid, uint64_t text)
{
	begin(tgid, 1, STEP_MARK, text);
	end(tgid, 1);
}

static void fresh(const struct step_hooks *hooks, bool names_only)
{
	step_count__free(sc);
	sc = step_count__new(hooks, names_only);
	now = 1000 * MS;
}

static enum step_verdict verdict(void)
{
	step_count__round(sc, UINT64_MAX);
	return step_count__verdict(sc, now, TIMEOUT);
}

TEST("steps")
{
	fresh(NULL, false);
	step_count__await(sc, now, 2, 2);
	mark(1, SGD);
	CU_ASSERT_EQUAL(verdict(), STEPS_AWAITED);
	mark(1, SGD);
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
	CU_ASSERT_EQUAL(step_count__step_ns(sc), 3 * MS);
	step_count__await(sc, now + 1, 3, 2);
	CU_ASSERT_EQUAL(verdict(), STEPS_AWAITED);
	for (int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(verdict(), STEPS_AWAITED);
		mark(1, SGD);
	}
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
	CU_ASSERT_EQUAL(step_count__surplus_ns(sc), UINT64_MAX);
	mark(1, SGD);
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
	CU_ASSERT_EQUAL(step_count__surplus_ns(sc), now);
}

/* What began before the window is in it only where an agent recorded it. */
TEST("the window's begin")
{
	struct step_event ev;

	fresh(NULL, false);
	step_count__await(sc, now, 1, 1);
	begin(1, 50, STEP_OTHER, 5); /* a whole epoch */
	mark(1, SGD);
	begin(1, 1, STEP_MARK, SGD);
	step_count__round(sc, UINT64_MAX);
	step_count__await(sc, now + 1, 2, 1);
	end(1, 1);
	mark(1, SGD);
	mark(1, SGD);
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
	mark(1, SGD);
	verdict();
	CU_ASSERT_EQUAL(step_count__surplus_ns(sc), now); /* the third whole mark */

	fresh(NULL, false);
	step_count__await(sc, now, 1, 1);
	ev = event(STEP_BEGIN, 1, 1);
	ev.what = STEP_MARK;
	ev.text = SGD;
	step_count__event(sc, &ev);
	step_count__await(sc, now + 1, 2, 1);
	ev = event(STEP_END, 1, 1);
	step_count__event(sc, &ev);
	CU_ASSERT_EQUAL(verdict(), STEPS_AWAITED);
	ev = event(STEP_BEGIN, 1, 1);
	ev.what = STEP_MARK;
	ev.text = SGD;
	step_count__event(sc, &ev);
	ev = event(STEP_END, 1, 1);
	step_count__event(sc, &ev);
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
}

/* Programs that announce steps: each of these is one, their optimizers end none. */
TEST("own steps")
{
	fresh(NULL, false);
	step_count__await(sc, now, 3, 2);
	mark(1, SGD);
	for (int i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(verdict(), STEPS_AWAITED);
		begin(1, 50, STEP_OWN, 100 + (uint64_t)i);
		mark(1, SGD);
		mark(1, SGD);
		end(1, 50);
	}
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
	CU_ASSERT_EQUAL(step_count__surplus_ns(sc), UINT64_MAX);
}

/* Rings are read one after the other: events of a thread that changes processors come out of order. */
TEST("order")
{
	struct step_event evs[12];
	int n = 0;

	fresh(NULL, false);
	step_count__await(sc, now, 2, 1);
	for (int i = 0; i < 2; i++) {
		evs[n] = event(STEP_NAME, 1, 0);
		evs[n].what = STEP_MARK;
		evs[n].text = SGD;
		evs[n++].sp = 900;
		evs[n] = event(STEP_BEGIN, 1, 1);
		evs[n++].sp = 700;
		evs[n++] = event(STEP_END, 1, 1);
	}
	for (int i = 1; i <= n; i++)
		step_count__put(sc, &evs[n - i]);
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
}

/* Every process that ends a step has them all, or has ended, or stalls. */
TEST("processes")
{
	fresh(NULL, false);
	step_count__await(sc, now, 3, 2);
	begin(3, 1, STEP_OTHER, 5); /* makes no steps */
	for (int i = 0; i < 3; i++)
		mark(1, SGD);
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
	mark(2, SGD);
	CU_ASSERT_EQUAL(verdict(), STEPS_AWAITED);
	mark(2, SGD);
	mark(2, SGD);
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
	mark(1, SGD); /* not the one that was waited for */
	verdict();
	CU_ASSERT_EQUAL(step_count__surplus_ns(sc), UINT64_MAX);
	mark(4, SGD);
	CU_ASSERT_EQUAL(verdict(), STEPS_AWAITED);
	put(STEP_PROCESS_END, 4, 0, STEP_OTHER, 0, 0);
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
}

TEST("timeout")
{
	fresh(NULL, false);
	step_count__await(sc, now, 3, 2);
	CU_ASSERT_EQUAL(verdict(), STEPS_AWAITED);
	now += TIMEOUT + 1;
	CU_ASSERT_EQUAL(verdict(), STEPS_STALLED);
	mark(1, SGD);
	CU_ASSERT_EQUAL(verdict(), STEPS_AWAITED);
	now += TIMEOUT + 1;
	CU_ASSERT_EQUAL(verdict(), STEPS_STALLED);
	CU_ASSERT_EQUAL(step_count__surplus_ns(sc), UINT64_MAX);
}

static struct {
	struct step_end last;
	uint32_t cnt, lost;
} hooked;

static void on_ended(void *arg, const struct step_end *e)
{
	CU_ASSERT_PTR_EQUAL(arg, &hooked);
	CU_ASSERT(e->tgid == 1 && e->tid == 1);
	hooked.last = *e;
	hooked.cnt++;
}

static void on_lost(void *arg)
{
	CU_ASSERT_PTR_EQUAL(arg, &hooked);
	hooked.lost++;
}

/* Derived steps go from end to end; announced ones, once there are any, are the only ones. */
TEST("hooks")
{
	const struct step_hooks hooks = { .arg = &hooked, .ended = on_ended, .lost = on_lost };
	uint64_t last;

	fresh(&hooks, false);
	step_count__await(sc, now, UINT32_MAX, UINT32_MAX);
	mark(1, SGD);
	last = now;
	CU_ASSERT_EQUAL(verdict(), STEPS_AWAITED);
	CU_ASSERT(hooked.cnt == 1 && hooked.last.begin_ns == 0 && hooked.last.end_ns == last);
	mark(1, ADAM); /* in the next step */
	mark(1, SGD);
	verdict();
	CU_ASSERT(hooked.cnt == 2 && hooked.last.begin_ns == last && hooked.last.end_ns == now);
	begin(1, 50, STEP_OWN, 100);
	last = now;
	mark(1, SGD);
	verdict();
	CU_ASSERT_EQUAL(hooked.cnt, 2);
	end(1, 50);
	verdict();
	CU_ASSERT(hooked.cnt == 3 && hooked.last.begin_ns == last && hooked.last.end_ns == now);
	step_count__lost(sc);
	CU_ASSERT_EQUAL(hooked.lost, 1);
}

static void name(enum step_what what, uint64_t text)
{
	put(STEP_NAME, 1, 0, what, text, 900);
	verdict();
}

/* Without begins and ends of objects a step ends when the next mark begins. */
TEST("names only")
{
	const struct step_hooks hooks = { .arg = &hooked, .ended = on_ended, .lost = on_lost };
	uint64_t last;

	fresh(&hooks, true);
	hooked.cnt = 0;
	step_count__await(sc, now, UINT32_MAX, UINT32_MAX);
	name(STEP_MARK, SGD);
	last = now;
	CU_ASSERT(hooked.cnt == 1 && hooked.last.begin_ns == 0);
	name(STEP_OTHER, 5);
	name(STEP_MARK, ADAM);
	CU_ASSERT_EQUAL(hooked.cnt, 1);
	name(STEP_MARK, SGD);
	CU_ASSERT(hooked.cnt == 2 && hooked.last.begin_ns == last && hooked.last.end_ns == now);
	name(STEP_OWN, 100);
	last = now;
	name(STEP_MARK, SGD);
	CU_ASSERT_EQUAL(hooked.cnt, 2); /* it announces steps now, and none of these has ended */
	name(STEP_OWN, 100);
	CU_ASSERT(hooked.cnt == 3 && hooked.last.begin_ns == last && hooked.last.end_ns == now);
	step_count__lost(sc);
	name(STEP_OWN, 100);
	CU_ASSERT_EQUAL(hooked.cnt, 3); /* what was lost may have been a step's begin */
	name(STEP_OWN, 100);
	CU_ASSERT_EQUAL(hooked.cnt, 4);
}

/* Times that do not rise, as an agent may send them: no step ends before it began, nor the window before its steps have ended. */
TEST("times that do not rise")
{
	const uint64_t end_ns[] = { 9, 2 };

	fresh(NULL, false);
	step_count__await(sc, now, 2, 1);
	for (uint64_t i = 0; i < 2; i++) {
		struct step_event ev = event(STEP_BEGIN, 1, 50);

		ev.what = STEP_OWN;
		ev.text = 100;
		step_count__event(sc, &ev);
		ev.kind = STEP_END;
		ev.ts_ns = (1000 + end_ns[i]) * MS;
		step_count__event(sc, &ev);
	}
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
	CU_ASSERT_EQUAL(step_count__surplus_ns(sc), UINT64_MAX);
	CU_ASSERT_EQUAL(step_count__step_ns(sc), 4 * MS); /* 1001 to 1009, in two steps */
}

static void mark_of(uint32_t tgid, uint32_t tid, uint64_t text)
{
	struct step_event ev = event(STEP_NAME, tgid, 0);

	ev.tid = tid;
	ev.what = STEP_MARK;
	ev.text = text;
	step_count__put(sc, &ev);
}

static void thread_end(enum step_event_kind kind, uint32_t tgid, uint32_t tid)
{
	struct step_event ev = event(kind, tgid, 0);

	ev.tid = tid;
	step_count__put(sc, &ev);
}

static void count_ended(void *arg, const struct step_end *e)
{
	(void)e;
	++*(uint32_t *)arg;
}

/* Threads and processes that have ended take no room, and those that get their numbers are others. */
TEST("ends")
{
	uint32_t ended = 0;
	const struct step_hooks hooks = { .arg = &ended, .ended = count_ended };

	fresh(&hooks, true);
	step_count__await(sc, now, UINT32_MAX, UINT32_MAX);
	mark_of(1, 1, SGD);
	for (uint32_t i = 0; i < 20000; i++) {
		mark_of(1, 10 + i, SGD);
		thread_end(STEP_THREAD_END, 1, 10 + i);
	}
	verdict();
	CU_ASSERT_EQUAL(ended, 20001);
	mark_of(1, 10, ADAM); /* not in a step that SGD marks */
	mark_of(2, 2, ADAM);
	mark_of(2, 3, ADAM);
	verdict();
	CU_ASSERT_EQUAL(ended, 20004);
	thread_end(STEP_PROCESS_END, 2, 3);
	mark_of(2, 2, SGD);
	mark_of(1, 1, SGD); /* that one goes on */
	verdict();
	CU_ASSERT_EQUAL(ended, 20006);
	step_count__forget(sc, 1);
	mark_of(1, 1, ADAM);
	verdict();
	CU_ASSERT_EQUAL(ended, 20007);
}

/* Where steps are counted, those of a thread that ended are among them. */
TEST("ends in a count")
{
	struct step_event ev;

	fresh(NULL, false);
	step_count__await(sc, now, 1, 1);
	begin(1, 1, STEP_MARK, SGD);
	thread_end(STEP_THREAD_END, 1, 1);
	ev = event(STEP_END, 1, 1); /* on another thread */
	ev.tid = 2;
	step_count__put(sc, &ev);
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
	step_count__await(sc, now, 2, 2);
	mark(2, SGD);
	mark(2, SGD);
	thread_end(STEP_THREAD_END, 2, 2);
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
	thread_end(STEP_PROCESS_END, 2, 2);
	CU_ASSERT_EQUAL(verdict(), STEPS_DONE);
}

/* More open annotations, threads and objects than it keeps; ends without a begin. */
TEST("many")
{
	fresh(NULL, false);
	step_count__await(sc, now, 2, 1);
	for (uint64_t i = 0; i < 100; i++)
		begin(1, i, i % 2 ? STEP_MARK : STEP_OTHER, 5);
	for (uint64_t i = 200; i--;)
		end(1, i);
	for (uint32_t i = 0; i < 20000; i++)
		mark(2 + i % 7, SGD);
	CU_ASSERT_NOT_EQUAL(verdict(), STEPS_AWAITED);
	step_count__lost(sc);
	step_count__free(sc);
	sc = NULL;
}

SUITE("step_count")
