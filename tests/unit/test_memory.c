/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory in the session model: events with their operators, and live blocks. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mem_log.h"
#include "slice_log.h"
#include "suite.h"
#include "value_words.h"

/* ---- events ---- */

static void events_have_operators(void)
{
	struct builder *b = mem_log__recorded();
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
	log = mem_log__run(s);
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
	CU_ASSERT_EQUAL(mem_log__live(s).v[0].addr, 0xb000);
	mem_log__free(log);
	builder__free(b);
}

/* The innermost annotation is the event's, not the step; operators around it are not inside. */
static void annotations_and_steps(void)
{
	struct session_opts opts = { .step_on = "mark" };
	struct builder *b = mem_log__recorded();
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
	builder__thread(b, P, P);
	builder__annotate(b, 3500, 0x9000, 0x2, "mark");
	builder__scope_end(b, 3600, 0x9000, 0x2);
	builder__mem_alloc(b, 3700, 0x9000, 0xe000, 1);
	log = mem_log__run(builder__session(b, &opts));
	CU_ASSERT_EQUAL_FATAL(log->cnt, 6);
	CU_ASSERT_EQUAL(log->v[0].ev.at.step, -1);
	CU_ASSERT_STRING_EQUAL(log->v[1].ev.at.annotation, "inner");
	CU_ASSERT_STRING_EQUAL(log->v[1].ev.at.op, "aten::a");
	CU_ASSERT_STRING_EQUAL(log->v[1].ev.at.outer_op, "aten::a");
	CU_ASSERT_NOT_EQUAL(log->v[1].ev.at.slice, log->v[1].ev.at.op_slice);
	CU_ASSERT_EQUAL(log->v[1].block.step, -1); /* a part of a step has no number */
	CU_ASSERT_STRING_EQUAL(log->v[2].ev.at.op, "");
	CU_ASSERT_EQUAL(log->v[2].ev.at.step, 0);
	CU_ASSERT_STRING_EQUAL(log->v[2].ev.at.annotation, "");
	CU_ASSERT_TRUE(log->v[2].ev.at.enclosed);
	CU_ASSERT_EQUAL(log->v[3].ev.at.step, 0); /* another thread of the process */
	CU_ASSERT_TRUE(log->v[3].ev.at.enclosed);
	CU_ASSERT_EQUAL(log->v[3].ev.at.slice, 0);
	CU_ASSERT_EQUAL(log->v[4].ev.at.step, -1); /* another process */
	CU_ASSERT_FALSE(log->v[4].ev.at.enclosed);
	CU_ASSERT_EQUAL(log->v[5].ev.at.step, -1);
	mem_log__free(log);
	builder__free(b);
}

/* Steps that the program announces itself are steps too. */
static void own_steps(void)
{
	struct builder *b = mem_log__recorded();
	struct mem_log *log;

	builder__annotate(b, 2000, 0x9000, 0x1, "ProfilerStep#17");
	builder__mem_alloc(b, 2100, 0x8000, 0xa000, 1);
	builder__scope_end(b, 2200, 0x9000, 0x1);
	builder__mem_free(b, 2300, 0x8000, 0xa000);
	log = mem_log__run(builder__session(b, NULL));
	CU_ASSERT_EQUAL_FATAL(log->cnt, 2);
	CU_ASSERT_EQUAL(log->v[0].ev.at.step, 17);
	CU_ASSERT_STRING_EQUAL(log->v[0].ev.at.annotation, "");
	CU_ASSERT_EQUAL(log->v[1].ev.at.step, -1);
	CU_ASSERT_EQUAL(log->v[1].block.step, 17);
	mem_log__free(log);
	builder__free(b);
}

/* A record proves which frames are gone, as any other. */
static void gone_frames(void)
{
	struct builder *b = mem_log__recorded();
	uint32_t a = builder__op(b, "aten::a"), inner = builder__op(b, "aten::b");
	struct slice_log *slices;
	struct mem_log *log;
	struct session *s;

	builder__enter(b, a, 2000, 0x9000);
	builder__enter(b, inner, 2100, 0x8000);
	builder__mem_alloc(b, 2200, 0x8800, 0xa000, 8);
	builder__exit(b, a, 2300, 0x8f00);
	s = builder__session(b, NULL);
	log = mem_log__run(s);
	CU_ASSERT_STRING_EQUAL(log->v[0].ev.at.op, "aten::a");
	slices = slice_log__run(s);
	CU_ASSERT_TRUE(slice_log__valid(slices));
	CU_ASSERT_TRUE(slice_log__get(slices, "aten::b")->flags & SLICE_UNWOUND);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::b")->mem->cpu_own, 0);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::a")->mem->cpu_own, 8);
	slice_log__free(slices);
	mem_log__free(log);
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
	log = mem_log__run(s);
	CU_ASSERT_EQUAL(log->cnt, 0);
	CU_ASSERT_EQUAL(mem_log__live(s).cnt, 0);
	slices = slice_log__run(s);
	CU_ASSERT_PTR_NULL(slice_log__get(slices, "aten::a")->mem);
	slice_log__free(slices);
	mem_log__free(log);
	builder__free(b);
}

/* ---- reports ---- */

static void device_blocks(void)
{
	struct builder *b = mem_log__recorded();
	struct session *s;
	struct mem_log *log;

	mem_log__report(b, PTB_REC_MEM_REPORT, 2000, 0xa000, 512, 1, 0);
	mem_log__report(b, PTB_REC_MEM_REPORT, 2100, 0xa000, 1024, 1, 1); /* the same address of another device */
	mem_log__report(b, PTB_REC_MEM_REPORT, 2200, 0xa000, -512, 1, 0);
	mem_log__report(b, PTB_REC_MEM_REPORT, 2300, 0xf000, -64, 1, 0); /* from before the window */
	mem_log__report(b, PTB_REC_MEM_REPORT, 2400, 0xe000, 0, 1, 0);
	s = builder__session(b, NULL);
	log = mem_log__run(s);
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
	CU_ASSERT_EQUAL(mem_log__live(s).v[0].bytes, 1024);
	mem_log__free(log);
	builder__free(b);
}

/* torch's own profiler is active in the target: its reporter passes every call on. */
static void reported_twice(void)
{
	struct builder *b = mem_log__recorded();
	struct mem_log *log;

	builder__mem_alloc(b, 2000, 0x8000, 0xa000, 64);
	mem_log__report(b, PTB_REC_MEM_REPORT, 2001, 0xa000, 64, 0, -1);
	builder__mem_free(b, 2100, 0x8000, 0xa000);
	mem_log__report(b, PTB_REC_MEM_REPORT, 2101, 0xa000, -64, 0, -1);
	builder__mem_free(b, 2200, 0x8000, 0xb000); /* older than the window, but not than torch's profiler */
	mem_log__report(b, PTB_REC_MEM_REPORT, 2201, 0xb000, -32, 0, -1);
	mem_log__report(b, PTB_REC_MEM_OOM, 2300, 0, 1LL << 40, 0, -1);
	mem_log__report(b, PTB_REC_MEM_OOM, 2301, 0, 1LL << 40, 0, -1);
	log = mem_log__run(builder__session(b, NULL));
	CU_ASSERT_EQUAL_FATAL(log->cnt, 4);
	CU_ASSERT_EQUAL(log->v[0].ev.what, MEMORY_ALLOC);
	CU_ASSERT_EQUAL(log->v[0].ev.allocated, 64);
	CU_ASSERT_EQUAL(log->v[1].ev.what, MEMORY_FREE);
	CU_ASSERT_EQUAL(log->v[2].ev.what, MEMORY_FREE_UNKNOWN);
	CU_ASSERT_EQUAL(log->v[3].ev.what, MEMORY_OOM);
	CU_ASSERT_EQUAL(log->totals.live_blocks, 0);
	mem_log__free(log);
	builder__free(b);
}

/* Memory that no allocator reports: shared memory and mapped files. */
static void cpu_reports(void)
{
	struct builder *b = mem_log__recorded();
	uint32_t a = builder__op(b, "aten::a");
	struct slice_log *slices;
	struct mem_log *log;
	struct session *s;

	builder__enter(b, a, 1500, 0x9000);
	builder__mem_alloc(b, 2000, 0x8000, 0xa000, 64);
	builder__thread(b, P, P + 1);
	mem_log__report(b, PTB_REC_MEM_REPORT, 2001, 0xb000, 64, 0, -1); /* another address */
	mem_log__report(b, PTB_REC_MEM_REPORT, 2002, 0xb000, -64, 0, -1);
	builder__thread(b, P, P);
	builder__mem_free(b, 2100, 0x8000, 0xa000);
	mem_log__report(b, PTB_REC_MEM_REPORT, 2101, 0xc000, 64, 0, -1);
	mem_log__report(b, PTB_REC_MEM_REPORT, 2102, 0xc000, -64, 0, -1);
	mem_log__report(b, PTB_REC_MEM_REPORT, 2103, 0xc000, -64, 0, -1);
	builder__exit(b, a, 2500, 0x8f00);
	s = builder__session(b, NULL);
	log = mem_log__run(s);
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
	mem_log__free(log);
	builder__free(b);
}

static void out_of_memory(void)
{
	struct builder *b = mem_log__recorded();
	uint32_t a = builder__op(b, "aten::empty");
	struct mem_log *log;

	builder__mem_alloc(b, 1500, 0x9800, 0xa000, 64);
	builder__enter(b, a, 2000, 0x9000);
	mem_log__report(b, PTB_REC_MEM_OOM, 2100, 0, 1LL << 50, 0, -1);
	mem_log__report(b, PTB_REC_MEM_OOM, 2200, 0, 1LL << 40, 1, 2);
	mem_log__report(b, PTB_REC_MEM_OOM, 2300, 0, 1LL << 40, 1, 2);
	builder__exit(b, a, 2500, 0x8f00);
	log = mem_log__run(builder__session(b, NULL));
	CU_ASSERT_EQUAL_FATAL(log->cnt, 4);
	CU_ASSERT_EQUAL(log->v[1].ev.what, MEMORY_OOM);
	CU_ASSERT_EQUAL(log->v[1].ev.bytes, 1LL << 50);
	CU_ASSERT_EQUAL(log->v[1].ev.allocated, 64);
	CU_ASSERT_STRING_EQUAL(log->v[1].ev.at.op, "aten::empty");
	CU_ASSERT_EQUAL(log->v[2].ev.allocated, 5000);
	CU_ASSERT_EQUAL(log->v[2].ev.reserved, 6000);
	CU_ASSERT_EQUAL(log->v[2].ev.device_index, 2);
	CU_ASSERT_EQUAL(log->v[3].ev.what, MEMORY_OOM); /* the CUDA allocator reports each failure once */
	mem_log__free(log);
	builder__free(b);
}

static void api_calls(void)
{
	struct builder *b = mem_log__recorded();
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
	log = mem_log__run(s);
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
	mem_log__free(log);
	builder__free(b);
}

/* ---- live blocks ---- */

static void same_address(void)
{
	struct builder *b = mem_log__recorded();
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
	mem_log__report(b, PTB_REC_MEM_REPORT, 2300, 0xd000, 512, 1, 0);
	mem_log__report(b, PTB_REC_MEM_REPORT, 2400, 0xd000, 1024, 1, 0);
	s = builder__session(b, NULL);
	log = mem_log__run(s);
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
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::f")->mem->cpu_all, 7); /* the time of its free is unknown */
	slice_log__free(slices);
	mem_log__free(log);
	builder__free(b);
}

static void live_blocks(void)
{
	struct builder *b = mem_log__recorded();
	uint32_t f = builder__op(b, "aten::add.Tensor");
	struct value_words w = { .cnt = 0 };
	struct session_totals totals;
	struct session *s;
	struct live_log l;

	vw__tensor(&w, &(struct vw_tensor){ .dtype = 6, .ndim = 2, .sizes = { 2, 3 } });
	vw__int(&w, 1);
	builder__mem_alloc(b, 1500, 0x9800, 0xf000, 1);
	builder__mem_alloc(b, 1510, 0x9800, 0xe000, 2);
	builder__values(b, &w);
	builder__enter(b, f, 2000, 0x9000);
	builder__mem_free(b, 2100, 0x8000, 0xf000);
	builder__mem_alloc(b, 2200, 0x8000, 0xd000, 3); /* reuses the freed one's slot in the table */
	builder__exit(b, f, 2300, 0x8f00);
	builder__mem_alloc(b, 2400, 0x9800, 0xc000, 4);
	s = builder__session(b, NULL);
	CU_ASSERT_EQUAL(mem_log__live(s).cnt, 0); /* before a run */
	CU_ASSERT_EQUAL(session__run(s, NULL, 0, &totals), 0);
	CU_ASSERT_EQUAL(session__run(s, NULL, 0, &totals), 0);
	CU_ASSERT_EQUAL(totals.live_blocks, 3);
	l = mem_log__live(s);
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
	struct builder *b = mem_log__recorded();
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

	b = mem_log__recorded();
	f = builder__op(b, "aten::f");
	builder__enter(b, f, 2000, 0x9000);
	builder__mem_alloc(b, 2100, 0x8000, 0xa000, 1);
	builder__mem_free(b, 2200, 0x8000, 0xa000);
	builder__exit(b, f, 2300, 0x8f00);
	CU_ASSERT_EQUAL(session__run(builder__session(b, NULL), &sink, 1, &totals), 42);
	builder__free(b);
}

/* A child has its parent's blocks, but did not allocate them in the window; what a process leaves behind when it
 * ends was never freed; a program that is executed leaves nothing. */
static void processes(void)
{
	struct builder *b = mem_log__recorded();
	struct session *s;
	struct mem_log *log;
	struct live_log l;

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
	log = mem_log__run(s);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 7);
	CU_ASSERT_EQUAL(log->v[1].ev.what, MEMORY_FREE_UNKNOWN);
	CU_ASSERT_EQUAL(log->v[1].ev.at.tgid, 20);
	CU_ASSERT_EQUAL(log->v[2].ev.allocated, 8);
	CU_ASSERT_EQUAL(log->v[3].ev.what, MEMORY_FREE_UNKNOWN);
	CU_ASSERT_EQUAL(log->v[4].ev.allocated, 16);
	CU_ASSERT_EQUAL(log->v[6].ev.what, MEMORY_ALLOC);
	CU_ASSERT_EQUAL(log->v[6].ev.allocated, 64);
	CU_ASSERT_EQUAL(log->totals.frees_inferred, 0);
	l = mem_log__live(s);
	CU_ASSERT_EQUAL_FATAL(l.cnt, 3);
	CU_ASSERT_EQUAL(l.v[0].bytes, 100);
	CU_ASSERT_EQUAL(l.v[1].bytes, 8);
	CU_ASSERT_EQUAL(l.v[2].bytes, 64);
	mem_log__free(log);
	builder__free(b);
}

static void damaged(void)
{
	struct builder *b = mem_log__recorded();
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *slices;
	struct mem_log *log;
	struct session *s;

	builder__enter(b, f, 2000, 0x9000);
	builder__mem_alloc(b, 2100, 0x8000, 0xa000, ~0ULL);
	mem_log__report(b, PTB_REC_MEM_REPORT, 2200, 0xb000, INT64_MIN, 1, 0);
	mem_log__report(b, PTB_REC_MEM_REPORT, 2300, 0xb000, INT64_MAX, 1, 0); /* sums wrap around */
	mem_log__report(b, PTB_REC_MEM_REPORT, 2400, 0xc000, INT64_MAX, 1, 0);
	mem_log__kmem(b, 2500, ~0U, ~0U, INT64_MIN);
	mem_log__kmem(b, 2600, ~0U, ~0U, INT64_MIN);
	builder__exit(b, f, 3000, 0x8f00);
	s = builder__session(b, NULL);
	log = mem_log__run(s);
	CU_ASSERT_EQUAL(log->cnt, 4);
	CU_ASSERT_EQUAL(log->totals.bad_records, 2);
	slices = slice_log__run(s);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::f")->mem->device_all, -2);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::f")->mem->rss_delta, 0);
	slice_log__free(slices);
	mem_log__free(log);
	builder__free(b);
}

static const CU_TestInfo tests[] = {
	{ "events have operators", events_have_operators },
	{ "annotations and steps", annotations_and_steps },
	{ "the program's own steps", own_steps },
	{ "frames that are gone", gone_frames },
	{ "not recorded", not_recorded },
	{ "blocks of a device", device_blocks },
	{ "reported twice", reported_twice },
	{ "reports of the CPU's that are their own", cpu_reports },
	{ "out of memory", out_of_memory },
	{ "CUDA calls", api_calls },
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
