/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Annotations: names, objects, other threads, generators, exceptions; nesting that is always
 * strict. What small captures are read as is in tests/cases/scopes.
 */
#include <stdlib.h>

#include "capture_builder.h"
#include "slice_log.h"
#include "suite.h"
#include "value_words.h"

#define BEGIN 1000000
#define END 9000000

/* Random programs: the session always reports valid slices. */
static void random_records(void)
{
	for (unsigned int seed = 1; seed <= 60; seed++) {
		struct builder *b = builder__new(BEGIN, END);
		uint32_t f[3], box;
		uint64_t ts = 2000000;
		struct slice_log *log;

		srandom(seed);
		for (int i = 0; i < 3; i++)
			f[i] = builder__op(b, i == 0 ? "aten::a" : i == 1 ? "aten::b" : "aten::c");
		box = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true);
		builder__caller(b, 1, 0x400, "macro");
		builder__opdef(b, 1, 0x1000, "profiler::_record_function_enter_new", false);
		if (seed % 3 == 0)
			builder__lost(b, 2050000, 2050100, 1);
		for (int i = 0; i < 2000; i++) {
			uint64_t sp = 0x8000 + (uint64_t)(random() % 32) * 16;
			uint64_t h = 1 + (uint64_t)(random() % 4);

			ts += (uint64_t)(random() % 40);
			builder__thread(b, 1, 1 + (uint32_t)(random() % 2));
			switch (random() % 10) {
			case 0:
			case 1:
				builder__enter(b, f[random() % 3], ts, sp);
				break;
			case 2:
			case 3:
				builder__exit(b, f[random() % 3], ts, sp);
				break;
			case 4:
				builder__annotate(b, ts, sp, h, "x");
				break;
			case 5:
				builder__scope_end(b, ts, sp, h);
				break;
			case 6:
				builder__boxed(b, box, ts, sp, random() % 2 ? 0x1000 : 0x2000);
				break;
			case 7:
				builder__exit(b, box, ts, sp);
				break;
			case 8:
				builder__catch(b, ts, sp);
				break;
			case 9:
				builder__macro(b, ts, sp, h + 2, 0x400);
				break;
			}
		}
		log = slice_log__of(b, NULL);
		CU_ASSERT_TRUE(log->cnt > 500);
		slice_log__free(log);
		builder__free(b);
	}
}

static const CU_TestInfo tests[] = {
	{ "random records", random_records },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("scopes", tests);
}
