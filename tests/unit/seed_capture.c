/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Every kind of record at least once; see seed_capture.h. */
#include "seed_capture.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *suffix;

/* The text, followed by what the caller appends to each. */
static const char *T(const char *text)
{
	static char bufs[16][1024];
	static unsigned int next;
	char *buf = bufs[next++ % 16];

	snprintf(buf, sizeof(bufs[0]), "%s%s", text, suffix);
	return buf;
}

/* Shapes of an addition or so, with a state and a double that comes later. */
static struct value_words values(uint32_t i)
{
	static const int64_t shape[] = { 2, 3, 4, 5 };
	struct value_words w = { 0 };

	vw__state(&w, i % 2, i, 1, 2);
	vw__shape(&w, i % 5, shape);
	vw__pending(&w, 0);
	vw__list(&w, PTB_VAL_TENSORS, 2, 2);
	vw__shape(&w, 1, shape);
	vw__undefined(&w, 0);
	vw__string(&w, T("text"));
	vw__ints(&w, i % 4, shape);
	return w;
}

static void control_records(struct builder *b, uint32_t add)
{
	static const struct session_keys keys = { .autograd = 1, .nested = 2 };

	builder__process(b, 1, T("python"), T("python3"), 900);
	builder__thread_name(b, 1, 2, T("worker"));
	builder__native_stack(b, 1, 2, "at::_ops::mm::call (libtorch_cpu.so)\n...\n");
	builder__opdef(b, 1, 0x10, T("profiler::_record_function_enter_new"), false);
	builder__opdef(b, 1, 0x20, T("aten::size.int"), true);
	builder__node_type(b, 1, 0x70, T("torch::autograd::generated::AddBackward0"));
	builder__lost(b, 50000, 51000, 3);
	builder__counter(b, PTB_CNT_HITS, 9);
	builder__meta(b, "version", "\"1\"");
	builder__meta(b, "args", "\"full\"");
	builder__meta(b, "profile_memory", "true");
	builder__meta(b, "kernel_memory", "true");
	builder__meta(b, "gpu", "true");
	builder__meta(b, "cuda_calls", "true");
	builder__schema(b, add, T("aten::add.Tensor(Tensor self) -> Tensor"));
	builder__opdef_schema(b, 1, 0x20, T("aten::size.int(Tensor self) -> int"));
	builder__keys(b, 1, &keys);
	builder__clock(b, 1000, 2000, 1);
}

static void memory_records(struct builder *b, uint64_t ts, uint64_t sp, uint32_t api)
{
	struct ptb_mem_report r = {
		.sp = sp, .addr = ts & ~0xfffULL, .bytes = ts % 3 ? 64 : -64, .device_type = 1
	};
	struct ptb_mem_api a = { .h.site = 2 * api, .sp = sp, .begin_ns = ts - 2, .addr = 0xd000 };
	struct ptb_kmem k = { .minor = 3, .rss_delta = 4096 };
	struct ptb_kmem_call call = { .bytes = 1 << 20 };
	struct ptb_kmem_stall stall = { .begin_ns = ts };
	struct ptb_kmem_event ev = { .what = PTB_KMEM_OOM_KILL };

	builder__mem_alloc(b, ts, sp, 0xa000 + (ts & 0xf000), 100);
	builder__mem_alloc(b, ts + 1, sp, 0xa000, 100);
	builder__mem_free(b, ts + 2, sp, 0xa000);
	builder__ring_rec(b, &r.h, PTB_REC_MEM_REPORT, sizeof(r), ts + 3);
	builder__ring_rec(b, &r.h, PTB_REC_MEM_OOM, sizeof(r), ts + 4);
	builder__ring_rec(b, &a.h, PTB_REC_MEM_API, sizeof(a), ts + 5);
	builder__ring_rec(b, &k.h, PTB_REC_KMEM, sizeof(k), ts + 6);
	builder__ring_rec(b, &call.h, PTB_REC_KMEM_CALL, sizeof(call), ts + 7);
	builder__ring_rec(b, &stall.h, PTB_REC_KMEM_STALL, sizeof(stall), ts + 8);
	builder__ring_rec(b, &ev.h, PTB_REC_KMEM_EVENT, sizeof(ev), ts + 9);
}

static void rss_sample(struct builder *b)
{
	struct ptb_rss_sample r = {
		.h.kind = PTB_REC_RSS_SAMPLE, .h.len = sizeof(r), .h.tgid = 1, .h.ts_ns = 1500
	};

	builder__raw(b, &r.h);
}

static void gpu_records(struct builder *b, uint64_t ts)
{
	struct ptb_gpu_clock c = { .gpu_ns = ts + 5000, .mono_ns = ts, .err_ns = 3 };
	struct ptb_gpu_api api = {
		.begin = ts + 5000, .end = ts + 5020, .correlation = (uint32_t)ts, .name = 1
	};
	struct ptb_gpu_kernel k = { .begin = ts + 5100,
				    .end = ts + 5200,
				    .graph_node = ts,
				    .correlation = (uint32_t)ts,
				    .name = 2 };
	struct ptb_gpu_memory m = {
		.begin = ts + 5300, .end = ts + 5400, .correlation = (uint32_t)ts, .stream = 7
	};
	struct ptb_gpu_sync s = { .begin = ts + 5000, .end = ts + 5010, .what = 3, .stream = UINT32_MAX };
	struct ptb_gpu_event e = { .at = ts + 5400 };
	struct ptb_gpu_overhead o = { .begin = ts + 5000, .end = ts + 5001, .what = 1 << 16 };
	struct ptb_gpu_device d = { .id = (uint32_t)(ts & 1), .name = 1 };
	struct ptb_gpu_note n = { .value = 1 };
	struct ptb_gpu_graph_node node = { .at_ns = ts, .node = ts, .original = ts & 1 ? 0 : ts - 1 };
	struct ptb_cuda_call call = { .h.site = 2, .begin_ns = ts, .func = 0x10 };

	builder__ring_rec(b, &c.h, PTB_REC_GPU_CLOCK, sizeof(c), ts);
	builder__ring_rec(b, &api.h, PTB_REC_GPU_API, sizeof(api), ts);
	builder__ring_rec(b, &k.h, PTB_REC_GPU_KERNEL, sizeof(k), ts);
	builder__ring_rec(b, &m.h, PTB_REC_GPU_MEMCPY, sizeof(m), ts);
	builder__ring_rec(b, &m.h, PTB_REC_GPU_MEMSET, sizeof(m), ts);
	builder__ring_rec(b, &s.h, PTB_REC_GPU_SYNC, sizeof(s), ts);
	builder__ring_rec(b, &e.h, PTB_REC_GPU_EVENT, sizeof(e), ts);
	builder__ring_rec(b, &o.h, PTB_REC_GPU_OVERHEAD, sizeof(o), ts);
	builder__ring_rec(b, &d.h, PTB_REC_GPU_DEVICE, sizeof(d), ts);
	builder__ring_rec(b, &n.h, PTB_REC_GPU_NOTE, sizeof(n), ts);
	builder__ring_rec(b, &node.h, PTB_REC_GPU_GRAPH_NODE, sizeof(node), ts);
	builder__ring_rec(b, &call.h, PTB_REC_CUDA_CALL, sizeof(call), ts + 5);
}

static void agent_records(struct builder *b, uint64_t ts, const struct value_words *w)
{
	gpu_records(b, ts + 5);
	builder__values(b, w);
	builder__rf_begin(b, ts,
			  &(struct ptb_rf_begin){ .rf = 0x7000, .opdef = 0x10, .seq = 3, .logical = 1 },
			  NULL);
	builder__rf_begin(b, ts + 10, &(struct ptb_rf_begin){ .rf = 0x7100, .scope = 7 }, T("scope"));
	builder__rf_end(b, ts + 20, 0x7100);
	builder__values(b, w);
	builder__rf_end(b, ts + 30, 0x7000);
}

/* Every kind of record at least once, small enough that its blocks are stored as they are or nearly. */
static void put_records(struct builder *b)
{
	uint32_t add = builder__op(b, T("aten::add.Tensor"));
	uint32_t box = builder__func(b, T("callBoxed"), PTB_FUNC_BOXED, true);
	uint32_t node = builder__func(b, T("Engine::evaluate_function"), PTB_FUNC_NODE, true);
	uint32_t call = builder__func(b, T("Node::operator()"), PTB_FUNC_NODE_CALL, true);
	uint32_t py = builder__func(b, T("apply"), PTB_FUNC_PYFUNC, true);
	uint32_t api = builder__func(b, T("cudaMalloc"), PTB_FUNC_CUDA_MEMORY, true);
	struct value_words w, late = { 0 };

	control_records(b, add);
	rss_sample(b);
	vw__late(&late, 0, 1.5);
	for (uint64_t ts = 2000; ts < 90000; ts += 9000) {
		w = values((uint32_t)(ts / 9000));
		builder__thread(b, 1, 1);
		builder__ring(b, 0);
		builder__boxed(b, box, ts, 0xb000, 0x10);
		builder__values(b, &w);
		builder__annotate(b, ts + 100, 0xa000, 0x1, T("Optimizer.step#SGD.step"));
		agent_records(b, ts + 110, &w);
		builder__exit(b, box, ts + 200, 0xaf00);
		builder__values(b, &w);
		builder__enter(b, add, ts + 300, 0x9000);
		builder__values(b, &late);
		builder__args_more(b, add, ts + 305, 0x8f80);
		memory_records(b, ts + 306, 0x8f00, api);
		builder__seq(b, ts + 316, 0x8000, ts);
		builder__boxed(b, box, ts + 320, 0x8000, 0x20);
		builder__exit(b, box, ts + 330, 0x7f00);
		builder__values(b, &w);
		builder__exit(b, add, ts + 400, 0x8f00);
		builder__enter(b, add, ts + 420, 0x9000);
		builder__catch(b, ts + 440, 0x9800);
		builder__scope_end(b, ts + 500, 0xa000, 0x1);
		memory_records(b, ts + 510, 0xa000, api);
		builder__scope_begin(b, ts + 600, 0x9000, 0x5, 0, T("Torch-Compiled Region: 0/0"));
		builder__values(b, &w);
		builder__named(b, py, ts + 700, 0x8000, T("MyFn"));
		builder__exit(b, py, ts + 800, 0x7f00);
		builder__scope_end(b, ts + 900, 0x9000, 0x5);
		builder__thread(b, 1, 2);
		builder__ring(b, 1);
		builder__node(b, node, ts + 1000, 0x9000, 0x70, ts, 1, NULL);
		builder__values(b, &w);
		builder__enter(b, call, ts + 1100, 0x8000);
		builder__node(b, call, ts + 1110, 0x7000, 0x70, ts, 1, T("MyFnBackward"));
		builder__exit(b, call, ts + 1120, 0x6f00);
		builder__exit(b, call, ts + 1200, 0x7f00);
		builder__exit(b, node, ts + 1300, 0x8f00);
		builder__task(b, PTB_REC_THREAD_NEW, ts + 1400, 1, 3, false, T("t"));
		builder__task(b, PTB_REC_EXIT, ts + 1500, 0, 0, false, T("t"));
		builder__task(b, ts % 2 ? PTB_REC_FORK : PTB_REC_EXEC, ts + 1600, 4, 4, false, T("t"));
		builder__round(b, ts + 1700);
	}
}

struct builder *seed_capture__new(const char *behind)
{
	struct builder *b = builder__new(1000, 100000);

	suffix = behind;
	put_records(b);
	return b;
}
