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
	CU_ASSERT_STRING_EQUAL(log->v[0].ev.at.op, SESSION_OP_UNSEEN);
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


/* The innermost annotation names the place, the step does not; operators around it are not inside. */
static void annotations_and_steps(void)
{
	struct session_opts opts = { .step_on = "mark" };
	struct builder *b = recorded();
	uint32_t op = builder__op(b, "aten::a");
	struct mem_log *log;

	builder__thread(b, P, P + 1);
	builder__mem_alloc(b, 1500, 0x8000, 0xa000, 1); /* before the thread with steps is seen */
	builder__thread(b, P, P);
	builder__enter(b, op, 2000, 0x9000);
	builder__annotate(b, 2100, 0x8800, 0x1, "inner");
	builder__mem_alloc(b, 2200, 0x8000, 0xb000, 1);
	builder__scope_end(b, 2300, 0x8800, 0x1);
	builder__exit(b, op, 2400, 0x8f00);
	builder__annotate(b, 3000, 0x9000, 0x2, "mark");
	builder__scope_end(b, 3100, 0x9000, 0x2);
	builder__mem_alloc(b, 3200, 0x9000, 0xc000, 1);
	builder__thread(b, P, P + 1);
	builder__mem_alloc(b, 3300, 0x8000, 0xd000, 1);
	builder__thread(b, P + 5, P + 5);
	builder__mem_alloc(b, 3400, 0x8000, 0xd000, 1);
	log = run(builder__session(b, &opts));
	CU_ASSERT_EQUAL_FATAL(log->cnt, 5);
	CU_ASSERT_EQUAL(log->v[0].ev.at.step, 0);
	CU_ASSERT_STRING_EQUAL(log->v[1].ev.at.annotation, "inner");
	CU_ASSERT_STRING_EQUAL(log->v[1].ev.at.op, "aten::a");
	CU_ASSERT_STRING_EQUAL(log->v[1].ev.at.outer_op, "aten::a");
	CU_ASSERT_NOT_EQUAL(log->v[1].ev.at.slice, log->v[1].ev.at.op_slice);
	CU_ASSERT_EQUAL(log->v[1].block.step, 0);
	CU_ASSERT_EQUAL(log->v[2].ev.at.step, 1);
	CU_ASSERT_STRING_EQUAL(log->v[2].ev.at.annotation, "");
	CU_ASSERT_TRUE(log->v[2].ev.at.enclosed);
	CU_ASSERT_EQUAL(log->v[3].ev.at.step, 1); /* another thread of the process */
	CU_ASSERT_TRUE(log->v[3].ev.at.enclosed);
	CU_ASSERT_EQUAL(log->v[3].ev.at.slice, 0);
	CU_ASSERT_EQUAL(log->v[4].ev.at.step, -1); /* another process */
	CU_ASSERT_FALSE(log->v[4].ev.at.enclosed);
	drop(log);
	builder__free(b);
}

/* Steps that the program announces itself are steps too. */
static void own_steps(void)
{
	struct builder *b = recorded();
	struct mem_log *log;

	builder__annotate(b, 2000, 0x9000, 0x1, "ProfilerStep#17");
	builder__mem_alloc(b, 2100, 0x8000, 0xa000, 1);
	builder__scope_end(b, 2200, 0x9000, 0x1);
	builder__mem_free(b, 2300, 0x8000, 0xa000);
	log = run(builder__session(b, NULL));
	CU_ASSERT_EQUAL_FATAL(log->cnt, 2);
	CU_ASSERT_EQUAL(log->v[0].ev.at.step, 17);
	CU_ASSERT_STRING_EQUAL(log->v[0].ev.at.annotation, "");
	CU_ASSERT_EQUAL(log->v[1].ev.at.step, -1);
	CU_ASSERT_EQUAL(log->v[1].block.step, 17);
	drop(log);
	builder__free(b);
}

/* A record proves which frames are gone, as any other. */
static void gone_frames(void)
{
	struct builder *b = recorded();
	uint32_t a = builder__op(b, "aten::a"), inner = builder__op(b, "aten::b");
	struct slice_log *slices;
	struct mem_log *log;
	struct session *s;

	builder__enter(b, a, 2000, 0x9000);
	builder__enter(b, inner, 2100, 0x8000);
	builder__mem_alloc(b, 2200, 0x8800, 0xa000, 8);
	builder__exit(b, a, 2300, 0x8f00);
	s = builder__session(b, NULL);
	log = run(s);
	CU_ASSERT_STRING_EQUAL(log->v[0].ev.at.op, "aten::a");
	slices = slice_log__run(s);
	CU_ASSERT_TRUE(slice_log__valid(slices));
	CU_ASSERT_TRUE(slice_log__get(slices, "aten::b")->flags & SLICE_UNWOUND);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::b")->mem->cpu_own, 0);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::a")->mem->cpu_own, 8);
	slice_log__free(slices);
	drop(log);
	builder__free(b);
}

static void not_recorded(void)
{
	struct builder *b = builder__new(1000, 100000);
	uint32_t a = builder__op(b, "aten::a");
	struct slice_log *slices;
	struct mem_log *log;
	struct session *s;

	builder__thread(b, P, P);
	builder__enter(b, a, 2000, 0x9000);
	builder__mem_alloc(b, 2200, 0x8800, 0xa000, 8);
	builder__exit(b, a, 2300, 0x8f00);
	s = builder__session(b, NULL);
	CU_ASSERT_FALSE(session__info(s)->has_memory);
	CU_ASSERT_FALSE(session__info(s)->has_kernel_memory);
	log = run(s);
	CU_ASSERT_EQUAL(log->cnt, 0);
	CU_ASSERT_EQUAL(live_of(s).cnt, 0);
	slices = slice_log__run(s);
	CU_ASSERT_PTR_NULL(slice_log__get(slices, "aten::a")->mem);
	CU_ASSERT_PTR_NULL(slice_log__get(slices, "aten::a")->child_mem);
	slice_log__free(slices);
	drop(log);
	builder__free(b);
}

/* ---- reports ---- */

static void report(struct builder *b, uint8_t kind, uint64_t ts, uint64_t addr, int64_t bytes, int32_t type,
		   int32_t index)
{
	struct ptb_mem_report r = { .sp = 0x7000, .addr = addr, .bytes = bytes, .allocated = 5000,
				    .reserved = 6000, .device_type = type, .device_index = index };

	builder__ring_rec(b, &r.h, kind, sizeof(r), ts);
}

static void device_blocks(void)
{
	struct builder *b = recorded();
	struct session *s;
	struct mem_log *log;

	report(b, PTB_REC_MEM_REPORT, 2000, 0xa000, 512, 1, 0);
	report(b, PTB_REC_MEM_REPORT, 2100, 0xa000, 1024, 1, 1); /* the same address of another device */
	report(b, PTB_REC_MEM_REPORT, 2200, 0xa000, -512, 1, 0);
	report(b, PTB_REC_MEM_REPORT, 2300, 0xf000, -64, 1, 0); /* from before the window */
	report(b, PTB_REC_MEM_REPORT, 2400, 0xe000, 0, 1, 0);
	s = builder__session(b, NULL);
	log = run(s);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 4);
	CU_ASSERT_EQUAL(log->v[0].ev.what, MEMORY_ALLOC);
	CU_ASSERT_EQUAL(log->v[0].ev.allocated, 5000);
	CU_ASSERT_EQUAL(log->v[0].ev.reserved, 6000);
	CU_ASSERT_EQUAL(log->v[1].ev.what, MEMORY_ALLOC);
	CU_ASSERT_EQUAL(log->v[1].ev.device_index, 1);
	CU_ASSERT_EQUAL(log->v[2].ev.what, MEMORY_FREE);
	CU_ASSERT_EQUAL(log->v[2].ev.bytes, -512);
	CU_ASSERT_EQUAL(log->v[2].block.ts_ns, 2000);
	CU_ASSERT_EQUAL(log->v[3].ev.what, MEMORY_FREE);
	CU_ASSERT_EQUAL(log->v[3].ev.bytes, -64);
	CU_ASSERT_PTR_NULL(log->v[3].ev.block);
	CU_ASSERT_EQUAL(log->totals.freed_unknown, 0);
	CU_ASSERT_EQUAL(log->totals.live_blocks, 1);
	CU_ASSERT_EQUAL(live_of(s).v[0].bytes, 1024);
	drop(log);
	builder__free(b);
}

/* torch's own profiler is active in the target: its reporter passes every call on. */
static void told_twice(void)
{
	struct builder *b = recorded();
	struct mem_log *log;

	builder__mem_alloc(b, 2000, 0x8000, 0xa000, 64);
	report(b, PTB_REC_MEM_REPORT, 2001, 0xa000, 64, 0, -1);
	builder__mem_free(b, 2100, 0x8000, 0xa000);
	report(b, PTB_REC_MEM_REPORT, 2101, 0xa000, -64, 0, -1);
	builder__mem_free(b, 2200, 0x8000, 0xb000); /* older than the window, but not than torch's profiler */
	report(b, PTB_REC_MEM_REPORT, 2201, 0xb000, -32, 0, -1);
	report(b, PTB_REC_MEM_OOM, 2300, 0, 1LL << 40, 0, -1);
	report(b, PTB_REC_MEM_OOM, 2301, 0, 1LL << 40, 0, -1);
	log = run(builder__session(b, NULL));
	CU_ASSERT_EQUAL_FATAL(log->cnt, 4);
	CU_ASSERT_EQUAL(log->v[0].ev.what, MEMORY_ALLOC);
	CU_ASSERT_EQUAL(log->v[0].ev.allocated, 64);
	CU_ASSERT_EQUAL(log->v[1].ev.what, MEMORY_FREE);
	CU_ASSERT_EQUAL(log->v[2].ev.what, MEMORY_FREE_UNKNOWN);
	CU_ASSERT_EQUAL(log->v[3].ev.what, MEMORY_OOM);
	CU_ASSERT_EQUAL(log->totals.live_blocks, 0);
	drop(log);
	builder__free(b);
}

/* What looks alike, but is told by nobody else: shared memory and mapped files. */
static void cpu_reports(void)
{
	struct builder *b = recorded();
	uint32_t a = builder__op(b, "aten::a");
	struct slice_log *slices;
	struct mem_log *log;
	struct session *s;

	builder__enter(b, a, 1500, 0x9000);
	builder__mem_alloc(b, 2000, 0x8000, 0xa000, 64);
	builder__thread(b, P, P + 1);
	report(b, PTB_REC_MEM_REPORT, 2001, 0xb000, 64, 0, -1); /* another address */
	report(b, PTB_REC_MEM_REPORT, 2002, 0xb000, -64, 0, -1);
	builder__thread(b, P, P);
	builder__mem_free(b, 2100, 0x8000, 0xa000);
	report(b, PTB_REC_MEM_REPORT, 2101, 0xc000, 64, 0, -1);
	report(b, PTB_REC_MEM_REPORT, 2102, 0xc000, -64, 0, -1);
	report(b, PTB_REC_MEM_REPORT, 2103, 0xc000, -64, 0, -1);
	builder__exit(b, a, 2500, 0x8f00);
	s = builder__session(b, NULL);
	log = run(s);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 7);
	CU_ASSERT_EQUAL(log->v[1].ev.what, MEMORY_ALLOC);
	CU_ASSERT_EQUAL(log->v[1].ev.allocated, 5000); /* its own totals */
	CU_ASSERT_EQUAL(log->v[2].ev.what, MEMORY_FREE);
	CU_ASSERT_EQUAL(log->v[2].block.ts_ns, 2001);
	CU_ASSERT_EQUAL(log->v[3].ev.allocated, 0); /* of the CPU's allocator: theirs are not in it */
	CU_ASSERT_EQUAL(log->v[4].ev.what, MEMORY_ALLOC);
	CU_ASSERT_EQUAL(log->v[5].block.ts_ns, 2101);
	CU_ASSERT_EQUAL(log->v[6].ev.what, MEMORY_FREE);
	CU_ASSERT_PTR_NULL(log->v[6].ev.block);
	slices = slice_log__run(s);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::a")->mem->cpu_all, -64);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::a")->mem->allocs, 2);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::a")->mem->frees, 3);
	slice_log__free(slices);
	drop(log);
	builder__free(b);
}

static void out_of_memory(void)
{
	struct builder *b = recorded();
	uint32_t a = builder__op(b, "aten::empty");
	struct mem_log *log;

	builder__mem_alloc(b, 1500, 0x9800, 0xa000, 64);
	builder__enter(b, a, 2000, 0x9000);
	report(b, PTB_REC_MEM_OOM, 2100, 0, 1LL << 50, 0, -1);
	report(b, PTB_REC_MEM_OOM, 2200, 0, 1LL << 40, 1, 2);
	report(b, PTB_REC_MEM_OOM, 2300, 0, 1LL << 40, 1, 2);
	builder__exit(b, a, 2500, 0x8f00);
	log = run(builder__session(b, NULL));
	CU_ASSERT_EQUAL_FATAL(log->cnt, 4);
	CU_ASSERT_EQUAL(log->v[1].ev.what, MEMORY_OOM);
	CU_ASSERT_EQUAL(log->v[1].ev.bytes, 1LL << 50);
	CU_ASSERT_EQUAL(log->v[1].ev.allocated, 64);
	CU_ASSERT_STRING_EQUAL(log->v[1].ev.at.op, "aten::empty");
	CU_ASSERT_EQUAL(log->v[2].ev.allocated, 5000);
	CU_ASSERT_EQUAL(log->v[2].ev.reserved, 6000);
	CU_ASSERT_EQUAL(log->v[2].ev.device_index, 2);
	CU_ASSERT_EQUAL(log->v[3].ev.what, MEMORY_OOM); /* the CUDA allocator tells each failure once */
	drop(log);
	builder__free(b);
}

static void api_calls(void)
{
	struct builder *b = recorded();
	uint32_t malloc_fn = builder__func(b, "cudaMalloc", PTB_FUNC_CUDA_MEMORY, true);
	uint32_t free_fn = builder__func(b, "cudaFree", PTB_FUNC_CUDA_MEMORY, true);
	uint32_t a = builder__op(b, "aten::a");
	struct ptb_mem_api r = { .sp = 0x7000, .begin_ns = 2100, .addr = 0xd000, .bytes = 512 };
	struct slice_log *slices;
	struct mem_log *log;
	struct session *s;

	builder__enter(b, a, 2000, 0x6800); /* deeper than the call that never returned */
	r.h.site = 2 * free_fn;
	r.flags = PTB_API_NO_RESULT;
	builder__ring_rec(b, &r.h, PTB_REC_MEM_API, sizeof(r), 2200);
	builder__exit(b, a, 2300, 0x6700);
	r.h.site = 2 * malloc_fn;
	r.flags = PTB_API_SAME;
	builder__ring_rec(b, &r.h, PTB_REC_MEM_API, sizeof(r), 2400);
	r.h.site = 9999;
	builder__ring_rec(b, &r.h, PTB_REC_MEM_API, sizeof(r), 2500);
	r.h.site = 2 * malloc_fn;
	r.begin_ns = 3000;
	builder__ring_rec(b, &r.h, PTB_REC_MEM_API, sizeof(r), 2600);
	s = builder__session(b, NULL);
	log = run(s);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 2);
	CU_ASSERT_EQUAL(log->v[0].ev.what, MEMORY_API);
	CU_ASSERT_STRING_EQUAL(log->v[0].ev.name, "cudaFree");
	CU_ASSERT_TRUE(log->v[0].ev.no_result);
	CU_ASSERT_FALSE(log->v[0].ev.maybe_failed);
	CU_ASSERT_STRING_EQUAL(log->v[0].ev.at.op, "aten::a");
	CU_ASSERT_STRING_EQUAL(log->v[1].ev.name, "cudaMalloc");
	CU_ASSERT_EQUAL(log->v[1].ev.begin_ns, 2100);
	CU_ASSERT_EQUAL(log->v[1].ev.addr, 0xd000);
	CU_ASSERT_EQUAL(log->v[1].ev.bytes, 512);
	CU_ASSERT_FALSE(log->v[1].ev.no_result);
	CU_ASSERT_TRUE(log->v[1].ev.maybe_failed);
	CU_ASSERT_EQUAL(log->totals.bad_records, 2);
	slices = slice_log__run(s);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::a")->flags, 0);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::a")->mem->device_all, 0);
	slice_log__free(slices);
	drop(log);
	builder__free(b);
}

/* ---- charging ---- */

static void nested(void)
{
	struct builder *b = recorded();
	uint32_t outer = builder__op(b, "aten::outer"), inner = builder__op(b, "aten::inner");
	const struct slice *o, *i;
	struct slice_log *log;

	builder__mem_alloc(b, 1500, 0x9800, 0x1000, 1000);
	builder__enter(b, outer, 2000, 0x9000);
	builder__mem_alloc(b, 2100, 0x8800, 0x2000, 10);
	builder__enter(b, inner, 2200, 0x8000);
	builder__mem_alloc(b, 2300, 0x7800, 0x3000, 200);
	report(b, PTB_REC_MEM_REPORT, 2350, 0xd000, 7, 1, 0);
	report(b, PTB_REC_MEM_REPORT, 2360, 0xd000, 9, 9, 0); /* in no column */
	builder__exit(b, inner, 2400, 0x7f00);
	builder__mem_free(b, 2500, 0x8800, 0x1000);
	builder__enter(b, inner, 2600, 0x8000);
	builder__mem_free(b, 2700, 0x7800, 0x3000);
	builder__exit(b, inner, 2800, 0x7f00);
	builder__exit(b, outer, 2900, 0x8f00);
	log = slice_log__run(builder__session(b, NULL));
	CU_ASSERT_TRUE(slice_log__valid(log));
	o = slice_log__get(log, "aten::outer");
	i = slice_log__get(log, "aten::inner");
	CU_ASSERT_EQUAL(i->mem->cpu_all, 200);
	CU_ASSERT_EQUAL(i->mem->cpu_own, 200);
	CU_ASSERT_EQUAL(i->mem->device_all, 7);
	CU_ASSERT_EQUAL(i->mem->device_own, 7);
	CU_ASSERT_EQUAL(i->mem->allocs, 3);
	CU_ASSERT_EQUAL(i->child_mem->cpu_all, 0);
	CU_ASSERT_EQUAL(o->mem->cpu_all, 10 - 1000);
	CU_ASSERT_EQUAL(o->child_mem->cpu_all, 0); /* 200 and -200 */
	CU_ASSERT_EQUAL(o->child_mem->allocs, 3);
	CU_ASSERT_EQUAL(o->child_mem->frees, 1);
	CU_ASSERT_EQUAL(o->mem->frees, 2);
	CU_ASSERT_EQUAL(o->mem->device_all, 7);
	slice_log__free(log);
	builder__free(b);
}

static void two_threads(void)
{
	struct builder *b = recorded();
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g"), h = builder__op(b, "aten::h");
	struct slice_log *log;

	builder__enter(b, f, 2000, 0x9000);
	builder__thread(b, P, P + 1);
	builder__mem_alloc(b, 2100, 0x9800, 0x1000, 100); /* outside of everything on its own thread */
	builder__enter(b, g, 2200, 0x9000);
	builder__mem_alloc(b, 2300, 0x8000, 0x2000, 20);
	builder__thread(b, P, P);
	builder__mem_alloc(b, 2400, 0x8000, 0x3000, 3);
	builder__exit(b, f, 2500, 0x8f00);
	builder__thread(b, P, P + 1);
	builder__mem_free(b, 2600, 0x8000, 0x3000);
	builder__exit(b, g, 2700, 0x8f00);
	builder__thread(b, P + 7, P + 7); /* another process has its own sums and blocks */
	builder__enter(b, h, 2750, 0x9000);
	builder__mem_free(b, 2800, 0x8000, 0x2000);
	builder__mem_alloc(b, 2810, 0x8000, 0x2000, 5);
	builder__exit(b, h, 2900, 0x8f00);
	log = slice_log__run(builder__session(b, NULL));
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::f")->mem->cpu_all, 123);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::f")->mem->cpu_own, 3);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::f")->mem->allocs, 1);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::g")->mem->cpu_all, 20);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::g")->mem->cpu_own, 17);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::h")->mem->cpu_all, 5);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::h")->mem->frees, 1);
	CU_ASSERT_EQUAL(log->totals.freed_unknown, 1);
	CU_ASSERT_EQUAL(log->totals.live_blocks, 3);
	slice_log__free(log);
	builder__free(b);
}

/* Known only by its exit: charged with all since the window began. */
static void open_at_begin(void)
{
	struct builder *b = recorded();
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	struct slice_log *log;

	builder__thread(b, P, P + 1);
	builder__mem_alloc(b, 1500, 0x8000, 0x1000, 100);
	builder__thread(b, P, P);
	builder__mem_alloc(b, 1600, 0x7000, 0x2000, 20);
	builder__enter(b, g, 2000, 0x8000);
	builder__mem_alloc(b, 2100, 0x7000, 0x3000, 3);
	builder__exit(b, g, 2200, 0x7f00);
	builder__exit(b, f, 2500, 0x8f00);
	log = slice_log__run(builder__session(b, NULL));
	CU_ASSERT_TRUE(slice_log__get(log, "aten::f")->flags & SLICE_OPEN_AT_BEGIN);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::f")->mem->cpu_all, 123);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::f")->mem->cpu_own, 23);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::f")->child_mem->cpu_own, 3);
	slice_log__free(log);
	builder__free(b);
}

/* Every step is charged with its own, the first from the window's begin; nothing is left between them. */
static void steps(void)
{
	struct session_opts opts = { .step_on = "mark" };
	struct builder *b = recorded();
	uint32_t f = builder__op(b, "aten::f");
	const struct slice *first, *second;
	struct slice_log *log;

	builder__thread(b, P, P + 1);
	builder__mem_alloc(b, 1500, 0x8000, 0x1000, 100);
	builder__thread(b, P, P);
	builder__annotate(b, 2000, 0x9000, 0x1, "mark");
	builder__mem_alloc(b, 2100, 0x8000, 0x2000, 20);
	builder__scope_end(b, 2200, 0x9000, 0x1);
	builder__mem_alloc(b, 2300, 0x9000, 0x3000, 3);
	builder__exit(b, f, 2400, 0x9900); /* was open at the window's begin, but no step is crossed */
	builder__annotate(b, 3000, 0x9000, 0x1, "mark");
	builder__scope_end(b, 3200, 0x9000, 0x1);
	log = slice_log__run(builder__session(b, &opts));
	first = slice_log__get(log, "ProfilerStep#0");
	second = slice_log__get(log, "ProfilerStep#1");
	CU_ASSERT_EQUAL(first->mem->cpu_all, 120);
	CU_ASSERT_EQUAL(first->mem->cpu_own, 20);
	CU_ASSERT_EQUAL(first->child_mem->cpu_all, 20);
	CU_ASSERT_EQUAL(second->mem->cpu_all, 3);
	CU_ASSERT_EQUAL(second->child_mem->cpu_all, 3);
	CU_ASSERT_TRUE(slice_log__get(log, "aten::f")->flags & SLICE_OPEN_AT_BEGIN);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::f")->mem->cpu_all, 3);
	slice_log__free(log);
	builder__free(b);
}

/* ---- the kernel's ---- */

static void kmem(struct builder *b, uint64_t ts, uint32_t minor, uint32_t major, int64_t rss_delta)
{
	struct ptb_kmem r = { .begin_ns = ts - 50, .minor = minor, .major = major, .rss_delta = rss_delta,
			      .fault_bytes = 4096ULL * minor, .reclaim_ns = 11, .compact_ns = 7 };

	builder__ring_rec(b, &r.h, PTB_REC_KMEM, sizeof(r), ts);
}

static void kernel_sums(void)
{
	struct builder *b = recorded();
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	const struct slice *sf, *sg;
	struct slice_log *log;
	struct mem_log *mem;
	struct session *s;

	kmem(b, 1990, 1000, 0, 1 << 20); /* before the operator */
	builder__enter(b, f, 2000, 0x9000);
	kmem(b, 2100, 5, 1, 5 * 4096);
	builder__enter(b, g, 2100, 0x8000);
	kmem(b, 2200, 3, 0, 3 * 4096);
	builder__exit(b, g, 2200, 0x7f00);
	builder__thread(b, P, P + 1);
	kmem(b, 2300, 50, 0, -4096); /* the process's resident memory, but not this thread's fault */
	builder__thread(b, P, P);
	builder__exit(b, f, 2400, 0x8f00);
	s = builder__session(b, NULL);
	log = slice_log__run(s);
	sf = slice_log__get(log, "aten::f");
	sg = slice_log__get(log, "aten::g");
	CU_ASSERT_EQUAL(sg->mem->faults, 3);
	CU_ASSERT_EQUAL(sg->mem->major_faults, 0);
	CU_ASSERT_EQUAL(sg->mem->fault_bytes, 3 * 4096);
	CU_ASSERT_EQUAL(sg->mem->reclaim_ns, 11);
	CU_ASSERT_EQUAL(sg->mem->compact_ns, 7);
	CU_ASSERT_EQUAL(sg->mem->rss_delta, 3 * 4096);
	CU_ASSERT_EQUAL(sf->mem->faults, 9);
	CU_ASSERT_EQUAL(sf->mem->major_faults, 1);
	CU_ASSERT_EQUAL(sf->mem->rss_delta, 7 * 4096);
	CU_ASSERT_EQUAL(sf->child_mem->faults, 3);
	mem = run(s);
	CU_ASSERT_EQUAL_FATAL(mem->cnt, 4);
	CU_ASSERT_STRING_EQUAL(mem->v[0].ev.at.op, SESSION_OP_UNSEEN);
	CU_ASSERT_STRING_EQUAL(mem->v[1].ev.at.op, "aten::f");
	CU_ASSERT_STRING_EQUAL(mem->v[2].ev.at.op, "aten::g");
	CU_ASSERT_EQUAL(mem->v[2].kmem, PTB_REC_KMEM);
	drop(mem);
	slice_log__free(log);
	builder__free(b);
}

static void kernel_events(void)
{
	struct builder *b = recorded();
	uint32_t f = builder__op(b, "aten::f");
	struct ptb_kmem_event ev = { .what = PTB_KMEM_OOM_KILL };
	struct ptb_kmem_call call = { .begin_ns = 2090 };
	struct ptb_kmem_stall stall = { .begin_ns = 2090 };
	struct mem_log *log;

	builder__enter(b, f, 2000, 0x9000);
	builder__ring_rec(b, &call.h, PTB_REC_KMEM_CALL, sizeof(call), 2100);
	builder__ring_rec(b, &stall.h, PTB_REC_KMEM_STALL, sizeof(stall), 2200);
	builder__ring_rec(b, &ev.h, PTB_REC_KMEM_EVENT, sizeof(ev), 2300);
	builder__thread(b, P, 0);
	builder__ring_rec(b, &ev.h, PTB_REC_KMEM_EVENT, sizeof(ev), 2400);
	builder__ring_rec(b, &call.h, PTB_REC_KMEM_CALL, sizeof(call), 2410);
	builder__mem_alloc(b, 2450, 0x8000, 0x1000, 1);
	builder__thread(b, 999, 999); /* not traced */
	builder__ring_rec(b, &ev.h, PTB_REC_KMEM_EVENT, sizeof(ev), 2500);
	builder__thread(b, P, P);
	builder__exit(b, f, 2600, 0x8f00);
	log = run(builder__session(b, NULL));
	CU_ASSERT_EQUAL_FATAL(log->cnt, 6);
	CU_ASSERT_EQUAL(log->v[0].kmem, PTB_REC_KMEM_CALL);
	CU_ASSERT_STRING_EQUAL(log->v[0].ev.at.op, "aten::f");
	CU_ASSERT_STRING_EQUAL(log->v[1].ev.at.op, "aten::f");
	CU_ASSERT_STRING_EQUAL(log->v[2].ev.at.op, "aten::f");
	CU_ASSERT_STRING_EQUAL(log->v[3].ev.at.op, "");
	CU_ASSERT_EQUAL(log->v[3].ev.at.tgid, P);
	CU_ASSERT_EQUAL(log->v[3].ev.at.tid, 0);
	CU_ASSERT_EQUAL(log->v[5].ev.at.tgid, 999);
	CU_ASSERT_EQUAL(log->v[5].ev.at.step, -1);
	CU_ASSERT_EQUAL(log->threads, 1);
	CU_ASSERT_EQUAL(log->bogus_threads, 0);
	CU_ASSERT_EQUAL(log->totals.bad_records, 1); /* an allocation of no thread */
	drop(log);
	builder__free(b);
}

static void rss_samples(void)
{
	struct builder *b = recorded();
	struct ptb_rss_sample r = { .h.kind = PTB_REC_RSS_SAMPLE, .h.len = sizeof(r), .h.tgid = P };
	const struct session_info *info;
	int i;

	for (i = 3; i--;) {
		r.h.ts_ns = 2000 + 1000 * (uint64_t)i;
		r.rss[PTB_RSS_ANON] = 100 + (uint64_t)i;
		r.vm_bytes = 7;
		r.minor = 8;
		r.major = 9;
		builder__raw(b, &r.h);
	}
	r.h.ts_ns = ~0ULL;
	builder__raw(b, &r.h);
	info = session__info(builder__session(b, NULL));
	CU_ASSERT_TRUE(info->has_memory);
	CU_ASSERT_TRUE(info->has_kernel_memory);
	CU_ASSERT_EQUAL_FATAL(info->rss_cnt, 3);
	for (i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(info->rss[i].ts_ns, 2000 + 1000 * (uint64_t)i);
		CU_ASSERT_EQUAL(info->rss[i].rss[PTB_RSS_ANON], 100 + (uint64_t)i);
		CU_ASSERT_EQUAL(info->rss[i].tgid, P);
	}
	CU_ASSERT_EQUAL(info->rss[0].vm_bytes, 7);
	CU_ASSERT_EQUAL(info->rss[0].minor, 8);
	CU_ASSERT_EQUAL(info->rss[0].major, 9);
	builder__free(b);
}

/* ---- live blocks ---- */

static void same_address(void)
{
	struct builder *b = recorded();
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *slices;
	struct mem_log *log;
	struct session *s;

	builder__mem_alloc(b, 1500, 0x9800, 0xa000, 100);
	builder__mem_free(b, 1600, 0x9800, 0xa000);
	builder__mem_alloc(b, 1700, 0x9800, 0xa000, 30);
	builder__enter(b, f, 2000, 0x9000);
	builder__mem_alloc(b, 2100, 0x8000, 0xa000, 7); /* its free is lost */
	builder__exit(b, f, 2200, 0x8f00);
	report(b, PTB_REC_MEM_REPORT, 2300, 0xd000, 512, 1, 0);
	report(b, PTB_REC_MEM_REPORT, 2400, 0xd000, 1024, 1, 0);
	s = builder__session(b, NULL);
	log = run(s);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 8);
	CU_ASSERT_EQUAL(log->v[3].ev.what, MEMORY_FREE);
	CU_ASSERT_TRUE(log->v[3].ev.inferred);
	CU_ASSERT_EQUAL(log->v[3].ev.bytes, -30);
	CU_ASSERT_EQUAL(log->v[3].ev.allocated, 0);
	CU_ASSERT_EQUAL(log->v[3].block.ts_ns, 1700);
	CU_ASSERT_EQUAL(log->v[3].ev.at.slice, 0);
	CU_ASSERT_STRING_EQUAL(log->v[3].ev.at.op, "");
	CU_ASSERT_EQUAL(log->v[4].ev.what, MEMORY_ALLOC);
	CU_ASSERT_FALSE(log->v[4].ev.inferred);
	CU_ASSERT_EQUAL(log->v[4].ev.allocated, 7);
	CU_ASSERT_EQUAL(log->v[6].ev.bytes, -512);
	CU_ASSERT_EQUAL(log->v[6].ev.allocated, 5000 - 1024);
	CU_ASSERT_EQUAL(log->v[6].ev.device_type, 1);
	CU_ASSERT_EQUAL(log->totals.frees_inferred, 2);
	CU_ASSERT_EQUAL(log->totals.live_blocks, 2);
	slices = slice_log__run(s);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::f")->mem->cpu_all, 7); /* nobody knows when it was freed */
	slice_log__free(slices);
	drop(log);
	builder__free(b);
}

static void live_blocks(void)
{
	struct builder *b = recorded();
	uint32_t f = builder__op(b, "aten::add.Tensor");
	struct value_words w = { .cnt = 0 };
	struct session_totals totals;
	struct session *s;
	struct live l;

	vw__tensor(&w, &(struct vw_tensor){ .dtype = 6, .ndim = 2, .sizes = { 2, 3 } });
	vw__int(&w, 1);
	builder__mem_alloc(b, 1500, 0x9800, 0xf000, 1);
	builder__mem_alloc(b, 1510, 0x9800, 0xe000, 2);
	builder__values(b, &w);
	builder__enter(b, f, 2000, 0x9000);
	builder__mem_free(b, 2100, 0x8000, 0xf000);
	builder__mem_alloc(b, 2200, 0x8000, 0xd000, 3); /* takes the freed one's place in the table */
	builder__exit(b, f, 2300, 0x8f00);
	builder__mem_alloc(b, 2400, 0x9800, 0xc000, 4);
	s = builder__session(b, NULL);
	CU_ASSERT_EQUAL(live_of(s).cnt, 0); /* before a run */
	CU_ASSERT_EQUAL(session__run(s, NULL, 0, &totals), 0);
	CU_ASSERT_EQUAL(session__run(s, NULL, 0, &totals), 0);
	CU_ASSERT_EQUAL(totals.live_blocks, 3);
	l = live_of(s);
	CU_ASSERT_EQUAL_FATAL(l.cnt, 3);
	CU_ASSERT_EQUAL(l.v[0].addr, 0xe000);
	CU_ASSERT_EQUAL(l.v[1].addr, 0xd000);
	CU_ASSERT_EQUAL(l.v[2].addr, 0xc000);
	CU_ASSERT_STRING_EQUAL(l.v[0].shapes, "");
	CU_ASSERT_STRING_EQUAL(l.v[1].shapes, "[[2, 3], []]");
	CU_ASSERT_STRING_EQUAL(l.v[1].op, "aten::add");
	CU_ASSERT_STRING_EQUAL(l.v[2].op, "");
	builder__free(b);
}

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

/* A child has its parent's blocks, but nobody saw it allocate them; what a process leaves behind when it
 * ends was never freed; a program that is executed leaves nothing. */
static void processes(void)
{
	struct builder *b = recorded();
	struct session *s;
	struct mem_log *log;
	struct live l;

	builder__mem_alloc(b, 2000, 0x8000, 0xa000, 100);
	builder__task(b, PTB_REC_FORK, 2100, 20, 20, false, "worker");
	builder__thread(b, 20, 20);
	builder__mem_free(b, 2200, 0x8000, 0xa000);
	builder__mem_alloc(b, 2300, 0x8000, 0xb000, 8);
	builder__task(b, PTB_REC_EXIT, 2400, 0, 0, true, "worker");
	builder__thread(b, P, P);
	builder__task(b, PTB_REC_FORK, 2500, 20, 20, false, "worker"); /* the number again */
	builder__thread(b, 20, 20);
	builder__mem_free(b, 2600, 0x8000, 0xb000);
	builder__mem_alloc(b, 2700, 0x8000, 0xb000, 16);
	builder__mem_alloc(b, 2750, 0x8000, 0xc000, 32);
	builder__task(b, PTB_REC_EXEC, 2800, 0, 0, false, "python");
	builder__mem_alloc(b, 2900, 0x8000, 0xc000, 64);
	s = builder__session(b, NULL);
	log = run(s);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 7);
	CU_ASSERT_EQUAL(log->v[1].ev.what, MEMORY_FREE_UNKNOWN);
	CU_ASSERT_EQUAL(log->v[1].ev.at.tgid, 20);
	CU_ASSERT_EQUAL(log->v[2].ev.allocated, 8);
	CU_ASSERT_EQUAL(log->v[3].ev.what, MEMORY_FREE_UNKNOWN);
	CU_ASSERT_EQUAL(log->v[4].ev.allocated, 16);
	CU_ASSERT_EQUAL(log->v[6].ev.what, MEMORY_ALLOC);
	CU_ASSERT_EQUAL(log->v[6].ev.allocated, 64);
	CU_ASSERT_EQUAL(log->totals.frees_inferred, 0);
	l = live_of(s);
	CU_ASSERT_EQUAL_FATAL(l.cnt, 3);
	CU_ASSERT_EQUAL(l.v[0].bytes, 100);
	CU_ASSERT_EQUAL(l.v[1].bytes, 8);
	CU_ASSERT_EQUAL(l.v[2].bytes, 64);
	drop(log);
	builder__free(b);
}

static void damaged(void)
{
	struct builder *b = recorded();
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *slices;
	struct mem_log *log;
	struct session *s;

	builder__enter(b, f, 2000, 0x9000);
	builder__mem_alloc(b, 2100, 0x8000, 0xa000, ~0ULL);
	report(b, PTB_REC_MEM_REPORT, 2200, 0xb000, INT64_MIN, 1, 0);
	report(b, PTB_REC_MEM_REPORT, 2300, 0xb000, INT64_MAX, 1, 0); /* sums wrap around */
	report(b, PTB_REC_MEM_REPORT, 2400, 0xc000, INT64_MAX, 1, 0);
	kmem(b, 2500, ~0U, ~0U, INT64_MIN);
	kmem(b, 2600, ~0U, ~0U, INT64_MIN);
	builder__exit(b, f, 3000, 0x8f00);
	s = builder__session(b, NULL);
	log = run(s);
	CU_ASSERT_EQUAL(log->cnt, 4);
	CU_ASSERT_EQUAL(log->totals.bad_records, 2);
	slices = slice_log__run(s);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::f")->mem->device_all, -2);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::f")->mem->rss_delta, 0);
	slice_log__free(slices);
	drop(log);
	builder__free(b);
}

static const CU_TestInfo tests[] = {
	{ "events have places", events_have_places },
	{ "annotations and steps", annotations_and_steps },
	{ "the program's own steps", own_steps },
	{ "frames that are gone", gone_frames },
	{ "not recorded", not_recorded },
	{ "blocks of a device", device_blocks },
	{ "told twice", told_twice },
	{ "reports of the CPU's that are their own", cpu_reports },
	{ "out of memory", out_of_memory },
	{ "CUDA calls", api_calls },
	{ "nested slices", nested },
	{ "two threads, two processes", two_threads },
	{ "open at the window's begin", open_at_begin },
	{ "steps", steps },
	{ "sums of the kernel's records", kernel_sums },
	{ "events of the kernel", kernel_events },
	{ "samples of resident memory", rss_samples },
	{ "an address given out twice", same_address },
	{ "live blocks", live_blocks },
	{ "sinks can stop", sinks_can_stop },
	{ "fork, exit, exec", processes },
	{ "damaged records", damaged },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("memory", tests);
}
