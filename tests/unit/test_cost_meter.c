/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* cost_meter: hits of many processes in any order. */
#include <stdlib.h>

#include "record/run_priv.h"
#include "suite.h"

TEST("each process")
{
	struct cost_meter m = { 0 };

	CU_ASSERT_EQUAL(cost_meter__of(&m, 10), 0);
	for (int i = 0; i < 300; i++)
		cost_meter__hit(&m, i % 3 ? 10 : 20);
	CU_ASSERT_EQUAL(cost_meter__of(&m, 20), 100);
	CU_ASSERT_EQUAL(cost_meter__of(&m, 10), 200);
	CU_ASSERT_EQUAL(cost_meter__of(&m, 30), 0);
	CU_ASSERT_EQUAL(m.cnt, 300);
	for (int i = 0; i < 300; i++)
		cost_meter__hit(&m, 20);
	CU_ASSERT_EQUAL(cost_meter__of(&m, 20), 400);
	cost_meter__clear(&m);
	CU_ASSERT_EQUAL(cost_meter__of(&m, 20), 0);
}

TEST("random hits")
{
	static uint64_t hits[1000];
	struct cost_meter m = { 0 };
	uint64_t all = 0;

	srand(1);
	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t pid = (uint32_t)rand() % 1000;

		for (int n = rand() % 5; n >= 0; n--, all++) {
			cost_meter__hit(&m, pid + 1);
			hits[pid]++;
		}
	}
	for (uint32_t pid = 0; pid < 1000; pid++)
		CU_ASSERT_EQUAL(cost_meter__of(&m, pid + 1), hits[pid]);
	CU_ASSERT_EQUAL(m.cnt, all);
	cost_meter__clear(&m);
}

SUITE("cost_meter")
