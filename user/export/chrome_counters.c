/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Counter tracks of a Chrome trace (ph C, as kineto writes its counters): bytes of torch's allocators and
 * of the process over time, page faults per second. Thins them: of each track and 100 us the lowest, the
 * highest and the last value are written, at their own times. Must not know where values come from.
 */
#define LOG_DOMAIN "chrome_trace"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hashmap.h"
#include "base/log.h"
#include "base/vec.h"
#include "export/chrome_priv.h"
#include "export/mem_names.h"

#define THIN_NS 100000ULL

/* clang-format off */
#define RATE_NS 10000000ULL /* faults are counted in pieces of this length */
#define RATE_HELD 64        /* of which the last ones can still grow: a record covers a time that is past */
/* clang-format on */

enum track_kind { TRACK_ALLOCATED, TRACK_RESERVED, TRACK_RSS };

struct sample {
	uint64_t ts, key; /* key: what lowest and highest are of */
	uint64_t v[PTB_RSS_KINDS];
};

struct track {
	uint32_t tgid;
	enum track_kind kind;
	int32_t device_type, device_index;
	char name[64];
	uint64_t since; /* begin of the piece that is held back */
	bool held;
	struct sample low, high, last;
	uint64_t sum; /* of the CPU's blocks */
};

struct faults {
	uint64_t minor, major;
};

struct rate {
	uint32_t tgid;
	uint64_t first; /* number of the piece at held[first % RATE_HELD] */
	struct faults held[RATE_HELD];
	struct faults written; /* as last written, per piece */
};

struct chrome_counters {
	struct jsonw *w;
	const struct session_info *info;
	const struct chrome_clock *clock;
	struct track *tracks;
	struct rate *rates;
	uint32_t track_cnt, track_cap, rate_cnt, rate_cap;
	struct hashmap track_ids; /* (process, kind and device) -> index */
	struct hashmap rate_ids;  /* process -> index */
};

struct chrome_counters *chrome_counters__new(struct jsonw *w, const struct session_info *info,
					     const struct chrome_clock *clock)
{
	struct chrome_counters *cc = calloc(1, sizeof(*cc));

	if (!cc)
		return NULL;
	cc->w = w;
	cc->info = info;
	cc->clock = clock;
	return cc;
}

void chrome_counters__free(struct chrome_counters *cc)
{
	if (!cc)
		return;
	hashmap__clear(&cc->track_ids);
	hashmap__clear(&cc->rate_ids);
	free(cc->tracks);
	free(cc->rates);
	free(cc);
}

/* Opens a counter event up to its args. The main thread's tid: some readers make a thread of each. */
static void begin_event(const struct chrome_counters *cc, const char *name, uint32_t tgid, uint64_t ts)
{
	chrome_event__head(cc->w, "C");
	JSONW_STR(cc->w, "cat", "memory_counter");
	JSONW_STR(cc->w, "name", name);
	JSONW_U64(cc->w, "pid", tgid);
	JSONW_U64(cc->w, "tid", tgid);
	JSONW_US(cc->w, "ts", chrome_clock__in_window(cc->clock, cc->info, ts));
	JSONW_OBJ(cc->w, "args");
}

static void end_event(const struct chrome_counters *cc)
{
	jsonw__end_obj(cc->w);
	jsonw__end_obj(cc->w);
}

/* ---- bytes ---- */

static void write_sample(const struct chrome_counters *cc, const struct track *t, const struct sample *s)
{
	begin_event(cc, t->name, t->tgid, s->ts);
	if (t->kind == TRACK_RSS) {
		JSONW_U64(cc->w, "file", s->v[PTB_RSS_FILE]);
		JSONW_U64(cc->w, "anonymous", s->v[PTB_RSS_ANON]);
		JSONW_U64(cc->w, "shared", s->v[PTB_RSS_SHMEM]);
		JSONW_U64(cc->w, "swap", s->v[PTB_RSS_SWAP]);
	} else {
		JSONW_U64(cc->w, "bytes", s->key);
	}
	end_event(cc);
}

static void flush_track(const struct chrome_counters *cc, struct track *t)
{
	const struct sample *a = &t->low, *b = &t->high;

	if (!t->held)
		return;
	t->held = false;
	if (a->ts > b->ts) {
		a = &t->high;
		b = &t->low;
	}
	write_sample(cc, t, a);
	if (b->key != a->key)
		write_sample(cc, t, b);
	if (memcmp(t->last.v, b->v, sizeof(b->v)) || t->last.key != b->key)
		write_sample(cc, t, &t->last);
}

static void add_sample(const struct chrome_counters *cc, struct track *t, const struct sample *s)
{
	if (t->held && s->ts >= t->since + THIN_NS)
		flush_track(cc, t);
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

static struct track *get_track(struct chrome_counters *cc, uint32_t tgid, enum track_kind kind,
			       int32_t type, int32_t index)
{
	static const char *const titles[] = {
		[TRACK_ALLOCATED] = "torch allocated", [TRACK_RESERVED] = "torch reserved"
	};
	uint64_t owner = (uint64_t)tgid << 32 | (uint32_t)kind;
	uint64_t where = (uint64_t)(uint32_t)type << 32 | (uint32_t)index;
	const uint64_t *known = hashmap__get(&cc->track_ids, owner, where);
	struct track *t;

	if (known)
		return &cc->tracks[*known];
	if (vec_reserve((void **)&cc->tracks, &cc->track_cap, (uint64_t)cc->track_cnt + 1, sizeof(*t)) ||
	    hashmap__put(&cc->track_ids, owner, where, cc->track_cnt)) {
		pr_error("cannot keep a counter of process %u: %s", tgid, errstr(ENOMEM));
		return NULL;
	}
	t = &cc->tracks[cc->track_cnt++];
	*t = (struct track){ .tgid = tgid, .kind = kind, .device_type = type, .device_index = index };
	if (kind == TRACK_RSS)
		snprintf(t->name, sizeof(t->name), "RSS");
	else
		snprintf(t->name, sizeof(t->name), "%s, %s", titles[kind],
			 mem_name__device(type, index).text);
	return t;
}

static int put_total(struct chrome_counters *cc, const struct memory_event *ev,
		     enum track_kind kind, uint64_t value)
{
	struct sample s = { .ts = ev->ts_ns, .key = value };
	struct track *t = get_track(cc, ev->at.tgid, kind, ev->device_type, ev->device_index);

	if (!t)
		return -ENOMEM;
	if (kind == TRACK_ALLOCATED && !ev->device_type) {
		if (ev->what == MEMORY_FREE && !ev->block) /* from before the window */
			return 0;
		s.key = t->sum += (uint64_t)ev->bytes;
	}
	add_sample(cc, t, &s);
	return 0;
}

/*
 * Of the CPU the sum of the blocks: its allocator and the one of mapped files and shared memory (pytorch
 * aten/src/ATen/MapAllocator.cpp) each give a total of their own, the latter always 0.
 */
int chrome_counters__torch(struct chrome_counters *cc, const struct memory_event *ev)
{
	int err = put_total(cc, ev, TRACK_ALLOCATED, ev->allocated);

	return err || !ev->device_type || !ev->reserved ?
		       err :
		       put_total(cc, ev, TRACK_RESERVED, ev->reserved);
}

int chrome_counters__rss(struct chrome_counters *cc, uint32_t tgid, uint64_t ts,
			 const uint64_t rss[PTB_RSS_KINDS])
{
	struct sample s = { .ts = ts, .key = rss[PTB_RSS_FILE] + rss[PTB_RSS_ANON] + rss[PTB_RSS_SHMEM] };
	struct track *t;

	if (!s.key) /* a process without any page is none */
		return 0;
	t = get_track(cc, tgid, TRACK_RSS, 0, 0);
	if (!t)
		return -ENOMEM;
	memcpy(s.v, rss, sizeof(s.v));
	add_sample(cc, t, &s);
	return 0;
}

/* ---- faults ---- */

static uint64_t per_second(uint64_t cnt)
{
	return cnt * (1000000000ULL / RATE_NS);
}

static void write_rate(const struct chrome_counters *cc, struct rate *r, uint64_t piece,
		       const struct faults *f)
{
	if (f->minor == r->written.minor && f->major == r->written.major)
		return;
	r->written = *f;
	begin_event(cc, "page faults per second", r->tgid, cc->info->begin_ns + piece * RATE_NS);
	JSONW_U64(cc->w, "minor", per_second(f->minor));
	JSONW_U64(cc->w, "major", per_second(f->major));
	end_event(cc);
}

/* Writes what is older than the pieces that must be held for `piece` to be the last. */
static void advance(const struct chrome_counters *cc, struct rate *r, uint64_t piece)
{
	static const struct faults none;
	uint64_t n;

	for (n = 0; r->first + RATE_HELD <= piece && n < RATE_HELD; n++, r->first++) {
		struct faults *f = &r->held[r->first % RATE_HELD];

		write_rate(cc, r, r->first, f);
		*f = none;
	}
	if (r->first + RATE_HELD <= piece) { /* a long time without any */
		write_rate(cc, r, r->first, &none);
		r->first = piece - RATE_HELD + 1;
	}
}

static struct rate *get_rate(struct chrome_counters *cc, uint32_t tgid)
{
	const uint64_t *known = hashmap__get(&cc->rate_ids, tgid, 0);

	if (known)
		return &cc->rates[*known];
	if (vec_reserve((void **)&cc->rates, &cc->rate_cap, (uint64_t)cc->rate_cnt + 1,
			sizeof(*cc->rates)) ||
	    hashmap__put(&cc->rate_ids, tgid, 0, cc->rate_cnt)) {
		pr_error("cannot count the page faults of process %u: %s", tgid, errstr(ENOMEM));
		return NULL;
	}
	cc->rates[cc->rate_cnt] = (struct rate){ .tgid = tgid, .written = { .minor = UINT64_MAX } };
	return &cc->rates[cc->rate_cnt++];
}

/* What of cnt falls before `part` of `whole`, so that the parts' differences sum up to cnt. */
static uint64_t share(uint64_t cnt, uint64_t part, uint64_t whole)
{
	return whole ? (uint64_t)((double)cnt * ((double)part / (double)whole) + 0.5) : cnt;
}

/* A record covers the time from its first fault on: its faults are spread evenly over that. */
int chrome_counters__faults(struct chrome_counters *cc, const struct ptb_kmem *k)
{
	uint64_t origin = cc->info->begin_ns, begin, end, piece, minor = 0, major = 0;
	struct rate *r;

	if (!k->minor && !k->major)
		return 0;
	r = get_rate(cc, k->h.tgid);
	if (!r)
		return -ENOMEM;
	end = k->h.ts_ns < cc->info->end_ns ? k->h.ts_ns : cc->info->end_ns;
	end = end > origin ? end - origin : 0;
	advance(cc, r, end / RATE_NS);
	begin = k->begin_ns > origin ? k->begin_ns - origin : 0;
	if (begin < r->first * RATE_NS)
		begin = r->first * RATE_NS;
	if (begin > end)
		begin = end;
	for (piece = begin / RATE_NS; piece <= end / RATE_NS; piece++) {
		uint64_t until = (piece + 1) * RATE_NS < end ? (piece + 1) * RATE_NS : end;
		uint64_t lo = share(k->minor, until - begin, end - begin);
		uint64_t hi = share(k->major, until - begin, end - begin);
		struct faults *f = &r->held[piece % RATE_HELD];

		f->minor += lo - minor;
		f->major += hi - major;
		minor = lo;
		major = hi;
	}
	return 0;
}

void chrome_counters__finish(struct chrome_counters *cc)
{
	uint64_t len = cc->info->end_ns > cc->info->begin_ns ? cc->info->end_ns - cc->info->begin_ns : 0;
	uint32_t i;

	for (i = 0; i < cc->track_cnt; i++)
		flush_track(cc, &cc->tracks[i]);
	for (i = 0; i < cc->rate_cnt; i++) {
		struct rate *r = &cc->rates[i];
		uint64_t piece;

		for (piece = r->first; piece < r->first + RATE_HELD && piece * RATE_NS <= len; piece++)
			write_rate(cc, r, piece, &r->held[piece % RATE_HELD]);
	}
}
