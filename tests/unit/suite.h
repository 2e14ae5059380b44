/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One CUnit suite as a program: TEST("what it shows") { ... } for each test, and
 * SUITE("name") at the end of the file, or a main() that returns run_suite("name"). The tests run in
 * the order of the file.
 */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <CUnit/Basic.h>
#include <stdint.h>
#include <stdlib.h>

/* How often a test repeats what it does: all of it under a soak (tools/test.sh --soak). */
static inline int repetitions(int some, int all)
{
	return getenv("PTBPF_SOAK") ? all : some;
}

#define SUITE_MAX 64
static CU_TestInfo suite_tests[SUITE_MAX + 1] __attribute__((unused));
static int suite_lines[SUITE_MAX] __attribute__((unused));

/* Constructors come in any order. */
static inline void suite__add(int line, const char *what, CU_TestFunc fn)
{
	int i = 0;

	while (suite_tests[i].pName)
		i++;
	if (i == SUITE_MAX)
		abort();
	for (; i && suite_lines[i - 1] > line; i--) {
		suite_tests[i] = suite_tests[i - 1];
		suite_lines[i] = suite_lines[i - 1];
	}
	suite_tests[i] = (CU_TestInfo){ what, fn };
	suite_lines[i] = line;
}

#define SUITE_PASTE(a, b) a##b
#define SUITE_ID(a, b) SUITE_PASTE(a, b)
#define TEST(what)                                                                                 \
	static void SUITE_ID(test_, __LINE__)(void);                                               \
	__attribute__((constructor)) static void SUITE_ID(add_, __LINE__)(void)                    \
	{                                                                                          \
		suite__add(__LINE__, what, SUITE_ID(test_, __LINE__));                             \
	}                                                                                          \
	static void SUITE_ID(test_, __LINE__)(void)
#define SUITE(name)                                                                                \
	int main(void)                                                                             \
	{                                                                                          \
		return run_suite(name);                                                            \
	}

static inline int run_suite(const char *name)
{
	CU_SuiteInfo suites[] = { { .pName = name, .pTests = suite_tests }, CU_SUITE_INFO_NULL };
	unsigned int failures;

	if (CU_initialize_registry() || CU_register_suites(suites))
		return 1;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failures = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failures ? 1 : 0;
}

#endif /* TESTS_SUITE_H */
