/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which of the selected processes a window has: all in turn, also when some have ended or begun between. */
#include <string.h>

#include "sample/proc_select.h"
#include "suite.h"

static void turn(const char *have, uint32_t limit, pid_t *last, const char *want)
{
	pid_t pids[32];
	char got[32] = "";
	uint32_t n = (uint32_t)strlen(have);

	for (uint32_t i = 0; i < n; i++)
		pids[i] = have[i];
	n = proc_select__turn(pids, n, limit, last);
	for (uint32_t i = 0; i < n; i++)
		got[i] = (char)pids[i];
	CU_ASSERT_STRING_EQUAL(got, want);
}

static void test_turns(void)
{
	pid_t last = 0;

	turn("abcde", 2, &last, "ab");
	turn("abcde", 2, &last, "cd");
	turn("abcde", 2, &last, "ae"); /* e, then a */
	turn("abcde", 2, &last, "bc");
	turn("abe", 2, &last, "ae"); /* c and d have ended */
	turn("abefg", 2, &last, "be");
	turn("xyz", 1, &last, "x");
	turn("abc", 1, &last, "a"); /* none follows */
}

static void test_all(void)
{
	pid_t last = 'b';

	turn("abc", 3, &last, "abc");
	turn("abc", 16, &last, "abc");
	turn("", 16, &last, "");
	turn("abc", PROC_SELECT_MAX + 1, &last, "abc");
	CU_ASSERT_EQUAL(last, 'b');
}

static const CU_TestInfo tests[] = {
	{ "in turn", test_turns },
	{ "all", test_all },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("proc_select", tests);
}
