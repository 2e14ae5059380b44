/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * See ranks_priv.h. A call starts the work and returns; the thread then waits for it, which no
 * operator shows. So what the thread did next bounds when the work was done, if it waited. A slice
 * at the depth of a call or further out that comes after it is, or begins with, what the thread did
 * next. A backward pass goes on, and the thread waits at its end: its next step of an optimizer
 * bounds the calls there.
 */
#include "ranks/ranks_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/limits.h"
#include "model/facts.h"

#define OPEN_MAX 32 /* slices around a slice that are searched */

struct call_thread {
	uint32_t proc; /* index */
	/* calls of which it is not known yet what came next, by index; of growing depth */
	uint32_t *open;
	uint32_t cnt, cap;
	uint32_t *backward; /* calls in backward passes since the last step of an optimizer */
	uint32_t backward_cnt, backward_cap;
};

/* pytorch torch/csrc/distributed/c10d/Ops.cpp. Those with a root do not make all ranks wait for
 * all. */
static const struct {
	const char *op;
	bool waits;
} ops[] = {
	{ "allreduce_", true },
	{ "allreduce_coalesced_", true },
	{ "allgather_", true },
	{ "_allgather_base_", true },
	{ "allgather_coalesced_", true },
	{ "allgather_into_tensor_coalesced_", true },
	{ "reduce_scatter_", true },
	{ "_reduce_scatter_base_", true },
	{ "reduce_scatter_tensor_coalesced_", true },
	{ "alltoall_", true },
	{ "alltoall_base_", true },
	{ "barrier", true },
	{ "monitored_barrier_", true },
	{ "broadcast_", false },
	{ "reduce_", false },
	{ "gather_", false },
	{ "scatter_", false },
};

/* Is it one of torch's operators of a collective? waits: as in struct collective. */
static bool names_call(const char *op, bool *waits)
{
	if (strncmp(op, "c10d::", 6) != 0)
		return false;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(op + 6, ops[i].op)) {
			*waits = ops[i].waits;
			return true;
		}
	return false;
}

void collectives__init(struct collectives *c)
{
	*c = (struct collectives){ .texts = strtab__new() };
}

static void drop_threads(struct collectives *c)
{
	for (uint32_t i = 0; i < c->thread_cnt; i++) {
		free(c->threads[i].open);
		free(c->threads[i].backward);
	}
	free(c->threads);
	c->threads = NULL;
	c->thread_cnt = c->thread_cap = 0;
	hashmap__clear(&c->thread_ids);
}

void collectives__clear(struct collectives *c)
{
	drop_threads(c);
	for (uint32_t i = 0; i < c->proc_cnt; i++)
		free(c->procs[i].calls);
	free(c->procs);
	hashmap__clear(&c->proc_ids);
	strtab__free(c->texts);
	*c = (struct collectives){ .texts = NULL };
}

void collectives__begin(struct collectives *c, const struct session *s, uint32_t input)
{
	c->s = s;
	c->shapes = session__info(s)->has_shapes;
	c->input = input;
}

static uint32_t name_of(struct collectives *c, const struct slice *sl)
{
	struct shapes_text shapes = { .text = NULL };
	char text[512];
	uint32_t id = 0;
	int n;

	if (!c->shapes)
		return strtab__add(c->texts, sl->name, strlen(sl->name));
	input_shapes__text(sl, &shapes);
	n = snprintf(text, sizeof(text), "%s %s", sl->name, shapes.text);
	id = strtab__add(c->texts, text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1);
	free(shapes.text);
	return id;
}

/* The thread's calls from the slice's depth on have ended: it, or it as a part of what is around
 * them, came next. */
static void settle(struct collectives *c, struct call_thread *t, const struct slice *sl)
{
	struct rank_calls *p = &c->procs[t->proc];

	while (t->cnt) {
		struct collective *call = &p->calls[t->open[t->cnt - 1]];

		if (sl->depth > call->depth && sl->begin_ns >= call->end_ns)
			return;
		if (!call->backward)
			call->until_ns = sl->begin_ns >= call->end_ns ? sl->begin_ns : sl->end_ns;
		t->cnt--;
	}
}

static void settle_backward(struct collectives *c, struct call_thread *t, const struct slice *sl)
{
	struct rank_calls *p = &c->procs[t->proc];

	if (strncmp(sl->name, SESSION_STEP_ON, sizeof(SESSION_STEP_ON) - 1) != 0)
		return;
	while (t->backward_cnt)
		p->calls[t->backward[--t->backward_cnt]].until_ns = sl->begin_ns;
}

bool slice__is_within(const struct session *s, const struct slice *sl, enum slice_cat cat,
		      const char *prefix)
{
	struct open_slice open[OPEN_MAX];
	uint32_t n = sl->parent ? session__open_slices(s, sl->tgid, sl->tid, open, OPEN_MAX) : 0;
	size_t len = strlen(prefix);

	for (uint32_t i = 0; i < n; i++)
		if (open[i].cat == cat && !strncmp(open[i].name, prefix, len))
			return true;
	return false;
}

static void add_call(struct collectives *c, struct call_thread *t, const struct slice *sl,
		     bool waits)
{
	struct rank_calls *p = &c->procs[t->proc];
	/* DDP and FSDP call from hooks of the engine, which are no part of what a node does */
	bool backward = sl->backward || slice__is_within(c->s, sl, SLICE_CPU_OP, SESSION_NODE);
	struct collective call = { .begin_ns = sl->begin_ns,
				   .end_ns = sl->end_ns,
				   .until_ns = UINT64_MAX,
				   .name = name_of(c, sl),
				   .tid = sl->tid,
				   .depth = sl->depth,
				   .nr = p->cnt,
				   .waits = waits,
				   .backward = backward };

	vec_push(t->open, t->cnt, t->cap, p->cnt);
	if (backward)
		vec_push(t->backward, t->backward_cnt, t->backward_cap, p->cnt);
	vec_push(p->calls, p->cnt, p->cap, call);
}

/* Calls inside this one, which are the last of their thread, are its own doing. */
static void drop_inner(struct collectives *c, struct call_thread *t, const struct slice *sl)
{
	struct rank_calls *p = &c->procs[t->proc];

	for (uint32_t i = t->cnt; i-- && p->calls[t->open[i]].begin_ns >= sl->begin_ns;) {
		p->calls[t->open[i]].inner = true;
		t->cnt = i;
	}
}

static void on_slice(void *arg, const struct slice *sl)
{
	struct collectives *c = arg;
	const uint64_t *known;
	bool waits = false, is_call = sl->cat == SLICE_CPU_OP && names_call(sl->name, &waits);
	struct call_thread *t;
	struct rank_calls *p;

	if (!is_call) {
		known = c->thread_cnt ? hashmap__get(&c->thread_ids, sl->tgid, sl->tid) : NULL;
		if (known) {
			settle(c, &c->threads[*known], sl);
			settle_backward(c, &c->threads[*known], sl);
		}
		return;
	}
	p = list__keyed(KEYED_LIST(c, procs, proc), c->input, sl->tgid);
	t = list__keyed(KEYED_LIST(c, threads, thread), sl->tgid, sl->tid);
	p->input = c->input;
	p->tgid = sl->tgid;
	t->proc = (uint32_t)(p - c->procs);
	drop_inner(c, t, sl);
	settle(c, t, sl);
	if (p->cnt >= LIMIT_COLLECTIVES) {
		c->over++;
		return;
	}
	add_call(c, t, sl, waits);
}

struct session_sink collectives__sink(struct collectives *c)
{
	return (struct session_sink){ .arg = c, .slice = on_slice };
}

static int cmp_calls(const void *a, const void *b)
{
	const struct collective *x = a, *y = b;

	return sort__cmp(x->begin_ns, y->begin_ns);
}

void collectives__end(struct collectives *c)
{
	drop_threads(c);
	for (uint32_t i = 0; i < c->proc_cnt; i++) {
		struct rank_calls *p = &c->procs[i];
		uint32_t n = 0;

		if (p->input != c->input)
			continue;
		for (uint32_t k = 0; k < p->cnt; k++)
			if (!p->calls[k].inner)
				p->calls[n++] = p->calls[k];
		p->cnt = n;
		sort__array(p->calls, p->cnt, sizeof(*p->calls), cmp_calls);
	}
}

const struct rank_calls *collectives__of(const struct collectives *c, uint32_t input, uint32_t tgid)
{
	const uint64_t *i = hashmap__get(&c->proc_ids, input, tgid);

	return i && c->procs[*i].cnt ? &c->procs[*i] : NULL;
}
