/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls and GPU work in order, and which call launched what: both have CUPTI's correlation number, unique in
 * their process. All nodes of a CUDA graph have the number of the graph's launch. A call of the driver inside
 * one of the runtime has the number of that one: the runtime's is the launch. What the host's probes see of
 * both is known by its times.
 */
#include <errno.h>
#include <stdlib.h>

#include "model/gpu_priv.h"

static int cmp_u64(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int cmp_call(const void *pa, const void *pb)
{
	const struct gpu_call *a = pa, *b = pb;
	int c = cmp_u64(a->begin_ns, b->begin_ns);

	if (!c)
		c = cmp_u64(b->end_ns, a->end_ns);
	if (!c)
		c = a->driver - b->driver;
	return c ? c : cmp_u64(a->correlation, b->correlation);
}

static int cmp_work(const void *pa, const void *pb)
{
	const struct gpu_work *a = pa, *b = pb;
	int c = cmp_u64(a->device, b->device);

	if (!c)
		c = cmp_u64(a->stream, b->stream);
	if (!c)
		c = cmp_u64(a->begin_ns, b->begin_ns);
	if (!c)
		c = cmp_u64(b->end_ns, a->end_ns);
	if (!c)
		c = cmp_u64(a->tgid, b->tgid);
	return c ? c : cmp_u64(a->correlation, b->correlation);
}

/* Of several calls with one number the runtime's counts, and of several such the first. */
static int index_calls(struct gpu *g)
{
	uint32_t i, driver;

	for (driver = 0; driver < 2; driver++) {
		for (i = 0; i < g->call_cnt; i++) {
			struct gpu_call *c = &g->calls[i];

			if (c->host_only || c->driver != driver || !c->correlation)
				continue;
			if (!hashmap__get(&g->call_by_id, c->tgid, c->correlation)) {
				if (hashmap__put(&g->call_by_id, c->tgid, c->correlation, i))
					return -ENOMEM;
			} else if (driver) {
				c->nested = true;
			}
		}
	}
	return 0;
}

/* The end of the thread's runtime call that was open last. */
static int drop_nested_host(struct gpu *g)
{
	struct hashmap open = { 0 };
	uint32_t i;
	int err = 0;

	for (i = 0; i < g->call_cnt && !err; i++) {
		struct gpu_call *c = &g->calls[i];
		const uint64_t *end_ns;

		if (!c->host_only)
			continue;
		end_ns = hashmap__get(&open, c->tgid, c->tid);
		if (c->driver)
			c->nested = end_ns && c->end_ns <= *end_ns;
		else if (!end_ns || c->end_ns > *end_ns)
			err = hashmap__put(&open, c->tgid, c->tid, c->end_ns);
	}
	hashmap__clear(&open);
	return err;
}

static void drop_calls(struct gpu *g)
{
	uint32_t i, n = 0;

	for (i = 0; i < g->call_cnt; i++)
		if (!g->calls[i].nested)
			g->calls[n++] = g->calls[i];
	g->call_cnt = n;
}

static void link_work(struct gpu *g)
{
	uint32_t i;

	for (i = 0; i < g->work_cnt; i++) {
		struct gpu_work *w = &g->works[i];
		const uint64_t *k = w->correlation ? hashmap__get(&g->call_by_id, w->tgid, w->correlation) : NULL;
		struct gpu_call *c = k ? &g->calls[*k] : NULL;

		if (!c)
			continue;
		w->call = (uint32_t)*k;
		if (!gpu_work__counts(w))
			continue;
		c->work_ns += w->end_ns - w->begin_ns;
		w->before_launch = w->begin_ns + g->clock_err_ns < c->begin_ns;
	}
}

int gpu__order(struct gpu *g)
{
	int err;

	if (g->call_cnt)
		qsort(g->calls, g->call_cnt, sizeof(*g->calls), cmp_call);
	if (g->work_cnt)
		qsort(g->works, g->work_cnt, sizeof(*g->works), cmp_work);
	err = index_calls(g);
	if (!err)
		err = drop_nested_host(g);
	if (err)
		return err;
	drop_calls(g);
	hashmap__clear(&g->call_by_id); /* the places have changed */
	err = index_calls(g);
	if (!err)
		link_work(g);
	return err;
}
