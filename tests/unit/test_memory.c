/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory in the session model: events with their places, live blocks, what slices and rows are charged with. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "capture_builder.h"
#include "model/key_averages.h"
#include "slice_log.h"
#include "suite.h"
#include "value_words.h"

enum { P = 10 };

struct told_event {
	struct memory_event ev;
	struct memory_block block; /* when ev.block was not NULL */
	uint32_t in_words;         /* of the operator's inputs */
	uint32_t kmem;             /* kind of a kernel event, 0: memory */
};

struct mem_log {
	struct told_event *v;
	uint32_t cnt, cap;
	uint32_t threads, bogus_threads;
	struct session_totals totals;
};

/* ---- collecting ---- */

static struct told_event *next(struct mem_log *log)
{
	if (vec_reserve((void **)&log->v, &log->cap, (uint64_t)log->cnt + 1, sizeof(*log->v)))
		abort();
	return &log->v[log->cnt++];
}

static int on_memory(void *arg, const struct memory_event *ev)
{
	struct told_event *e = next(arg);

	e->ev = *ev;
	if (ev->block)
		e->block = *ev->block;
	e->in_words = ev->at.op_in ? ev->at.op_in->word_cnt : 0;
	return 0;
}

static int on_kernel(void *arg, const struct kernel_event *ev)
{
	struct told_event *e = next(arg);

	e->ev.at = ev->at;
	e->ev.ts_ns = ev->rec->ts_ns;
	e->kmem = ev->rec->kind;
	return 0;
}

static int on_thread(void *arg, uint32_t tgid, uint32_t tid)
{
	struct mem_log *log = arg;

	log->threads++;
	log->bogus_threads += !tgid || !tid;
	return 0;
}

static struct mem_log *run(struct session *s)
{
	struct mem_log *log = calloc(1, sizeof(*log));
	struct session_sink sink = { .arg = log, .memory = on_memory, .kernel = on_kernel,
				     .thread = on_thread };

	if (!log || session__run(s, &sink, 1, &log->totals))
		abort();
	return log;
}

static void drop(struct mem_log *log)
{
	free(log->v);
	free(log);
}

static struct builder *recorded(void)
{
	struct builder *b = builder__new(1000, 100000);

	builder__meta(b, "profile_memory", "true");
	builder__meta(b, "kernel_memory", "true");
	builder__meta(b, "args", "\"shapes\"");
	builder__thread(b, P, P);
	return b;
}

struct live {
	struct memory_block v[16];
	uint32_t cnt;
};

static int on_live(void *arg, const struct memory_block *b)
{
	struct live *l = arg;

	if (l->cnt < 16)
		l->v[l->cnt] = *b;
	l->cnt++;
	return 0;
}

static struct live live_of(struct session *s)
{
	struct live l = { .cnt = 0 };

	CU_ASSERT_EQUAL(session__live_blocks(s, on_live, &l), 0);
	return l;
}

/* ---- events ---- */

static void events_have_places(void)
{
	struct builder *b = recorded();
	uint32_t add = builder__op(b, "aten::add.Tensor"), empty = builder__op(b, "aten::empty");
	struct session *s;
	struct mem_log *log;

	builder__mem_alloc(b, 1500, 0x8000, 0xa000, 64);
	builder__annotate(b, 1600, 0x7800, 0x1, "train");
	builder__enter(b, add, 2000, 0x7000);
	builder__enter(b, empty, 2100, 0x6000);
	builder__mem_alloc(b, 2200, 0x5000, 0xb000, 100);
	builder__exit(b, empty, 2300, 0x5f00);
	builder__mem_free(b, 2400, 0x6800, 0xa000);
	builder__exit(b, add, 2500, 0x6f00);
	builder__mem_free(b, 2600, 0x7000, 0xdead000);
	builder__mem_alloc(b, 2700, 0x7000, 0, 0);
	builder__scope_end(b, 2800, 0x7800, 0x1);
	s = builder__session(b, NULL);
	log = run(s);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 4);

	CU_ASSERT_EQUAL(log->v[0].ev.what, MEMORY_ALLOC);
	CU_ASSERT_EQUAL(log->v[0].ev.at.slice, 0);
	CU_ASSERT_FALSE(log->v[0].ev.at.enclosed);
	CU_ASSERT_STRING_EQUAL(log->v[0].ev.at.op, "");
	CU_ASSERT_EQUAL(log->v[0].ev.at.step, -1);
	CU_ASSERT_EQUAL(log->v[0].ev.allocated, 64);
	CU_ASSERT_EQUAL(log->v[0].ev.device_type, 0);
	CU_ASSERT_EQUAL(log->v[0].ev.device_index, -1);

	CU_ASSERT_STRING_EQUAL(log->v[1].ev.at.op, "aten::empty");
	CU_ASSERT_STRING_EQUAL(log->v[1].ev.at.outer_op, "aten::add");
	CU_ASSERT_STRING_EQUAL(log->v[1].ev.at.annotation, "train");
	CU_ASSERT_TRUE(log->v[1].ev.at.enclosed);
	CU_ASSERT_EQUAL(log->v[1].ev.allocated, 164);
	CU_ASSERT_EQUAL(log->v[1].block.bytes, 100);
	CU_ASSERT_STRING_EQUAL(log->v[1].block.op, "aten::empty");

	CU_ASSERT_EQUAL(log->v[2].ev.what, MEMORY_FREE);
	CU_ASSERT_EQUAL(log->v[2].ev.bytes, -64);
	CU_ASSERT_EQUAL(log->v[2].ev.allocated, 100);
	CU_ASSERT_STRING_EQUAL(log->v[2].ev.at.op, "aten::add");
	CU_ASSERT_EQUAL(log->v[2].block.ts_ns, 1500);

	CU_ASSERT_EQUAL(log->v[3].ev.what, MEMORY_FREE_UNKNOWN);
	CU_ASSERT_EQUAL(log->v[3].ev.bytes, 0);
	CU_ASSERT_PTR_NULL(log->v[3].ev.block);
	CU_ASSERT_STRING_EQUAL(log->v[3].ev.at.op, "");
	CU_ASSERT_STRING_EQUAL(log->v[3].ev.at.annotation, "train");
	CU_ASSERT_EQUAL(log->totals.freed_unknown, 1);
	CU_ASSERT_EQUAL(log->totals.live_blocks, 1);
	CU_ASSERT_EQUAL(live_of(s).v[0].addr, 0xb000);
	drop(log);
	builder__free(b);
}

static const CU_TestInfo tests[] = {
	{ "events have places", events_have_places },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("memory", tests);
}
