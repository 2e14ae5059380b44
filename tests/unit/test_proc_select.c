/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which of the selected processes a window has: all in turn, also when some have ended or begun between, and those of one user do not
 * keep out those of others. */
#include <string.h>

#include "sample/proc_select.h"
#include "suite.h"

static struct proc_list list;

/* The processes that there are, each a letter; those of capitals are another user's, and digits a third one's. */
static void turn(const char *have, uint32_t limit, const char *want)
{
	struct proc_list now = { .cnt = 0 };
	pid_t pids[PROC_SELECT_MAX];
	char got[32] = "";
	uint32_t n;

	for (const char *c = have; *c; c++)
		proc_list__add(&now, *c, (uid_t)(*c / 32));
	proc_list__replace(&list, &now);
	n = proc_select__turn(&list, limit, pids);
	for (uint32_t i = 0; i < n && i + 1 < sizeof(got); i++)
		got[i] = (char)pids[i];
	CU_ASSERT_STRING_EQUAL(got, want);
}

TEST("in turn")
{
	turn("bedca", 2, "ab"); /* listed in any order */
	turn("abcde", 2, "cd");
	turn("abcde", 2, "ae"); /* e has waited longest */
	turn("abcde", 2, "bc");
	turn("abe", 2, "ae");   /* c and d have ended */
	turn("abefg", 2, "fg"); /* these have not been chosen yet */
	turn("abefg", 3, "abe");
	turn("xyz", 1, "x");
	turn("abc", 1, "a");
	proc_list__free(&list);
}

TEST("all")
{
	turn("abc", 3, "abc");
	turn("abc", 16, "abc");
	turn("", 16, "");
	proc_list__free(&list);
}

TEST("users")
{
	turn("ABCDEFGHIJx1", 4, "1ABx");
	turn("ABCDEFGHIJx1", 4, "1CDx");
	turn("ABCDEFGHIJKLxyz1", 4, "1EFy");
	turn("ABCDEFGHIJKLxyz1", 6, "1GHIxz"); /* x has waited longer than y */
	turn("ABCDEFGHIJKLxyz1", 1, "J");
	turn("ABCDEFGHIJKLxyz1", 2, "Ky"); /* that of a user who waits longest */
	proc_list__free(&list);
}

/* More than a window can have. */
TEST("many")
{
	struct proc_list now = { .cnt = 0 };
	pid_t pids[PROC_SELECT_MAX];
	bool chosen = false;

	for (pid_t pid = 1; pid <= 1000; pid++)
		proc_list__add(&now, pid, 7);
	proc_list__replace(&list, &now);
	for (int i = 0; i < 4 && !chosen; i++) {
		CU_ASSERT_EQUAL_FATAL(proc_select__turn(&list, PROC_SELECT_MAX, pids), PROC_SELECT_MAX);
		for (uint32_t k = 0; k < PROC_SELECT_MAX; k++)
			chosen |= pids[k] == 1000;
	}
	CU_ASSERT(chosen);
	proc_list__free(&list);
}

SUITE("proc_select")
