/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* report --gpu: busy shares, latencies, and each cause of a gap, from made-up work whose answer is known. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "gpu_world.h"
#include "json_keys.h"
#include "suite.h"

#define US 1000ULL
#define MS 1000000ULL
#define T (GW_BEGIN + 100 * MS)

static struct gpu_world w;
static void *gr;
static cJSON *doc;
static char *text;

static void start(void)
{
	gw__init(&w);
	w.s.info.device_cnt = 1;
	CU_ASSERT_EQUAL_FATAL(gpus_report.open(&(struct output_args){ .s = &w.s }, &gr), 0);
	w.sink = gpus_report.sink(gr);
}

static char *print(bool json, int limit)
{
	struct output_args args = { .s = &w.s, .row_limit = limit, .json = json };
	char *out = NULL;
	size_t len = 0;

	args.out = open_memstream(&out, &len);
	CU_ASSERT_EQUAL_FATAL(gpus_report.finish(gr, &args, &w.totals), 0);
	fclose(args.out);
	return out;
}

static void finish(void)
{
	char *json;

	CU_ASSERT_EQUAL_FATAL(gw__emit(&w), 0);
	text = print(false, 10);
	json = print(true, -1);
	doc = cJSON_Parse(json);
	CU_ASSERT_PTR_NOT_NULL_FATAL(doc);
	free(json);
}

static void end(void)
{
	cJSON_Delete(doc);
	free(text);
	gpus_report.free(gr);
}

static const cJSON *row(const char *list, int nr)
{
	const cJSON *v = cJSON_GetArrayItem(get(doc, list), nr);

	CU_ASSERT_PTR_NOT_NULL_FATAL(v);
	return v;
}

/* The gap that begins so long after the window. */
static const cJSON *gap(uint64_t begin)
{
	const cJSON *g;

	cJSON_ArrayForEach(g, get(doc, "gaps")) if ((uint64_t)num(g, "begin_ns") ==
						    begin - GW_BEGIN) return g;
	fprintf(stderr, "no gap at +%llu\n", (unsigned long long)(begin - GW_BEGIN));
	CU_FAIL_FATAL("no such gap");
	return NULL;
}

static void expect(uint64_t begin, uint64_t ns, const char *cause, const char *where,
		   const char *op, const char *call, const char *annotation)
{
	const cJSON *g = gap(begin);

	CU_ASSERT_EQUAL(num(g, "ns"), (double)ns);
	CU_ASSERT_STRING_EQUAL(str(g, "cause"), cause);
	CU_ASSERT_STRING_EQUAL(str(g, "where"), where);
	CU_ASSERT_STRING_EQUAL(str(g, "operator"), op);
	CU_ASSERT_STRING_EQUAL(str(g, "call"), call);
	CU_ASSERT_STRING_EQUAL(str(g, "annotation"), annotation);
}

/* Busy is a union: kernels side by side count once. */
static void test_busy(void)
{
	const cJSON *g;

	start();
	gw__kernel(&w, "a", 0, 7, T, T + 10 * MS, NULL);
	gw__kernel(&w, "b", 0, 8, T + 5 * MS, T + 20 * MS, NULL);
	gw__copy(&w, 1, 4000, 0, 9, T + 15 * MS, T + 30 * MS, NULL);
	gw__kernel(&w, "a", 0, 7, T + 20 * MS + 1500, T + 21 * MS, NULL); /* 1.5 us later: no gap */
	gw__kernel(&w, "late", 0, 7, GW_BEGIN + 990 * MS, GW_BEGIN + 1100 * MS, NULL);
	finish();
	g = row("gpus", 0);
	CU_ASSERT_EQUAL(num(g, "kernel_busy_ns"), 31 * MS - 1500.0);
	CU_ASSERT_EQUAL(num(g, "busy_ns"), 40.0 * MS);
	CU_ASSERT_EQUAL(num(g, "busy_share"), 0.04);
	CU_ASSERT_EQUAL(num(g, "short_gap_ns"), 1500);
	CU_ASSERT_EQUAL(num(g, "short_gap_count"), 1);
	CU_ASSERT_EQUAL(num(g, "gap_ns") + num(g, "kernel_busy_ns") + 1500, 1000.0 * MS);
	CU_ASSERT_EQUAL(num(doc, "stream_count"), 3);
	CU_ASSERT_EQUAL(num(row("streams", 1), "kernel_busy_ns"), 15.0 * MS);
	CU_ASSERT_EQUAL(num(row("kernels", 0), "ns"), 110.0 * MS);
	CU_ASSERT_STRING_EQUAL(str(row("kernels", 1), "name"), "b");
	CU_ASSERT_EQUAL(num(row("copies", 0), "bytes"), 4000);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(text, "busy           3.1 % of the time with kernels, 4.0 % with copies"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "NVIDIA H100"));
	CU_ASSERT_PTR_NULL(strstr(text, "A100"));
	end();
}

/* A kernel at T..T+100 us, the next one at T+1100 us, launched at `launch` from its begin on. */
static struct gw_item *pair(uint64_t launch)
{
	struct gw_item *c;

	gw__context(&w, 100, 0, NULL, NULL);
	c = gw__call(&w, "cudaLaunchKernel", T - 10 * US, T - 5 * US);
	gw__kernel(&w, "first", 0, 7, T, T + 100 * US, c);
	c = gw__call(&w, "cudaLaunchKernel", launch, launch + 5 * US);
	return gw__kernel(&w, "second", 0, 7, T + 1100 * US, T + 1200 * US, c);
}

static void test_no_launch(void)
{
	start(); /* nothing at all on the thread: Python, in an annotation */
	pair(T + 1090 * US);
	CU_ASSERT_EQUAL(gw__annotation(&w, 5, "load data", T + 200 * US, T + 900 * US, 0), 0);
	CU_ASSERT_EQUAL(gw__annotation(&w, 4, "ProfilerStep#3", T, T + 2000 * US, SLICE_DERIVED), 0);
	finish();
	expect(T + 100 * US, MS, "no launch", "python", "", "", "load data");
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "no launch: Python, no operator in \"load data\""));
	end();
	start(); /* operators without a launch: the outermost that took most */
	pair(T + 1090 * US);
	CU_ASSERT_EQUAL(gw__slice(&w, 6, "aten::empty", T + 130 * US, T + 140 * US), 0);
	CU_ASSERT_EQUAL(gw__slice(&w, 5, "aten::sort", T + 120 * US, T + 700 * US), 0);
	CU_ASSERT_EQUAL(gw__slice(&w, 7, "aten::cat", T + 800 * US, T + 900 * US), 0);
	finish();
	expect(T + 100 * US, MS, "no launch", "operator", "aten::sort", "", "");
	end();
	start(); /* a call that took long, and is no waiting */
	pair(T + 1090 * US);
	gw__context(&w, 100, 9, "aten::empty", NULL);
	gw__call(&w, "cudaMalloc", T + 200 * US, T + 1000 * US);
	CU_ASSERT_EQUAL(gw__slice(&w, 9, "aten::empty", T + 190 * US, T + 1010 * US), 0);
	finish();
	expect(T + 100 * US, MS, "no launch", "call", "aten::empty", "cudaMalloc", "");
	end();
	start(); /* another thread launched what comes next, and did nothing before: the first one's work counts */
	pair(T + 1090 * US)->g.at.tid = 101;
	CU_ASSERT_EQUAL(gw__slice(&w, 5, "aten::sort", T + 120 * US, T + 1000 * US), 0);
	finish();
	expect(T + 100 * US, MS, "no launch", "operator", "aten::sort", "", "");
	end();
}

static void test_sync(void)
{
	start(); /* waited until the GPU was idle, launched soon after */
	pair(T + 150 * US);
	finish();
	expect(T + 100 * US, MS, "queued", "", "", "", ""); /* not yet: launched 950 us before it began */
	end();
	start();
	pair(T + 1090 * US);
	gw__context(&w, 100, 9, "aten::item", "eval");
	gw__call(&w, "cudaStreamSynchronize", T + 10 * US, T + 950 * US);
	finish();
	expect(T + 100 * US, MS, "synchronisation", "call", "aten::item", "cudaStreamSynchronize", "eval");
	CU_ASSERT_PTR_NOT_NULL(
		strstr(text, "synchronisation: cudaStreamSynchronize in aten::item in \"eval\""));
	end();
	start(); /* it ended at once, and then the host did something else for long */
	pair(T + 1090 * US);
	gw__call(&w, "cudaStreamSynchronize", T + 10 * US, T + 105 * US);
	finish();
	expect(T + 100 * US, MS, "no launch", "python", "", "", "");
	end();
	start(); /* a copy that is not asynchronous waits as well */
	pair(T + 1090 * US);
	gw__call(&w, "cudaMemcpy", T + 10 * US, T + 1000 * US);
	finish();
	expect(T + 100 * US, MS, "synchronisation", "call", "", "cudaMemcpy", "");
	end();
}

static void test_copy_latency(void)
{
	start(); /* a copy runs meanwhile */
	pair(T + 90 * US);
	gw__copy(&w, 1, 1 << 20, 0, 9, T + 80 * US, T + 1000 * US, NULL);
	finish();
	expect(T + 100 * US, MS, "copy", "", "", "", "");
	end();
	start(); /* launched in time: the launch itself takes this long */
	gw__kernel(&w, "first", 0, 7, T, T + 100 * US,
		   gw__call(&w, "cudaLaunchKernel", T - 10 * US, T - 5 * US));
	gw__kernel(&w, "second", 0, 7, T + 112 * US, T + 200 * US,
		   gw__call(&w, "cudaLaunchKernel", T + 101 * US, T + 105 * US));
	finish();
	expect(T + 100 * US, 12 * US, "launch latency", "", "", "", "");
	CU_ASSERT_EQUAL(num(get(row("gpus", 0), "latency_idle_stream"), "median_ns"), 5000);
	CU_ASSERT_EQUAL(num(get(row("gpus", 0), "latency_idle_stream"), "count"), 2);
	end();
	start(); /* what ended it has no launch in the capture */
	gw__kernel(&w, "first", 0, 7, T, T + 100 * US, NULL);
	finish();
	expect(GW_BEGIN, 100 * MS, "not known", "", "", "", "");
	CU_ASSERT_EQUAL(num(doc, "unlinked"), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "1 of 1 have no launch in the capture"));
	end();
}

/* 100 kernels of 10 us launched at once, every 1 us, onto one stream. */
static void test_queue(void)
{
	const cJSON *g;

	start();
	for (uint64_t i = 0; i < 100; i++)
		gw__kernel(&w, "k", 0, 7, T + 10 * US + i * 10 * US, T + 20 * US + i * 10 * US,
			   gw__call(&w, "cudaLaunchKernel", T + i * US, T + i * US + 500));
	finish();
	g = row("gpus", 0);
	CU_ASSERT_EQUAL(num(g, "queue_depth_max"), 91); /* the first 9 or 10 have begun when the last is launched */
	CU_ASSERT_EQUAL(num(get(g, "latency"), "count"), 100);
	CU_ASSERT_EQUAL(num(get(g, "latency"), "median_ns"), 9500 + 49 * 9000.0);
	CU_ASSERT_EQUAL(num(get(g, "latency"), "p99_ns"), 9500 + 98 * 9000.0);
	CU_ASSERT_EQUAL(num(get(g, "latency_idle_stream"), "count"), 1);
	end();
}

/* The operator named beside a kernel launches most of its time, not most of its launches. */
static void test_operator(void)
{
	start();
	gw__context(&w, 100, 1, "aten::mm", NULL);
	gw__kernel(&w, "gemm", 0, 7, T, T + MS, gw__call(&w, "cudaLaunchKernel", T - 9 * US, T - 5 * US));
	gw__context(&w, 100, 2, "aten::bmm", NULL);
	gw__kernel(&w, "gemm", 0, 7, T + 2 * MS, T + 2 * MS + 9 * US,
		   gw__call(&w, "cudaLaunchKernel", T + 10 * US, T + 15 * US));
	gw__kernel(&w, "gemm", 0, 7, T + 3 * MS, T + 3 * MS + 9 * US,
		   gw__call(&w, "cudaLaunchKernel", T + 20 * US, T + 25 * US));
	gw__overhead(&w, "Buffer Flush", T, T + 70 * US);
	finish();
	CU_ASSERT_STRING_EQUAL(str(row("kernels", 0), "operator"), "aten::mm");
	CU_ASSERT_EQUAL(num(row("kernels", 0), "operator_ns"), 1.0 * MS);
	CU_ASSERT_EQUAL(num(row("kernels", 0), "shortest_ns"), 9000);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "<- aten::mm"));
	CU_ASSERT_STRING_EQUAL(str(row("overheads", 0), "name"), "Buffer Flush");
	CU_ASSERT_EQUAL(num(row("overheads", 0), "ns"), 70000);
	CU_ASSERT_EQUAL(num(doc, "launch_count"), 3);
	end();
}

static void test_host(void)
{
	struct gw_item *c;

	start();
	w.s.info.has_gpu = false;
	w.s.info.has_cuda_calls = w.host_only = true;
	w.s.info.device_cnt = 0;
	gw__context(&w, 100, 1, "aten::mm", NULL);
	c = gw__call(&w, "cudaLaunchKernel", T, T + 4 * US);
	c->g.kernel_name = "gemm\x1b[31m";
	gw__call(&w, "cudaLaunchKernel", T + 10 * US, T + 14 * US)->rec.host.result = 1;
	c = gw__call(&w, "cudaMemcpyAsync", T + 20 * US, T + 22 * US);
	c->rec.host.bytes = 1 << 20;
	gw__call(&w, "cudaDeviceSynchronize", T + 30 * US, T + 100 * MS);
	finish();
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "No agent recorded the GPU's work"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(text, "3 launches, copies and fills, 3 per second, 10.0 us in them"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "waited for the GPU 1 times, 99.970 ms in all, 10.0 %"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "cudaDeviceSynchronize in aten::mm"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "1 failed"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "gemm?[31m")); /* steers no terminal */
	CU_ASSERT_PTR_NULL(strchr(text, 0x1b));
	CU_ASSERT(cJSON_IsFalse(get(doc, "activities")));
	CU_ASSERT_EQUAL(num(doc, "kernel_count"), 2);
	end();
}

static void test_nothing(void)
{
	start();
	w.s.info.has_gpu = false;
	w.s.meta[0].json =
		"[{\"pid\": 100, \"source\": \"agent\", \"gpu_why\": \"no CUPTI library was found\"}]";
	finish();
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "The agent in process 100 reported no GPU activities: "
					    "no CUPTI library was found"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "No CUDA activity was recorded"));
	end();
	start();
	w.s.meta[0].json =
		"[{\"pid\": 100, \"gpu\": true, \"host_calls\": true, \"gpu_why\": \"another tool uses CUPTI in this process\"}]";
	finish();
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "stopped reporting GPU activities: another tool uses CUPTI "
					    "in this process; CUDA calls"));
	end();
	start();
	finish();
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "No GPU was active"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "never: nothing was launched on it"));
	end();
}

static void test_losses(void)
{
	start();
	w.s.counters[PTB_CNT_GPU_DROPPED] = 5;
	gw__kernel(&w, "a", 0, 7, T, T + MS, gw__call(&w, "cudaLaunchKernel", T + 5 * US, T + 6 * US));
	finish();
	CU_ASSERT_PTR_NOT_NULL(
		strstr(text, "The capture is incomplete and the figures are bounds: 5 activity records"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "1 of 1 began before their launch by more than that"));
	CU_ASSERT(cJSON_IsFalse(get(doc, "complete")));
	end();
}

/* By graph, within it by what captured its nodes; most time first. Launches are distinct calls. */
static void test_graphs(void)
{
	static const struct gpu_origin mm = { "aten::mm", 17, 0, "layer > aten::mm" },
				       add = { "aten::add", 18, 0, "layer > aten::add" },
				       none = { "", 0, 0, "" };
	static const struct gpu_origin *const captures[] = { &mm, &add, &mm, &none, NULL };
	const cJSON *g, *c;

	start();
	for (uint64_t launch = 0; launch < 3; launch++) {
		const struct gw_item *call =
			gw__call(&w, "cudaGraphLaunch", T + launch * MS, T + launch * MS + 10);

		for (uint32_t i = 0; i < 5; i++) {
			uint64_t at = T + launch * MS + i * 20 * US;
			struct gpu_slice *k =
				&gw__kernel(&w, "k", 0, 7, at, at + (1 + i * i) * US, call)->g;

			k->graph = 4;
			k->graph_node = i + 1;
			k->origin = captures[i];
		}
	}
	gw__kernel(&w, "k", 0, 7, T + 500 * MS, T + 501 * MS, NULL)->g.graph_node = 9;
	gw__kernel(&w, "k", 0, 7, T + 600 * MS, T + 601 * MS, NULL); /* of no graph */
	finish();
	CU_ASSERT_EQUAL(num(doc, "graph_count"), 2);
	CU_ASSERT_EQUAL(num(doc, "graph_ns"), 1105.0 * US);
	CU_ASSERT_EQUAL(num(doc, "graph_work_unknown"), 4);
	CU_ASSERT_EQUAL(num(row("graphs", 0), "graph"), 0);
	g = row("graphs", 1);
	CU_ASSERT_EQUAL(num(g, "graph"), 4);
	CU_ASSERT_EQUAL(num(g, "launches"), 3);
	CU_ASSERT_EQUAL(num(g, "count"), 15);
	CU_ASSERT_EQUAL(num(g, "ns"), 105.0 * US);
	CU_ASSERT_EQUAL(num(g, "captured_in_count"), 4);
	c = cJSON_GetArrayItem(get(g, "captured_in"), 0);
	CU_ASSERT(cJSON_IsFalse(get(c, "known")));
	CU_ASSERT_EQUAL(num(c, "ns"), 51.0 * US);
	c = cJSON_GetArrayItem(get(g, "captured_in"), 2);
	CU_ASSERT_STRING_EQUAL(str(c, "within"), "layer > aten::mm");
	CU_ASSERT_STRING_EQUAL(str(c, "operator"), "aten::mm");
	CU_ASSERT_EQUAL(num(c, "count"), 6);
	CU_ASSERT_EQUAL(num(c, "ns"), 18.0 * US);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "graph 4 of process"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "3 launches"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "(no operator)"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(text, "Of 4 kernels, copies and fills it is not known what captured them"));
	end();
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "busy", test_busy },
		{ "graphs", test_graphs },
		{ "no launch", test_no_launch },
		{ "synchronisation", test_sync },
		{ "copy and latency", test_copy_latency },
		{ "queue", test_queue },
		{ "operator", test_operator },
		{ "host", test_host },
		{ "nothing", test_nothing },
		{ "losses", test_losses },
		CU_TEST_INFO_NULL,
	};

	return run_suite("gpu_report", tests);
}
