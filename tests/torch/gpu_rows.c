/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Random programs with GPU work for a comparison with torch; argument: how many. stdout: one JSON object per
 * program and line, {"events": [of a session], "rows": [of key_averages]}.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/jsonw.h"
#include "capture_builder.h"
#include "model/key_averages.h"

#define BEGIN 1000000
#define END 900000000
#define OFF 5000000000ULL
#define DEPTH_MAX 5

struct program {
	struct builder *b;
	uint32_t ops[3], calls[3], kernels[3];
	uint64_t ts, device_ns[4]; /* when the stream is free */
	uint32_t correlation, handle;
};

static uint64_t later(struct program *p, uint32_t most)
{
	p->ts += 50 + (uint64_t)random() % most;
	return p->ts;
}

static void work(struct program *p, uint32_t correlation)
{
	uint32_t stream = (uint32_t)random() % 4;
	uint64_t begin = (p->device_ns[stream] > p->ts ? p->device_ns[stream] : p->ts) +
			 (uint64_t)random() % 3000;
	uint64_t end = begin + 1 + (uint64_t)random() % 20000;
	struct ptb_gpu_kernel k = { .begin = OFF + begin,
				    .end = OFF + end,
				    .correlation = correlation,
				    .name = p->kernels[random() % 3],
				    .device = stream / 2,
				    .stream = stream };
	struct ptb_gpu_memory m = { .begin = OFF + begin,
				    .end = OFF + end,
				    .correlation = correlation,
				    .copy_kind = 1,
				    .src_kind = 1 + (uint32_t)random() % 2,
				    .dst_kind = 3,
				    .device = stream / 2,
				    .stream = stream };

	p->device_ns[stream] = end;
	if (random() % 4)
		builder__ring_rec(p->b, &k.h, PTB_REC_GPU_KERNEL, sizeof(k), END);
	else
		builder__ring_rec(p->b, &m.h, random() % 2 ? PTB_REC_GPU_MEMCPY : PTB_REC_GPU_MEMSET,
				  sizeof(m), END);
}

static void call(struct program *p)
{
	uint32_t correlation = ++p->correlation, n = (uint32_t)random() % 3;
	struct ptb_gpu_api inner = { .correlation = random() % 2 ? correlation : ++p->correlation,
				     .driver = 1,
				     .name = p->calls[2] };
	struct ptb_gpu_api r = { .begin = OFF + later(p, 500),
				 .correlation = correlation,
				 .name = p->calls[random() % 2] };
	bool nested = random() % 3 == 0;

	if (nested) {
		inner.begin = OFF + later(p, 100);
		inner.end = OFF + later(p, 400);
		builder__ring_rec(p->b, &inner.h, PTB_REC_GPU_API, sizeof(inner), END);
	}
	r.end = OFF + later(p, 1000);
	builder__ring_rec(p->b, &r.h, PTB_REC_GPU_API, sizeof(r), END);
	for (uint32_t i = 0; i < n; i++)
		work(p, correlation);
}

static void block(struct program *p, uint32_t depth)
{
	uint64_t sp = 0x90000 - 0x1000 * (uint64_t)depth;
	uint32_t f = p->ops[random() % 3], handle = ++p->handle;
	bool note = random() % 4 == 0;

	if (note)
		builder__annotate(p->b, later(p, 500), sp, handle,
				  random() % 2 ? "train" : "ProfilerStep#7");
	else
		builder__enter(p->b, f, later(p, 500), sp);
	while (random() % 3) {
		if (depth < DEPTH_MAX && random() % 3)
			block(p, depth + 1);
		else
			call(p);
	}
	if (note)
		builder__scope_end(p->b, later(p, 500), sp, handle);
	else
		builder__exit(p->b, f, later(p, 500), sp - 0x10);
}

static struct builder *make(uint32_t seed)
{
	static const char *const ops[] = { "aten::linear", "aten::addmm", "aten::is_leaf" };
	static const char *const calls[] = { "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020",
					     "cuLaunchKernel" };
	static const char *const kernels[] = { "_ZN2at6native4gemmEPf", "k", "void f<int>(int)" };
	struct program p = { .b = builder__new(BEGIN, END) };

	srandom(seed);
	builder__meta(p.b, "gpu", "true");
	for (uint32_t i = 0; i < 3; i++) {
		p.ops[i] = builder__op(p.b, ops[i]);
		p.calls[i] = builder__name(p.b, calls[i]);
		p.kernels[i] = builder__name(p.b, kernels[i]);
	}
	for (uint32_t thread = 0; thread < 3; thread++) {
		struct ptb_gpu_clock c = { .gpu_ns = OFF + 1000, .mono_ns = 1000, .err_ns = 10 };

		builder__thread(p.b, 10, 10 + thread);
		builder__ring(p.b, thread);
		builder__ring_rec(p.b, &c.h, PTB_REC_GPU_CLOCK, sizeof(c), END);
		p.ts = 2000000;
		for (uint32_t i = 0; i < 10; i++)
			if (random() % 5)
				block(&p, 0);
			else
				call(&p);
	}
	return p.b;
}

/* ---- what comes of it ---- */

static int to_stdout(void *arg, const void *data, size_t len)
{
	(void)arg;
	return fwrite(data, 1, len, stdout) == len ? 0 : -1;
}

static void put_text(struct jsonw *w, const char *key, const char *text)
{
	jsonw__key(w, key);
	jsonw__str(w, text);
}

static void put_number(struct jsonw *w, const char *key, uint64_t v)
{
	jsonw__key(w, key);
	jsonw__u64(w, v);
}

static int on_slice(void *arg, const struct slice *sl)
{
	struct jsonw *w = arg;

	jsonw__begin_obj(w);
	put_text(w, "cat", sl->cat == SLICE_USER_ANNOTATION ? "user_annotation" : "cpu_op");
	put_text(w, "name", sl->name);
	put_number(w, "id", sl->id);
	put_number(w, "tid", sl->tid);
	put_number(w, "begin", sl->begin_ns);
	put_number(w, "end", sl->end_ns);
	jsonw__end_obj(w);
	return 0;
}

static int on_gpu(void *arg, const struct gpu_slice *g)
{
	static const char *const cats[] = {
		[GPU_KERNEL] = "kernel", [GPU_MEMCPY] = "gpu_memcpy", [GPU_MEMSET] = "gpu_memset", [GPU_API] = "cuda_runtime", [GPU_ANNOTATION] = "gpu_user_annotation"
	};
	uint64_t wider = g->what == GPU_ANNOTATION; /* as kineto records it */
	struct jsonw *w = arg;

	jsonw__begin_obj(w);
	put_text(w, "cat", cats[g->what]);
	put_text(w, "name", g->name);
	put_number(w, "id", g->correlation);
	put_number(w, "op", g->what == GPU_ANNOTATION ? 0 : g->at.op_slice);
	put_number(w, "tid", g->at.tid);
	put_number(w, "begin", g->begin_ns - wider);
	put_number(w, "end", g->end_ns + wider);
	jsonw__end_obj(w);
	return 0;
}

static void put_rows(struct jsonw *w, struct key_averages *ka)
{
	uint32_t cnt;
	const struct ka_row *rows = key_averages__rows(ka, &cnt);

	for (uint32_t i = 0; i < cnt; i++) {
		const struct ka_row *r = &rows[i];

		jsonw__begin_obj(w);
		put_text(w, "key", r->key);
		put_number(w, "annotation", r->is_annotation);
		put_number(w, "device", r->is_device);
		put_number(w, "count", r->count);
		put_number(w, "self_cpu", r->self_cpu_ns);
		put_number(w, "cpu", r->cpu_total_ns);
		put_number(w, "self_device", r->self_device_ns);
		put_number(w, "device_total", r->device_total_ns);
		jsonw__end_obj(w);
	}
}

static int show(uint32_t seed)
{
	struct builder *b = make(seed);
	struct session_opts opts = { .no_steps = true };
	struct session *s = builder__session(b, &opts);
	struct key_averages *ka = key_averages__new(NULL);
	struct jsonw w = { 0 };
	struct session_sink sinks[] = { { .arg = &w, .slice = on_slice, .gpu = on_gpu },
					key_averages__sink(ka) };
	struct session_totals totals;
	int err = jsonw__init(&w, to_stdout, NULL, 64 * 1024);

	jsonw__begin_obj(&w);
	jsonw__key(&w, "events");
	jsonw__begin_arr(&w);
	if (!err)
		err = session__run(s, sinks, 2, &totals);
	jsonw__end_arr(&w);
	jsonw__key(&w, "rows");
	jsonw__begin_arr(&w);
	put_rows(&w, ka);
	jsonw__end_arr(&w);
	jsonw__end_obj(&w);
	jsonw__newline(&w);
	if (!err)
		err = jsonw__flush(&w);
	jsonw__free(&w);
	key_averages__free(ka);
	builder__free(b);
	return err;
}

int main(int argc, char **argv)
{
	uint32_t cnt = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
	int err = 0;

	for (uint32_t i = 0; i < cnt && !err; i++)
		err = show(i);
	return err ? 1 : 0;
}
