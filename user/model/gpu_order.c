/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls and GPU work in order, and which call launched what: both have CUPTI's correlation number,
 * unique in their process. All nodes of a CUDA graph have the number of the graph's launch. A call
 * of the driver inside one of the runtime has the number of that one: the runtime's is the launch.
 * What the host's probes see of both is known by its times.
 */
#include <stdlib.h>

#include "base/containers.h"
#include "base/mem.h"
#include "model/gpu_priv.h"

static int cmp_call(const void *pa, const void *pb)
{
	const struct gpu_call *a = pa, *b = pb;
	int c = sort__cmp(a->begin_ns, b->begin_ns);

	if (!c)
		c = sort__cmp(b->end_ns, a->end_ns);
	if (!c)
		c = a->driver - b->driver;
	return c ? c : sort__cmp(a->correlation, b->correlation);
}

static int cmp_work(const void *pa, const void *pb)
{
	const struct gpu_work *a = pa, *b = pb;
	int c = sort__cmp(a->device, b->device);

	if (!c)
		c = sort__cmp(a->stream, b->stream);
	if (!c)
		c = sort__cmp(a->begin_ns, b->begin_ns);
	if (!c)
		c = sort__cmp(b->end_ns, a->end_ns);
	if (!c)
		c = sort__cmp(a->tgid, b->tgid);
	return c ? c : sort__cmp(a->correlation, b->correlation);
}

/* A call by its number. */
struct numbered {
	uint64_t id; /* process and correlation */
	uint32_t call, driver;
};

struct numbers {
	/* in order of id; of those with one id the call that counts is the first */
	struct numbered *v;
	uint32_t cnt;
};

/* The runtime's counts, and of several such the first. */
static int cmp_numbered(const void *pa, const void *pb)
{
	const struct numbered *a = pa, *b = pb;
	int c = sort__cmp(a->id, b->id);

	if (!c)
		c = sort__cmp(a->driver, b->driver);
	return c ? c : sort__cmp(a->call, b->call);
}

static uint64_t call_key(uint32_t tgid, uint32_t correlation)
{
	return (uint64_t)tgid << 32 | correlation;
}

/* n->v is the caller's to free. */
static void sort_numbers(const struct gpu *g, struct numbers *n)
{
	n->cnt = 0;
	n->v = xmalloc(g->call_cnt * sizeof(*n->v));
	for (uint32_t i = 0; i < g->call_cnt; i++) {
		const struct gpu_call *c = &g->calls[i];

		if (!c->host_only && c->correlation)
			n->v[n->cnt++] = (struct numbered){ call_key(c->tgid, c->correlation), i,
							    c->driver };
	}
	sort__array(n->v, n->cnt, sizeof(*n->v), cmp_numbered);
}

/* The index of the first that is not less than id. Work of one stream has numbers that rise, so it
 * is looked for behind the one found last, in steps that double. */
static uint32_t find_number(const struct numbers *n, uint64_t id, uint32_t last)
{
	uint32_t lo = 0, hi = n->cnt, step;

	if (last < n->cnt && n->v[last].id < id) {
		lo = last + 1;
		for (step = 1; step < n->cnt - lo && n->v[lo + step - 1].id < id; step *= 2)
			lo += step;
		hi = step < n->cnt - lo ? lo + step : n->cnt;
	}
	BISECT(lo, hi, mid, n->v[mid].id < id);
	return lo;
}

static void drop_nested_driver(struct gpu *g)
{
	struct numbers n;

	sort_numbers(g, &n);
	for (uint32_t i = 1; i < n.cnt; i++)
		if (n.v[i].driver && n.v[i].id == n.v[i - 1].id)
			g->calls[n.v[i].call].nested = true;
	free(n.v);
}

/* The end of the thread's runtime call that was open last. */
static void drop_nested_host(struct gpu *g)
{
	struct hashmap open = { 0 };

	for (uint32_t i = 0; i < g->call_cnt; i++) {
		struct gpu_call *c = &g->calls[i];
		const uint64_t *end_ns;

		if (!c->host_only)
			continue;
		end_ns = hashmap__get(&open, c->tgid, c->tid);
		if (c->driver)
			c->nested = end_ns && c->end_ns <= *end_ns;
		else if (!end_ns || c->end_ns > *end_ns)
			hashmap__put(&open, c->tgid, c->tid, c->end_ns);
	}
	hashmap__clear(&open);
}

static void drop_calls(struct gpu *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->call_cnt; i++)
		if (!g->calls[i].nested)
			g->calls[n++] = g->calls[i];
	g->call_cnt = n;
}

static void link_work(struct gpu *g)
{
	struct numbers n;
	uint32_t at = 0;

	sort_numbers(g, &n);
	for (uint32_t i = 0; i < g->work_cnt; i++) {
		struct gpu_work *w = &g->works[i];
		uint64_t id = call_key(w->tgid, w->correlation);
		struct gpu_call *c;

		if (!w->correlation)
			continue;
		at = find_number(&n, id, at);
		if (at == n.cnt || n.v[at].id != id)
			continue;
		w->call = n.v[at].call;
		c = &g->calls[w->call];
		if (!gpu_what__is_work(w->what) || w->outside)
			continue;
		c->work_ns += w->end_ns - w->begin_ns;
		w->before_launch = w->begin_ns + g->clock_err_ns < c->begin_ns;
	}
	free(n.v);
}

/* Some of what is launched within the window ends after it, but none before it began. */
static void drop_outside(struct gpu *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->work_cnt; i++) {
		const struct gpu_work *w = &g->works[i];

		if (!w->outside)
			g->works[n++] = *w;
		else if (w->call != GPU_NONE && gpu_what__is_work(w->what) &&
			 w->begin_ns + GPU_TIME_SLACK_NS < g->calls[w->call].begin_ns)
			g->wrong_times++;
		else
			g->outside++;
	}
	g->work_cnt = n;
}

void gpu__order(struct gpu *g)
{
	sort__array(g->calls, g->call_cnt, sizeof(*g->calls), cmp_call);
	sort__array(g->works, g->work_cnt, sizeof(*g->works), cmp_work);
	drop_nested_driver(g);
	drop_nested_host(g);
	drop_calls(g);
	link_work(g); /* the indices have changed */
	drop_outside(g);
}
