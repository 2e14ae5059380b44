/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * model/args: arguments and results on slices, doubles that come later, numbers, scopes.
 * What small captures are read as is in tests/cases/args.
 */
#include <string.h>

#include "capture_builder.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 9000000

static struct value nth(const struct slice_values *sv, uint32_t n)
{
	struct value_iter it = values__begin(sv);
	struct value v = { 0 };

	do {
		CU_ASSERT_TRUE_FATAL(values__next(&it, &v));
	} while (n--);
	return v;
}

/* ---- numbers ---- */

struct number_case {
	bool grad;
	uint64_t tensor, included, excluded;
	int64_t want;
};

/* A tensor may be among the values that were not read: then only the created node has the number. */
/* ---- scopes ---- */

/* Values of many open frames at once, large and small, and threads that end with some. */
static void many(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *log;

	for (uint32_t k = 0; k < 3; k++) {
		for (uint32_t i = 0; i < 60; i++) {
			struct value_words w = { 0 };
			uint32_t n = i % 7 == 0 ? 3000 : i;

			vw__int(&w, i);
			while (n--)
				vw__int(&w, n);
			builder__values(b, &w);
			builder__enter(b, f, 2000000 + k * 100000 + i * 10, 0x90000 - i * 256);
		}
		for (uint32_t i = 60; i-- > (k == 2 ? 30 : 0);)
			builder__exit(b, f, 2010000 + k * 100000 + (60 - i) * 10,
				      0x90000 - i * 256 - 128);
	}
	builder__task(b, PTB_REC_EXIT, 3000000, 0, 0, false, "t");
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 180);
	for (uint32_t i = 0; i < log->cnt; i++) {
		const struct slice *sl = slice_log__must(log, "aten::f", i);
		uint32_t level = i % 60;

		CU_ASSERT_EQUAL(nth(&sl->in, 0).i, level);
		CU_ASSERT_EQUAL(values__count(&sl->in), 1 + (level % 7 == 0 ? 3000 : level));
	}
	slice_log__done(log, b);
}

static const CU_TestInfo tests[] = {
	{ "many at once", many },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("args", tests);
}
