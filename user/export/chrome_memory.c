/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory in a Chrome trace: torch's own instants (pytorch torch/csrc/autograd/profiler_kineto.cpp), key by
 * key, and those of a category that consumers do not know, for what torch does not record. Only instants:
 * a slice of an unknown category would be taken for an operator, or refused.
 */
#include <errno.h>
#include <stdlib.h>

#include "export/chrome_priv.h"
#include "export/mem_names.h"

/* torch numbers instants behind its slices; how many those will be is not known when the first is written. */
#define EV_IDX_FIRST (1ULL << 40)

struct chrome_memory {
	struct jsonw *w;
	const struct session_info *info;
	const struct chrome_clock *clock;
	struct chrome_counters *counters;
	uint64_t ev_idx;
	uint32_t rss_next; /* sample of info->rss that is not written yet */
};

struct chrome_memory *chrome_memory__new(struct jsonw *w, const struct session_info *info,
					 const struct chrome_clock *clock)
{
	struct chrome_memory *cm = calloc(1, sizeof(*cm));

	if (!cm)
		return NULL;
	cm->w = w;
	cm->info = info;
	cm->clock = clock;
	cm->ev_idx = EV_IDX_FIRST;
	cm->counters = chrome_counters__new(w, info, clock);
	if (!cm->counters) {
		free(cm);
		return NULL;
	}
	return cm;
}

void chrome_memory__free(struct chrome_memory *cm)
{
	if (!cm)
		return;
	chrome_counters__free(cm->counters);
	free(cm);
}

/* Opens an instant on a thread up to its args. */
static void begin_instant(struct chrome_memory *cm, const char *cat, const char *name,
			  uint32_t tgid, uint32_t tid, uint64_t ts)
{
	chrome_event__head(cm->w, "i");
	JSONW_STR(cm->w, "cat", cat);
	JSONW_STR(cm->w, "s", tid ? "t" : "p");
	JSONW_STR(cm->w, "name", name);
	JSONW_U64(cm->w, "pid", tgid);
	JSONW_U64(cm->w, "tid", tid ? tid : tgid);
	JSONW_US(cm->w, "ts", chrome_clock__in_window(cm->clock, cm->info, ts));
	JSONW_OBJ(cm->w, "args");
}

static void end_instant(struct chrome_memory *cm)
{
	jsonw__end_obj(cm->w);
	jsonw__end_obj(cm->w);
}

/* ---- torch's ---- */

static void write_torch(struct chrome_memory *cm, const struct memory_event *ev)
{
	bool oom = ev->what == MEMORY_OOM;

	begin_instant(cm, "cpu_instant_event", oom ? "[OutOfMemory]" : "[memory]", ev->at.tgid,
		      ev->at.tid, ev->ts_ns);
	JSONW_U64(cm->w, "Total Reserved", ev->reserved);
	JSONW_U64(cm->w, "Total Allocated", ev->allocated);
	JSONW_I64(cm->w, "Bytes", ev->bytes);
	JSONW_I64(cm->w, "Device Id", ev->device_index);
	JSONW_I64(cm->w, "Device Type", ev->device_type);
	if (!oom)
		JSONW_U64(cm->w, "Addr", ev->addr);
	JSONW_BOOL(cm->w, "finished", false);
	JSONW_U64(cm->w, "Ev Idx", cm->ev_idx++);
	if (ev->inferred)
		JSONW_BOOL(cm->w, "ptbpf.inferred", true);
	end_instant(cm);
}

static void write_api(struct chrome_memory *cm, const struct memory_event *ev)
{
	uint64_t begin = ev->begin_ns && ev->begin_ns < ev->ts_ns ? ev->begin_ns : ev->ts_ns;

	begin_instant(cm, "memory_api", ev->name ? ev->name : "", ev->at.tgid, ev->at.tid, begin);
	if (ev->addr)
		JSONW_U64(cm->w, "Addr", ev->addr);
	if (ev->bytes)
		JSONW_I64(cm->w, "Bytes", ev->bytes);
	if (!ev->no_result)
		JSONW_US(cm->w, "Duration us", ev->ts_ns - begin);
	if (ev->no_result)
		JSONW_BOOL(cm->w, "ptbpf.no_result", true);
	if (ev->maybe_failed)
		JSONW_BOOL(cm->w, "ptbpf.maybe_failed", true);
	end_instant(cm);
}

/* Counters are written in order of time, so samples of /proc come between the events. */
static int write_samples(struct chrome_memory *cm, uint64_t until)
{
	const struct session_info *info = cm->info;
	int err = 0;

	while (!err && cm->rss_next < info->rss_cnt && info->rss[cm->rss_next].ts_ns <= until) {
		const struct session_rss *r = &info->rss[cm->rss_next++];

		err = chrome_counters__rss(cm->counters, r->tgid, r->ts_ns, r->rss);
	}
	return err;
}

int chrome_memory__event(struct chrome_memory *cm, const struct memory_event *ev)
{
	int err = 0;

	switch (ev->what) {
	case MEMORY_ALLOC:
	case MEMORY_FREE:
		write_torch(cm, ev);
		err = chrome_counters__torch(cm->counters, ev);
		break;
	case MEMORY_OOM:
		write_torch(cm, ev);
		break;
	case MEMORY_API:
		write_api(cm, ev);
		break;
	case MEMORY_FREE_UNKNOWN: /* torch writes none either, and its bytes are not known: totals count it */
		break;
	}
	return err ? err : cm->w->err;
}

/* ---- the kernel's ---- */

static void write_call(struct chrome_memory *cm, const struct ptb_kmem_call *c)
{
	uint64_t begin = c->begin_ns && c->begin_ns < c->h.ts_ns ? c->begin_ns : c->h.ts_ns;

	begin_instant(cm, "kernel_memory", mem_name__call(c->call), c->h.tgid, c->h.tid, begin);
	JSONW_U64(cm->w, "Addr", c->addr);
	JSONW_U64(cm->w, "Bytes", c->bytes);
	if (c->call == PTB_CALL_MREMAP)
		JSONW_U64(cm->w, "Old Bytes", c->old_bytes);
	if (c->call == PTB_CALL_MMAP)
		JSONW_U64(cm->w, "Flags", c->arg);
	if (c->call == PTB_CALL_MADVISE)
		JSONW_STR(cm->w, "Advice", mem_name__advice(c->arg));
	if (c->result < 0 && c->result >= -4095)
		JSONW_I64(cm->w, "Error", -c->result);
	JSONW_US(cm->w, "Duration us", c->h.ts_ns - begin);
	end_instant(cm);
}

static void write_stall(struct chrome_memory *cm, const struct ptb_kmem_stall *st)
{
	uint64_t begin = st->begin_ns && st->begin_ns < st->h.ts_ns ? st->begin_ns : st->h.ts_ns;

	begin_instant(cm, "kernel_memory", mem_name__stall(st->what), st->h.tgid, st->h.tid, begin);
	JSONW_US(cm->w, "Duration us", st->h.ts_ns - begin);
	if (st->what != PTB_STALL_COMPACTION)
		JSONW_U64(cm->w, "Pages Reclaimed", st->reclaimed);
	JSONW_U64(cm->w, "Order", st->order);
	end_instant(cm);
}

static void write_happening(struct chrome_memory *cm, const struct kernel_event *ev,
			    const struct ptb_kmem_event *k)
{
	begin_instant(cm, "kernel_memory", mem_name__event(k->what), k->h.tgid, k->h.tid, k->h.ts_ns);
	JSONW_U64(cm->w, "Pages", k->pages);
	if (k->what == PTB_KMEM_MIGRATE) {
		JSONW_U64(cm->w, "Failed", k->failed);
		JSONW_STR(cm->w, "Reason", mem_name__migrate(k->reason));
	} else if (k->what == PTB_KMEM_HUGE_PAGE) {
		JSONW_U64(cm->w, "Status", k->failed);
	} else if (k->what == PTB_KMEM_OOM_KILL) {
		if (k->by_tgid) {
			JSONW_U64(cm->w, "By Process", k->by_tgid);
			JSONW_U64(cm->w, "By Thread", k->by_tid);
		}
		if (ev->at.op && *ev->at.op)
			JSONW_STR(cm->w, "Operator", ev->at.op);
		if (ev->at.annotation && *ev->at.annotation)
			JSONW_STR(cm->w, "Annotation", ev->at.annotation);
	}
	end_instant(cm);
}

static int count_kmem(struct chrome_memory *cm, const struct ptb_kmem *k)
{
	uint64_t rss[PTB_RSS_KINDS];
	uint32_t i;
	int err;

	for (i = 0; i < PTB_RSS_KINDS; i++)
		rss[i] = k->rss[i];
	err = chrome_counters__rss(cm->counters, k->h.tgid, k->h.ts_ns, rss);
	return err ? err : chrome_counters__faults(cm->counters, k);
}

int chrome_memory__kernel(struct chrome_memory *cm, const struct kernel_event *ev)
{
	const struct ptb_rec_hdr *h = ev->rec;
	int err = write_samples(cm, h->ts_ns);

	if (err)
		return err;
	switch (h->kind) {
	case PTB_REC_KMEM:
		err = count_kmem(cm, (const struct ptb_kmem *)h);
		break;
	case PTB_REC_KMEM_CALL:
		write_call(cm, (const struct ptb_kmem_call *)h);
		break;
	case PTB_REC_KMEM_STALL:
		write_stall(cm, (const struct ptb_kmem_stall *)h);
		break;
	case PTB_REC_KMEM_EVENT:
		write_happening(cm, ev, (const struct ptb_kmem_event *)h);
		break;
	default:
		break;
	}
	return err ? err : cm->w->err;
}

int chrome_memory__finish(struct chrome_memory *cm)
{
	int err = write_samples(cm, UINT64_MAX);

	chrome_counters__finish(cm->counters);
	return err ? err : cm->w->err;
}

void chrome_memory__slice_args(struct jsonw *w, const struct slice_memory *m)
{
	if (m->faults)
		JSONW_U64(w, "Page Faults", m->faults);
	if (m->major_faults)
		JSONW_U64(w, "Major Faults", m->major_faults);
	if (m->fault_bytes)
		JSONW_U64(w, "Fault Bytes", m->fault_bytes);
	if (m->rss_delta)
		JSONW_I64(w, "RSS Delta", m->rss_delta);
	if (m->reclaim_ns)
		JSONW_US(w, "Reclaim us", m->reclaim_ns);
	if (m->compact_ns)
		JSONW_US(w, "Compaction us", m->compact_ns);
}
