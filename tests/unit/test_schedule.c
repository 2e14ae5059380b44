/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * schedule: every step of many schedules, in steps and in seconds, does what torch.profiler.schedule() says (pytorch
 * torch/profiler/profiler.py). step_wait: when a window in steps is due.
 */
#include <stdlib.h>
#include <string.h>

#include "sample/schedule.h"
#include "suite.h"

#define STEP 1000000000ULL

struct numbers {
	unsigned int skip_first, wait, warmup, active, repeat, skip_first_wait;
};

/* 'N'one, 'W'armup, 'R'ecord, record and 'S'ave: torch's rule. */
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
	return at < n->wait ? 'N' : at < n->wait + n->warmup ? 'W' : at < cycle - 1 ? 'R' : 'S';
}

/* What the windows say of a step, or of a second: it is saved with the last one of its window. */
static char our_action(const struct schedule *s, unsigned int step)
{
	uint64_t one = s->in_steps ? 1 : STEP, t = step * one;
	struct schedule_window w;

	for (uint64_t k = 0; schedule__window(s, k, &w) && w.warmup <= t; k++)
		if (t < w.end)
			return t < w.begin ? 'W' : t + one < w.end ? 'R' : 'S';
	return 'N';
}

static void parse(const struct numbers *n, const char *unit, struct schedule *s)
{
	char text[200];

	snprintf(text, sizeof(text),
		 "wait=%u%s,warmup=%u%s,active=%u%s,repeat=%u,skip_first=%u%s,skip_first_wait=%u",
		 n->wait, unit, n->warmup, unit, n->active, unit, n->repeat, n->skip_first, unit,
		 n->skip_first_wait);
	CU_ASSERT_EQUAL_FATAL(schedule__parse(text, s), 0);
	CU_ASSERT_EQUAL(s->in_steps, !*unit);
}

TEST("torch's table")
{
	static const struct {
		struct numbers n;
		const char *actions;
	} rows[] = {
		{ { 3, 2, 1, 4, 2, 0 }, "NNNNNWRRRSNNWRRRSNNNNNNN" },
		{ { 0, 2, 1, 4, 2, 0 }, "NNWRRRSNNWRRRSNNNNNN" },
		{ { 3, 2, 1, 4, 2, 1 }, "NNNWRRRSNNWRRRSNNNNN" },       /* skip_first_wait */
		{ { 3, 2, 1, 4, 0, 0 }, "NNNNNWRRRSNNWRRRSNNWRRRSNN" }, /* repeat: for ever */
		{ { 0, 0, 0, 1, 3, 0 }, "SSSNNNN" },
		{ { 0, 0, 0, 3, 0, 0 }, "RRSRRSRRSRRS" },
		{ { 1, 0, 2, 1, 1, 0 }, "NWWSNNNN" },
		{ { 0, 3, 0, 2, 1, 1 }, "RSNNNN" },
		{ { 0, 3, 0, 2, 2, 1 }, "RSNNNRSNNNN" },
	};

	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
		for (unsigned int i = 0; rows[r].actions[i]; i++) {
			struct schedule steps, seconds;

			parse(&rows[r].n, "", &steps);
			parse(&rows[r].n, "s", &seconds);
			CU_ASSERT_EQUAL(torch_action(&rows[r].n, i), rows[r].actions[i]);
			CU_ASSERT_EQUAL(our_action(&steps, i), rows[r].actions[i]);
			CU_ASSERT_EQUAL(our_action(&seconds, i), rows[r].actions[i]);
		}
}

TEST("random schedules")
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

		parse(&n, i % 2 ? "" : "s", &s);
		for (unsigned int step = 0; step < 40; step++) {
			char action = our_action(&s, step);

			wrong += action != torch_action(&n, step);
			recorded += action == 'R' || action == 'S';
		}
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(recorded > 10000);
}

TEST("refused")
{
	static const char *const texts[] = { "",
					     "wait=1s",
					     "active=0",
					     "active=5,wait=1s",
					     "active=5s,wait=1",
					     "active=5s,wait=0,skip_first=1",
					     "active=5.0",
					     "active=2000000000",
					     "active=1,skip_first=-1",
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
TEST("large")
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

/* A schedule in steps, of windows that end, or that see no step. */
TEST("a wait in steps")
{
	struct step_wait sw;
	struct schedule s;
	bool measure = false;
	uint64_t due;

	CU_ASSERT_EQUAL_FATAL(schedule__parse("skip_first=10,wait=100,warmup=1,active=5,repeat=3", &s), 0);
	step_wait__begin(&sw, 1000 * STEP);
	CU_ASSERT(step_wait__due(&sw, &s, 0, &due, &measure) && measure && due == 1000 * STEP);
	step_wait__measured(&sw, STEP / 2);
	CU_ASSERT(step_wait__due(&sw, &s, 0, &due, &measure) && !measure);
	CU_ASSERT_EQUAL(due, 1055 * STEP); /* 10 + 100 steps */
	CU_ASSERT_DOUBLE_EQUAL(step_wait__passed(&sw, 1060 * STEP), 120, 1e-6);
	step_wait__recorded(&sw, 2000 * STEP, STEP);
	CU_ASSERT(step_wait__due(&sw, &s, 1, &due, &measure) && !measure && due == 2100 * STEP);
	step_wait__recorded(&sw, 3000 * STEP, 0); /* it did not say what a step takes */
	CU_ASSERT(step_wait__due(&sw, &s, 2, &due, &measure) && !measure && due == 3100 * STEP);
	CU_ASSERT(!step_wait__due(&sw, &s, 3, &due, &measure));
}

/* It is tried again after twice as long a time as before, at most an hour. */
TEST("no steps")
{
	struct step_wait sw;
	struct schedule s;
	bool measure = false;
	uint64_t due, now = STEP, last = 0;

	CU_ASSERT_EQUAL_FATAL(schedule__parse("wait=2,active=5", &s), 0);
	step_wait__begin(&sw, now);
	for (uint64_t k = 0; k < 20; k++) {
		step_wait__failed(&sw, now, 60 * STEP);
		CU_ASSERT_FATAL(step_wait__due(&sw, &s, k, &due, &measure) && measure);
		CU_ASSERT(due - now == (k ? 2 * last < 3600 * STEP ? 2 * last : 3600 * STEP : 60 * STEP));
		last = due - now;
		now = due;
	}
	CU_ASSERT_EQUAL(last, 3600 * STEP);
	step_wait__measured(&sw, STEP);
	step_wait__recorded(&sw, now + STEP, STEP);
	CU_ASSERT(step_wait__due(&sw, &s, 1, &due, &measure) && due == now + 3 * STEP && !measure);
}

/* It has no windows, and nothing beside it. */
TEST("none")
{
	struct schedule_window w;
	struct schedule s;

	CU_ASSERT(!schedule__parse("none", &s) && s.none && !s.in_steps && !schedule__window(&s, 0, &w));
	CU_ASSERT(schedule__parse("none,active=5s", &s) && schedule__parse("active=5s,none", &s));
	CU_ASSERT(!schedule__parse("active=5s", &s) && !s.none);
}

SUITE("schedule")
