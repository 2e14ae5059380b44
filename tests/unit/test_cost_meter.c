/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* cost_meter: hits of many processes in any order; those that are of no known process. */
#include <stdlib.h>

#include "record/cost_meter.h"
#include "suite.h"

static void test_none(void)
{
	struct cost_meter m = { 0 };

	CU_ASSERT_EQUAL(cost_meter__of_busiest(&m, 0), 0);
	CU_ASSERT_EQUAL(cost_meter__of_busiest(&m, 7), 7); /* it may have been one process */
	CU_ASSERT_EQUAL(m.max, 0);
	cost_meter__clear(&m);
}

static void test_share(void)
{
	struct cost_meter m = { 0 };

	for (int i = 0; i < 300; i++)
		cost_meter__hit(&m, i % 3 ? 10 : 20);
	CU_ASSERT_EQUAL(cost_meter__of_busiest(&m, 300), 200);
	CU_ASSERT_EQUAL(cost_meter__of_busiest(&m, 330), 220);
	CU_ASSERT_EQUAL(m.cnt, 300);
	CU_ASSERT_EQUAL(m.max, 200);
	for (int i = 0; i < 300; i++)
		cost_meter__hit(&m, 20);
	CU_ASSERT_EQUAL(cost_meter__of_busiest(&m, 600), 400);
	cost_meter__clear(&m);
	CU_ASSERT_EQUAL(cost_meter__of_busiest(&m, 0), 0);
}

static void test_one(void)
{
	struct cost_meter m = { 0 };

	for (int i = 0; i < 300; i++)
		cost_meter__hit(&m, i % 3 ? 10 : 20);
	CU_ASSERT_EQUAL(cost_meter__of(&m, 20, 300), 100);
	CU_ASSERT_EQUAL(cost_meter__of(&m, 10, 300), 200);
	CU_ASSERT_EQUAL(cost_meter__of(&m, 20, 1000), 100); /* not those that others made in vain */
	CU_ASSERT_EQUAL(cost_meter__of(&m, 10, 1000), 900);
	CU_ASSERT_EQUAL(cost_meter__of(&m, 30, 1000), 0);
	cost_meter__clear(&m);
}

static void test_random(void)
{
	static uint64_t hits[1000];
	struct cost_meter m = { 0 };
	uint64_t max = 0;

	srand(1);
	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t pid = (uint32_t)rand() % 1000;

		for (int n = rand() % 5; n >= 0; n--) {
			cost_meter__hit(&m, pid + 1);
			hits[pid]++;
		}
		max = hits[pid] > max ? hits[pid] : max;
	}
	cost_meter__settle(&m);
	CU_ASSERT_EQUAL(m.max, max);
	CU_ASSERT_EQUAL(cost_meter__of_busiest(&m, m.cnt), max);
	cost_meter__clear(&m);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "no hits", test_none },
		{ "share of the busiest", test_share },
		{ "share of one", test_one },
		{ "random hits", test_random },
		CU_TEST_INFO_NULL,
	};

	return run_suite("cost_meter", tests);
}
