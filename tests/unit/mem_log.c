/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a pass reports of memory; see mem_log.h. */
#include "mem_log.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>

#include "base/vec.h"

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

struct mem_log *mem_log__run(struct session *s)
{
	struct mem_log *log = calloc(1, sizeof(*log));
	struct session_sink sink = { .arg = log, .memory = on_memory, .kernel = on_kernel, .thread = on_thread };

	if (!log || session__run(s, &sink, 1, &log->totals))
		abort();
	return log;
}

void mem_log__free(struct mem_log *log)
{
	free(log->v);
	free(log);
}

struct builder *mem_log__recorded(void)
{
	struct builder *b = builder__new(1000, 100000);

	builder__meta(b, "profile_memory", "true");
	builder__meta(b, "kernel_memory", "true");
	builder__meta(b, "args", "\"shapes\"");
	builder__thread(b, P, P);
	return b;
}

static int on_live(void *arg, const struct memory_block *b)
{
	struct live_log *l = arg;

	if (l->cnt < 16)
		l->v[l->cnt] = *b;
	l->cnt++;
	return 0;
}

struct live_log mem_log__live(struct session *s)
{
	struct live_log l = { .cnt = 0 };

	CU_ASSERT_EQUAL(session__live_blocks(s, on_live, &l), 0);
	return l;
}

void mem_log__report(struct builder *b, uint8_t kind, uint64_t ts, uint64_t addr, int64_t bytes,
		     int32_t type, int32_t index)
{
	struct ptb_mem_report r = { .sp = 0x7000,
				    .addr = addr,
				    .bytes = bytes,
				    .allocated = 5000,
				    .reserved = 6000,
				    .device_type = type,
				    .device_index = index };

	builder__ring_rec(b, &r.h, kind, sizeof(r), ts);
}

void mem_log__kmem(struct builder *b, uint64_t ts, uint32_t minor, uint32_t major, int64_t rss_delta)
{
	struct ptb_kmem r = { .begin_ns = ts - 50,
			      .minor = minor,
			      .major = major,
			      .rss_delta = rss_delta,
			      .fault_bytes = 4096ULL * minor,
			      .reclaim_ns = 11,
			      .compact_ns = 7 };

	builder__ring_rec(b, &r.h, PTB_REC_KMEM, sizeof(r), ts);
}
