/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Frames: nesting, exceptions, losses, what was open at either end of the window, threads.
 * What small captures are read as is in tests/cases/thread_stack.
 */
#include <errno.h>

#include "capture_builder.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 9000000

static void deep_recursion(void)
{
	enum { DEPTH = 10000 };
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	uint64_t ts = 2000000, sp = 0x7fff0000;
	struct slice_log *log;

	for (int i = 0; i < DEPTH; i++)
		builder__enter(b, f, ts++, sp -= 64);
	for (int i = 0; i < DEPTH; i++, sp += 64)
		builder__exit(b, f, ts++, sp - 32);
	for (int i = 0; i < DEPTH; i++) /* and once more, left by one exception */
		builder__enter(b, f, ts++, sp -= 64);
	builder__enter(b, g, ts + 500000, 0x7fff0000);
	builder__exit(b, g, ts + 600000, 0x7ffe0000);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 2 * DEPTH + 1);
	CU_ASSERT_EQUAL(log->totals.unwound, DEPTH);
	CU_ASSERT_EQUAL(log->slices[0].depth, DEPTH - 1);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::g")->parent, 0);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::g")->end_ns, ts + 600000);
	slice_log__done(log, b);
}

/* The same capture gives the same result twice, and a sink's error stops it. */
static int refuse(void *arg, const struct slice *sl)
{
	int *left = arg;

	(void)sl;
	return --*left ? 0 : 42;
}

static void runs_again(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *one, *two;
	struct session_totals totals;
	int left = 3;
	struct session_sink sink = { .arg = &left, .slice = refuse };
	struct session *s;

	for (int i = 0; i < 10; i++) {
		builder__enter(b, f, (uint64_t)(2000000 + i * 100), 0x9000);
		builder__exit(b, f, (uint64_t)(2000050 + i * 100), 0x8f00);
	}
	s = builder__session(b, NULL);
	one = slice_log__run(s);
	two = slice_log__run(s);
	CU_ASSERT_EQUAL_FATAL(one->cnt, 10);
	CU_ASSERT_EQUAL(one->cnt, two->cnt);
	for (int i = 0; i < 10; i++) {
		CU_ASSERT_EQUAL(one->slices[i].id, two->slices[i].id);
		CU_ASSERT_EQUAL(one->slices[i].begin_ns, two->slices[i].begin_ns);
		CU_ASSERT_EQUAL(one->slices[i].end_ns, two->slices[i].end_ns);
	}
	CU_ASSERT_EQUAL(session__run(s, &sink, 1, &totals), 42);
	CU_ASSERT_EQUAL(totals.slices, 3);
	slice_log__free(one);
	slice_log__free(two);
	builder__free(b);
}

static const CU_TestInfo tests[] = {
	{ "deep recursion", deep_recursion },
	{ "a second pass", runs_again },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("thread_stack", tests);
}
