/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reads the GPU records of a capture into tables: copies what is emitted later, names and times
 * become those of the session. Owns the checks of single records; must not know slices.
 */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "capture/capture.h"
#include "model/gpu_priv.h"

#define BLOCK_BYTES (256u * 1024)
#define DEVICES_MAX 4096

struct gpu_bytes { /* records must not move: a list of blocks */
	struct gpu_bytes *next;
	uint32_t used;
	uint64_t words[BLOCK_BYTES / sizeof(uint64_t)];
};

static void *copy_record(struct gpu *g, const struct ptb_rec_hdr *h)
{
	struct gpu_bytes *b = g->bytes;
	void *at;

	if (!b || BLOCK_BYTES - b->used < h->len) {
		b = xmalloc(sizeof(*b));
		b->next = g->bytes;
		b->used = 0;
		g->bytes = b;
	}
	at = (char *)b->words + b->used;
	memcpy(at, h, h->len);
	b->used += h->len; /* a multiple of 8 */
	return at;
}

/* The record without what is its own alone. */
static union ptb_gpu_record common_part(const struct ptb_rec_hdr *h)
{
	union ptb_gpu_record r;

	memset(&r, 0, sizeof(r));
	memcpy(&r, h, record__fixed_size(h->kind));
	r.h.len = (uint16_t)record__fixed_size(h->kind);
	r.h.ts_ns = 0;
	switch (h->kind) {
	case PTB_REC_CUDA_CALL:
		r.host.sp = r.host.begin_ns = 0;
		break;
	case PTB_REC_GPU_KERNEL:
		r.kernel.begin = r.kernel.end = r.kernel.queued = r.kernel.submitted =
			r.kernel.correlation = 0;
		break;
	case PTB_REC_GPU_MEMCPY:
	case PTB_REC_GPU_MEMSET:
		r.memory.begin = r.memory.end = r.memory.correlation = 0;
		break;
	case PTB_REC_GPU_API:
		r.api.begin = r.api.end = r.api.correlation = 0;
		break;
	case PTB_REC_GPU_SYNC:
		r.sync.begin = r.sync.end = r.sync.correlation = 0;
		break;
	case PTB_REC_GPU_EVENT:
		r.event.at = r.event.correlation = 0;
		break;
	case PTB_REC_GPU_OVERHEAD:
		r.overhead.begin = r.overhead.end = 0;
		break;
	}
	return r;
}

/* A copy of the common part, the same one for all records that share it. */
static const struct ptb_rec_hdr *shared_copy(struct gpu *g, const struct ptb_rec_hdr *h)
{
	union ptb_gpu_record r = common_part(h);
	uint64_t hash = siphash__bytes(&r, r.h.len);
	const uint64_t *known = hashmap__get(&g->copies, hash, r.h.len);
	void *at;

	if (known && !memcmp((const void *)(uintptr_t)*known, &r, r.h.len))
		return (const void *)(uintptr_t)*known;
	at = copy_record(g, &r.h);
	hashmap__put(&g->copies, hash, r.h.len, (uintptr_t)at);
	return at;
}

static struct gpu_proc *gpu_proc_of(struct gpu *g, uint32_t tgid)
{
	struct gpu_proc *p = list__keyed(KEYED_LIST(g, procs, proc), tgid, 0);

	p->tgid = tgid;
	return p;
}

/* ---- the scan ---- */

/* The newest counts; each id is listed once, whichever process reported it. */
static void on_device(struct gpu *g, const struct ptb_gpu_device *r)
{
	const struct ptb_rec_hdr *h;
	uint32_t i;

	if (g->device_cnt >= DEVICES_MAX) {
		g->bad++;
		return;
	}
	h = copy_record(g, &r->h);
	hashmap__put(&g->device_by_id, r->h.tgid, r->id, (uintptr_t)h);
	vec_reserve((void **)&g->devices, &g->device_cap, (uint64_t)g->device_cnt + 1,
		    sizeof(*g->devices));
	for (i = 0; i < g->device_cnt && g->devices[i]->id < r->id; i++)
		;
	if (i < g->device_cnt && g->devices[i]->id == r->id) {
		g->devices[i] = (const void *)h;
		return;
	}
	memmove(&g->devices[i + 1], &g->devices[i], (g->device_cnt - i) * sizeof(*g->devices));
	g->devices[i] = (const void *)h;
	g->device_cnt++;
}

static void note_api(struct gpu_proc *p, const struct ptb_gpu_api *r)
{
	if (!r->begin || r->end < r->begin)
		return;
	if (!p->api_until || r->begin < p->api_from)
		p->api_from = r->begin;
	if (r->end > p->api_until)
		p->api_until = r->end;
}

static const char *shown_name(struct gpu *g, uint32_t id,
			      const char *(*how)(struct facts *, const char *))
{
	const uint64_t *known = hashmap__get(&g->names, id, how == gpu__api_name);
	const char *text;

	if (known)
		return (const char *)(uintptr_t)*known;
	text = how(g->facts, facts__name(g->facts, id));
	hashmap__put(&g->names, id, how == gpu__api_name, (uintptr_t)text);
	return text;
}

static void keep_call(struct gpu *g, struct gpu_call *c)
{
	c->rec = shared_copy(g, c->rec);
	vec_push(g->calls, g->call_cnt, g->call_cap, *c);
}

static void on_gpu_api(struct gpu *g, const struct ptb_gpu_api *r)
{
	struct gpu_call c = { .rec = &r->h,
			      .tgid = r->h.tgid,
			      .tid = r->h.tid,
			      .begin_ns = r->begin,
			      .end_ns = r->end,
			      .correlation = r->correlation,
			      .driver = r->driver,
			      .kernel_name = "" };

	c.name = shown_name(g, r->name, gpu__api_name);
	keep_call(g, &c);
}

/* Its times are the session's. */
static void on_host_call(struct gpu *g, const struct ptb_cuda_call *r)
{
	const struct site_fact *site = facts__site(g->facts, r->h.site);
	struct gpu_call c = { .rec = &r->h,
			      .tgid = r->h.tgid,
			      .tid = r->h.tid,
			      .begin_ns = r->begin_ns,
			      .end_ns = r->h.ts_ns,
			      .host_only = true,
			      .kernel_name = "" };
	const uint64_t *known = hashmap__get(&g->stack_ids, r->h.tgid, r->h.tid);

	if (known && g->stacks[*known].ts_ns == r->h.ts_ns)
		c.stack = g->stacks[*known].stack;
	if (!site || !r->begin_ns || r->begin_ns >= TS_MAX || c.end_ns >= TS_MAX ||
	    c.end_ns < c.begin_ns) {
		g->bad++;
		return;
	}
	c.name = g->facts->funcs[site->func].op.full;
	c.driver = strncmp(c.name, "cuda", 4) != 0;
	if (r->func)
		c.kernel_name = shown_name(g, facts__kernel(g->facts, r->h.tgid, r->func),
					   gpu__kernel_name);
	keep_call(g, &c);
}

/* What runs on a device; false: of no kind that is emitted. */
static bool work_of(struct gpu *g, const struct ptb_rec_hdr *h, struct gpu_work *w)
{
	const struct ptb_gpu_kernel *k = (const void *)h;
	const struct ptb_gpu_memory *m = (const void *)h;
	const struct ptb_gpu_sync *s = (const void *)h;
	const struct ptb_gpu_event *e = (const void *)h;
	const struct ptb_gpu_overhead *o = (const void *)h;

#define TIMES(r) (w->begin_ns = (r)->begin, w->end_ns = (r)->end)
#define ON_DEVICE(r)                                                                               \
	(w->correlation = (r)->correlation, w->device = (r)->device, w->context = (r)->context,    \
	 w->stream = (r)->stream)
	switch (h->kind) {
	case PTB_REC_GPU_KERNEL:
		w->what = GPU_KERNEL;
		w->name = shown_name(g, k->name, gpu__kernel_name);
		TIMES(k);
		ON_DEVICE(k);
		return true;
	case PTB_REC_GPU_MEMCPY:
	case PTB_REC_GPU_MEMSET:
		w->what = h->kind == PTB_REC_GPU_MEMCPY ? GPU_MEMCPY : GPU_MEMSET;
		TIMES(m);
		ON_DEVICE(m);
		break;
	case PTB_REC_GPU_SYNC:
		w->what = GPU_SYNC;
		TIMES(s);
		ON_DEVICE(s);
		break;
	case PTB_REC_GPU_EVENT:
		w->what = GPU_EVENT;
		w->begin_ns = w->end_ns = e->at;
		ON_DEVICE(e);
		if (!e->at) /* when the device passed it is not known */
			return false;
		break;
	case PTB_REC_GPU_OVERHEAD:
		w->what = GPU_OVERHEAD;
		TIMES(o);
		break;
	default:
		return false;
	}
#undef TIMES
#undef ON_DEVICE
	w->name = gpu__work_name(g->facts, h);
	return true;
}

static void on_work(struct gpu *g, const struct ptb_rec_hdr *h)
{
	struct gpu_work w = { .tgid = h->tgid, .call = GPU_NONE };

	if (!work_of(g, h, &w))
		return;
	w.rec = shared_copy(g, h);
	vec_push(g->works, g->work_cnt, g->work_cap, w);
}

static int read_record(void *arg, const struct ptb_rec_hdr *h)
{
	struct gpu *g = arg;
	struct gpu_proc *p;

	if (h->kind == PTB_REC_PY_STACK) {
		struct gpu_stack *last = list__keyed(KEYED_LIST(g, stacks, stack), h->tgid, h->tid);

		last->ts_ns = h->ts_ns;
		last->stack = py_stacks__find(&g->facts->py, h->tgid,
					      ((const struct ptb_py_stack *)(const void *)h)->id);
		return 0;
	}
	if (record__reader(h->kind) != PTB_READ_GPU)
		return 0;
	if (h->kind == PTB_REC_GPU_DEVICE) {
		on_device(g, (const void *)h);
		return 0;
	}
	p = gpu_proc_of(g, h->tgid);
	if (h->ts_ns > p->last_ns && h->ts_ns < TS_MAX)
		p->last_ns = h->ts_ns;
	if (h->kind == PTB_REC_GPU_NOTE)
		return 0;
	if (h->kind == PTB_REC_GPU_CLOCK) {
		gpu_clock__add(&p->clock, (const void *)h);
		return 0;
	}
	if (h->kind == PTB_REC_GPU_API)
		note_api(p, (const void *)h);
	if (h->kind == PTB_REC_GPU_GRAPH_NODE)
		gpu_graph__add(&g->graphs, (const void *)h);
	else if (h->kind == PTB_REC_GPU_API)
		on_gpu_api(g, (const void *)h);
	else if (h->kind == PTB_REC_CUDA_CALL)
		on_host_call(g, (const void *)h);
	else
		on_work(g, h);
	return 0;
}

/* ---- times, once all clocks are known ---- */

/* CUPTI's times become those of CLOCK_MONOTONIC; false: counted, and not to be emitted. What ends
 * after all records have arrived has a time that CUPTI cannot know. */
static bool convert_times(struct gpu *g, const struct gpu_proc *p, uint64_t *begin_ns,
			  uint64_t *end_ns)
{
	if (!p->clock.cnt) {
		g->no_clock++;
		return false;
	}
	if (!*begin_ns || *end_ns < *begin_ns ||
	    !gpu_clock__to_mono(&p->clock, *begin_ns, begin_ns) ||
	    !gpu_clock__to_mono(&p->clock, *end_ns, end_ns) ||
	    *end_ns > p->last_ns + GPU_TIME_SLACK_NS) {
		g->wrong_times++;
		return false;
	}
	if (*end_ns <= *begin_ns)
		*end_ns = *begin_ns + 1;
	return true;
}

static bool in_window(const struct gpu *g, uint32_t tgid, uint64_t begin_ns, uint64_t end_ns)
{
	return begin_ns >= facts__begin_of(g->facts, tgid, g->begin_ns) &&
	       end_ns <= facts__end_of(g->facts, tgid, g->end_ns);
}

/* Recorded when it returned; without a result that time is only when it was known to be over. */
static bool host_times(struct gpu *g, const struct gpu_proc *p, struct gpu_call *c)
{
	const struct ptb_cuda_call *r = (const void *)c->rec;

	if (p->api_until && c->end_ns >= p->api_from && c->begin_ns <= p->api_until) {
		g->host_dropped++;
		return false;
	}
	if (c->end_ns == c->begin_ns || r->flags & PTB_API_NO_RESULT)
		c->end_ns = c->begin_ns + 1;
	return true;
}

static void fit_times(struct gpu *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->call_cnt; i++) {
		struct gpu_call *c = &g->calls[i];
		const struct gpu_proc *p = gpu_proc_of(g, c->tgid);

		if (!(c->host_only ? host_times(g, p, c) :
				     convert_times(g, p, &c->begin_ns, &c->end_ns)))
			continue;
		if (in_window(g, c->tgid, c->begin_ns, c->end_ns))
			g->calls[n++] = *c;
		else
			g->outside++;
	}
	g->call_cnt = n;
	for (uint32_t i = n = 0; i < g->work_cnt; i++) {
		struct gpu_work *w = &g->works[i];

		if (!convert_times(g, gpu_proc_of(g, w->tgid), &w->begin_ns, &w->end_ns))
			continue;
		w->outside = !in_window(g, w->tgid, w->begin_ns, w->end_ns);
		/* gpu__order() drops those outside, once it knows their launches */
		g->works[n++] = *w;
	}
	g->work_cnt = n;
}

static void fit_clocks(struct gpu *g)
{
	for (uint32_t i = 0; i < g->proc_cnt; i++) {
		struct gpu_proc *p = &g->procs[i];
		struct gpu_clock *c = &p->clock;

		g->bad += gpu_clock__fit(c) && !c->cnt;
		g->clock_cnt += c->cnt;
		if (c->err_ns > g->clock_err_ns)
			g->clock_err_ns = c->err_ns;
		if (p->api_until && (!gpu_clock__to_mono(c, p->api_from, &p->api_from) ||
				     !gpu_clock__to_mono(c, p->api_until, &p->api_until)))
			p->api_until = 0; /* nor can its calls be emitted */
	}
}

int gpu__read(struct capture_reader *cr, struct facts *f, uint64_t begin_ns, uint64_t end_ns,
	      struct gpu **out)
{
	struct gpu *g = xcalloc(1, sizeof(*g));
	int err;

	*out = NULL;
	g->facts = f;
	g->begin_ns = begin_ns;
	g->end_ns = end_ns;
	err = capture_reader__scan(cr, read_record, g);
	fit_clocks(g);
	hashmap__clear(&g->copies);
	fit_times(g);
	gpu__order(g);
	gpu_graph__order(&g->graphs);
	if (err || (!g->proc_cnt && !g->device_cnt)) {
		gpu__free(g);
		return err;
	}
	*out = g;
	return 0;
}

void gpu__free(struct gpu *g)
{
	struct gpu_bytes *b, *next;

	if (!g)
		return;
	for (b = g->bytes; b; b = next) {
		next = b->next;
		free(b);
	}
	for (uint32_t i = 0; i < g->proc_cnt; i++)
		free(g->procs[i].clock.pairs);
	free(g->procs);
	free(g->calls);
	free(g->works);
	free(g->call_contexts);
	free(g->devices);
	free(g->stacks);
	hashmap__clear(&g->stack_ids);
	gpu_graph__free(&g->graphs);
	hashmap__clear(&g->proc_ids);
	hashmap__clear(&g->copies);
	hashmap__clear(&g->device_by_id);
	hashmap__clear(&g->names);
	free(g);
}

const struct ptb_gpu_device *gpu__device(const struct gpu *g, uint32_t tgid, uint32_t id)
{
	const uint64_t *r = hashmap__get(&g->device_by_id, tgid, id);

	return r ? (const struct ptb_gpu_device *)(uintptr_t)*r : NULL;
}
