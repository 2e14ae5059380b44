/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One CUnit suite as a program: `return run_suite("name", tests);` */
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

static inline int run_suite(const char *name, const CU_TestInfo *tests)
{
	/* CUnit's tables are not const, but it only reads them */
	CU_SuiteInfo suites[] = { { .pName = name, .pTests = (CU_TestInfo *)(uintptr_t)tests },
				  CU_SUITE_INFO_NULL };
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
