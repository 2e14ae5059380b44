/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory in a Chrome trace: torch's own instants (pytorch torch/csrc/autograd/profiler_kineto.cpp),
 * key by key, and those of a category that consumers do not know, for what torch does not record.
 * Only instants: a slice of an unknown category would be taken for an operator, or refused.
 *
 * Counter tracks (ph C, as kineto writes its counters): bytes of torch's allocators and of the
 * process over time, page faults per second. They are thinned: of each track and 100 us the lowest,
 * the highest and the last value are written, at their own times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "export/chrome_priv.h"
#include "export/texts.h"

/* torch numbers instants behind its slices; how many those will be is not known when the first is
 * written. */
#define EV_IDX_FIRST (1ULL << 40)

#define THIN_NS 100000ULL

/* clang-format off */
#define RATE_NS 10000000ULL /* faults are counted in intervals of this length */
#define RATE_HELD 64        /* the last ones can still grow: a record covers a time that is past */
/* clang-format on */

enum track_kind { TRACK_ALLOCATED, TRACK_RESERVED, TRACK_RSS };

struct sample {
	uint64_t ts, key; /* key: the value that is compared */
	uint64_t v[PTB_RSS_KINDS];
};

struct track {
	uint32_t tgid;
	enum track_kind kind;
	char name[64];
	uint64_t since; /* begin of the interval that is held back */
	bool held;
	struct sample low, high, last;
	uint64_t sum; /* of the CPU's blocks */
};

struct faults {
	uint64_t minor, major;
};

struct rate {
	uint32_t tgid;
	uint64_t first; /* number of the interval at held[first % RATE_HELD] */
	struct faults held[RATE_HELD];
	struct faults written; /* as last written, per interval */
};

struct chrome_memory {
	struct jsonw *w;
	const struct session_info *info;
	const struct chrome_clock *clock;
	uint32_t only; /* the process of which events are given, 0: all */
	uint64_t ev_idx;
	uint32_t rss_next; /* sample of info->rss that is not written yet */
	struct track *tracks;
	struct rate *rates;
	uint32_t track_cnt, track_cap, rate_cnt, rate_cap;
	struct hashmap track_ids; /* (process, kind), device -> index */
	struct hashmap rate_ids;  /* process -> index */
};

struct chrome_memory *chrome_memory__new(struct jsonw *w, const struct session_info *info,
					 const struct chrome_clock *clock, uint32_t only)
{
	struct chrome_memory *cm = xcalloc(1, sizeof(*cm));

	cm->w = w;
	cm->info = info;
	cm->clock = clock;
	cm->only = only;
	cm->ev_idx = EV_IDX_FIRST;
	return cm;
}

void chrome_memory__free(struct chrome_memory *cm)
{
	if (!cm)
		return;
	hashmap__clear(&cm->track_ids);
	hashmap__clear(&cm->rate_ids);
	free(cm->tracks);
	free(cm->rates);
	free(cm);
}

/* Opens a counter event up to its args. The main thread's tid: some readers make a thread of
 * each. */
static void begin_counter(const struct chrome_memory *cm, const char *name, uint32_t tgid,
			  uint64_t ts)
{
	chrome_event__head(cm->w, "C");
	JSONW_STR(cm->w, "cat", "memory_counter");
	JSONW_STR(cm->w, "name", name);
	JSONW_U64(cm->w, "pid", tgid);
	JSONW_U64(cm->w, "tid", tgid);
	JSONW_US(cm->w, "ts", chrome_clock__in_window(cm->clock, cm->info, ts));
	JSONW_OBJ(cm->w, "args");
}

/* ---- counters: bytes ---- */

static void write_sample(const struct chrome_memory *cm, const struct track *t,
			 const struct sample *s)
{
	begin_counter(cm, t->name, t->tgid, s->ts);
	if (t->kind == TRACK_RSS) {
		JSONW_U64(cm->w, "file", s->v[PTB_RSS_FILE]);
		JSONW_U64(cm->w, "anonymous", s->v[PTB_RSS_ANON]);
		JSONW_U64(cm->w, "shared", s->v[PTB_RSS_SHMEM]);
		JSONW_U64(cm->w, "swap", s->v[PTB_RSS_SWAP]);
	} else {
		JSONW_U64(cm->w, "bytes", s->key);
	}
	chrome_event__end(cm->w);
}

static void flush_track(const struct chrome_memory *cm, struct track *t)
{
	const struct sample *a = &t->low, *b = &t->high;

	if (!t->held)
		return;
	t->held = false;
	if (a->ts > b->ts) {
		a = &t->high;
		b = &t->low;
	}
	write_sample(cm, t, a);
	if (b->key != a->key)
		write_sample(cm, t, b);
	if (memcmp(t->last.v, b->v, sizeof(b->v)) || t->last.key != b->key)
		write_sample(cm, t, &t->last);
}

static void add_sample(const struct chrome_memory *cm, struct track *t, const struct sample *s)
{
	if (t->held && s->ts >= t->since + THIN_NS)
		flush_track(cm, t);
	t->last = *s;
	if (!t->held) {
		t->held = true;
		t->since = s->ts;
		t->low = t->high = *s;
		return;
	}
	if (s->key < t->low.key)
		t->low = *s;
	if (s->key > t->high.key)
		t->high = *s;
}

static struct track *get_track(struct chrome_memory *cm, uint32_t tgid, enum track_kind kind,
			       int32_t type, int32_t index)
{
	static const char *const titles[] = {
		[TRACK_ALLOCATED] = "torch allocated", [TRACK_RESERVED] = "torch reserved"
	};
	uint64_t owner = (uint64_t)tgid << 32 | (uint32_t)kind;
	uint64_t where = (uint64_t)(uint32_t)type << 32 | (uint32_t)index;
	struct track *t = list__keyed(KEYED_LIST(cm, tracks, track), owner, where);

	if (t->name[0])
		return t;
	t->tgid = tgid;
	t->kind = kind;
	if (kind == TRACK_RSS)
		snprintf(t->name, sizeof(t->name), "RSS");
	else
		snprintf(t->name, sizeof(t->name), "%s, %s", titles[kind],
			 mem_name__device(type, index).text);
	return t;
}

static void put_total(struct chrome_memory *cm, const struct memory_event *ev, enum track_kind kind,
		      uint64_t value)
{
	struct sample s = { .ts = ev->ts_ns, .key = value };
	struct track *t = get_track(cm, ev->at.tgid, kind, ev->device_type, ev->device_index);

	if (kind == TRACK_ALLOCATED && !ev->device_type) {
		if (ev->what == MEMORY_FREE && !ev->block) /* from before the window */
			return;
		s.key = t->sum += (uint64_t)ev->bytes;
	}
	add_sample(cm, t, &s);
}

/*
 * Of the CPU the sum of the blocks: its allocator and the one of mapped files and shared memory
 * (pytorch aten/src/ATen/MapAllocator.cpp) each give a total of their own, the latter always 0.
 */
static void count_torch(struct chrome_memory *cm, const struct memory_event *ev)
{
	put_total(cm, ev, TRACK_ALLOCATED, ev->allocated);
	if (ev->device_type && ev->reserved)
		put_total(cm, ev, TRACK_RESERVED, ev->reserved);
}

static void count_rss(struct chrome_memory *cm, uint32_t tgid, uint64_t ts,
		      const uint64_t rss[PTB_RSS_KINDS])
{
	struct sample s = { .ts = ts,
			    .key = rss[PTB_RSS_FILE] + rss[PTB_RSS_ANON] + rss[PTB_RSS_SHMEM] };
	struct track *t;

	if (!s.key || (cm->only && tgid != cm->only)) /* a process without pages has ended */
		return;
	t = get_track(cm, tgid, TRACK_RSS, 0, 0);
	memcpy(s.v, rss, sizeof(s.v));
	add_sample(cm, t, &s);
}

/* ---- counters: faults ---- */

static uint64_t per_second(uint64_t cnt)
{
	return cnt * (1000000000ULL / RATE_NS);
}

static void write_rate(const struct chrome_memory *cm, struct rate *r, uint64_t piece,
		       const struct faults *f)
{
	if (f->minor == r->written.minor && f->major == r->written.major)
		return;
	r->written = *f;
	begin_counter(cm, "page faults per second", r->tgid, cm->info->begin_ns + piece * RATE_NS);
	JSONW_U64(cm->w, "minor", per_second(f->minor));
	JSONW_U64(cm->w, "major", per_second(f->major));
	chrome_event__end(cm->w);
}

/* Writes the intervals that are too old to be held when `piece` is the newest. */
static void write_past_rates(const struct chrome_memory *cm, struct rate *r, uint64_t piece)
{
	static const struct faults none;

	for (uint64_t n = 0; r->first + RATE_HELD <= piece && n < RATE_HELD; n++, r->first++) {
		struct faults *f = &r->held[r->first % RATE_HELD];

		write_rate(cm, r, r->first, f);
		*f = none;
	}
	if (r->first + RATE_HELD <= piece) { /* a long time without any */
		write_rate(cm, r, r->first, &none);
		r->first = piece - RATE_HELD + 1;
	}
}

static struct rate *get_rate(struct chrome_memory *cm, uint32_t tgid)
{
	uint32_t before = cm->rate_cnt;
	struct rate *r = list__keyed(KEYED_LIST(cm, rates, rate), tgid, 0);

	if (cm->rate_cnt > before)
		*r = (struct rate){ .tgid = tgid, .written = { .minor = UINT64_MAX } };
	return r;
}

/* How many of cnt, spread evenly over `whole`, fall into its first `part`. */
static uint64_t part_before(uint64_t cnt, uint64_t part, uint64_t whole)
{
	return whole ? (uint64_t)((double)cnt * ((double)part / (double)whole) + 0.5) : cnt;
}

/* A record covers the time from its first fault on: its faults are spread evenly over that. */
static void count_faults(struct chrome_memory *cm, const struct ptb_kmem *k)
{
	uint64_t origin = cm->info->begin_ns, begin, end, minor = 0, major = 0;
	struct rate *r;

	if (!k->minor && !k->major)
		return;
	r = get_rate(cm, k->h.tgid);
	end = k->h.ts_ns < cm->info->end_ns ? k->h.ts_ns : cm->info->end_ns;
	end = end > origin ? end - origin : 0;
	write_past_rates(cm, r, end / RATE_NS);
	begin = k->begin_ns > origin ? k->begin_ns - origin : 0;
	if (begin < r->first * RATE_NS)
		begin = r->first * RATE_NS;
	if (begin > end)
		begin = end;
	for (uint64_t piece = begin / RATE_NS; piece <= end / RATE_NS; piece++) {
		uint64_t until = (piece + 1) * RATE_NS < end ? (piece + 1) * RATE_NS : end;
		uint64_t lo = part_before(k->minor, until - begin, end - begin);
		uint64_t hi = part_before(k->major, until - begin, end - begin);
		struct faults *f = &r->held[piece % RATE_HELD];

		f->minor += lo - minor;
		f->major += hi - major;
		minor = lo;
		major = hi;
	}
}

static void flush_counters(struct chrome_memory *cm)
{
	uint64_t len =
		cm->info->end_ns > cm->info->begin_ns ? cm->info->end_ns - cm->info->begin_ns : 0;

	for (uint32_t i = 0; i < cm->track_cnt; i++)
		flush_track(cm, &cm->tracks[i]);
	for (uint32_t i = 0; i < cm->rate_cnt; i++) {
		struct rate *r = &cm->rates[i];

		for (uint64_t piece = r->first;
		     piece < r->first + RATE_HELD && piece * RATE_NS <= len; piece++)
			write_rate(cm, r, piece, &r->held[piece % RATE_HELD]);
	}
}

/* ---- instants ---- */

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
	chrome_event__end(cm->w);
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
	chrome_event__end(cm->w);
}

/* Counters are written in order of time, so samples of /proc come between the events. */
static void write_samples(struct chrome_memory *cm, uint64_t until)
{
	const struct session_info *info = cm->info;

	while (cm->rss_next < info->rss_cnt && info->rss[cm->rss_next].ts_ns <= until) {
		const struct session_rss *r = &info->rss[cm->rss_next++];

		count_rss(cm, r->tgid, r->ts_ns, r->rss);
	}
}

void chrome_memory__event(struct chrome_memory *cm, const struct memory_event *ev)
{
	switch (ev->what) {
	case MEMORY_ALLOC:
	case MEMORY_FREE:
		write_torch(cm, ev);
		count_torch(cm, ev);
		break;
	case MEMORY_OOM:
		write_torch(cm, ev);
		break;
	case MEMORY_API:
		write_api(cm, ev);
		break;
	/* torch writes none either, and its bytes are not known: totals count it */
	case MEMORY_FREE_UNKNOWN:
		break;
	}
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
	chrome_event__end(cm->w);
}

static void write_stall(struct chrome_memory *cm, const struct ptb_kmem_stall *st)
{
	uint64_t begin = st->begin_ns && st->begin_ns < st->h.ts_ns ? st->begin_ns : st->h.ts_ns;

	begin_instant(cm, "kernel_memory", mem_name__stall(st->what), st->h.tgid, st->h.tid, begin);
	JSONW_US(cm->w, "Duration us", st->h.ts_ns - begin);
	if (st->what != PTB_STALL_COMPACTION)
		JSONW_U64(cm->w, "Pages Reclaimed", st->reclaimed);
	JSONW_U64(cm->w, "Order", st->order);
	chrome_event__end(cm->w);
}

static void write_happening(struct chrome_memory *cm, const struct kernel_event *ev,
			    const struct ptb_kmem_event *k)
{
	begin_instant(cm, "kernel_memory", mem_name__event(k->what), k->h.tgid, k->h.tid,
		      k->h.ts_ns);
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
	chrome_event__end(cm->w);
}

static void count_kmem(struct chrome_memory *cm, const struct ptb_kmem *k)
{
	uint64_t rss[PTB_RSS_KINDS];

	for (uint32_t i = 0; i < PTB_RSS_KINDS; i++)
		rss[i] = k->rss[i];
	count_rss(cm, k->h.tgid, k->h.ts_ns, rss);
	count_faults(cm, k);
}

void chrome_memory__kernel(struct chrome_memory *cm, const struct kernel_event *ev)
{
	const struct ptb_rec_hdr *h = ev->rec;

	write_samples(cm, h->ts_ns);
	switch (h->kind) {
	case PTB_REC_KMEM:
		count_kmem(cm, (const struct ptb_kmem *)h);
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
}

void chrome_memory__finish(struct chrome_memory *cm)
{
	write_samples(cm, UINT64_MAX);
	flush_counters(cm);
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
