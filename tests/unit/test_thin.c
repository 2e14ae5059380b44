/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* thin: what the next window records, after windows of known cost. */
#include <stdlib.h>

#include "sample/thin.h"
#include "suite.h"

#define SECOND 1000000000ULL
#define MS 1e6

static void test_affordable(void)
{
	struct thin t;

	thin__allow(&t, true, true);
	for (int i = 0; i < 10; i++) {
		CU_ASSERT_EQUAL(thin__next(&t, 100 * MS, SECOND), THIN_FULL);
		thin__learn(&t, THIN_FULL, (double)SECOND, 1 * MS, 50 * MS);
	}
	/* a quarter of a window is enough to go on */
	CU_ASSERT_EQUAL(thin__next(&t, 16 * MS, SECOND), THIN_FULL);
	CU_ASSERT_EQUAL(t.short_cnt, 0);
}

/* One that is too short is an exception; two are not. */
static void test_thinned(void)
{
	struct thin t;

	thin__allow(&t, true, true);
	CU_ASSERT_EQUAL(thin__next(&t, 10 * MS, SECOND), THIN_FULL);        /* nothing is known */
	thin__learn(&t, THIN_FULL, 0.02 * (double)SECOND, 1 * MS, 12 * MS); /* half a second each second */
	CU_ASSERT_EQUAL(thin__next(&t, 10 * MS, SECOND), THIN_FULL);
	CU_ASSERT_EQUAL(thin__next(&t, 10 * MS, SECOND), THIN_NAMES);
	CU_ASSERT_EQUAL(thin__next(&t, 10 * MS, SECOND), THIN_NAMES);
	thin__learn(&t, THIN_NAMES, 0.05 * (double)SECOND, 1 * MS, 12 * MS);
	CU_ASSERT_EQUAL(thin__next(&t, 10 * MS, SECOND), THIN_NAMES);
	CU_ASSERT_EQUAL(thin__next(&t, -10 * MS, SECOND), THIN_SAMPLES); /* one that is skipped counts, too */
	thin__learn(&t, THIN_SAMPLES, (double)SECOND, 0, 1 * MS);
	for (int i = 0; i < 5; i++)
		CU_ASSERT_EQUAL(thin__next(&t, 10 * MS, SECOND), THIN_SAMPLES);
	/* names have cost 200 ms a second, all half of it */
	CU_ASSERT_EQUAL(thin__next(&t, 200 * MS, SECOND), THIN_SAMPLES);
	CU_ASSERT_EQUAL(thin__next(&t, 210 * MS, SECOND), THIN_NAMES);
	CU_ASSERT_EQUAL(thin__next(&t, 600 * MS, SECOND), THIN_FULL);
}

static void test_not_allowed(void)
{
	struct thin t;

	thin__allow(&t, false, false);
	thin__learn(&t, THIN_FULL, (double)SECOND, 0, (double)SECOND);
	for (int i = 0; i < 5; i++)
		CU_ASSERT_EQUAL(thin__next(&t, 1 * MS, SECOND), THIN_FULL);
	thin__allow(&t, false, true);
	thin__learn(&t, THIN_FULL, (double)SECOND, 0, (double)SECOND);
	CU_ASSERT_EQUAL(thin__next(&t, 1 * MS, SECOND), THIN_FULL);
	CU_ASSERT_EQUAL(thin__next(&t, 1 * MS, SECOND), THIN_SAMPLES);
	CU_ASSERT_TRUE(thin__may_begin(&t, 1));
	thin__failed(&t, THIN_SAMPLES);
	thin__failed(&t, THIN_SAMPLES);
	CU_ASSERT_EQUAL(t.level, THIN_SAMPLES);
	thin__failed(&t, THIN_SAMPLES);
	CU_ASSERT_EQUAL(t.level, THIN_FULL);
	CU_ASSERT_TRUE(thin__may_begin(&t, 1));
	thin__learn(&t, THIN_FULL, 0, (double)SECOND / 2, (double)SECOND); /* it did not begin */
	CU_ASSERT_FALSE(thin__may_begin(&t, (double)SECOND));
	CU_ASSERT_TRUE(thin__may_begin(&t, (double)SECOND + 1));
	for (int i = 0; i < 5; i++)
		CU_ASSERT_EQUAL(thin__next(&t, 1 * MS, SECOND), THIN_FULL);
	thin__failed(&t, THIN_FULL);
	CU_ASSERT_EQUAL(thin__next(&t, (double)SECOND, SECOND), THIN_FULL);
}

/* A job of any cost: the sum stays within the budget plus one window's excess, and windows are never skipped for ever. */
static void test_budget(void)
{
	srand(1);
	for (int n = 0; n < 200; n++) {
		double share[] = { 0.01 * (1 + rand() % 60), 0.005 * (1 + rand() % 60), 0.0005 };
		double budget = 0.001 * (1 + rand() % 20), spent = 0, of_use = 0;
		struct thin t;

		thin__allow(&t, true, true);
		for (uint64_t k = 1; k <= 500; k++) {
			double allowed = budget * (double)(k * 10 * SECOND) - spent, lasts, cost;
			enum thin_level level = thin__next(&t, allowed, SECOND);

			if (allowed < 1 * MS)
				continue;
			lasts = allowed / (share[level] * (double)SECOND);
			lasts = (lasts < 1 ? lasts : 1) * (double)SECOND;
			cost = share[level] * lasts + 2 * MS;
			thin__learn(&t, level, lasts, 1 * MS, cost);
			spent += cost;
			of_use += lasts >= 0.2 * (double)SECOND;
		}
		CU_ASSERT(spent <= budget * 500 * 10 * (double)SECOND + 3 * MS);
		CU_ASSERT(of_use > 400);
	}
}

static void test_texts(void)
{
	CU_ASSERT_STRING_EQUAL(thin__text(THIN_FULL), "");
	CU_ASSERT_STRING_EQUAL(thin__text(THIN_NAMES), "names only");
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "affordable", test_affordable },
		{ "thinned and back", test_thinned },
		{ "not allowed, not possible", test_not_allowed },
		{ "random jobs and budgets", test_budget },
		{ "texts", test_texts },
		CU_TEST_INFO_NULL,
	};

	return run_suite("thin", tests);
}
