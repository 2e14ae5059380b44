/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Events of a made-up training process; see memory_world.h. */
#include "memory_world.h"

#include <stdlib.h>
#include <string.h>

#define MIB (1ULL << 20)

void world__init(struct world *w, uint32_t tgid)
{
	*w = (struct world){
		.s = fake_session(), .tgid = tgid, .tid = tgid, .step = -1, .next_addr = 0x7f0000000000
	};
	w->s.info.has_memory = w->s.info.has_kernel_memory = true;
	w->now = w->s.info.begin_ns + 1000;
	w->rss[PTB_RSS_FILE] = 100 * MIB;
	w->rss[PTB_RSS_ANON] = 200 * MIB;
	world__place(w, "", "", "", "");
}

void world__place(struct world *w, const char *outer, const char *op, const char *annotation,
		  const char *shapes)
{
	w->outer = outer;
	w->op = op;
	w->annotation = annotation;
	w->shapes = shapes;
}

static struct op_context position(const struct world *w)
{
	return (struct op_context){ .tgid = w->tgid,
				    .tid = w->tid,
				    .op = w->op,
				    .outer_op = w->outer,
				    .annotation = w->annotation,
				    .step = w->step,
				    .enclosed = true };
}

static void emit_memory(struct world *w, struct memory_event *ev)
{
	w->now += 1000;
	ev->ts_ns = w->now;
	ev->at = position(w);
	ev->allocated = w->allocated;
	if (!ev->device_type)
		ev->device_index = -1;
	if (w->sink.memory(w->sink.arg, ev))
		abort();
}

uint64_t world__alloc(struct world *w, uint64_t bytes)
{
	struct memory_block *b = &w->live[w->live_cnt++];
	struct memory_event ev = {
		.what = MEMORY_ALLOC, .addr = w->next_addr, .bytes = (int64_t)bytes, .block = b
	};

	if (w->live_cnt > WORLD_BLOCKS)
		abort();
	*b = (struct memory_block){ .addr = w->next_addr,
				    .bytes = bytes,
				    .ts_ns = w->now + 1000,
				    .op = w->op,
				    .outer_op = w->outer,
				    .annotation = w->annotation,
				    .shapes = w->shapes,
				    .step = w->step,
				    .tgid = w->tgid,
				    .tid = w->tgid,
				    .device_index = -1 };
	w->next_addr += bytes + 64;
	w->allocated += bytes;
	emit_memory(w, &ev);
	return b->addr;
}

void world__free(struct world *w, uint64_t addr)
{
	struct memory_event ev = { .what = MEMORY_FREE, .addr = addr };
	struct memory_block b;
	uint32_t i;

	for (i = 0; i < w->live_cnt && w->live[i].addr != addr; i++)
		;
	if (i == w->live_cnt)
		abort();
	b = w->live[i];
	memmove(&w->live[i], &w->live[i + 1], (--w->live_cnt - i) * sizeof(b));
	ev.bytes = -(int64_t)b.bytes;
	ev.block = &b;
	w->allocated -= b.bytes;
	emit_memory(w, &ev);
}

void world__free_unknown(struct world *w)
{
	struct memory_event ev = { .what = MEMORY_FREE_UNKNOWN, .addr = 0x7e0000000000 };

	emit_memory(w, &ev);
}

void world__oom(struct world *w, uint64_t bytes)
{
	struct memory_event ev = { .what = MEMORY_OOM, .bytes = (int64_t)bytes };

	emit_memory(w, &ev);
}

void world__api(struct world *w, const char *name, uint64_t bytes, uint64_t ns)
{
	struct memory_event ev = { .what = MEMORY_API,
				   .name = name,
				   .bytes = (int64_t)bytes,
				   .device_type = 1,
				   .begin_ns = w->now + 1000 };

	w->now += ns;
	emit_memory(w, &ev);
}

static void emit_kernel(struct world *w, struct ptb_rec_hdr *h, size_t len, uint8_t kind)
{
	struct kernel_event ev = { .rec = h };

	w->now += 1000;
	*h = (struct ptb_rec_hdr){
		.len = (uint16_t)len, .kind = kind, .ts_ns = w->now, .tgid = w->tgid, .tid = w->tgid
	};
	ev.at = position(w);
	if (w->sink.kernel(w->sink.arg, &ev))
		abort();
}

void world__kmem(struct world *w, const struct ptb_kmem *rec)
{
	struct ptb_kmem k = *rec;

	k.begin_ns = w->now;
	for (uint32_t i = 0; i < PTB_RSS_KINDS; i++)
		k.rss[i] = w->rss[i];
	emit_kernel(w, &k.h, sizeof(k), PTB_REC_KMEM);
}

void world__stall(struct world *w, uint64_t ns)
{
	struct ptb_kmem_stall st = { .begin_ns = w->now, .reclaimed = 32, .what = PTB_STALL_MEMCG_RECLAIM };

	w->now += ns - 1000;
	emit_kernel(w, &st.h, sizeof(st), PTB_REC_KMEM_STALL);
}

void world__oom_kill(struct world *w, uint64_t pages)
{
	struct ptb_kmem_event e = {
		.what = PTB_KMEM_OOM_KILL, .pages = pages, .by_tgid = w->tgid, .by_tid = w->tgid
	};

	emit_kernel(w, &e.h, sizeof(e), PTB_REC_KMEM_EVENT);
}

void world__end(struct world *w)
{
	w->s.live = w->live;
	w->s.live_cnt = w->live_cnt;
}

/* Faults bring in what was allocated: half of it is new, the rest malloc had. */
static void touch(struct world *w, uint64_t bytes)
{
	struct ptb_kmem k = {
		.minor = (uint32_t)(bytes / 4096), .fault_bytes = bytes, .maps = 1, .map_bytes = bytes
	};

	w->rss[PTB_RSS_ANON] += bytes;
	world__kmem(w, &k);
}

void world__train(struct world *w, uint32_t steps, uint64_t leak)
{
	uint64_t act[3], grad = 0, queue[2] = { 0 }, begin = w->now;

	for (uint32_t n = 0; n < steps; n++) {
		w->now = begin + n * 20000000ULL;
		w->step++;
		world__place(w, "aten::stack", "aten::cat", "", "[[32, 128]]");
		if (queue[n & 1])
			world__free(w, queue[n & 1]);
		queue[n & 1] = world__alloc(w, MIB / 2);
		for (uint32_t i = 0; i < 3; i++) {
			world__place(w, "aten::linear", "aten::addmm", "forward",
				     "[[128], [32, 128], [128, 128]]");
			act[i] = world__alloc(w, MIB);
		}
		if (leak) {
			world__place(w, "aten::clone", "aten::empty_like", "loss \"kept\"",
				     "[[1024, 1024]]");
			world__alloc(w, leak);
			touch(w, leak);
		}
		world__place(w, "autograd::engine::evaluate_function: AddmmBackward0", "aten::mm",
			     "", "[[128, 32], [32, 128]]");
		if (grad)
			world__free(w, grad);
		grad = world__alloc(w, 2 * MIB);
		world__place(w, "", "", "Optimizer.step#AdamW.step", "");
		if (!n) {
			world__place(w, "aten::zeros_like", "aten::empty_like",
				     "Optimizer.step#AdamW.step", "[[128, 128]]");
			world__alloc(w, 4 * MIB);
			world__alloc(w, 4 * MIB);
			touch(w, 8 * MIB);
		}
		world__place(w, "", "", "", "");
		for (uint32_t i = 0; i < 3; i++)
			world__free(w, act[i]);
		world__kmem(w, &(struct ptb_kmem){ .h = { 0 } });
	}
}
