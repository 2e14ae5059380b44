/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* sample/step_multiple: with which step a window begins, when its probes are attached and its records kept, and when nothing comes of it;
 * base/numbered: names with a number. */
#include <string.h>

#include "base/numbered.h"
#include "sample/step_multiple.h"
#include "suite.h"

#define MS 1000000ULL
#define SEC (1000 * MS)

static struct step_multiple sm;
static uint64_t now, number, step_ns;
static bool own;

static void test_names(void)
{
	static const struct {
		const char *text;
		size_t len;
		uint64_t number;
	} rows[] = {
		{ "ProfilerStep#12", 13, 12 },
		{ "a#0", 2, 0 },
		{ "a#007", 2, 7 },
		{ "#5", 1, 5 },
		{ "a#1#2", 4, 2 },
		{ "a#999999999999999999", 2, 999999999999999999 },
		{ "a#1000000000000000000", 21, NUMBERED_NONE },
		{ "a#", 2, NUMBERED_NONE },
		{ "a#-1", 4, NUMBERED_NONE },
		{ "a#1x", 4, NUMBERED_NONE },
		{ "Optimizer.step#SGD.step", 23, NUMBERED_NONE },
		{ "12", 2, NUMBERED_NONE },
		{ "", 0, NUMBERED_NONE },
	};
	uint64_t n;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CU_ASSERT_EQUAL(numbered__split(rows[i].text, strlen(rows[i].text), &n), rows[i].len);
		CU_ASSERT_EQUAL(n, rows[i].number);
	}
	CU_ASSERT_EQUAL(numbered__split("a#123", 4, &n), 2); /* no more than the length */
	CU_ASSERT_EQUAL(n, 12);
}

static void fresh(uint64_t multiple, uint64_t at, uint64_t ns)
{
	now = 1000 * SEC;
	number = at;
	step_ns = ns;
	own = true;
	sm = (struct step_multiple){ .multiple = multiple, .since_ns = now };
}

static void steps(uint64_t n)
{
	while (n--) {
		now += step_ns;
		step_multiple__ended(&sm, own, number++, now);
	}
}

/* Steps until the window begins, as the process of a window does it. attach_ns: while its probes are attached nothing is seen. */
static void run(uint64_t lead_ns, uint64_t attach_ns)
{
	uint64_t blind;

	for (uint64_t i = 0; !step_multiple__is_near(&sm, lead_ns, now) && i < 100000; i++)
		steps(1);
	blind = attach_ns / step_ns;
	number += blind;
	now += blind * step_ns;
	for (uint64_t i = 0; !sm.begin_ns && i < 100000; i++) {
		step_multiple__keep(&sm, now + step_ns / 2);
		steps(1);
	}
}

/* The step before it ended when the window begins, and it was kept from before then. */
static void check(uint64_t step)
{
	CU_ASSERT_EQUAL(sm.target, step);
	CU_ASSERT_EQUAL(sm.began, step);
	CU_ASSERT_EQUAL(number, step);
	CU_ASSERT_EQUAL(sm.begin_ns, now);
	CU_ASSERT(sm.keep_ns < now);
	CU_ASSERT_EQUAL(step_multiple__failed(&sm, now + 100 * SEC), STEP_MULTIPLE_NONE);
}

static void test_begin(void)
{
	fresh(100, 7, 100 * MS);
	CU_ASSERT_FALSE(step_multiple__is_near(&sm, 5 * SEC, now));
	steps(2);
	CU_ASSERT_FALSE(step_multiple__is_near(&sm, 5 * SEC, now));
	run(5 * SEC, 3 * SEC);
	check(100);
	fresh(100, 60, 100 * MS); /* too late for 100 */
	run(5 * SEC, 3 * SEC);
	check(200);
	fresh(1, 1000000, 10 * SEC); /* steps that take longer than all else */
	run(5 * SEC, 3 * SEC);
	CU_ASSERT_EQUAL(sm.began, sm.target);
	CU_ASSERT(sm.began > 1000003 && sm.began < 1000010);
	fresh(64, 1, MS); /* steps that are shorter than it takes to see one */
	run(5 * SEC, 3 * SEC);
	CU_ASSERT_EQUAL(sm.began % 64, 0);
	CU_ASSERT_EQUAL(sm.began, number);
}

/* Where steps are derived, the one before must be in the window, for its end to be known. */
static void test_derived(void)
{
	fresh(100, 7, 100 * MS);
	own = false;
	run(5 * SEC, 3 * SEC);
	CU_ASSERT(sm.target == 100 && sm.began == 100 && number == 99 && sm.begin_ns == now);
	fresh(1, 50, SEC);
	own = false;
	run(5 * SEC, 3 * SEC);
	CU_ASSERT(sm.began == sm.target && sm.began == number + 1);
}

/* Ranks that are some steps apart choose the same one. */
static void test_ranks(void)
{
	for (uint64_t lag = 0; lag < 150; lag += 10) {
		fresh(400, 1200 + lag, 20 * MS);
		run(4 * SEC, 1 * SEC + lag * 10 * MS);
		check(1600);
	}
}

/* To attach took longer than to reach the step: then it is the next multiple, still. */
static void test_late(void)
{
	fresh(100, 0, 100 * MS);
	run(5 * SEC, 30 * SEC);
	CU_ASSERT_EQUAL(sm.began % 100, 0);
	CU_ASSERT_EQUAL(sm.began, number);
	CU_ASSERT(sm.began >= 300);
}

/* The record of the step before it comes after the decision to keep what follows, but is from before that. */
static void test_missed(void)
{
	fresh(10, 0, 100 * MS);
	steps(4);
	CU_ASSERT_FALSE(step_multiple__is_near(&sm, SEC, now));
	CU_ASSERT_EQUAL(sm.target, 20);
	steps(14); /* up to number 17 */
	CU_ASSERT(step_multiple__keep(&sm, now + 150 * MS));
	steps(2);
	CU_ASSERT(sm.begin_ns == now && sm.began == 20);
	fresh(10, 0, 100 * MS);
	steps(4);
	CU_ASSERT_FALSE(step_multiple__is_near(&sm, SEC, now));
	steps(14);
	CU_ASSERT(step_multiple__keep(&sm, now + 250 * MS));
	steps(2);
	CU_ASSERT(!sm.begin_ns && sm.target == 30);
	steps(10);
	CU_ASSERT(sm.begin_ns == now && sm.began == 30);
}

/* Numbers that are left out, repeated by other processes, or go back. */
static void test_odd_numbers(void)
{
	fresh(100, 0, 100 * MS);
	steps(10);
	for (int i = 0; i < 5; i++)
		step_multiple__ended(&sm, own, 3, now);
	run(5 * SEC, SEC);
	check(100);
	fresh(100, 50, 100 * MS);
	steps(10);
	CU_ASSERT_FALSE(step_multiple__is_near(&sm, 5 * SEC, now));
	CU_ASSERT_EQUAL(sm.target, 200);
	number = 190;
	steps(1);
	CU_ASSERT(step_multiple__keep(&sm, now));
	number = 220;
	steps(1);
	CU_ASSERT(sm.begin_ns == now && sm.began == 221);
	fresh(5, 999999999999999000ULL, SEC); /* sums that would not fit */
	run(5 * SEC, SEC);
	CU_ASSERT_EQUAL(sm.began % 5, 0);
}

static void test_failures(void)
{
	fresh(100, 0, 100 * MS);
	CU_ASSERT_EQUAL(step_multiple__failed(&sm, now + 60 * SEC), STEP_MULTIPLE_NONE);
	CU_ASSERT_EQUAL(step_multiple__failed(&sm, now + 61 * SEC), STEP_MULTIPLE_NO_STEP);
	step_multiple__ended(&sm, own, NUMBERED_NONE, now);
	CU_ASSERT_EQUAL(step_multiple__failed(&sm, now + 61 * SEC), STEP_MULTIPLE_NO_NUMBER);
	for (int i = 0; i < 8; i++)
		step_multiple__ended(&sm, own, NUMBERED_NONE, now);
	CU_ASSERT_EQUAL(step_multiple__failed(&sm, now), STEP_MULTIPLE_NONE);
	step_multiple__ended(&sm, own, NUMBERED_NONE, now);
	CU_ASSERT_EQUAL(step_multiple__failed(&sm, now), STEP_MULTIPLE_NO_NUMBER);
	steps(1);
	CU_ASSERT_EQUAL(step_multiple__failed(&sm, now), STEP_MULTIPLE_NONE);
	CU_ASSERT_EQUAL(step_multiple__failed(&sm, now + 61 * SEC), STEP_MULTIPLE_STALLED);
	fresh(STEP_MULTIPLE_MAX, 0, 100 * MS);
	steps(5);
	CU_ASSERT_FALSE(step_multiple__is_near(&sm, 5 * SEC, now));
	CU_ASSERT_EQUAL(step_multiple__failed(&sm, now), STEP_MULTIPLE_TOO_FAR);
	fresh(5, 0, 0); /* all at one moment */
	steps(50);
	CU_ASSERT_FALSE(step_multiple__is_near(&sm, 5 * SEC, now));
	for (int i = 0; i < STEP_MULTIPLE_FAILURE_CNT; i++) {
		CU_ASSERT_EQUAL(!*step_multiple__text((enum step_multiple_failure)i), !i);
	}
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "names", test_names },
		{ "begin", test_begin },
		{ "derived", test_derived },
		{ "ranks", test_ranks },
		{ "late", test_late },
		{ "missed", test_missed },
		{ "odd numbers", test_odd_numbers },
		{ "failures", test_failures },
		CU_TEST_INFO_NULL,
	};

	return run_suite("step_multiple", tests);
}
