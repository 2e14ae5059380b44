/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* sample/left_out: processes that take too much, also when they come again under other pids, and nobody else. */
#include "sample/proc_select.h"
#include "suite.h"

#define NOW 1000000000ULL

static struct left_out lo;

static struct proc_id of(pid_t pid, uid_t uid, uint64_t ino)
{
	return (struct proc_id){ .pid = pid, .uid = uid, .start = (uint64_t)pid * 7, .dev = 1, .ino = ino };
}

static bool add(pid_t pid, uid_t uid, uint64_t ino, uint32_t strikes)
{
	struct proc_id id = of(pid, uid, ino);

	return left_out__add(&lo, &id, strikes, NOW);
}

static bool has(pid_t pid, uid_t uid, uint64_t ino, uint64_t now)
{
	struct proc_id id = of(pid, uid, ino);

	return left_out__has(&lo, &id, now);
}

TEST("process")
{
	struct proc_id later = of(5, 1000, 10), held = { .pid = 5 };

	lo = (struct left_out){ .cnt = 0 };
	CU_ASSERT_FALSE(add(5, 1000, 10, 1));
	CU_ASSERT_FALSE(has(5, 1000, 10, NOW));
	CU_ASSERT(add(5, 1000, 10, 1));
	CU_ASSERT(has(5, 1000, 10, NOW) && left_out__has(&lo, &held, NOW));
	CU_ASSERT_FALSE(add(5, 1000, 10, 1)); /* said once */
	CU_ASSERT_FALSE(has(5, 1000, 10, NOW + LEFT_OUT_NS));
	CU_ASSERT_FALSE(has(6, 1000, 10, NOW)); /* another one of the same program */
	later.start++;
	CU_ASSERT_FALSE(left_out__has(&lo, &later, NOW)); /* another one with its pid */
}

TEST("file and user")
{
	lo = (struct left_out){ .cnt = 0 };
	CU_ASSERT(add(1, 0, 10, 2) && add(2, 0, 10, 2));
	CU_ASSERT(has(3, 0, 10, NOW));
	CU_ASSERT_FALSE(has(3, 0, 11, NOW));
	CU_ASSERT_FALSE(has(3, 1000, 10, NOW)); /* the same program of another user */
	for (pid_t pid = 100; pid < 100 + LEFT_OUT_OF_USER; pid++) {
		CU_ASSERT_FALSE(has(99, 1000, 99, NOW));
		CU_ASSERT(add(pid, 1000, (uint64_t)pid, 2));
		CU_ASSERT(add(pid + 100, 0, (uint64_t)pid, 2));
	}
	CU_ASSERT(has(99, 1000, 99, NOW));
	CU_ASSERT_FALSE(has(99, 0, 99, NOW)); /* root's are not one user's */
	CU_ASSERT_FALSE(has(99, 1001, 99, NOW));
}

TEST("many")
{
	lo = (struct left_out){ .cnt = 0 };
	for (pid_t pid = 1; pid <= 2 * LEFT_OUT_MAX; pid++)
		add(pid, (uid_t)pid, (uint64_t)pid, 2);
	CU_ASSERT_EQUAL(lo.cnt, LEFT_OUT_MAX);
	CU_ASSERT(has(2 * LEFT_OUT_MAX, 2 * LEFT_OUT_MAX, 2 * LEFT_OUT_MAX, NOW));
}

SUITE("left_out")
