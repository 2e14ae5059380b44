/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writes CAPTURE: the made-up training loop of gpu_world.h as an agent would have recorded it, GPU records in CUPTI's
 * time and in no order. For tests from a capture to its documents.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture_builder.h"
#include "gpu_world.h"

#define STEPS 8
#define AHEAD 7777777777ULL /* CUPTI's time is ahead by so much */
#define EVENTS_MAX 4096

struct event { /* a slice's begin or end */
	uint64_t ts, id;
	uint32_t tid;
	bool end, annotation;
	char name[48];
};

static struct event events[EVENTS_MAX];
static uint32_t event_cnt;
static struct gpu_world w;

static int on_slice(void *arg, const struct slice *sl)
{
	struct event e = { .ts = sl->begin_ns,
			   .id = sl->id,
			   .tid = sl->tid,
			   .annotation = sl->cat == SLICE_USER_ANNOTATION };

	(void)arg;
	if (event_cnt + 2 > EVENTS_MAX)
		return -1;
	snprintf(e.name, sizeof(e.name), "%s", sl->name);
	events[event_cnt++] = e;
	e.end = true;
	e.ts = sl->end_ns;
	events[event_cnt++] = e;
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return x->ts < y->ts ? -1 : x->ts > y->ts;
}

static void put_slices(struct builder *b)
{
	qsort(events, event_cnt, sizeof(events[0]), by_time);
	for (uint32_t i = 0; i < event_cnt; i++) {
		const struct event *e = &events[i];
		struct ptb_rf_begin r = { .rf = 0x1000 + e->id * 64,
					  .seq = -1,
					  .scope = e->annotation ? 7 : 0 };

		builder__thread(b, 100, e->tid);
		if (e->end)
			builder__rf_end(b, e->ts, r.rf);
		else
			builder__rf_begin(b, e->ts, &r, e->name);
	}
}

/* The fields that the made-up slices have beside their records. */
static void put_work(struct builder *b, struct gw_item *it)
{
	struct gpu_slice *g = &it->g;
	uint64_t begin = g->begin_ns + AHEAD, end = g->end_ns + AHEAD;

	switch (g->what) {
	case GPU_API:
		it->rec.api.begin = begin;
		it->rec.api.end = end;
		it->rec.api.name = builder__name(b, g->name);
		break;
	case GPU_KERNEL:
		it->rec.kernel.begin = begin;
		it->rec.kernel.end = end;
		it->rec.kernel.correlation = g->correlation;
		it->rec.kernel.device = g->device;
		it->rec.kernel.context = g->context;
		it->rec.kernel.stream = g->stream;
		it->rec.kernel.name = builder__name(b, g->name);
		break;
	case GPU_MEMCPY:
	case GPU_MEMSET:
		it->rec.memory.begin = begin;
		it->rec.memory.end = end;
		it->rec.memory.correlation = g->correlation;
		it->rec.memory.device = g->device;
		it->rec.memory.context = g->context;
		it->rec.memory.stream = g->stream;
		break;
	case GPU_SYNC:
		it->rec.sync.begin = begin;
		it->rec.sync.end = end;
		it->rec.sync.correlation = g->correlation;
		it->rec.sync.context = g->context;
		it->rec.sync.stream = g->stream;
		break;
	case GPU_EVENT:
		it->rec.event.at = begin;
		it->rec.event.correlation = g->correlation;
		it->rec.event.context = g->context;
		it->rec.event.stream = g->stream;
		break;
	case GPU_OVERHEAD:
		it->rec.overhead.begin = begin;
		it->rec.overhead.end = end;
		break;
	default:
		return;
	}
	builder__thread(b, 100, it->rec.h.tid);
	builder__ring_rec(b, &it->rec.h, it->rec.h.kind, it->rec.h.len, w.s.info.end_ns - 1000);
}

static int by_chance(const void *a, const void *b)
{
	const struct gw_item *x = a, *y = b;
	uint64_t i = x->g.begin_ns * 0x9e3779b97f4a7c15ULL, k = y->g.begin_ns * 0x9e3779b97f4a7c15ULL;

	return i < k ? -1 : i > k;
}

/* Instead of the sink's: the items as they were made. */
static int take(void *arg, const struct gpu_slice *g)
{
	(void)arg;
	(void)g;
	return 0;
}

static void put_gpu(struct builder *b)
{
	uint32_t cnt = w.emitted_cnt;

	qsort(w.items, cnt, sizeof(w.items[0]), by_chance);
	for (uint32_t i = 0; i < cnt; i++)
		put_work(b, &w.items[i]);
	for (uint32_t i = 0; i < GW_DEVICES; i++) {
		w.devices[i].name = builder__name(b, w.s.names[i + 1]);
		builder__thread(b, 100, 0);
		builder__ring_rec(b, &w.devices[i].h, PTB_REC_GPU_DEVICE, sizeof(w.devices[i]),
				  GW_BEGIN + 1);
	}
	for (uint32_t i = 0; i <= 10; i++) {
		uint64_t at = GW_BEGIN + i * 100000000ULL;
		struct ptb_gpu_clock c = { .gpu_ns = at + AHEAD, .mono_ns = at, .err_ns = 400 };

		builder__ring_rec(b, &c.h, PTB_REC_GPU_CLOCK, sizeof(c), w.s.info.end_ns - 500);
	}
}

static int copy(const char *from, const char *to)
{
	char buf[65536];
	FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
	size_t n;
	int err = in && out ? 0 : -1;

	while (!err && (n = fread(buf, 1, sizeof(buf), in)))
		err = fwrite(buf, 1, n, out) == n ? 0 : -1;
	if (in)
		fclose(in);
	if (out && fclose(out))
		err = -1;
	return err;
}

int main(int argc, char **argv)
{
	struct builder *b;
	int err;

	if (argc != 2)
		return 2;
	gw__init(&w);
	w.sink = (struct session_sink){ .slice = on_slice, .gpu = take };
	if (gw__train(&w, STEPS))
		return 1;
	b = builder__new(w.s.info.begin_ns, w.s.info.end_ns);
	builder__meta(b, "gpu", "true");
	builder__meta(b, "agent", w.s.meta[0].json);
	builder__process(b, 100, "python", "python3.11", w.s.info.begin_ns);
	builder__thread_name(b, 100, 100, "python");
	builder__clock(b, w.s.info.begin_ns, 1790900000000000000ULL + w.s.info.begin_ns, 30);
	put_slices(b);
	put_gpu(b);
	err = copy(builder__path(b), argv[1]);
	builder__free(b);
	return err ? 1 : 0;
}
