/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What slices and rows of the table are charged with: allocations, and what the kernel did. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mem_log.h"
#include "model/key_averages.h"
#include "slice_log.h"
#include "suite.h"
#include "value_words.h"

/* ---- charging ---- */

static void nested(void)
{
	struct builder *b = mem_log__recorded();
	uint32_t outer = builder__op(b, "aten::outer"), inner = builder__op(b, "aten::inner");
	const struct slice *o, *i;
	struct slice_log *log;

	builder__mem_alloc(b, 1500, 0x9800, 0x1000, 1000);
	builder__enter(b, outer, 2000, 0x9000);
	builder__mem_alloc(b, 2100, 0x8800, 0x2000, 10);
	builder__enter(b, inner, 2200, 0x8000);
	builder__mem_alloc(b, 2300, 0x7800, 0x3000, 200);
	mem_log__report(b, PTB_REC_MEM_REPORT, 2350, 0xd000, 7, 1, 0);
	mem_log__report(b, PTB_REC_MEM_REPORT, 2360, 0xd000, 9, 9, 0); /* in no column */
	builder__exit(b, inner, 2400, 0x7f00);
	builder__mem_free(b, 2500, 0x8800, 0x1000);
	builder__enter(b, inner, 2600, 0x8000);
	builder__mem_free(b, 2700, 0x7800, 0x3000);
	builder__exit(b, inner, 2800, 0x7f00);
	builder__exit(b, outer, 2900, 0x8f00);
	log = slice_log__of(b, NULL);
	o = slice_log__get(log, "aten::outer");
	i = slice_log__get(log, "aten::inner");
	CU_ASSERT_EQUAL(i->mem->cpu_all, 200);
	CU_ASSERT_EQUAL(i->mem->cpu_own, 200);
	CU_ASSERT_EQUAL(i->mem->device_all, 7);
	CU_ASSERT_EQUAL(i->mem->device_own, 7);
	CU_ASSERT_EQUAL(i->mem->allocs, 3);
	CU_ASSERT_EQUAL(o->mem->cpu_all, 10 - 1000);
	CU_ASSERT_EQUAL(o->mem->frees, 2);
	CU_ASSERT_EQUAL(o->mem->device_all, 7);
	slice_log__done(log, b);
}

static void two_threads(void)
{
	struct builder *b = mem_log__recorded();
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g"),
		 h = builder__op(b, "aten::h");
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
	slice_log__done(log, b);
}

/* Known only by its exit: charged with all since the window began. */
static void open_at_begin(void)
{
	struct builder *b = mem_log__recorded();
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
	slice_log__done(log, b);
}

/* Every step is charged with its own, the first from the window's begin; nothing is left between them. */
static void steps(void)
{
	struct session_opts opts = { .step_on = "mark" };
	struct builder *b = mem_log__recorded();
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
	first = slice_log__get(log, "partial step");
	second = slice_log__get(log, "ProfilerStep#0");
	CU_ASSERT_EQUAL(first->mem->cpu_all, 120);
	CU_ASSERT_EQUAL(first->mem->cpu_own, 20);
	CU_ASSERT_EQUAL(second->mem->cpu_all, 3);
	CU_ASSERT_TRUE(slice_log__get(log, "aten::f")->flags & SLICE_OPEN_AT_BEGIN);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::f")->mem->cpu_all, 3);
	slice_log__done(log, b);
}

/* ---- the kernel's ---- */

static void kernel_sums(void)
{
	struct builder *b = mem_log__recorded();
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	const struct slice *sf, *sg;
	struct slice_log *log;
	struct mem_log *mem;
	struct session *s;

	mem_log__kmem(b, 1990, 1000, 0, 1 << 20); /* before the operator */
	builder__enter(b, f, 2000, 0x9000);
	mem_log__kmem(b, 2100, 5, 1, 5 * 4096);
	builder__enter(b, g, 2100, 0x8000);
	mem_log__kmem(b, 2200, 3, 0, 3 * 4096);
	builder__exit(b, g, 2200, 0x7f00);
	builder__thread(b, P, P + 1);
	mem_log__kmem(b, 2300, 50, 0, -4096); /* the process's resident memory, but not this thread's fault */
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
	mem = mem_log__run(s);
	CU_ASSERT_EQUAL_FATAL(mem->cnt, 4);
	CU_ASSERT_STRING_EQUAL(mem->v[0].ev.at.op, SESSION_OP_UNSEEN);
	CU_ASSERT_STRING_EQUAL(mem->v[1].ev.at.op, "aten::f");
	CU_ASSERT_STRING_EQUAL(mem->v[2].ev.at.op, "aten::g");
	CU_ASSERT_EQUAL(mem->v[2].kmem, PTB_REC_KMEM);
	mem_log__free(mem);
	slice_log__done(log, b);
}

static void kernel_events(void)
{
	struct builder *b = mem_log__recorded();
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
	log = mem_log__run(builder__session(b, NULL));
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
	mem_log__free(log);
	builder__free(b);
}

static void rss_samples(void)
{
	struct builder *b = mem_log__recorded();
	struct ptb_rss_sample r = { .h.kind = PTB_REC_RSS_SAMPLE, .h.len = sizeof(r), .h.tgid = P };
	const struct session_info *info;

	for (int i = 3; i--;) {
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
	for (int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(info->rss[i].ts_ns, 2000 + 1000 * (uint64_t)i);
		CU_ASSERT_EQUAL(info->rss[i].rss[PTB_RSS_ANON], 100 + (uint64_t)i);
		CU_ASSERT_EQUAL(info->rss[i].tgid, P);
	}
	CU_ASSERT_EQUAL(info->rss[0].vm_bytes, 7);
	CU_ASSERT_EQUAL(info->rss[0].minor, 8);
	CU_ASSERT_EQUAL(info->rss[0].major, 9);
	builder__free(b);
}

static const CU_TestInfo tests[] = {
	{ "nested slices", nested },
	{ "two threads, two processes", two_threads },
	{ "open at the window's begin", open_at_begin },
	{ "steps", steps },
	{ "sums of the kernel's records", kernel_sums },
	{ "events of the kernel", kernel_events },
	{ "samples of resident memory", rss_samples },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("memory_sums", tests);
}
