/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * GPUs in a Chrome trace: kineto's slices key by key, flows with both ends, calls nested among operators.
 *
 * Longer than 600 lines because its cases share one made-up process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chrome_doc.h"
#include "gpu_world.h"
#include "suite.h"

#define US 1000ULL
#define BEGIN_US 42979000000.0 /* of the window, since the base time */

static char path[] = "/tmp/test_chrome_gpu.XXXXXX";
static struct gpu_world w;
static void *ct;
static cJSON *doc;
static char raw[32 << 20];

static void open_trace(void)
{
	ct = open_chrome(path, &w.s, &w.sink);
}

static void start(void)
{
	gw__init(&w);
	open_trace();
}

static void finish(void)
{
	CU_ASSERT_EQUAL_FATAL(gw__emit(&w), 0);
	doc = finish_chrome(ct, &w.totals, path, raw, sizeof(raw));
}

/* nr-th event that has these values; NULL text: any. NULL: none. */
static const cJSON *event(const char *ph, const char *cat, const char *name, int nr)
{
	const cJSON *e;

	cJSON_ArrayForEach(e, get(doc, "traceEvents")) if (!strcmp(str(e, "ph"), ph) &&
							   (!cat || (has(e, "cat") &&
								     !strcmp(str(e, "cat"), cat))) &&
							   (!name || !strcmp(str(e, "name"), name)) &&
							   !nr--) return e;
	return NULL;
}

static const cJSON *must(const char *ph, const char *cat, const char *name, int nr)
{
	const cJSON *e = event(ph, cat, name, nr);

	if (!e)
		fprintf(stderr, "no event %s %s %s %d\n", ph, cat ? cat : "", name ? name : "", nr);
	CU_ASSERT_PTR_NOT_NULL_FATAL(e);
	return e;
}

static const cJSON *args(const cJSON *e)
{
	return get(e, "args");
}

static double gpu_total(const char *key)
{
	return num(get(get(doc, "ptbpf_totals"), "gpu"), key);
}

/* clang-format off */
#define KERNEL_KEYS                                                                                                \
	"queued,device,context,stream,correlation,registers per thread,shared memory,blocks per SM,warps per SM," \
	"grid,block,est. achieved occupancy %,occupancy"
/* clang-format on */

static void test_kernel(void)
{
	struct gw_item *c, *k;
	const cJSON *e;

	start();
	gw__context(&w, 100, 77, "aten::mm", NULL);
	CU_ASSERT_EQUAL(gw__slice(&w, 77, "aten::mm", GW_BEGIN + 10 * US, GW_BEGIN + 60 * US), 0);
	c = gw__call(&w, "cudaLaunchKernel", GW_BEGIN + 20 * US, GW_BEGIN + 30 * US);
	gw__kernel(&w, "sgemm<\"x\">", 0, 7, GW_BEGIN + 40 * US, GW_BEGIN + 90 * US, c);
	k = gw__kernel(&w, "kernel", 1, 20, GW_BEGIN + 100 * US, GW_BEGIN + 101 * US, NULL);
	k->rec.kernel.flags = PTB_GPU_HAS_GRAPH | PTB_GPU_HAS_PRIORITY | PTB_GPU_HAS_CHANNEL;
	k->rec.kernel.priority = -5;
	k->rec.kernel.graph = 4;
	k->rec.kernel.graph_node = 1ULL << 33;
	k->rec.kernel.channel = 11;
	k->rec.kernel.channel_type = 1;
	k->rec.kernel.dynamic_shared = 150 << 10;
	finish();
	e = must("X", "kernel", "sgemm<\"x\">", 0);
	CU_ASSERT_STRING_EQUAL(keys(e), "ph,cat,name,pid,tid,ts,dur,args");
	CU_ASSERT_EQUAL(num(e, "pid"), 0);
	CU_ASSERT_EQUAL(num(e, "tid"), 7);
	CU_ASSERT_EQUAL(num(e, "ts"), BEGIN_US + 40);
	CU_ASSERT_EQUAL(num(e, "dur"), 50);
	CU_ASSERT_STRING_EQUAL(keys(args(e)), "External id," KERNEL_KEYS);
	CU_ASSERT_EQUAL(num(args(e), "External id"), 77);
	CU_ASSERT_EQUAL(num(args(e), "correlation"), 1001);
	CU_ASSERT_EQUAL(num(args(e), "shared memory"), 17408);
	CU_ASSERT_EQUAL(num(args(e), "blocks per SM"), 2); /* 264 blocks, 132 multiprocessors */
	CU_ASSERT_EQUAL(num(args(e), "warps per SM"), 16);
	CU_ASSERT_EQUAL(num(args(e), "est. achieved occupancy %"), 25); /* 16 of 64 warps */
	CU_ASSERT_STRING_EQUAL(keys(get(args(e), "occupancy")),
			       "activeBlocksPerMultiprocessor,limitingFactors,blockLimitRegs,blockLimitSharedMem,"
			       "blockLimitWarps,blockLimitBlocks,blockLimitBarriers,allocatedRegistersPerBlock,"
			       "allocatedSharedMemPerBlock");
	CU_ASSERT_EQUAL(num(get(args(e), "occupancy"), "activeBlocksPerMultiprocessor"), 8);
	CU_ASSERT_STRING_EQUAL(str(get(args(e), "occupancy"), "limitingFactors"), "WARPS|REGS");
	CU_ASSERT_EQUAL(cJSON_GetArraySize(get(args(e), "grid")), 3);
	CU_ASSERT_EQUAL(cJSON_GetArrayItem(get(args(e), "block"), 1)->valuedouble, 2);
	e = must("X", "kernel", "Kernel", 0); /* kineto's own renaming */
	CU_ASSERT_STRING_EQUAL(keys(args(e)),
			       KERNEL_KEYS ",graph id,graph node id,priority,channel,channel_type");
	CU_ASSERT_EQUAL(num(args(e), "priority"), -5);
	CU_ASSERT_EQUAL(num(args(e), "graph node id"), 8589934592.0);
	CU_ASSERT_EQUAL(num(get(args(e), "occupancy"), "activeBlocksPerMultiprocessor"), 1);
	cJSON_Delete(doc);
}

/* Nothing is written about a device that was not reported. */
static void test_unknown_device(void)
{
	start();
	w.s.info.device_cnt = 0;
	gw__kernel(&w, "k", 5, 7, GW_BEGIN + 40 * US, GW_BEGIN + 90 * US, NULL);
	finish();
	CU_ASSERT_STRING_EQUAL(keys(args(must("X", "kernel", "k", 0))),
			       "queued,device,context,stream,correlation,registers per thread,shared memory,grid,block");
	CU_ASSERT_EQUAL(num(must("X", "kernel", "k", 0), "pid"), 5);
	cJSON_Delete(doc);
}

static void test_memory(void)
{
	struct gw_item *m;
	const cJSON *e;

	start();
	gw__copy(&w, 1, 3000000, 0, 7, GW_BEGIN + 40 * US, GW_BEGIN + 140 * US, NULL);
	gw__fill(&w, 512, 0, 7, GW_BEGIN + 150 * US, GW_BEGIN + 150 * US, NULL);
	m = gw__copy(&w, 10, 1 << 20, 1, 21, GW_BEGIN + 10 * US, GW_BEGIN + 20 * US, NULL);
	m->rec.memory.flags = PTB_GPU_PEER;
	m->rec.memory.src_device = 0;
	m->rec.memory.dst_device = 1;
	m->rec.memory.src_context = 1;
	m->rec.memory.dst_context = 2;
	finish();
	e = must("X", "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 0);
	CU_ASSERT_STRING_EQUAL(keys(args(e)),
			       "device,context,stream,correlation,bytes,memory bandwidth (GB/s)");
	CU_ASSERT_EQUAL(num(args(e), "memory bandwidth (GB/s)"), 30);
	e = must("X", "gpu_memset", "Memset (Device)", 0); /* no length, no bandwidth */
	CU_ASSERT_STRING_EQUAL(keys(args(e)), "device,context,stream,correlation,bytes");
	CU_ASSERT_EQUAL(num(e, "dur"), 0);
	e = must("X", "gpu_memcpy", "Memcpy PtoP (Device -> Device)", 0);
	CU_ASSERT_STRING_EQUAL(keys(args(e)),
			       "fromDevice,inDevice,toDevice,fromContext,inContext,toContext,stream,"
			       "correlation,bytes,memory bandwidth (GB/s)");
	CU_ASSERT_EQUAL(num(args(e), "inDevice"), 1);
	CU_ASSERT_EQUAL(num(args(e), "fromDevice"), 0);
	cJSON_Delete(doc);
}

static void test_sync(void)
{
	struct gw_item *c, *s;
	const cJSON *e;

	start();
	c = gw__call(&w, "cudaEventRecord", GW_BEGIN + 10 * US, GW_BEGIN + 11 * US);
	gw__event(&w, 7, GW_BEGIN + 30 * US, c);
	s = gw__sync(&w, 2, 13, GW_BEGIN + 20 * US, GW_BEGIN + 21 * US,
		     gw__call(&w, "cudaStreamWaitEvent", GW_BEGIN + 20 * US, GW_BEGIN + 21 * US));
	s->rec.sync.event = 5;
	s->rec.sync.event_stream = 7;
	s->rec.sync.event_correlation = c->g.correlation;
	gw__sync(&w, 1, UINT32_MAX, GW_BEGIN + 22 * US, GW_BEGIN + 23 * US,
		 gw__call(&w, "cudaEventSynchronize", GW_BEGIN + 22 * US, GW_BEGIN + 23 * US));
	gw__sync(&w, 3, 7, GW_BEGIN + 24 * US, GW_BEGIN + 25 * US,
		 gw__call(&w, "cudaStreamSynchronize", GW_BEGIN + 24 * US, GW_BEGIN + 25 * US));
	gw__sync(&w, 4, UINT32_MAX, GW_BEGIN + 26 * US, GW_BEGIN + 27 * US,
		 gw__call(&w, "cudaDeviceSynchronize", GW_BEGIN + 26 * US, GW_BEGIN + 27 * US));
	gw__overhead(&w, "Buffer Flush", GW_BEGIN + 28 * US, GW_BEGIN + 29 * US);
	finish();
	e = must("X", "cuda_sync", "Stream Wait Event", 0);
	CU_ASSERT_STRING_EQUAL(keys(args(e)),
			       "cuda_sync_kind,wait_on_stream,wait_on_cuda_event_record_corr_id,"
			       "wait_on_cuda_event_id,stream,correlation,device,context");
	CU_ASSERT_EQUAL(num(args(e), "wait_on_stream"), 7);
	CU_ASSERT_EQUAL(num(args(e), "wait_on_cuda_event_record_corr_id"), 1001);
	CU_ASSERT_EQUAL(num(args(e), "stream"), 13);
	e = must("X", "cuda_sync", "Event Sync", 0);
	CU_ASSERT_EQUAL(num(args(e), "wait_on_cuda_event_record_corr_id"), -1);
	CU_ASSERT_EQUAL(num(args(e), "stream"), -1);
	CU_ASSERT_EQUAL(num(e, "tid"), 1);
	e = must("X", "cuda_sync", "Stream Sync", 0);
	CU_ASSERT_STRING_EQUAL(keys(args(e)), "cuda_sync_kind,stream,correlation,device,context");
	CU_ASSERT_EQUAL(num(e, "tid"), 1000007);
	CU_ASSERT_EQUAL(num(must("X", "cuda_sync", "Context Sync", 0), "tid"), 1);
	e = must("X", "cuda_event", "cudaEvent", 0);
	CU_ASSERT_STRING_EQUAL(keys(args(e)), "event_id,stream,correlation,device,context");
	CU_ASSERT_EQUAL(num(e, "dur"), 0.001);
	e = must("X", "overhead", "Buffer Flush", 0);
	CU_ASSERT_EQUAL(num(e, "pid"), -1);
	CU_ASSERT_STRING_EQUAL(str(args(must("M", NULL, "process_name", 2)), "name"), "CUPTI Overhead");
	cJSON_Delete(doc);
}

/* A flow has both ends; a graph's launch has one begin and an end on each node. */
static void test_flows(void)
{
	struct gw_item *c;
	const cJSON *e;

	start();
	c = gw__call(&w, "cudaGraphLaunch", GW_BEGIN + 10 * US, GW_BEGIN + 12 * US);
	gw__kernel(&w, "a", 0, 7, GW_BEGIN + 20 * US, GW_BEGIN + 21 * US, c);
	gw__kernel(&w, "b", 0, 8, GW_BEGIN + 22 * US, GW_BEGIN + 23 * US, c);
	gw__call(&w, "cudaLaunchKernel", GW_BEGIN + 14 * US, GW_BEGIN + 15 * US); /* its kernel was lost */
	gw__kernel(&w, "c", 0, 7, GW_BEGIN + 30 * US, GW_BEGIN + 31 * US, NULL); /* and this one's launch */
	c = gw__call(&w, "cudaStreamSynchronize", GW_BEGIN + 16 * US, GW_BEGIN + 17 * US);
	gw__sync(&w, 3, 7, GW_BEGIN + 16 * US, GW_BEGIN + 17 * US, c);
	finish();
	CU_ASSERT_PTR_NULL(event("s", NULL, NULL, 1));
	CU_ASSERT_PTR_NULL(event("f", NULL, NULL, 2));
	e = must("s", "ac2g", "ac2g", 0);
	CU_ASSERT_STRING_EQUAL(keys(e), "ph,id,pid,tid,ts,cat,name");
	CU_ASSERT_EQUAL(num(e, "id"), 1001);
	CU_ASSERT_EQUAL(num(e, "pid"), 100);
	CU_ASSERT_EQUAL(num(e, "ts"), BEGIN_US + 10);
	e = must("f", "ac2g", "ac2g", 1);
	CU_ASSERT_STRING_EQUAL(keys(e), "ph,id,pid,tid,ts,cat,name,bp");
	CU_ASSERT_EQUAL(num(e, "id"), 1001);
	CU_ASSERT_EQUAL(num(e, "pid"), 0);
	CU_ASSERT_EQUAL(num(e, "tid"), 8);
	CU_ASSERT_EQUAL(gpu_total("flows"), 2);
	cJSON_Delete(doc);
}

/* What torch never shows, and second launches of the same work. */
static void test_hidden(void)
{
	struct gw_item *c;

	start();
	gw__call(&w, "cudaGetLastError", GW_BEGIN + 10 * US, GW_BEGIN + 11 * US);
	gw__call(&w, "cudaEventCreateWithFlags", GW_BEGIN + 12 * US, GW_BEGIN + 13 * US);
	c = gw__call(&w, "cudaLaunchKernel", GW_BEGIN + 20 * US, GW_BEGIN + 30 * US);
	gw__driver(&w, "cuLaunchKernel", GW_BEGIN + 22 * US, GW_BEGIN + 28 * US, c->g.correlation);
	gw__driver(&w, "cuCtxGetCurrent", GW_BEGIN + 40 * US, GW_BEGIN + 41 * US, 0);
	c = gw__call(&w, "cudaMalloc", GW_BEGIN + 50 * US, GW_BEGIN + 60 * US);
	gw__driver(&w, "cuMemCreate", GW_BEGIN + 52 * US, GW_BEGIN + 55 * US, c->g.correlation);
	gw__driver(&w, "cuLaunchKernelEx", GW_BEGIN + 70 * US, GW_BEGIN + 71 * US, 0);
	gw__driver(&w, "cuMemcpyHtoD_v2", GW_BEGIN + 72 * US, GW_BEGIN + 73 * US, 0);
	finish();
	CU_ASSERT_PTR_NULL(event("X", "cuda_runtime", "cudaGetLastError", 0));
	CU_ASSERT_PTR_NULL(event("X", "cuda_runtime", "cudaEventCreateWithFlags", 0));
	CU_ASSERT_PTR_NULL(event("X", "cuda_driver", "cuLaunchKernel", 0));
	CU_ASSERT_PTR_NULL(event("X", "cuda_driver", "cuCtxGetCurrent", 0));
	CU_ASSERT_STRING_EQUAL(keys(args(must("X", "cuda_runtime", "cudaLaunchKernel", 0))),
			       "cbid,correlation");
	must("X", "cuda_driver", "cuMemCreate", 0);
	must("X", "cuda_driver", "cuLaunchKernelEx", 0);
	must("X", "cuda_driver", "cuMemcpyHtoD_v2", 0);
	CU_ASSERT_EQUAL(gpu_total("calls_not_shown"), 4);
	CU_ASSERT_EQUAL(gpu_total("calls"), 5);
	cJSON_Delete(doc);
}

static void test_annotation(void)
{
	const cJSON *e;

	start();
	gw__gpu_annotation(&w, "loss", 9, 7, GW_BEGIN + 20 * US, GW_BEGIN + 30 * US);
	gw__kernel(&w, "a", 0, 7, GW_BEGIN + 20 * US, GW_BEGIN + 30 * US, NULL)->g.before_launch = true;
	finish();
	e = must("X", "gpu_user_annotation", "loss", 0);
	CU_ASSERT_STRING_EQUAL(keys(args(e)), "External id");
	CU_ASSERT_EQUAL(num(args(e), "External id"), 9);
	CU_ASSERT_EQUAL(num(e, "ts"), BEGIN_US + 20 - 0.001);
	CU_ASSERT_EQUAL(num(e, "dur"), 10.002);
	CU_ASSERT(cJSON_IsTrue(get(args(must("X", "kernel", "a", 0)), "ptbpf.before_launch")));
	/* the row was first seen through the annotation */
	CU_ASSERT_STRING_EQUAL(str(args(must("M", NULL, "thread_name", 0)), "name"), "stream 7 context");
	cJSON_Delete(doc);
}

/* What captured a node of a graph: own args, behind torch's. */
static void test_captured(void)
{
	static const struct gpu_origin op = { "aten::mm", 17, 0, "layer > aten::mm" },
				       none = { "", 0, 0, "" };
	static const struct gpu_origin at = { "aten::mm", 17, 1, "aten::mm" };
	static const struct py_frame frames[] = {
		{ .func = "linear", .file = "/usr/lib/python3/site-packages/torch/nn.py", .line = 5 },
		{ .func = "step", .file = "/home/me/train.py", .line = 31 }
	};
	static const uint32_t numbers[] = { 1, 2 };
	static const struct py_stack stacks[] = { { .frames = numbers, .frame_cnt = 2 } };
	const cJSON *e;

	start();
	w.s.py_frames = frames;
	w.s.py_frame_cnt = 2;
	w.s.py_stacks = stacks;
	w.s.py_stack_cnt = 1;
	gw__kernel(&w, "c", 0, 7, GW_BEGIN + 80 * US, GW_BEGIN + 90 * US, NULL)->g.origin = &at;
	gw__kernel(&w, "a", 0, 7, GW_BEGIN + 20 * US, GW_BEGIN + 30 * US, NULL)->g.origin = &op;
	gw__fill(&w, 64, 0, 7, GW_BEGIN + 40 * US, GW_BEGIN + 50 * US, NULL)->g.origin = &none;
	gw__kernel(&w, "b", 0, 7, GW_BEGIN + 60 * US, GW_BEGIN + 70 * US, NULL);
	finish();
	e = args(must("X", "kernel", "a", 0));
	CU_ASSERT_STRING_EQUAL(str(e, "ptbpf.captured_op"), "aten::mm");
	CU_ASSERT_EQUAL(num(e, "ptbpf.captured_id"), 17);
	CU_ASSERT_STRING_EQUAL(str(e, "ptbpf.captured_in"), "layer > aten::mm");
	CU_ASSERT_STRING_EQUAL(keys(e), KERNEL_KEYS
			       ",ptbpf.captured_op,ptbpf.captured_id,ptbpf.captured_in");
	e = args(must("X", "gpu_memset", "Memset (Device)", 0));
	CU_ASSERT_STRING_EQUAL(str(e, "ptbpf.captured_in"), "");
	CU_ASSERT_PTR_NULL(strstr(keys(e), "captured_op"));
	e = args(must("X", "kernel", "b", 0));
	CU_ASSERT_STRING_EQUAL(keys(e), KERNEL_KEYS);
	e = args(must("X", "kernel", "c", 0));
	CU_ASSERT_PTR_NOT_NULL_FATAL(strstr(str(e, "ptbpf.captured_at"), "train.py:31"));
	cJSON_Delete(doc);
}

static void test_metadata(void)
{
	const cJSON *d;

	start();
	gw__kernel(&w, "a", 1, 7, GW_BEGIN + 20 * US, GW_BEGIN + 30 * US, NULL);
	finish();
	d = cJSON_GetArrayItem(get(doc, "deviceProperties"), 0);
	CU_ASSERT_EQUAL(cJSON_GetArraySize(get(doc, "deviceProperties")), 2);
	CU_ASSERT_STRING_EQUAL(keys(d),
			       "id,name,totalGlobalMem,computeMajor,computeMinor,maxThreadsPerBlock,"
			       "maxThreadsPerMultiprocessor,regsPerBlock,warpSize,sharedMemPerBlock,numSms,"
			       "regsPerMultiprocessor,sharedMemPerBlockOptin,sharedMemPerMultiprocessor");
	CU_ASSERT_STRING_EQUAL(str(d, "name"), "NVIDIA H100 80GB HBM3");
	CU_ASSERT_EQUAL(num(d, "maxThreadsPerMultiprocessor"), 2048);
	CU_ASSERT_EQUAL(num(doc, "cupti_version"), 130000);
	CU_ASSERT_EQUAL(num(doc, "cuda_driver_version"), 13000);
	CU_ASSERT_FALSE(has(doc, "cuda_runtime_version")); /* not reported */
	CU_ASSERT_STRING_EQUAL(str(args(must("M", NULL, "process_labels", 1)), "labels"), "GPU 1");
	CU_ASSERT_EQUAL(num(args(must("M", NULL, "process_sort_index", 1)), "sort_index"), 5000001);
	CU_ASSERT_STRING_EQUAL(str(args(must("M", NULL, "process_name", 1)), "name"), "python");
	CU_ASSERT_STRING_EQUAL(str(args(must("M", NULL, "thread_name", 0)), "name"), "stream 7 ");
	CU_ASSERT_EQUAL(num(args(must("M", NULL, "thread_sort_index", 0)), "sort_index"), 7);
	CU_ASSERT_EQUAL(num(get(get(doc, "ptbpf"), "cuda"), "clock_error_ns"), 500);
	CU_ASSERT_EQUAL(cJSON_GetArraySize(get(get(doc, "ptbpf"), "agents")), 1);
	cJSON_Delete(doc);
}

/* Without an agent: numbers that no GPU slice has, and no argument that makes a reader take it for one. */
static void test_host_only(void)
{
	struct gw_item *c;
	const cJSON *e;

	gw__init(&w);
	w.s.info.has_gpu = false;
	w.s.info.has_cuda_calls = true;
	w.s.info.device_cnt = 0;
	w.host_only = true;
	open_trace();
	gw__context(&w, 102, 33, "aten::add", NULL);
	c = gw__call(&w, "cudaLaunchKernel", GW_BEGIN + 10 * US, GW_BEGIN + 12 * US);
	c->g.kernel_name = "void add_kernel<float>(float*)";
	c->rec.host.grid[0] = 8;
	c->rec.host.grid[1] = c->rec.host.grid[2] = 1;
	c->rec.host.block[0] = 256;
	c->rec.host.block[1] = c->rec.host.block[2] = 1;
	c->rec.host.result = 700;
	c = gw__call(&w, "cudaMemcpyAsync", GW_BEGIN + 14 * US, GW_BEGIN + 15 * US);
	c->rec.host.bytes = 4096;
	c->rec.host.copy_kind = 1;
	gw__call(&w, "cudaDeviceSynchronize", GW_BEGIN + 16 * US, GW_BEGIN + 18 * US)->rec.host.stream =
		UINT64_MAX;
	finish();
	e = must("X", "cuda_runtime", "cudaLaunchKernel", 0);
	CU_ASSERT_STRING_EQUAL(keys(args(e)),
			       "External id,correlation,ptbpf.host_only,ptbpf.stream,ptbpf.grid,"
			       "ptbpf.block,ptbpf.shared_memory,ptbpf.kernel,ptbpf.error");
	CU_ASSERT_EQUAL(num(args(e), "correlation"), 1);
	CU_ASSERT_STRING_EQUAL(str(args(e), "ptbpf.stream"), "0x55aa");
	CU_ASSERT_EQUAL(num(args(e), "ptbpf.error"), 700);
	e = must("X", "cuda_runtime", "cudaMemcpyAsync", 0);
	CU_ASSERT_STRING_EQUAL(keys(args(e)),
			       "External id,correlation,ptbpf.host_only,ptbpf.stream,ptbpf.bytes,ptbpf.copy");
	CU_ASSERT_EQUAL(num(args(e), "correlation"), 2);
	CU_ASSERT_FALSE(has(args(must("X", NULL, "cudaDeviceSynchronize", 0)), "ptbpf.stream"));
	CU_ASSERT_STRING_EQUAL(str(args(must("M", NULL, "thread_name", 0)), "name"),
			       "thread 102 (python)");
	CU_ASSERT_FALSE(has(doc, "cupti_version"));
	cJSON_Delete(doc);
}

/* Two processes on one device: their correlations and rows stay apart. */
static void test_processes(void)
{
	struct gw_item *c;

	start();
	c = gw__call(&w, "cudaLaunchKernel", GW_BEGIN + 10 * US, GW_BEGIN + 12 * US);
	gw__kernel(&w, "a", 0, 7, GW_BEGIN + 20 * US, GW_BEGIN + 30 * US, c);
	w.tgid = 200;
	w.correlation = 1000;
	gw__context(&w, 200, 0, NULL, NULL);
	c = gw__call(&w, "cudaLaunchKernel", GW_BEGIN + 11 * US, GW_BEGIN + 13 * US);
	gw__kernel(&w, "b", 0, 7, GW_BEGIN + 22 * US, GW_BEGIN + 32 * US, c);
	finish();
	CU_ASSERT_EQUAL(num(args(must("X", "kernel", "a", 0)), "correlation"), 1001);
	CU_ASSERT_EQUAL(num(args(must("X", "kernel", "b", 0)), "correlation"), 4294967296.0 + 1001);
	CU_ASSERT_EQUAL(num(must("X", "kernel", "a", 0), "tid"), 7);
	CU_ASSERT_EQUAL(num(must("X", "kernel", "b", 0), "tid"), 10000007);
	CU_ASSERT_EQUAL(num(args(must("X", "kernel", "b", 0)), "stream"), 7);
	CU_ASSERT_EQUAL(num(must("s", "ac2g", NULL, 1), "pid"), 200);
	CU_ASSERT_STRING_EQUAL(str(args(must("M", NULL, "thread_name", 3)), "name"),
			       "stream 7 process 200");
	CU_ASSERT_EQUAL(gpu_total("flows"), 2);
	cJSON_Delete(doc);
}

/* As in a container: the row of GPU 1 is not that of the process. */
static void test_process_1_and_gpu_1(void)
{
	static const struct session_process first = { .tgid = 1, .comm = "python" };
	const cJSON *e;
	struct gw_item *c;
	double pid;

	start();
	w.s.info.processes = &first;
	w.s.info.process_cnt = 1;
	w.tgid = 1;
	gw__context(&w, 1, 0, NULL, NULL);
	c = gw__call(&w, "cudaLaunchKernel", GW_BEGIN + 10 * US, GW_BEGIN + 12 * US);
	gw__kernel(&w, "a", 1, 1, GW_BEGIN + 20 * US, GW_BEGIN + 30 * US, c);
	gw__kernel(&w, "b", 0, 1, GW_BEGIN + 20 * US, GW_BEGIN + 30 * US, c);
	finish();
	e = must("X", "kernel", "a", 0);
	pid = num(e, "pid");
	CU_ASSERT(pid > 4194304); /* PID_MAX_LIMIT of the kernel */
	CU_ASSERT_EQUAL(num(args(e), "device"), 1);
	CU_ASSERT_EQUAL(num(must("X", "kernel", "b", 0), "pid"), 0);
	CU_ASSERT_EQUAL(num(must("s", "ac2g", NULL, 0), "pid"), 1);
	CU_ASSERT(num(must("f", "ac2g", NULL, 0), "pid") == pid ||
		  num(must("f", "ac2g", NULL, 1), "pid") == pid);
	e = event("M", NULL, "process_labels", 0);
	for (int i = 1; e && num(e, "pid") != pid; i++)
		e = event("M", NULL, "process_labels", i);
	CU_ASSERT_PTR_NOT_NULL_FATAL(e);
	CU_ASSERT_STRING_EQUAL(str(args(e), "labels"), "GPU 1");
	cJSON_Delete(doc);
}

/* Of a CUPTI that is newer than its names, or whose name did not arrive. */
static void test_unnamed_launch(void)
{
	struct gw_item *c;

	start();
	c = gw__call(&w, "", GW_BEGIN + 10 * US, GW_BEGIN + 12 * US);
	gw__kernel(&w, "a", 0, 7, GW_BEGIN + 20 * US, GW_BEGIN + 21 * US, c);
	gw__call(&w, "", GW_BEGIN + 14 * US, GW_BEGIN + 15 * US); /* launches nothing */
	finish();
	CU_ASSERT_EQUAL(num(args(must("X", "cuda_runtime", "unknown call", 0)), "correlation"), 1001);
	CU_ASSERT_EQUAL(num(must("s", "ac2g", NULL, 0), "id"), 1001);
	CU_ASSERT_EQUAL(num(must("f", "ac2g", NULL, 0), "id"), 1001);
	CU_ASSERT_EQUAL(gpu_total("flows"), 1);
	cJSON_Delete(doc);
}

/* ---- nesting ---- */

static void one_call(uint64_t begin, uint64_t end, uint64_t *got_begin, uint64_t *got_end)
{
	const cJSON *e;

	start();
	CU_ASSERT_EQUAL(gw__slice(&w, 2, "in", GW_BEGIN + 12 * US, GW_BEGIN + 18 * US), 0);
	CU_ASSERT_EQUAL(gw__slice(&w, 1, "op", GW_BEGIN + 10 * US, GW_BEGIN + 20 * US), 0);
	CU_ASSERT_EQUAL(gw__slice(&w, 3, "next", GW_BEGIN + 30 * US, GW_BEGIN + 40 * US), 0);
	gw__call(&w, "cudaLaunchKernel", begin, end);
	finish();
	e = must("X", "cuda_runtime", NULL, 0);
	*got_begin = (uint64_t)((num(e, "ts") - BEGIN_US) * 1000 + 0.5);
	*got_end = *got_begin + (uint64_t)(num(e, "dur") * 1000 + 0.5);
}

static void test_nesting(void)
{
	uint64_t b, e;

	one_call(GW_BEGIN + 13 * US, GW_BEGIN + 17 * US, &b, &e); /* fits */
	CU_ASSERT(b == 13000 && e == 17000);
	CU_ASSERT_EQUAL(gpu_total("calls_clipped"), 0);
	CU_ASSERT_FALSE(has(args(must("X", "cuda_runtime", NULL, 0)), "ptbpf.clipped_us"));
	cJSON_Delete(doc);
	one_call(GW_BEGIN + 13 * US, GW_BEGIN + 18 * US + 300, &b, &e); /* ends after its operator, by the clock */
	CU_ASSERT(b == 13000 && e == 17997);
	CU_ASSERT_EQUAL(gpu_total("calls_clipped"), 1);
	CU_ASSERT_EQUAL(num(args(must("X", "cuda_runtime", NULL, 0)), "ptbpf.clipped_us"), 0.303);
	cJSON_Delete(doc);
	one_call(GW_BEGIN + 12 * US - 400, GW_BEGIN + 16 * US, &b, &e); /* begins before it */
	CU_ASSERT(b == 12003 && e == 16000);
	CU_ASSERT_EQUAL(gpu_total("calls_clipped"), 1);
	cJSON_Delete(doc);
	one_call(GW_BEGIN + 15 * US, GW_BEGIN + 24 * US, &b,
		 &e); /* by more than the clocks' error: the longer part */
	CU_ASSERT(b == 20003 && e == 24000);
	CU_ASSERT_EQUAL(gpu_total("calls_clipped_beyond_clock_error"), 1);
	cJSON_Delete(doc);
	one_call(GW_BEGIN + 10 * US, GW_BEGIN + 20 * US, &b,
		 &e); /* the operator's own times: inside it, no clipping */
	CU_ASSERT(b == 10003 && e == 19997);
	CU_ASSERT_EQUAL(gpu_total("calls_clipped"), 0);
	cJSON_Delete(doc);
	one_call(GW_BEGIN + 29 * US, GW_BEGIN + 41 * US, &b, &e); /* around one: as it is */
	CU_ASSERT(b == 29000 && e == 41000);
	cJSON_Delete(doc);
}

struct span {
	uint64_t begin, end;
};

static int by_begin(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end > y->end ? -1 : x->end < y->end;
}

/* Random operators and calls of one thread: all slices nest strictly, and no call becomes longer. */
static void test_random(void)
{
	static struct span spans[4096];
	uint32_t seed = 3, cnt = 0, depth = 0, calls = 0;
	uint64_t t = GW_BEGIN, stack_end[64], kept = 0, whole = 0;
	const cJSON *e;

	start();
	for (uint32_t i = 0; i < 600; i++) { /* siblings with children, ends reported before their parents' */
		uint64_t b = t + 50, e2 = b + 2000;

		seed = seed * 1664525 + 1013904223;
		CU_ASSERT_EQUAL(gw__slice(&w, 3 * i + 2, "c", b + 100 + (seed >> 8) % 500,
					  b + 900 + (seed >> 16) % 500),
				0);
		CU_ASSERT_EQUAL(gw__slice(&w, 3 * i + 1, "p", b, e2), 0);
		t = e2 + (seed >> 4) % 300;
	}
	for (uint32_t i = 0; i < 1500; i++) {
		uint64_t b = GW_BEGIN + (uint64_t)i * 850, len;

		seed = seed * 1664525 + 1013904223;
		b += (seed >> 8) % 800;
		len = (seed >> 20) % 1500 + 10;
		gw__call(&w, "cudaStreamQuery", b, b + len);
		whole += len;
	}
	finish();
	cJSON_ArrayForEach(e, get(doc, "traceEvents"))
	{
		if (strcmp(str(e, "ph"), "X") != 0 || !cJSON_IsNumber(get(e, "pid")))
			continue;
		spans[cnt].begin = (uint64_t)((num(e, "ts") - BEGIN_US) * 1000 + 0.5);
		spans[cnt].end = spans[cnt].begin + (uint64_t)(num(e, "dur") * 1000 + 0.5);
		if (!strcmp(str(e, "cat"), "cuda_runtime")) {
			calls++;
			kept += spans[cnt].end - spans[cnt].begin;
			CU_ASSERT(spans[cnt].end > spans[cnt].begin);
		}
		cnt++;
	}
	qsort(spans, cnt, sizeof(spans[0]), by_begin);
	for (uint32_t i = 0; i < cnt; i++) {
		while (depth && stack_end[depth - 1] <= spans[i].begin)
			depth--;
		CU_ASSERT_FATAL(!depth || spans[i].end < stack_end[depth - 1]);
		CU_ASSERT_FATAL(depth < 64);
		stack_end[depth++] = spans[i].end;
	}
	CU_ASSERT_EQUAL(calls + gpu_total("calls_left_out"), 1500);
	CU_ASSERT(calls > 1400 && kept < whole && kept > whole / 3);
	CU_ASSERT(gpu_total("calls_clipped") > 50 && gpu_total("calls_clipped_beyond_clock_error") > 50);
	cJSON_Delete(doc);
}

/* Calls that reach out of the window are cut at its edge; those outside are not in the trace. */
static void test_window(void)
{
	start();
	gw__call(&w, "cudaStreamSynchronize", GW_BEGIN - 100 * US, GW_BEGIN + 5 * US);
	gw__call(&w, "cudaMalloc", GW_BEGIN - 300 * US, GW_BEGIN - 200 * US);
	finish();
	CU_ASSERT_EQUAL(num(must("X", "cuda_runtime", "cudaStreamSynchronize", 0), "ts"), BEGIN_US);
	CU_ASSERT_EQUAL(num(must("X", "cuda_runtime", "cudaStreamSynchronize", 0), "dur"), 5);
	CU_ASSERT_PTR_NULL(event("X", "cuda_runtime", "cudaMalloc", 0));
	CU_ASSERT_EQUAL(gpu_total("calls_left_out"), 1);
	cJSON_Delete(doc);
}

static void test_train(void)
{
	start();
	CU_ASSERT_EQUAL(gw__train(&w, 4), 0);
	finish();
	CU_ASSERT_EQUAL(gpu_total("work"), (double)w.totals.gpu_work);
	CU_ASSERT_EQUAL(gpu_total("flows"), (double)w.totals.gpu_work);
	CU_ASSERT_EQUAL(gpu_total("calls_clipped"), 4);
	CU_ASSERT_EQUAL(gpu_total("calls_left_out"), 0);
	CU_ASSERT_EQUAL(num(get(get(doc, "ptbpf_totals"), "totals"), "gpu_work"),
			(double)w.totals.gpu_work);
	cJSON_Delete(doc);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "kernel", test_kernel },
		{ "unknown device", test_unknown_device },
		{ "memory", test_memory },
		{ "synchronisation", test_sync },
		{ "flows", test_flows },
		{ "hidden", test_hidden },
		{ "annotation", test_annotation },
		{ "captures of graphs", test_captured },
		{ "metadata", test_metadata },
		{ "host only", test_host_only },
		{ "processes", test_processes },
		{ "nesting", test_nesting },
		{ "random", test_random },
		{ "window", test_window },
		{ "train", test_train },
		{ "process 1 and GPU 1", test_process_1_and_gpu_1 },
		{ "unnamed launch", test_unnamed_launch },
		CU_TEST_INFO_NULL,
	};
	int fd = mkstemp(path), rc;

	if (fd < 0)
		return 1;
	close(fd);
	rc = run_suite("chrome_gpu", tests);
	unlink(path);
	return rc;
}
