/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* GPU records on the host's clock, linked to launches, operators, annotations and steps. */
#include <stdlib.h>
#include <string.h>

#include "capture_builder.h"
#include "gpu_log.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 9000000
#define OFF 5000000000ULL /* CUPTI's time is ahead by so much */

static struct builder *new_builder(void)
{
	struct builder *b = builder__new(BEGIN, END);

	builder__meta(b, "gpu", "true");
	builder__thread(b, 10, 10);
	return b;
}

static void pair(struct builder *b, uint64_t gpu, uint64_t mono, uint64_t err)
{
	struct ptb_gpu_clock r = { .gpu_ns = gpu, .mono_ns = mono, .err_ns = err };

	builder__ring_rec(b, &r.h, PTB_REC_GPU_CLOCK, sizeof(r), mono);
}

static void pairs(struct builder *b)
{
	pair(b, OFF + 1000000, 1000000, 20);
	pair(b, OFF + 5000000, 5000000, 30);
	pair(b, OFF + 9000000, 9000000, 20);
}

static void api(struct builder *b, uint32_t name, uint64_t begin, uint64_t end,
		uint32_t correlation, bool driver)
{
	struct ptb_gpu_api r = { .begin = OFF + begin,
				 .end = OFF + end,
				 .name = name,
				 .correlation = correlation,
				 .driver = driver };

	builder__ring_rec(b, &r.h, PTB_REC_GPU_API, sizeof(r), END); /* they arrive late */
}

static struct ptb_gpu_kernel kernel_at(uint32_t name, uint64_t begin, uint64_t end, uint32_t correlation)
{
	return (struct ptb_gpu_kernel){ .begin = OFF + begin,
					.end = OFF + end,
					.name = name,
					.correlation = correlation,
					.stream = 7,
					.context = 1 };
}

static void put_kernel(struct builder *b, struct ptb_gpu_kernel k)
{
	builder__ring_rec(b, &k.h, PTB_REC_GPU_KERNEL, sizeof(k), END);
}

static void kernel(struct builder *b, uint32_t name, uint64_t begin, uint64_t end, uint32_t correlation)
{
	put_kernel(b, kernel_at(name, begin, end, correlation));
}

static void done(struct gpu_log *log, struct builder *b)
{
	gpu_log__free(log);
	builder__free(b);
}

static const struct gpu_slice *nth(const struct gpu_log *log, enum gpu_what what, uint32_t n)
{
	const struct gpu_slice *g = gpu_log__nth(log, what, n);

	CU_ASSERT_PTR_NOT_NULL_FATAL(g);
	return g;
}

/* An operator in an operator in an annotation launches a kernel; the driver's call in the launch is its own. */
static struct builder *one_launch(void)
{
	struct builder *b = new_builder();
	uint32_t outer = builder__op(b, "aten::linear"), inner = builder__op(b, "aten::addmm");
	uint32_t l = builder__name(b, "cudaLaunchKernel_v7000"), d = builder__name(b, "cuLaunchKernel");
	uint32_t k = builder__name(b, "_ZN2at6native4gemmEPf");

	pairs(b);
	kernel(b, k, 2005000, 2006000, 5);
	api(b, d, 2000320, 2000380, 5, true);
	api(b, l, 2000300, 2000400, 5, false);
	builder__annotate(b, 2000000, 0xa000, 0x1, "train");
	builder__enter(b, outer, 2000100, 0x9000);
	builder__enter(b, inner, 2000200, 0x8000);
	builder__exit(b, inner, 2000500, 0x7f00);
	builder__exit(b, outer, 2000600, 0x8f00);
	builder__scope_end(b, 2000700, 0xa000, 0x1);
	return b;
}

static void launch(void)
{
	struct builder *b = one_launch();
	struct gpu_log *log = gpu_log__run(builder__session(b, NULL));
	struct slice_log *slices = slice_log__run(builder__session(b, NULL));
	const struct slice *sl, *train;
	const struct gpu_slice *g;

	CU_ASSERT_EQUAL_FATAL(log->cnt, 3);
	sl = slice_log__get(slices, "aten::addmm");
	train = slice_log__get(slices, "train");
	g = &log->v[0];
	CU_ASSERT_EQUAL(g->what, GPU_API);
	CU_ASSERT_STRING_EQUAL(g->name, "cudaLaunchKernel");
	CU_ASSERT_EQUAL(g->begin_ns, 2000300);
	CU_ASSERT_EQUAL(g->end_ns, 2000400);
	CU_ASSERT_EQUAL(g->at.slice, sl->id);
	CU_ASSERT_EQUAL(g->at.op_slice, sl->id);
	CU_ASSERT_EQUAL(g->at.tid, 10);
	CU_ASSERT_STRING_EQUAL(g->at.op, "aten::addmm");
	CU_ASSERT_STRING_EQUAL(g->at.outer_op, "aten::linear");
	CU_ASSERT_STRING_EQUAL(g->at.annotation, "train");
	g = &log->v[1];
	CU_ASSERT_EQUAL(g->what, GPU_ANNOTATION);
	CU_ASSERT_STRING_EQUAL(g->name, "train");
	CU_ASSERT_EQUAL(g->begin_ns, 2005000);
	CU_ASSERT_EQUAL(g->end_ns, 2006000);
	CU_ASSERT_EQUAL(g->at.slice, train->id);
	CU_ASSERT_EQUAL(g->stream, 7);
	g = &log->v[2];
	CU_ASSERT_EQUAL(g->what, GPU_KERNEL);
	CU_ASSERT_STRING_EQUAL(g->name, "at::native::gemm(float*)");
	CU_ASSERT_EQUAL(g->begin_ns, 2005000);
	CU_ASSERT_EQUAL(g->at.op_slice, sl->id);
	CU_ASSERT_EQUAL(g->launch_begin_ns, 2000300);
	CU_ASSERT_EQUAL(g->launch_end_ns, 2000400);
	CU_ASSERT_STRING_EQUAL(g->launch_name, "cudaLaunchKernel");
	CU_ASSERT_FALSE(g->before_launch);
	CU_ASSERT_EQUAL(log->totals.gpu_work, 1);
	CU_ASSERT_EQUAL(log->totals.gpu_unlinked, 0);
	CU_ASSERT_EQUAL(log->totals.gpu_calls, 1);
	CU_ASSERT_EQUAL(log->totals.bad_records, 0);
	slice_log__free(slices);
	done(log, b);
}

static void charges(void)
{
	struct builder *b = one_launch();
	struct slice_log *slices = slice_log__run(builder__session(b, NULL));
	const struct slice *sl = slice_log__get(slices, "aten::addmm");

	CU_ASSERT_TRUE(slice_log__valid(slices));
	CU_ASSERT_EQUAL(sl->device_ns, 1000);
	CU_ASSERT_EQUAL(sl->call_cnt, 1);
	CU_ASSERT_EQUAL(sl->call_ns, 100);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::linear")->device_ns, 0);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::linear")->call_cnt, 0);
	CU_ASSERT_EQUAL(slice_log__get(slices, "train")->device_ns, 0);
	slice_log__free(slices);
	builder__free(b);
}

/* What is launched under an annotation alone belongs to no operator; the innermost annotation gets it. */
static void annotations(void)
{
	struct builder *b = new_builder();
	uint32_t f = builder__op(b, "aten::f"), l = builder__name(b, "cudaLaunchKernel"),
		 k = builder__name(b, "k");
	struct slice_log *slices;
	struct gpu_log *log;

	pairs(b);
	builder__annotate(b, 2000000, 0xa000, 0x1, "outer");
	api(b, l, 2000010, 2000020, 1, false);
	kernel(b, k, 2001000, 2001100, 1);
	builder__enter(b, f, 2000100, 0x9000);
	builder__annotate(b, 2000200, 0x8000, 0x2, "inner");
	api(b, l, 2000210, 2000220, 2, false);
	kernel(b, k, 2001200, 2001300, 2);
	builder__scope_end(b, 2000300, 0x8000, 0x2);
	api(b, l, 2000310, 2000320, 3, false);
	kernel(b, k, 2001400, 2001500, 3);
	builder__exit(b, f, 2000400, 0x8f00);
	builder__scope_end(b, 2000500, 0xa000, 0x1);
	log = gpu_log__run(builder__session(b, NULL));
	slices = slice_log__run(builder__session(b, NULL));
	CU_ASSERT_EQUAL(gpu_log__count(log, GPU_ANNOTATION), 2);
	CU_ASSERT_STRING_EQUAL(nth(log, GPU_ANNOTATION, 0)->name, "outer");
	CU_ASSERT_EQUAL(nth(log, GPU_ANNOTATION, 0)->begin_ns, 2001000);
	CU_ASSERT_EQUAL(nth(log, GPU_ANNOTATION, 0)->end_ns, 2001500);
	CU_ASSERT_STRING_EQUAL(nth(log, GPU_ANNOTATION, 1)->name, "inner");
	CU_ASSERT_EQUAL(nth(log, GPU_ANNOTATION, 1)->end_ns, 2001300);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 0)->at.op_slice, 0);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 1)->at.op_slice, slice_log__get(slices, "aten::f")->id);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::f")->device_ns, 200);
	CU_ASSERT_EQUAL(slice_log__get(slices, "aten::f")->call_cnt, 1);
	CU_ASSERT_EQUAL(slice_log__get(slices, "inner")->device_ns, 0);
	CU_ASSERT_EQUAL(slice_log__get(slices, "inner")->call_cnt, 1);
	CU_ASSERT_EQUAL(slice_log__get(slices, "outer")->device_ns, 0);
	CU_ASSERT_EQUAL(slice_log__get(slices, "outer")->call_cnt, 0);
	slice_log__free(slices);
	done(log, b);
}

/* Steps: also for work of another thread, and as annotations of their own. */
static void steps(void)
{
	struct builder *b = new_builder();
	uint32_t f = builder__op(b, "aten::f"), l = builder__name(b, "cudaLaunchKernel"),
		 k = builder__name(b, "k");
	struct gpu_log *log;

	pairs(b);
	for (uint64_t ts = 2000000; ts < 5000000; ts += 1000000) {
		builder__thread(b, 10, 10);
		builder__ring(b, 0);
		builder__enter(b, f, ts + 100, 0x9000);
		api(b, l, ts + 200, ts + 300, (uint32_t)(ts / 1000000), false);
		kernel(b, k, ts + 1000, ts + 2000, (uint32_t)(ts / 1000000));
		builder__exit(b, f, ts + 400, 0x8f00);
		builder__annotate(b, ts + 5000, 0x9000, 0x77, "Optimizer.step#SGD.step");
		builder__scope_end(b, ts + 9000, 0x9000, 0x77);
		builder__thread(b, 10, 11);
		builder__ring(b, 1);
		builder__enter(b, f, ts + 2000, 0x9000);
		api(b, l, ts + 2100, ts + 2200, (uint32_t)(ts / 1000000) + 10, false);
		kernel(b, k, ts + 3000, ts + 4000, (uint32_t)(ts / 1000000) + 10);
		builder__exit(b, f, ts + 2500, 0x8f00);
	}
	log = gpu_log__run(builder__session(b, NULL));
	CU_ASSERT_EQUAL(gpu_log__count(log, GPU_KERNEL), 6);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 0)->at.step, -1); /* in a part of a step */
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 1)->at.step, -1);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 1)->at.tid, 11);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 2)->at.step, 0);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 3)->at.step, 0);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 4)->at.step, 1);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 5)->at.step, 1);
	CU_ASSERT_STRING_EQUAL(nth(log, GPU_KERNEL, 0)->at.annotation, "");
	CU_ASSERT_EQUAL(gpu_log__count(log, GPU_ANNOTATION), 3);
	CU_ASSERT_STRING_EQUAL(nth(log, GPU_ANNOTATION, 0)->name, "partial step");
	CU_ASSERT_STRING_EQUAL(nth(log, GPU_ANNOTATION, 1)->name, "ProfilerStep#0");
	done(log, b);
}

static void graphs_and_devices(void)
{
	struct builder *b = new_builder();
	uint32_t f = builder__op(b, "aten::f"), l = builder__name(b, "cudaGraphLaunch"),
		 k = builder__name(b, "k");
	struct ptb_gpu_device dev = { .id = 1, .name = k, .sm_cnt = 132 };
	struct ptb_gpu_memory copy = { .begin = OFF + 2003000,
				       .end = OFF + 2003500,
				       .bytes = 64,
				       .correlation = 9,
				       .device = 1,
				       .stream = 20,
				       .copy_kind = 1,
				       .src_kind = 2,
				       .dst_kind = 3 };
	struct ptb_gpu_kernel node;
	struct gpu_log *log;
	struct session *s;

	pairs(b);
	builder__ring_rec(b, &dev.h, PTB_REC_GPU_DEVICE, sizeof(dev), END);
	builder__enter(b, f, 2000000, 0x9000);
	for (uint32_t i = 5; i--;) { /* in no order */
		node = kernel_at(k, 2001000 + 100 * i, 2001050 + 100 * i, 9);
		node.graph = 3;
		node.graph_node = i + 1;
		node.flags = PTB_GPU_HAS_GRAPH;
		put_kernel(b, node);
	}
	builder__ring_rec(b, &copy.h, PTB_REC_GPU_MEMCPY, sizeof(copy), END);
	api(b, l, 2000100, 2000500, 9, false);
	builder__exit(b, f, 2000600, 0x8f00);
	s = builder__session(b, NULL);
	log = gpu_log__run(s);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 7);
	for (uint32_t i = 0; i < 5; i++) {
		CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, i)->begin_ns, 2001000 + 100 * i);
		CU_ASSERT_STRING_EQUAL(nth(log, GPU_KERNEL, i)->launch_name, "cudaGraphLaunch");
		CU_ASSERT_EQUAL(
			((const struct ptb_gpu_kernel *)(const void *)nth(log, GPU_KERNEL, i)->rec)->graph_node,
			i + 1);
		CU_ASSERT_PTR_NULL(nth(log, GPU_KERNEL, i)->props);
	}
	CU_ASSERT_EQUAL(nth(log, GPU_MEMCPY, 0)->device, 1);
	CU_ASSERT_EQUAL(nth(log, GPU_MEMCPY, 0)->stream, 20);
	CU_ASSERT_STRING_EQUAL(nth(log, GPU_MEMCPY, 0)->name, "Memcpy HtoD (Pinned -> Device)");
	CU_ASSERT_PTR_NOT_NULL_FATAL(nth(log, GPU_MEMCPY, 0)->props);
	CU_ASSERT_EQUAL(nth(log, GPU_MEMCPY, 0)->props->sm_cnt, 132);
	CU_ASSERT_EQUAL(session__info(s)->device_cnt, 1);
	CU_ASSERT_EQUAL(session__info(s)->devices[0]->id, 1);
	CU_ASSERT_EQUAL(session__info(s)->gpu_clock_cnt, 3);
	CU_ASSERT_EQUAL(session__info(s)->gpu_clock_err_ns, 30);
	CU_ASSERT_TRUE(session__info(s)->has_gpu);
	done(log, b);
}

/* The same numbers in two processes, whose clocks differ. */
static void processes(void)
{
	struct builder *b = new_builder();
	uint32_t f = builder__op(b, "aten::f"), l = builder__name(b, "cudaLaunchKernel"),
		 k = builder__name(b, "k");
	struct gpu_log *log;

	pairs(b);
	builder__enter(b, f, 2000000, 0x9000);
	api(b, l, 2000100, 2000200, 1, false);
	builder__exit(b, f, 2000300, 0x8f00);
	kernel(b, k, 2000500, 2000600, 1);
	builder__thread(b, 20, 20);
	pair(b, OFF + 1000000, 1001000, 10);
	pair(b, OFF + 9000000, 9001000, 10);
	kernel(b, k, 2002500, 2002600, 1); /* of a launch that is not there */
	kernel(b, k, 2003500, 2003600, 0);
	builder__thread(b, 30, 30); /* no clocks: its times mean nothing */
	kernel(b, k, 2003500, 2003600, 1);
	log = gpu_log__run(builder__session(b, NULL));
	CU_ASSERT_EQUAL(gpu_log__count(log, GPU_KERNEL), 3);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 0)->launch_begin_ns, 2000100);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 1)->begin_ns, 2003500);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 1)->at.tgid, 20);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 1)->at.tid, 0);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 1)->launch_begin_ns, 0);
	CU_ASSERT_EQUAL(log->totals.gpu_unlinked, 2);
	CU_ASSERT_EQUAL(log->totals.gpu_no_clock, 1);
	done(log, b);
}

/* A kernel that begins before its launch by more than the clocks' error is shown and counted. */
static void before_launch(void)
{
	struct builder *b = new_builder();
	uint32_t l = builder__name(b, "cudaLaunchKernel"), k = builder__name(b, "k");
	struct gpu_log *log;

	pairs(b);
	api(b, l, 2000100, 2000200, 1, false);
	kernel(b, k, 2000071, 2000600, 1); /* within 30 ns */
	api(b, l, 3000100, 3000200, 2, false);
	kernel(b, k, 3000069, 3000600, 2);
	log = gpu_log__run(builder__session(b, NULL));
	CU_ASSERT_FALSE(nth(log, GPU_KERNEL, 0)->before_launch);
	CU_ASSERT_TRUE(nth(log, GPU_KERNEL, 1)->before_launch);
	CU_ASSERT_EQUAL(log->totals.gpu_before_launch, 1);
	done(log, b);
}

static void other_kinds(void)
{
	struct builder *b = new_builder();
	uint32_t l = builder__name(b, "cudaStreamSynchronize");
	struct ptb_gpu_sync sync = { .begin = OFF + 2000150,
				     .end = OFF + 2000190,
				     .what = 3,
				     .correlation = 1,
				     .device = 0,
				     .stream = 7 };
	struct ptb_gpu_overhead over = { .begin = OFF + 2000000, .end = OFF + 2000050, .what = 1 << 16 };
	struct ptb_gpu_event ev = { .at = OFF + 2000300, .stream = 7, .event = 4 },
			     unknown = { .stream = 7 };
	struct ptb_gpu_memory fill = {
		.begin = OFF + 2000400, .end = OFF + 2000400, .stream = 7, .dst_kind = 3
	};
	struct gpu_log *log;

	pairs(b);
	api(b, l, 2000100, 2000200, 1, false);
	builder__ring_rec(b, &sync.h, PTB_REC_GPU_SYNC, sizeof(sync), END);
	builder__ring_rec(b, &over.h, PTB_REC_GPU_OVERHEAD, sizeof(over), END);
	builder__ring_rec(b, &ev.h, PTB_REC_GPU_EVENT, sizeof(ev), END);
	builder__ring_rec(b, &unknown.h, PTB_REC_GPU_EVENT, sizeof(unknown), END);
	builder__ring_rec(b, &fill.h, PTB_REC_GPU_MEMSET, sizeof(fill), END);
	log = gpu_log__run(builder__session(b, NULL));
	CU_ASSERT_EQUAL(log->cnt, 5);
	CU_ASSERT_STRING_EQUAL(nth(log, GPU_SYNC, 0)->name, "Stream Sync");
	CU_ASSERT_EQUAL(nth(log, GPU_SYNC, 0)->launch_begin_ns, 2000100);
	CU_ASSERT_STRING_EQUAL(nth(log, GPU_OVERHEAD, 0)->name, "Buffer Flush");
	CU_ASSERT_EQUAL(nth(log, GPU_EVENT, 0)->end_ns, 2000301);
	CU_ASSERT_STRING_EQUAL(nth(log, GPU_MEMSET, 0)->name, "Memset (Device)");
	CU_ASSERT_EQUAL(nth(log, GPU_MEMSET, 0)->end_ns, 2000401);
	CU_ASSERT_EQUAL(log->totals.gpu_work, 1);
	done(log, b);
}

static void host_call(struct builder *b, uint32_t func, uint64_t begin, uint64_t end,
		      uint64_t launches, uint32_t flags)
{
	struct ptb_cuda_call r = { .h.site = 2 * func, .begin_ns = begin, .func = launches, .flags = flags };

	builder__ring_rec(b, &r.h, PTB_REC_CUDA_CALL, sizeof(r), end);
}

/* Calls recorded by probes, without an agent; those that CUPTI reports of the process replace them. */
static void host_calls(void)
{
	struct builder *b = new_builder();
	uint32_t f = builder__op(b, "aten::f"), k = builder__name(b, "_ZN2at6native4gemmEPf");
	uint32_t l = builder__func(b, "cudaLaunchKernel", PTB_FUNC_CUDA_CALL, true);
	uint32_t d = builder__func(b, "cuLaunchKernel", PTB_FUNC_CUDA_CALL, true);
	struct ptb_addr_name kn = { .h = { .len = sizeof(kn), .kind = PTB_REC_KERNEL_NAME, .tgid = 10 },
				    .addr = 0x1234,
				    .name = k };
	struct gpu_log *log;

	builder__meta(b, "cuda_calls", "true");
	builder__raw(b, &kn.h);
	builder__enter(b, f, 2000000, 0x9000);
	host_call(b, d, 2000110, 2000120, 0, 0);
	host_call(b, l, 2000100, 2000150, 0x1234, 0);
	host_call(b, l, 2000200, 2000400, 0x9999, PTB_API_NO_RESULT);
	builder__exit(b, f, 2000500, 0x8f00);
	host_call(b, d, 2000610, 2000620, 0, 0);
	host_call(b, l, 2000100, 2000090, 0, 0); /* ends before it begins */
	builder__thread(b, 20, 20);
	pairs(b);
	api(b, builder__name(b, "cudaMalloc"), 2000700, 2000800, 1, false);
	host_call(b, l, 2000690, 2000810, 0, 0);
	host_call(b, l, 2000850, 2000860, 0, 0); /* CUPTI was given up */
	log = gpu_log__run(builder__session(b, NULL));
	CU_ASSERT_EQUAL_FATAL(log->cnt, 5);
	CU_ASSERT_TRUE(log->v[4].host_only);
	CU_ASSERT_EQUAL(log->v[4].begin_ns, 2000850);
	CU_ASSERT_STRING_EQUAL(log->v[0].name, "cudaLaunchKernel");
	CU_ASSERT_STRING_EQUAL(log->v[0].kernel_name, "at::native::gemm(float*)");
	CU_ASSERT_STRING_EQUAL(log->v[0].at.op, "aten::f");
	CU_ASSERT_TRUE(log->v[0].host_only);
	CU_ASSERT_EQUAL(log->v[0].end_ns, 2000150);
	CU_ASSERT_EQUAL(log->v[1].end_ns, 2000201);
	CU_ASSERT_STRING_EQUAL(log->v[1].kernel_name, "");
	CU_ASSERT_STRING_EQUAL(log->v[2].name, "cuLaunchKernel");
	CU_ASSERT_TRUE(log->v[2].driver);
	CU_ASSERT_STRING_EQUAL(log->v[3].name, "cudaMalloc");
	CU_ASSERT_FALSE(log->v[3].host_only);
	CU_ASSERT_EQUAL(log->totals.gpu_host_dropped, 1);
	CU_ASSERT_EQUAL(log->totals.bad_records, 1);
	done(log, b);
}

static void hostile(void)
{
	struct builder *b = new_builder();
	uint32_t k = builder__name(b, "k");
	struct gpu_log *log;

	pairs(b);
	pair(b, UINT64_MAX, 5, 1);
	pair(b, 7, UINT64_MAX, 1);
	pair(b, OFF + 3000000, 8000000, 1); /* no clock runs like that */
	kernel(b, k, 2000500, 2000400, 1);
	kernel(b, 99999, 2000500, 2000600, UINT32_MAX);
	kernel(b, k, UINT64_MAX / 2 - OFF, UINT64_MAX / 2 - OFF + 1, 1);
	put_kernel(b, (struct ptb_gpu_kernel){ .name = k }); /* no times */
	kernel(b, k, 900000, 1100000, 1);                    /* began before its launch */
	kernel(b, k, 8999000, 9001000, 1);                   /* ends after it */
	api(b, 99999, 2000000, 1000000, 1, false);
	api(b, 99999, 2000000, 2000010, 1, true);
	log = gpu_log__run(builder__session(b, NULL));
	CU_ASSERT_EQUAL_FATAL(log->cnt, 2);
	CU_ASSERT_EQUAL(nth(log, GPU_KERNEL, 0)->begin_ns, 2000500);
	CU_ASSERT_STRING_EQUAL(nth(log, GPU_KERNEL, 0)->name, "");
	CU_ASSERT_EQUAL(nth(log, GPU_API, 0)->begin_ns, 2000000);
	CU_ASSERT_EQUAL(log->totals.gpu_outside, 1);
	CU_ASSERT_EQUAL(log->totals.gpu_wrong_times, 5);
	CU_ASSERT_EQUAL(log->totals.bad_records, 1); /* the pair that came at the end of time */
	done(log, b);
}

/* CUPTI's timestamps may be wrong for some kernels of a healthy recording: that is neither damage nor "outside". */
static void wrong_times(void)
{
	struct builder *b = new_builder();
	uint32_t l = builder__name(b, "cudaLaunchKernel"), k = builder__name(b, "k");
	struct gpu_log *log;

	pairs(b);
	for (uint32_t i = 1; i <= 6; i++)
		api(b, l, 4000000 + i * 1000, 4000500 + i * 1000, i, false);
	kernel(b, k, 5000000, 5001000, 1);
	kernel(b, k, 8999000, 9001000, 2);             /* the window ended first */
	kernel(b, k, 10000, 11000, 3);                 /* before the window that its launch is in */
	kernel(b, k, 3600000000000, 3600000001000, 4); /* an hour after it arrived */
	kernel(b, k, 5002000, 5001000, 5);             /* ends first */
	put_kernel(b, (struct ptb_gpu_kernel){ .correlation = 6 }); /* none */
	kernel(b, k, 10000, 11000, 99);                             /* launched before the window */
	log = gpu_log__run(builder__session(b, NULL));
	CU_ASSERT_EQUAL(log->totals.gpu_work, 1);
	CU_ASSERT_EQUAL(log->totals.gpu_outside, 2);
	CU_ASSERT_EQUAL(log->totals.gpu_wrong_times, 4);
	CU_ASSERT_EQUAL(log->totals.bad_records, 0);
	done(log, b);
}

/* A clock that is ahead and runs 20 ppm fast, read with noise: everything lies within the bound. */
static void drift(void)
{
	struct builder *b = builder__new(BEGIN, 4000000000ULL);
	uint32_t l = builder__name(b, "cudaLaunchKernel"), bad = 0;
	struct gpu_log *log;
	struct session *s;
	uint64_t bound;

	builder__meta(b, "gpu", "true");
	builder__thread(b, 10, 10);
	srandom(7);
	for (uint32_t i = 1; i < 40; i++) {
		uint64_t mono = 100000000ULL * i - 50000000, gpu = OFF + mono + mono / 50000;
		uint64_t err = i % 9 ? 50 : 400000; /* interrupted there */

		pair(b, gpu, mono + (uint64_t)random() % (2 * err) - err, err);
	}
	for (uint32_t i = 1; i < 3999; i++) {
		uint64_t mono = 1000000ULL * i, gpu = OFF + mono + mono / 50000;
		struct ptb_gpu_api r = { .begin = gpu, .end = gpu + 1000, .name = l, .correlation = i };

		builder__ring_rec(b, &r.h, PTB_REC_GPU_API, sizeof(r), mono);
	}
	s = builder__session(b, NULL);
	bound = session__info(s)->gpu_clock_err_ns;
	CU_ASSERT_TRUE(bound >= 50 && bound < 250);
	log = gpu_log__run(s);
	for (uint32_t i = 0; i < log->cnt; i++) {
		uint64_t want = 1000000ULL * log->v[i].correlation, got = log->v[i].begin_ns;

		bad += (got > want ? got - want : want - got) > bound;
	}
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT_TRUE(log->cnt >= 3997); /* the first is at the very begin of the window */
	done(log, b);
}

static const CU_TestInfo tests[] = {
	{ "a launch", launch },
	{ "what slices are charged with", charges },
	{ "annotations", annotations },
	{ "steps", steps },
	{ "graphs and devices", graphs_and_devices },
	{ "several processes", processes },
	{ "before its launch", before_launch },
	{ "synchronisation, events, overhead", other_kinds },
	{ "calls seen from the host", host_calls },
	{ "hostile records", hostile },
	{ "offset and drift", drift },
	{ "wrong times", wrong_times },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("gpu", tests);
}
