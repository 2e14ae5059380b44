/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * GPU work and slices: when a pass reaches the begin of a call, what is open on its thread is where
 * the call and all that it launched belong. Owns what slices are charged with, and the annotations'
 * share of the devices; must not read records.
 *
 * torch's rules (kineto GenericActivityProfiler.cpp, pytorch autograd/profiler.py): work belongs to
 * the innermost operator, annotations do not count; what was launched while an annotation was the
 * innermost one of its thread, whatever operators are open, makes that annotation's share of a
 * stream: from the first to the last of it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "model/gpu_priv.h"

/* ---- during the pass ---- */

static bool same_context(const struct gpu_call_context *a, const struct gpu_call_context *b)
{
	return a->at.tgid == b->at.tgid && a->at.tid == b->at.tid && a->at.slice == b->at.slice &&
	       a->at.op_slice == b->at.op_slice && a->at.op == b->at.op &&
	       a->at.outer_op == b->at.outer_op && a->at.annotation == b->at.annotation &&
	       a->at.step == b->at.step && a->at.op_in == b->at.op_in &&
	       a->at.stack == b->at.stack && a->at.enclosed == b->at.enclosed &&
	       a->annotation_slice == b->annotation_slice &&
	       a->annotation_name == b->annotation_name && a->at.within == b->at.within &&
	       a->annotation_within == b->annotation_within;
}

/* Calls that follow one another often have the same context. */
static void keep_context(struct model *m, struct gpu_call *c, const struct gpu_call_context *p)
{
	struct gpu *g = m->gpu;

	if (!g->call_context_cnt || !same_context(&g->call_contexts[g->call_context_cnt - 1], p))
		vec_push(g->call_contexts, g->call_context_cnt, g->call_context_cap, *p);
	c->call_context = g->call_context_cnt - 1;
}

static void find_context(struct model *m, struct gpu_call *c)
{
	struct thread *t = c->tid ? model__known_thread(m, c->tgid, c->tid) : NULL;
	struct gpu_call_context gp = { .annotation_name = "" };
	struct open_entries p = stack__whole_context(m, t, c->tgid, c->tid, &gp.at);
	bool inside; /* another call of its thread */

	if (p.annotation) {
		gp.annotation_slice = p.annotation->id;
		gp.annotation_name = p.annotation->name;
		gp.annotation_within = p.annotation->within;
	}
	keep_context(m, c, &gp);
	if (!t)
		return;
	inside = c->begin_ns < t->call_end_ns;
	if (c->end_ns > t->call_end_ns)
		t->call_end_ns = c->end_ns;
	if (!p.op)
		return;
	p.op->device_ns += c->work_ns;
	if (inside)
		return;
	p.entry->call_cnt++;
	p.entry->call_ns += c->end_ns - c->begin_ns;
}

void gpu__until(struct model *m, uint64_t ts)
{
	struct gpu *g = m->gpu;

	while (m->gpu_next < g->call_cnt && g->calls[m->gpu_next].begin_ns < ts)
		find_context(m, &g->calls[m->gpu_next++]);
	gpu_graph__until(m, ts);
}

/* ---- annotations on devices ---- */

struct annotation_span {
	uint64_t begin_ns, end_ns;
	uint32_t call; /* the first one that launched some of it */
	uint32_t device, context, stream;
};

struct annotation_spans {
	struct annotation_span *v;
	uint32_t cnt, cap;
	struct hashmap by_stream; /* (slice, device and stream) -> index */
};

static const struct gpu_call_context *context_of(const struct gpu *g, uint32_t call)
{
	return &g->call_contexts[g->calls[call].call_context];
}

static void add_span(struct annotation_spans *n, const struct gpu *g, const struct gpu_work *w)
{
	uint64_t slice = context_of(g, w->call)->annotation_slice;
	uint64_t k1 = (uint64_t)w->device << 32 | w->stream;
	const uint64_t *known = hashmap__get(&n->by_stream, slice, k1);
	struct annotation_span *x;

	if (known) {
		x = &n->v[*known];
		if (w->end_ns > x->end_ns)
			x->end_ns = w->end_ns;
		if (w->begin_ns < x->begin_ns)
			x->begin_ns = w->begin_ns;
		return;
	}
	hashmap__put(&n->by_stream, slice, k1, n->cnt);
	vec_push(n->v, n->cnt, n->cap,
		 (struct annotation_span){ .begin_ns = w->begin_ns,
					   .end_ns = w->end_ns,
					   .call = w->call,
					   .device = w->device,
					   .context = w->context,
					   .stream = w->stream });
}

static int cmp_span(const void *pa, const void *pb)
{
	const struct annotation_span *a = pa, *b = pb;

	if (a->device != b->device)
		return sort__cmp(a->device, b->device);
	if (a->stream != b->stream)
		return sort__cmp(a->stream, b->stream);
	return a->begin_ns != b->begin_ns ? sort__cmp(a->begin_ns, b->begin_ns) :
					    sort__cmp(b->end_ns, a->end_ns);
}

static void find_spans(const struct gpu *g, struct annotation_spans *n)
{
	for (uint32_t i = 0; i < g->work_cnt; i++) {
		const struct gpu_work *w = &g->works[i];

		if (w->call != GPU_NONE && gpu_what__is_work(w->what) &&
		    context_of(g, w->call)->annotation_slice)
			add_span(n, g, w);
	}
	sort__array(n->v, n->cnt, sizeof(*n->v), cmp_span);
}

/* ---- to the sinks ---- */

static void emit_gpu_slice(struct model *m, const struct gpu_slice *s)
{
	MODEL_EMIT(m, gpu, s);
}

static struct op_context call_at(const struct model *m, const struct gpu_call *c)
{
	struct op_context at = m->gpu->call_contexts[c->call_context].at;

	if (c->stack)
		at.stack = c->stack;
	return at;
}

static void emit_call(struct model *m, const struct gpu_call *c)
{
	struct gpu_slice s = { .what = GPU_API,
			       .begin_ns = c->begin_ns,
			       .end_ns = c->end_ns,
			       .name = c->name,
			       .correlation = c->correlation,
			       .driver = c->driver,
			       .host_only = c->host_only,
			       .at = call_at(m, c),
			       .launch_name = "",
			       .kernel_name = c->kernel_name,
			       .rec = c->rec };

	if (model__leaves_out(m, s.at.within))
		return;
	m->totals->gpu_calls++;
	emit_gpu_slice(m, &s);
}

/* Which node of a CUDA graph it is a replay of. */
static void fill_graph(struct model *m, struct gpu_slice *s, const struct gpu_work *w)
{
	const struct ptb_gpu_kernel *k = (const void *)w->rec;
	const struct ptb_gpu_memory *r = (const void *)w->rec;

	s->graph = w->what == GPU_KERNEL ? k->graph : r->graph;
	s->graph_node = w->what == GPU_KERNEL ? k->graph_node : r->graph_node;
	if (!s->graph_node)
		return;
	s->origin = gpu_graph__origin(&m->gpu->graphs, w->tgid, s->graph_node);
	m->totals->gpu_graph_work++;
	m->totals->gpu_graph_unknown += !s->origin;
}

static void emit_work(struct model *m, const struct gpu_work *w)
{
	const struct gpu_call *c = w->call != GPU_NONE ? &m->gpu->calls[w->call] : NULL;
	struct gpu_slice s = { .what = w->what,
			       .begin_ns = w->begin_ns,
			       .end_ns = w->end_ns,
			       .name = w->name,
			       .device = w->device,
			       .context = w->context,
			       .stream = w->stream,
			       .correlation = w->correlation,
			       .launch_name = "",
			       .kernel_name = "",
			       .before_launch = w->before_launch,
			       .rec = w->rec };

	s.at = c ? call_at(m, c) :
		   op_context__none(w->tgid, w->what == GPU_OVERHEAD ? w->rec->tid : 0);
	if (model__leaves_out(m, s.at.within))
		return;
	if (c) {
		s.launch_begin_ns = c->begin_ns;
		s.launch_end_ns = c->end_ns;
		s.launch_name = c->name;
	}
	if (w->what != GPU_OVERHEAD)
		s.props = gpu__device(m->gpu, w->tgid, w->device);
	if (gpu_what__is_work(w->what)) {
		m->totals->gpu_work++;
		m->totals->gpu_unlinked += !c;
		m->totals->gpu_before_launch += w->before_launch;
		fill_graph(m, &s, w);
	}
	emit_gpu_slice(m, &s);
}

static void emit_span(struct model *m, const struct annotation_span *n)
{
	const struct gpu_call_context *p = context_of(m->gpu, n->call);
	struct gpu_slice s = { .what = GPU_ANNOTATION,
			       .begin_ns = n->begin_ns,
			       .end_ns = n->end_ns,
			       .name = p->annotation_name,
			       .device = n->device,
			       .context = n->context,
			       .stream = n->stream,
			       .at = p->at,
			       .launch_name = "",
			       .kernel_name = "",
			       .props = gpu__device(m->gpu, p->at.tgid, n->device) };

	s.at.slice = p->annotation_slice;
	s.at.within = p->annotation_within;
	if (!model__leaves_out(m, s.at.within))
		emit_gpu_slice(m, &s);
}

static bool span_is_next(const struct annotation_span *n, const struct gpu_work *w)
{
	const struct annotation_span at = { .begin_ns = w->begin_ns,
					    .end_ns = w->end_ns,
					    .device = w->device,
					    .stream = w->stream };

	return cmp_span(n, &at) <= 0;
}

void gpu__emit(struct model *m)
{
	struct gpu *g = m->gpu;
	struct annotation_spans n = { 0 };
	uint32_t k = 0;

	find_spans(g, &n);
	for (uint32_t i = 0; i < g->call_cnt; i++)
		emit_call(m, &g->calls[i]);
	for (uint32_t i = 0; i < g->work_cnt; i++) {
		for (; k < n.cnt && span_is_next(&n.v[k], &g->works[i]); k++)
			emit_span(m, &n.v[k]);
		emit_work(m, &g->works[i]);
	}
	m->totals->gpu_outside = g->outside;
	m->totals->gpu_no_clock = g->no_clock;
	m->totals->gpu_wrong_times = g->wrong_times;
	m->totals->gpu_host_dropped = g->host_dropped;
	m->totals->bad_records += g->bad;
	hashmap__clear(&n.by_stream);
	free(n.v);
}
