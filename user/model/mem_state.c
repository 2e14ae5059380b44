/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What optimizers keep from step to step. torch reads it in Python (optimizer.state); here it
 * follows from what the annotations Optimizer.step#... contain. A tensor is state if
 *	- a step that took gradients of this window made or changed it, and the value of a parameter
 *	  came of it; or one counts in it: changed it before the last parameter, and took no
 *	  gradient and no parameter for that
 *	- no operator outside of steps had it, but for the one that made it. If the window has two
 *	  steps, those before the first do not count: they may lie in a step that began before the
 *	  window, and between the two the rest of a training step shows itself
 *	- it is still there when the step ends that made it, and no step frees it
 *	- it is no parameter, no gradient, and no step had it in one list with gradients.
 * This excludes what hooks of an optimizer average or log: no parameter comes of it. A step in
 * which a backward pass runs (a closure, as LBFGS needs one) is like no step: a model's buffers are
 * changed in it, too. What does not qualify stays unknown.
 */
#include <stdlib.h>

#include "base/containers.h"
#include "base/mem.h"
#include "model/memory_priv.h"

#define WRITTEN 0x01 /* in a step with gradients */
#define USED 0x02    /* for a parameter */
#define COUNTED 0x04
#define RULED_OUT 0x08 /* something says that it is no state */
#define PARAM 0x10
#define GRAD 0x20

struct state {
	const struct mem_flow *mf;
	uint8_t *id;          /* the above, by id */
	uint8_t *takes_grad;  /* by step: gradients of this window are among its arguments */
	uint8_t *used;        /* by slot: a parameter's value comes of it */
	uint32_t *last_param; /* by step: the last node that changes a parameter, MEM_NONE */
	uint32_t *alloc_node; /* by key: the node that allocates it, MEM_NONE */
};

static uint8_t *bits(const struct state *s, uint32_t key)
{
	return &s->id[s->mf->keys[key].id];
}

static bool is_plain_step(const struct mem_flow *mf, uint32_t step)
{
	return step != MEM_NONE && !mf->steps[step].backward;
}

/* May what happens in it prove anything? */
static bool is_evidence(const struct state *s, uint32_t step)
{
	return is_plain_step(s->mf, step) && s->mf->steps[step].ended && s->takes_grad[step];
}

/* ---- what is known beforehand ---- */

static void find_closures(const struct mem_flow *mf)
{
	uint32_t *nodes = xmalloc(sizeof(*nodes) * ((size_t)mf->node_cnt + 1)), cnt = 0;
	struct mem_step *step;

	for (uint32_t i = 0; i < mf->node_cnt; i++)
		if (mf->nodes[i].backward)
			nodes[cnt++] = i;
	for (step = mf->steps; step < mf->steps + mf->step_cnt; step++) {
		uint32_t lo = 0, hi = cnt; /* operators are in order of their begin */

		BISECT(lo, hi, mid, mf->nodes[nodes[mid]].begin_ns < step->begin_ns);
		step->backward = lo < cnt && mf->nodes[nodes[lo]].begin_ns < step->end_ns;
	}
	free(nodes);
}

static void find_known(struct state *s)
{
	const struct mem_flow *mf = s->mf;
	const struct mem_op *op;

	for (uint32_t i = 0; i < mf->ref_cnt; i++)
		if ((mf->refs[i].flags & MEM_REF_PARAMETER) && mf->refs[i].key != MEM_NONE)
			*bits(s, mf->refs[i].key) |= PARAM;
	for (uint32_t i = 0; i < mf->id_cnt; i++)
		if (mf->grad_id[i])
			s->id[i] |= GRAD;
	for (op = mf->ops; op < mf->ops + mf->op_cnt; op++)
		for (uint32_t i = op->first_ref;
		     op->step != MEM_NONE && i < op->first_ref + op->ref_cnt; i++)
			if (mf->refs[i].key != MEM_NONE && (*bits(s, mf->refs[i].key) & GRAD))
				s->takes_grad[op->step] = 1;
	for (uint32_t i = 0; i < mf->act_cnt; i++)
		if (mf->acts[i].bytes > 0 && mf->acts[i].key != MEM_NONE)
			s->alloc_node[mf->acts[i].key] = mf->acts[i].node;
}

/* ---- what says no ---- */

/* Gradients of before the window are not known, but fused operators have them in a list with
 * others. */
static void rule_out_lists(struct state *s, const struct mem_op *op)
{
	const struct mem_ref *ref = s->mf->refs + op->first_ref, *end = ref + op->ref_cnt, *list;
	bool grad;

	while (ref < end) {
		grad = false;
		for (list = ref; list < end && list->arg == ref->arg; list++)
			grad |= list->key != MEM_NONE && (*bits(s, list->key) & GRAD);
		for (; ref < list; ref++)
			if (grad && ref->key != MEM_NONE)
				*bits(s, ref->key) |= RULED_OUT;
	}
}

/* From when on what lies in no step is outside of steps. */
static uint64_t first_step_ns(const struct state *s)
{
	uint64_t first = UINT64_MAX;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < s->mf->step_cnt; i++) {
		if (!is_evidence(s, i) || s->mf->steps[i].open_at_begin)
			continue;
		first = first < s->mf->steps[i].begin_ns ? first : s->mf->steps[i].begin_ns;
		cnt++;
	}
	return cnt > 1 ? first : 0;
}

static void rule_out_ids(struct state *s)
{
	uint64_t from_ns = first_step_ns(s);
	const struct mem_flow *mf = s->mf;
	const struct mem_op *op;
	const struct mem_act *act;
	uint32_t key, node, step;

	for (op = mf->ops; op < mf->ops + mf->op_cnt; op++) {
		if (is_plain_step(mf, op->step)) {
			rule_out_lists(s, op);
			continue;
		}
		for (uint32_t i = op->first_ref;
		     op->begin_ns >= from_ns && i < op->first_ref + op->ref_cnt; i++) {
			key = mf->refs[i].key;
			if (key != MEM_NONE &&
			    (op->node == MEM_NONE || op->node != s->alloc_node[key]))
				*bits(s, key) |= RULED_OUT;
		}
	}
	for (key = 0; key < mf->key_cnt; key++) {
		node = s->alloc_node[key];
		step = node == MEM_NONE ? MEM_NONE : mf->nodes[node].step;
		/* made in the step that the window's end cuts: it may be gone a moment later */
		if (step != MEM_NONE && !mf->steps[step].ended)
			*bits(s, key) |= RULED_OUT;
	}
	for (act = mf->acts; act < mf->acts + mf->act_cnt; act++)
		if (act->bytes <= 0 && act->node != MEM_NONE &&
		    mf->nodes[act->node].step != MEM_NONE)
			*bits(s, act->key) |= RULED_OUT;
}

/* ---- what says yes ---- */

static uint8_t inputs_bits(const struct state *s, const struct mem_node *n)
{
	const struct mem_edge *e = s->mf->edges + n->first_edge, *end = e + n->edge_cnt;
	uint8_t all = 0;

	for (; e < end; e++)
		if (mem_edge__is_input(e))
			all |= *bits(s, e->key);
	return all;
}

static void note_edges(struct state *s, const struct mem_node *n, bool used)
{
	const struct mem_edge *e = s->mf->edges + n->first_edge, *end = e + n->edge_cnt;
	bool counts = !(inputs_bits(s, n) & (PARAM | GRAD)) && s->last_param[n->step] != MEM_NONE &&
		      n < s->mf->nodes + s->last_param[n->step];

	for (; e < end; e++) {
		if (mem_edge__is_output(e))
			*bits(s, e->key) |= WRITTEN;
		if (counts && e->version >= 0 && e->mutated == 1)
			*bits(s, e->key) |= COUNTED;
		if (used && mem_edge__is_input(e) && !(*bits(s, e->key) & PARAM)) {
			*bits(s, e->key) |= USED;
			s->used[mem_edge__in_slot(s->mf, e)] = 1;
		}
	}
}

/* Backward in time: a node is used that changes a parameter, or makes what is used. */
static void find_used(struct state *s)
{
	const struct mem_node *n = s->mf->nodes + s->mf->node_cnt;
	const struct mem_edge *e;
	bool param, used;

	while (n != s->mf->nodes) {
		n--;
		if (!is_evidence(s, n->step))
			continue;
		param = used = false;
		for (e = s->mf->edges + n->first_edge;
		     e < s->mf->edges + n->first_edge + n->edge_cnt; e++) {
			if (!mem_edge__is_output(e))
				continue;
			param |= *bits(s, e->key) & PARAM;
			used |= s->used[mem_edge__out_slot(s->mf, e)];
		}
		if (param && s->last_param[n->step] == MEM_NONE)
			s->last_param[n->step] = (uint32_t)(n - s->mf->nodes);
		note_edges(s, n, param || used);
	}
}

static void find_states(struct state *s, uint8_t *state)
{
	const struct mem_flow *mf = s->mf;
	find_closures(mf);

	for (uint32_t i = 0; i < mf->step_cnt; i++)
		s->last_param[i] = MEM_NONE;
	for (uint32_t i = 0; i < mf->key_cnt; i++)
		s->alloc_node[i] = MEM_NONE;
	find_known(s);
	rule_out_ids(s);
	find_used(s);
	for (uint32_t i = 0; i < mf->id_cnt; i++)
		state[i] = (s->id[i] & WRITTEN) && (s->id[i] & (USED | COUNTED)) &&
			   !(s->id[i] & (RULED_OUT | PARAM | GRAD));
}

void mem_state__find(const struct mem_flow *mf, uint8_t *state)
{
	struct state s = {
		.mf = mf,
		.id = xcalloc((size_t)mf->id_cnt + 1, 1),
		.takes_grad = xcalloc((size_t)mf->step_cnt + 1, 1),
		.used = xcalloc((size_t)mf->slot_cnt + 1, 1),
		.last_param = xmalloc(sizeof(*s.last_param) * ((size_t)mf->step_cnt + 1)),
		.alloc_node = xmalloc(sizeof(*s.alloc_node) * ((size_t)mf->key_cnt + 1)),
	};

	find_states(&s, state);
	free(s.id);
	free(s.takes_grad);
	free(s.used);
	free(s.last_param);
	free(s.alloc_node);
}
