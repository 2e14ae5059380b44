/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Sinks of memory events and of live blocks can stop. What they get is in tests/cases/memory. */
#include "capture_builder.h"
#include "suite.h"

static int stop_at_once(void *arg, const struct memory_block *b)
{
	(void)b;
	return ++*(int *)arg + 41;
}

static int refuse(void *arg, const struct memory_event *ev)
{
	(void)arg;
	return ev->what == MEMORY_FREE ? 42 : 0;
}

static struct builder *recorded(void)
{
	struct builder *b = builder__new(1000, 100000);

	builder__meta(b, "profile_memory", "true");
	return b;
}

static void sinks_can_stop(void)
{
	struct session_sink sink = { .memory = refuse };
	struct builder *b = recorded();
	uint32_t f = builder__op(b, "aten::f");
	struct session_totals totals;
	struct session *s;
	int calls = 0;

	builder__enter(b, f, 2000, 0x9000);
	builder__mem_alloc(b, 2100, 0x8000, 0xa000, 1);
	builder__mem_alloc(b, 2110, 0x8000, 0xb000, 1);
	s = builder__session(b, NULL);
	CU_ASSERT_EQUAL(session__run(s, &sink, 1, &totals), 0);
	CU_ASSERT_EQUAL(session__live_blocks(s, stop_at_once, &calls), 42);
	CU_ASSERT_EQUAL(calls, 1);
	builder__free(b);

	b = recorded();
	f = builder__op(b, "aten::f");
	builder__enter(b, f, 2000, 0x9000);
	builder__mem_alloc(b, 2100, 0x8000, 0xa000, 1);
	builder__mem_free(b, 2200, 0x8000, 0xa000);
	builder__exit(b, f, 2300, 0x8f00);
	CU_ASSERT_EQUAL(session__run(builder__session(b, NULL), &sink, 1, &totals), 42);
	builder__free(b);
}

static const CU_TestInfo tests[] = {
	{ "sinks can stop", sinks_can_stop },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("memory", tests);
}
