/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* cost_account: each process by itself, with its start; more of them than are remembered. */
#include "sample/daemon.h"
#include "suite.h"

TEST("each by itself")
{
	struct cost_account a = { .cnt = 0 };

	CU_ASSERT_EQUAL(cost_account__max_ns(&a), 0);
	cost_account__charge(&a, 1, 100, 5e9, true);
	cost_account__charge(&a, 2, 100, 1e6, false);
	cost_account__charge(&a, 1, 100, 1e9, false);
	CU_ASSERT_EQUAL(cost_account__of(&a, 1, 100).spent_ns, 6e9);
	CU_ASSERT_TRUE(cost_account__of(&a, 1, 100).over);
	CU_ASSERT_EQUAL(cost_account__of(&a, 2, 100).spent_ns, 1e6);
	CU_ASSERT_FALSE(cost_account__of(&a, 2, 100).over);
	CU_ASSERT_EQUAL(cost_account__of(&a, 1, 101).spent_ns, 0); /* another process with its pid */
	CU_ASSERT_EQUAL(cost_account__max_ns(&a), 6e9);
	cost_account__clear(&a);
	CU_ASSERT_EQUAL(cost_account__of(&a, 1, 100).spent_ns, 0);
}

TEST("full")
{
	struct cost_account a = { .cnt = 0 };

	for (pid_t pid = 1; pid <= COST_ACCOUNT_MAX; pid++)
		cost_account__charge(&a, pid, 1, pid, false);
	cost_account__charge(&a, 1, 1, 1, false); /* the second one has waited longest */
	cost_account__charge(&a, 1, 2, 7, false);
	CU_ASSERT_EQUAL(a.cnt, COST_ACCOUNT_MAX);
	CU_ASSERT_EQUAL(cost_account__of(&a, 1, 1).spent_ns, 2);
	CU_ASSERT_EQUAL(cost_account__of(&a, 1, 2).spent_ns, 7);
	CU_ASSERT_EQUAL(cost_account__of(&a, 2, 1).spent_ns, 0);
	CU_ASSERT_EQUAL(cost_account__of(&a, 3, 1).spent_ns, 3);
	cost_account__clear(&a);
}

SUITE("cost_account")
