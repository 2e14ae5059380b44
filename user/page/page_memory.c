/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The page's memory over time: of each device, and of each process with --kernel-memory. */
#include <stdlib.h>

#include "base/containers.h"
#include "base/mem.h"
#include "export/texts.h"
#include "page/page_priv.h"

#define SERIES_MAX 16
#define POINTS 500         /* equal parts of the window, each with its lowest and highest value */
#define RESIDENT INT32_MIN /* in place of the type of a device: the process's resident memory */

struct memory_series {
	uint32_t tgid;
	int32_t type, index;
	uint64_t now, peak;
	bool begun;
	uint32_t first, at; /* parts of the window: of the first event, that `now` is of */
	uint64_t low[POINTS], high[POINTS];
};

struct page_memory {
	const struct session_info *info;
	struct memory_series *series;
	uint32_t series_cnt, series_cap;
	struct hashmap series_ids;
	uint32_t left_out; /* series beyond SERIES_MAX: events of them */
};

static int open_memory(const struct output_args *args, void **out)
{
	struct page_memory *pm = xcalloc(1, sizeof(*pm));

	pm->info = session__info(args->s);
	*out = pm;
	return 0;
}

static void free_memory(void *o)
{
	struct page_memory *pm = o;

	if (!pm)
		return;
	free(pm->series);
	hashmap__clear(&pm->series_ids);
	free(pm);
}

/* NULL: there are enough. */
static struct memory_series *series_of(struct page_memory *pm, uint32_t tgid, int32_t type,
				       int32_t index)
{
	uint64_t key = (uint64_t)(uint32_t)type << 32 | (uint32_t)index;
	struct memory_series *ms;

	if (pm->series_cnt == SERIES_MAX && !hashmap__get(&pm->series_ids, tgid, key)) {
		pm->left_out++;
		return NULL;
	}
	ms = list__keyed(KEYED_LIST(pm, series, series), tgid, key);
	ms->tgid = tgid;
	ms->type = type;
	ms->index = index;
	return ms;
}

static uint32_t part_of(const struct page_memory *pm, uint64_t ts)
{
	const struct session_info *info = pm->info;
	double window = (double)(info->end_ns - info->begin_ns);
	double at = ts > info->begin_ns ? (double)(ts - info->begin_ns) * POINTS / window : 0;

	return at < POINTS ? (uint32_t)at : POINTS - 1;
}

/* The last value holds up to this part. */
static void go_to(struct memory_series *ms, uint32_t part)
{
	if (!ms->begun) {
		ms->first = ms->at = part;
		ms->low[part] = ms->high[part] = ms->now;
	}
	ms->begun = true;
	while (ms->at < part) {
		ms->at++;
		ms->low[ms->at] = ms->high[ms->at] = ms->now;
	}
}

static void set(struct page_memory *pm, struct memory_series *ms, uint64_t ts, uint64_t value)
{
	uint32_t part = part_of(pm, ts);

	go_to(ms, part);
	ms->now = value;
	ms->low[part] = value < ms->low[part] ? value : ms->low[part];
	ms->high[part] = value > ms->high[part] ? value : ms->high[part];
	ms->peak = value > ms->peak ? value : ms->peak;
}

/* Of the CPU the sum of the window's blocks, as in the memory report. */
static void take_memory(void *arg, const struct memory_event *ev)
{
	struct page_memory *pm = arg;
	struct memory_series *ms;

	if (ev->what != MEMORY_ALLOC && ev->what != MEMORY_FREE)
		return;
	ms = series_of(pm, ev->at.tgid, ev->device_type, ev->device_index);
	if (!ms)
		return;
	if (!ms->begun && ev->device_type && (int64_t)ev->allocated >= ev->bytes)
		ms->now = ev->allocated - (uint64_t)ev->bytes;
	set(pm, ms, ev->ts_ns,
	    ev->device_type ? ev->allocated :
	    ev->block       ? ms->now + (uint64_t)ev->bytes :
			      ms->now);
}

static void take_kernel(void *arg, const struct kernel_event *ev)
{
	struct page_memory *pm = arg;
	const struct ptb_kmem *r = (const struct ptb_kmem *)ev->rec;
	struct memory_series *ms;
	uint64_t resident;

	if (r->h.kind != PTB_REC_KMEM)
		return;
	resident = r->rss[PTB_RSS_FILE] + r->rss[PTB_RSS_ANON] + r->rss[PTB_RSS_SHMEM];
	ms = resident ? series_of(pm, ev->at.tgid, RESIDENT, 0) : NULL;
	if (!ms)
		return;
	if (!ms->begun)
		ms->now = resident;
	set(pm, ms, r->h.ts_ns, resident);
}

static struct session_sink memory_sink(void *o)
{
	return (struct session_sink){ .arg = o, .memory = take_memory, .kernel = take_kernel };
}

/* ---- the document ---- */

static void put_values(struct jsonw *w, const struct memory_series *ms, const uint64_t *values)
{
	jsonw__begin_arr(w);
	for (uint32_t i = ms->first; i < POINTS; i++)
		jsonw__u64(w, values[i]);
	jsonw__end_arr(w);
}

static void put_series(struct jsonw *w, struct memory_series *ms)
{
	go_to(ms, POINTS - 1);
	jsonw__begin_obj(w);
	JSONW_U64(w, "pid", ms->tgid);
	JSONW_BOOL(w, "resident", ms->type == RESIDENT);
	JSONW_STR(w, "name",
		  ms->type == RESIDENT ? "resident memory" :
					 mem_name__device(ms->type, ms->index).text);
	JSONW_BOOL(w, "since_begin", !ms->type);
	JSONW_U64(w, "peak", ms->peak);
	JSONW_U64(w, "end", ms->now);
	JSONW_U64(w, "first", ms->first);
	JSONW_KEY(w, "low");
	put_values(w, ms, ms->low);
	JSONW_KEY(w, "high");
	put_values(w, ms, ms->high);
	jsonw__end_obj(w);
}

static int finish_memory(void *o, const struct output_args *args)
{
	struct page_memory *pm = o;
	struct jsonw w;

	if (!pm->series_cnt)
		return 0;
	page_json__begin(&w, args);
	JSONW_U64(&w, "points", POINTS);
	JSONW_U64(&w, "left_out", pm->left_out);
	JSONW_ARR(&w, "series");
	for (uint32_t i = 0; i < pm->series_cnt; i++)
		put_series(&w, &pm->series[i]);
	jsonw__end_arr(&w);
	return page_json__end(&w);
}

const struct output page_memory = {
	.needs = NEEDS_MEMORY,
	.open = open_memory,
	.sink = memory_sink,
	.finish = finish_memory,
	.free = free_memory,
};
