/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * GPUs in a Chrome trace: calls of CUDA's API on their threads, kernels, copies, fills and
 * synchronisation on a row per device and stream, flows between them, as kineto lays them out
 * (libkineto output_json.cpp, GenericActivityProfiler.cpp). A flow has both ends or is not written.
 * Owns what must be remembered between a call and its work; knows no args (chrome_gpu_args.c).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "export/chrome_priv.h"
#include "export/gpu_text.h"
#include "export/texts.h"

/* clang-format off */
/* kineto's offset of the row of Stream Syncs, which overlap their stream's work */
#define SYNC_ROW 1000000
#define NO_STREAM_ROW 1       /* kineto's, for synchronisation that belongs to none: abs(-1) */
#define OVERHEAD_PID (-1)
#define OVERHEAD_SORT_INDEX 16777226u
/* clang-format on */

/*
 * Correlation ids are unique within a process only, and a trace may have several processes. Those
 * of the first owner are written as they are, those of the nth owner have n in their upper half.
 * Calls that only the host saw are numbered here, and have an owner of their own.
 */
struct owner {
	uint32_t nr, tgid;
	uint32_t last; /* of calls that only the host saw: number given last */
};

struct launch { /* a call that put work on a GPU, as it was written */
	uint32_t tgid, tid;
	uint64_t ts;  /* of the trace */
	bool written; /* its flow's begin was */
};

struct row {
	uint32_t device, tid;
	uint32_t sort; /* tid of its stream's row */
	uint32_t owner;
	int64_t stream;        /* -1: none */
	bool sync, annotation; /* of the slice for which the row was made */
	uint32_t nr;           /* 1: the stream's; 2, 3, ...: beside it */
	uint32_t next;         /* index of the one beside it, 0: none */
	uint64_t *open;        /* ends of what is on it and has not ended, innermost last */
	uint32_t open_cnt, open_cap;
	uint64_t begin, work_end; /* of the last slice, of the last work on it */
};

#define CALL_RUNTIME (1ULL << 32) /* a call of the runtime has this correlation */

struct chrome_gpu {
	struct jsonw *w;
	const struct session *s;
	const struct session_info *info;
	const struct chrome_clock *clock;
	struct chrome_nest *nest;
	struct owner *owners;
	struct launch *launches;
	struct row *rows;
	uint32_t owner_cnt, owner_cap, launch_cnt, launch_cap, row_cnt, row_cap;
	struct hashmap owner_ids; /* (tgid, only the host saw it) -> index */
	/* correlation -> index + 1 of its launch, 0: none was written; CALL_RUNTIME */
	struct hashmap calls;
	struct hashmap row_ids; /* (device, tid) -> index */
	struct chrome_gpu_totals totals;
	bool overhead;
	struct py_paths paths;
};

struct chrome_gpu *chrome_gpu__new(struct jsonw *w, const struct session *s,
				   const struct chrome_clock *clock)
{
	struct chrome_gpu *cg = xcalloc(1, sizeof(*cg));

	cg->w = w;
	cg->s = s;
	cg->info = session__info(s);
	cg->clock = clock;
	if (cg->info->has_py_stacks)
		py_paths__find(&cg->paths, s);
	cg->nest = chrome_nest__new();
	return cg;
}

void chrome_gpu__free(struct chrome_gpu *cg)
{
	if (!cg)
		return;
	chrome_nest__free(cg->nest);
	for (uint32_t i = 0; i < cg->row_cnt; i++)
		free(cg->rows[i].open);
	free(cg->owners);
	free(cg->launches);
	free(cg->rows);
	hashmap__clear(&cg->calls);
	hashmap__clear(&cg->row_ids);
	hashmap__clear(&cg->owner_ids);
	free(cg);
}

const struct chrome_gpu_totals *chrome_gpu__totals(const struct chrome_gpu *cg)
{
	return &cg->totals;
}

void chrome_gpu__slice(struct chrome_gpu *cg, const struct slice *sl)
{
	chrome_gpu__span(cg, sl->tgid, sl->tid, sl->begin_ns, sl->end_ns);
}

void chrome_gpu__span(struct chrome_gpu *cg, uint32_t tgid, uint32_t tid, uint64_t begin_ns,
		      uint64_t end_ns)
{
	if (!cg->info->has_gpu && !cg->info->has_cuda_calls)
		return;
	chrome_nest__slice(cg->nest, tgid, tid, begin_ns, end_ns);
}

static uint32_t tgid_of(const struct gpu_slice *g)
{
	return g->at.tgid ? g->at.tgid : g->rec ? g->rec->tgid : 0;
}

static struct owner *correlation_owner(struct chrome_gpu *cg, uint32_t tgid, bool host)
{
	struct owner *o = list__keyed(KEYED_LIST(cg, owners, owner), tgid, host);

	o->nr = (uint32_t)(o - cg->owners);
	o->tgid = tgid;
	return o;
}

static uint64_t corr_of(const struct owner *o, uint32_t correlation)
{
	return correlation ? (uint64_t)o->nr << 32 | correlation : 0;
}

static uint64_t gpu_time(const struct chrome_gpu *cg, uint64_t mono_ns)
{
	return chrome_clock__rel(cg->clock, mono_ns);
}

/* Opens a slice up to its args. */
static void begin_slice(struct chrome_gpu *cg, const char *cat, const char *name, int64_t pid,
			uint32_t tid, uint64_t begin, uint64_t end)
{
	const struct chrome_slice s = { .cat = cat,
					.name = name,
					.pid = pid,
					.tid = tid,
					.begin = gpu_time(cg, begin),
					.end = gpu_time(cg, end) };

	chrome_event__begin_slice(cg->w, &s);
}

/* ---- calls ---- */

static uint64_t known_of(const struct chrome_gpu *cg, uint64_t corr)
{
	const uint64_t *known = corr ? hashmap__get(&cg->calls, corr, 0) : NULL;

	return known ? *known : 0;
}

static void note_launch(struct chrome_gpu *cg, uint64_t corr, uint32_t tgid, uint32_t tid,
			uint64_t begin)
{
	uint64_t known = known_of(cg, corr) & CALL_RUNTIME;
	const struct launch l = { .tgid = tgid, .tid = tid, .ts = gpu_time(cg, begin) };

	vec_push(cg->launches, cg->launch_cnt, cg->launch_cap, l);
	hashmap__put(&cg->calls, corr, 0, known | cg->launch_cnt);
}

static bool may_launch(enum gpu_api_kind kind)
{
	return gpu_api__is_launch(kind) || kind == GPU_API_UNNAMED;
}

/* Calls that torch does not show, and those that would be a second launch of the same work. */
static bool is_hidden(const struct chrome_gpu *cg, const struct gpu_slice *g,
		      enum gpu_api_kind kind, uint64_t corr)
{
	if (kind == GPU_API_NEVER)
		return true;
	if (may_launch(kind) && (uint32_t)known_of(cg, corr))
		return true;
	if (!g->driver || g->host_only)
		return false;
	if (kind == GPU_API_OTHER) /* kineto shows a list of the driver's calls only */
		return true;
	return kind != GPU_API_MAP && known_of(cg, corr) & CALL_RUNTIME;
}

/* The part of the call that can be shown; begin and end are equal if there is none. */
static void fit_call(struct chrome_gpu *cg, const struct gpu_slice *g, uint32_t tgid,
		     uint64_t *begin, uint64_t *end, uint64_t *cut)
{
	uint64_t whole;

	*begin = g->begin_ns > cg->info->begin_ns ? g->begin_ns : cg->info->begin_ns;
	*end = g->end_ns < cg->info->end_ns ? g->end_ns : cg->info->end_ns;
	*cut = 0;
	if (*end <= *begin && g->end_ns > g->begin_ns) {
		*end = *begin; /* outside the window */
		return;
	}
	whole = *end > *begin ? *end - *begin : 1;
	chrome_nest__fit(cg->nest, tgid, g->at.tid, begin, end);
	if (*end > *begin)
		*cut = whole - (*end - *begin);
}

#define CUT_SHOWN_NS 8 /* smaller cuts are the distance that slices keep from each other */

static void write_api_call(struct chrome_gpu *cg, const struct gpu_slice *g)
{
	uint32_t tgid = tgid_of(g);
	struct owner *owner = correlation_owner(cg, tgid, g->host_only);
	enum gpu_api_kind kind = gpu_api__kind(g->name);
	uint64_t corr, begin, end, cut;

	corr = corr_of(owner, g->host_only ? ++owner->last : g->correlation);
	if (is_hidden(cg, g, kind, corr)) {
		cg->totals.hidden++;
		return;
	}
	fit_call(cg, g, tgid, &begin, &end, &cut);
	if (end <= begin) {
		cg->totals.left_out++;
		return;
	}
	if (corr && !g->driver)
		hashmap__put(&cg->calls, corr, 0, known_of(cg, corr) | CALL_RUNTIME);
	begin_slice(cg, g->driver ? "cuda_driver" : "cuda_runtime",
		    *g->name ? g->name : "unknown call", tgid, g->at.tid, begin, end);
	chrome_gpu_args__call(cg->w, g, corr);
	if (cut > CUT_SHOWN_NS)
		JSONW_US(cg->w, "ptbpf.clipped_us", cut);
	chrome_event__end(cg->w);
	cg->totals.calls++;
	if (cut > CUT_SHOWN_NS && cut <= cg->info->gpu_clock_err_ns)
		cg->totals.clipped++;
	else if (cut > CUT_SHOWN_NS)
		cg->totals.clipped_more++;
	if (corr && may_launch(kind) && !g->host_only)
		note_launch(cg, corr, tgid, g->at.tid, begin);
}

/* ---- rows of devices ---- */

/* A device is the process of its number, as kineto has it, unless a process has that number (in a
 * container: 1). No process has one so high. */
static uint32_t device_pid(const struct chrome_gpu *cg, uint32_t device)
{
	return session__process(cg->s, device) ? GPU_SORT_INDEX + device : device;
}

/* The row of its stream, by index; its name is written at the end. */
static uint32_t stream_row(struct chrome_gpu *cg, const struct gpu_slice *g,
			   const struct owner *owner, bool sync)
{
	bool none = g->stream == UINT32_MAX;
	struct row r = { .device = g->device,
			 .owner = owner->nr,
			 .stream = none ? -1 : (int64_t)g->stream,
			 .sync = sync,
			 .annotation = g->what == GPU_ANNOTATION,
			 .nr = 1 };
	uint32_t before = cg->row_cnt;
	struct row *known;

	r.tid = (none ? NO_STREAM_ROW : g->stream % OWNER_ROW) + (sync && !none ? SYNC_ROW : 0);
	r.tid += owner->nr * OWNER_ROW;
	r.sort = r.tid;
	known = list__keyed(KEYED_LIST(cg, rows, row), r.device, r.tid);
	if (cg->row_cnt > before) /* it stays as it was first seen */
		*known = r;
	return (uint32_t)(known - cg->rows);
}

/* As they are drawn: an annotation is wider than its work by 1 ns on each side, as in torch, since
 * readers nest by time. */
struct extent {
	uint64_t begin, end;
};

static struct extent drawn(const struct gpu_slice *g)
{
	uint64_t wider = g->what == GPU_ANNOTATION && g->begin_ns;

	return (struct extent){ g->begin_ns - wider, g->what == GPU_ANNOTATION ? g->end_ns + 1 :
						     g->end_ns > g->begin_ns   ? g->end_ns :
										 g->begin_ns + 1 };
}

/* Slices of a stream come in order of their begins. Those of a row lie within each other or behind
 * each other, and work is never within work. */
static bool row_has_room(struct row *r, const struct gpu_slice *g, struct extent x)
{
	while (r->open_cnt && r->open[r->open_cnt - 1] <= x.begin)
		r->open_cnt--;
	return (!r->open_cnt || r->open[r->open_cnt - 1] >= x.end) && x.begin >= r->begin &&
	       (!gpu_what__is_work(g->what) || r->work_end <= x.begin);
}

static uint32_t row_beside(struct chrome_gpu *cg, uint32_t at)
{
	const struct row *r = &cg->rows[at];
	struct row beside = { .device = r->device,
			      .tid = OVERLAP_ROW + cg->row_cnt,
			      .sort = r->sort,
			      .owner = r->owner,
			      .stream = r->stream,
			      .sync = r->sync,
			      .nr = r->nr + 1 };

	cg->rows[at].next = cg->row_cnt;
	vec_push(cg->rows, cg->row_cnt, cg->row_cap, beside);
	return cg->row_cnt - 1;
}

/*
 * Readers drop slices that cross others of their row. Work of one stream overlaps when a kernel
 * begins before the one in front of it ends (programmatic dependent launch), and where a number
 * stands for several queues.
 */
static uint32_t row_of(struct chrome_gpu *cg, const struct gpu_slice *g, const struct owner *owner,
		       bool sync)
{
	const struct extent x = drawn(g);
	uint32_t at = stream_row(cg, g, owner, sync);
	struct row *r;

	if (g->what == GPU_EVENT)
		return cg->rows[at].tid;
	while (!row_has_room(&cg->rows[at], g, x))
		at = cg->rows[at].next ? cg->rows[at].next : row_beside(cg, at);
	r = &cg->rows[at];
	vec_push(r->open, r->open_cnt, r->open_cap, x.end);
	r->begin = x.begin;
	if (gpu_what__is_work(g->what))
		r->work_end = x.end;
	return r->tid;
}

/* ---- work ---- */

static void put_flows(struct chrome_gpu *cg, const struct gpu_slice *g, uint64_t corr, uint32_t tid)
{
	uint32_t at = (uint32_t)known_of(cg, corr);
	struct launch *l;

	if (!at)
		return;
	l = &cg->launches[at - 1];
	if (!l->written) {
		chrome_event__flow(cg->w, "ac2g", true,
				   &(struct chrome_flow){ corr, l->tgid, l->tid, l->ts });
		l->written = true;
	}
	chrome_event__flow(cg->w, "ac2g", false,
			   &(struct chrome_flow){ corr, device_pid(cg, g->device), tid,
						  gpu_time(cg, g->begin_ns) });
	cg->totals.flows++;
}

static void put_work(struct chrome_gpu *cg, const struct gpu_slice *g, uint64_t corr, uint32_t tid)
{
	static const char *const cats[] = {
		[GPU_KERNEL] = "kernel", [GPU_MEMCPY] = "gpu_memcpy", [GPU_MEMSET] = "gpu_memset"
	};
	char line[PY_TEXT_MAX] = "";

	/* kineto renames what is only called "kernel" */
	begin_slice(cg, cats[g->what], strcmp(g->name, "kernel") ? g->name : "Kernel",
		    device_pid(cg, g->device), tid, g->begin_ns, g->end_ns);
	if (g->origin)
		py_text__line(&cg->paths, cg->s, g->origin->stack, line, sizeof(line));
	chrome_gpu_args__work(cg->w, g, corr, line);
	chrome_event__end(cg->w);
	cg->totals.work++;
	put_flows(cg, g, corr, tid);
}

/* What is on a row of a device. */
static void write_on_device(struct chrome_gpu *cg, const struct gpu_slice *g,
			    const struct owner *owner)
{
	const struct ptb_gpu_sync *s = g->what == GPU_SYNC ? (const void *)g->rec : NULL;
	uint64_t corr = corr_of(owner, g->correlation);
	uint32_t pid = device_pid(cg, g->device);
	uint32_t tid = row_of(cg, g, owner, s && s->what == GPU_SYNC_STREAM);

	switch (g->what) {
	case GPU_SYNC:
		begin_slice(cg, "cuda_sync", g->name, pid, tid, g->begin_ns, g->end_ns);
		chrome_gpu_args__sync(cg->w, g, corr, corr_of(owner, s->event_correlation));
		chrome_event__end(cg->w);
		cg->totals.syncs++;
		break;
	case GPU_EVENT:
		begin_slice(cg, "cuda_event", g->name, pid, tid, g->begin_ns, g->begin_ns + 1);
		chrome_gpu_args__event(cg->w, g, corr);
		chrome_event__end(cg->w);
		cg->totals.events++;
		break;
	case GPU_ANNOTATION:
		begin_slice(cg, "gpu_user_annotation", g->name, pid, tid, drawn(g).begin,
			    drawn(g).end);
		JSONW_U64(cg->w, "External id", g->at.slice);
		chrome_event__end(cg->w);
		cg->totals.annotations++;
		break;
	default:
		put_work(cg, g, corr, tid);
		break;
	}
}

/* On the row of its thread. kineto has one row for all threads, where overheads overlap. */
static void write_overhead(struct chrome_gpu *cg, const struct gpu_slice *g)
{
	begin_slice(cg, "overhead", g->name, OVERHEAD_PID, g->at.tid, g->begin_ns, g->end_ns);
	JSONW_U64(cg->w, "ptbpf.pid", tgid_of(g));
	JSONW_U64(cg->w, "ptbpf.tid", g->at.tid); /* some readers expect args of every slice */
	chrome_event__end(cg->w);
	cg->overhead = true;
	cg->totals.overheads++;
}

void chrome_gpu__event(struct chrome_gpu *cg, const struct gpu_slice *g)
{
	if (!g->name || (g->what != GPU_ANNOTATION && !g->rec))
		return;
	if (g->what == GPU_API)
		write_api_call(cg, g);
	else if (g->what == GPU_OVERHEAD)
		write_overhead(cg, g);
	else
		write_on_device(cg, g, correlation_owner(cg, tgid_of(g), false));
}

/* ---- names ---- */

static void put_row(struct chrome_gpu *cg, const struct row *r)
{
	const char *kind = r->sync ? "(sync)" : r->annotation ? "context" : "";
	char name[128], stream[32] = "no stream", overlap[32] = "", process[32] = "";

	if (r->stream >= 0)
		snprintf(stream, sizeof(stream), "stream %" PRId64, r->stream);
	if (r->nr > 1)
		snprintf(overlap, sizeof(overlap), "%s(overlap %u)", *kind ? " " : "", r->nr);
	if (r->owner)
		snprintf(process, sizeof(process), "%sprocess %u", *kind || *overlap ? " " : "",
			 cg->owners[r->owner].tgid);
	snprintf(name, sizeof(name), "%s %s%s%s", stream, r->stream >= 0 ? kind : "", overlap,
		 process);
	chrome_event__thread(cg->w, device_pid(cg, r->device), r->tid, r->sort, name, "",
			     gpu_time(cg, cg->info->begin_ns));
}

static void put_device_meta(struct chrome_gpu *cg, uint32_t device)
{
	char label[32];

	snprintf(label, sizeof(label), "GPU %u", device);
	chrome_event__process(cg->w, device_pid(cg, device),
			      cg->info->process_cnt ? cg->info->processes : NULL, label,
			      GPU_SORT_INDEX + device, gpu_time(cg, cg->info->begin_ns));
}

static int by_device(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->sort != y->sort ? sort__cmp(x->sort, y->sort) : sort__cmp(x->nr, y->nr);
}

void chrome_gpu__finish(struct chrome_gpu *cg)
{
	uint64_t begin = gpu_time(cg, cg->info->begin_ns);

	sort__array(cg->rows, cg->row_cnt, sizeof(*cg->rows), by_device);
	for (uint32_t i = 0; i < cg->row_cnt; i++) {
		if (!i || cg->rows[i].device != cg->rows[i - 1].device)
			put_device_meta(cg, cg->rows[i].device);
		put_row(cg, &cg->rows[i]);
	}
	if (!cg->overhead)
		return;
	chrome_event__meta(cg->w, begin,
			   &(struct chrome_meta){ "process_name", OVERHEAD_PID, 0, "name",
						  "CUPTI Overhead", 0, NULL });
	chrome_event__meta(cg->w, begin,
			   &(struct chrome_meta){ "process_sort_index", OVERHEAD_PID, 0,
						  "sort_index", NULL, OVERHEAD_SORT_INDEX, NULL });
}
