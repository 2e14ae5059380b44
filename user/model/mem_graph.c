/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The data flow graph: a node for each of the topmost operators whose schema is known, for each
 * backward node, and for each allocation outside of them; an edge for each key that one reads,
 * changes, makes or ends (DataFlowGraph, DataFlowNode). Also finds the gradients that
 * AccumulateGrad takes, which needs the tree.
 */
#include <stdlib.h>

#include "base/containers.h"
#include "base/mem.h"
#include "model/memory_priv.h"

/* What each node consists of: items[first[node] .. first[node + 1]). */
struct members {
	uint32_t *first, *items;
};

struct build {
	struct mem_flow *mf;
	uint32_t *by_id;           /* operators */
	struct hashmap open_steps; /* thread -> step */
	uint32_t *edge_of;         /* by key: its newest edge */
	int32_t *version;          /* by key: the newest */
	struct members ops, acts;  /* of mf */
};

/* ---- which node is an operator part of? ---- */

static void new_node(struct build *b, uint64_t begin_ns, const struct mem_op *op, uint32_t step,
		     uint32_t *out)
{
	struct mem_flow *mf = b->mf;

	*out = mf->node_cnt;
	vec_push(mf->nodes, mf->node_cnt, mf->node_cap,
		 (struct mem_node){
			 .begin_ns = begin_ns,
			 .step = step,
			 .backward = op && (op->flags & MEM_OP_BACKWARD),
			 .accumulate = op && (op->flags & MEM_OP_ACCUMULATE),
		 });
}

/* What is the first in AccumulateGrad says which tensor becomes a gradient: if none was there
 * detach(), else add_() (_extract_parameters_and_gradients). */
static void first_child(struct build *b, const struct mem_op *op, struct mem_op *parent)
{
	struct mem_flow *mf = b->mf;
	const struct mem_ref *ref = op ? mf->refs + op->first_ref : NULL;

	if (!parent || !(parent->flags & MEM_OP_ACCUMULATE) || (parent->flags & MEM_OP_HAD_CHILD))
		return;
	parent->flags |= MEM_OP_HAD_CHILD;
	if (op && (op->flags & MEM_OP_TAKES_GRAD) && op->ref_cnt && (ref->flags & MEM_REF_FIRST))
		mf->grad_id[mf->keys[ref->key].id] = 1;
}

/* The step that was open when the window began, if the operator lies in it. */
static uint32_t open_step(const struct build *b, const struct mem_op *op)
{
	const uint64_t *step = hashmap__get(&b->open_steps, op->tid, 0);

	return step && op->begin_ns < b->mf->steps[*step].end_ns ? (uint32_t)*step : MEM_NONE;
}

static void find_op_node(struct build *b, struct mem_op *op)
{
	struct mem_op *parent = mem_ops__find(b->mf, b->by_id, op->parent);

	first_child(b, op, parent);
	if (!(op->flags & MEM_OP_STEP))
		op->step = parent ? parent->step : open_step(b, op);
	if (parent && parent->node != MEM_NONE) {
		op->node = parent->node;
		op->name = parent->name;
		return;
	}
	if (!(op->flags & (MEM_OP_BACKWARD | MEM_OP_MATCHED)))
		return;
	new_node(b, op->begin_ns, op, op->step, &op->node);
}

/* Blocks that no tensor showed are not in the graph. */
static void find_act_node(struct build *b, struct mem_act *act)
{
	struct mem_op *parent = mem_ops__find(b->mf, b->by_id, act->slice);

	struct mem_key *k = act->key == MEM_NONE ? NULL : &b->mf->keys[act->key];
	uint32_t step = parent ? parent->step : MEM_NONE;

	first_child(b, NULL, parent);
	if (k && act->bytes > 0 && parent && parent->node != MEM_NONE)
		k->within = parent->name;
	if (!k || !k->tensor)
		return;
	k->step = act->bytes > 0 || k->step == step ? step : MEM_NONE;
	if (parent && parent->node != MEM_NONE) {
		act->node = parent->node;
		return;
	}
	new_node(b, act->ts_ns, NULL, step, &act->node);
}

static void find_nodes(struct build *b)
{
	struct mem_flow *mf = b->mf;
	uint32_t op = 0, act = 0;

	while ((op < mf->op_cnt || act < mf->act_cnt)) {
		if (act < mf->act_cnt &&
		    (op == mf->op_cnt || mf->acts[act].ts_ns <= mf->ops[op].begin_ns))
			find_act_node(b, &mf->acts[act++]);
		else
			find_op_node(b, &mf->ops[op++]);
	}
}

/* ---- what is in a node ---- */

static uint32_t node_of_op(const struct mem_flow *mf, uint32_t i)
{
	return mf->ops[i].node;
}

static uint32_t node_of_act(const struct mem_flow *mf, uint32_t i)
{
	return mf->acts[i].node;
}

/* A counting sort. */
static void find_members(struct members *m, uint32_t nodes, uint32_t cnt,
			 uint32_t (*node_of)(const struct mem_flow *, uint32_t),
			 const struct mem_flow *mf)
{
	uint32_t n, sum = 0, node;

	m->first = xcalloc((size_t)nodes + 2, sizeof(*m->first));
	m->items = xmalloc(sizeof(*m->items) * ((size_t)cnt + 1));
	/* counts, one index later: while items are put in, begins become ends, which are the next
	 * begins */
	for (uint32_t i = 0; i < cnt; i++)
		if (node_of(mf, i) != MEM_NONE)
			m->first[node_of(mf, i) + 1]++;
	for (uint32_t i = 1; i <= nodes + 1; i++) {
		n = m->first[i];
		m->first[i] = sum;
		sum += n;
	}
	for (uint32_t i = 0; i < cnt; i++) {
		node = node_of(mf, i);
		if (node != MEM_NONE)
			m->items[m->first[node + 1]++] = i;
	}
}

static struct mem_edge *edge_to(struct build *b, const struct mem_node *n, uint32_t key)
{
	struct mem_flow *mf = b->mf;
	uint32_t at = b->edge_of[key];

	if (at >= n->first_edge && at < mf->edge_cnt && mf->edges[at].key == key)
		return &mf->edges[at];
	b->edge_of[key] = mf->edge_cnt;
	vec_push(mf->edges, mf->edge_cnt, mf->edge_cap,
		 (struct mem_edge){ .key = key, .version = b->version[key] });
	return &mf->edges[mf->edge_cnt - 1];
}

static void add_inputs(struct build *b, const struct mem_node *n, const struct mem_op *op)
{
	const struct mem_ref *ref = b->mf->refs + op->first_ref, *end = ref + op->ref_cnt;
	struct mem_edge *e;

	for (; ref < end; ref++) {
		e = edge_to(b, n, ref->key);
		e->mutable_set |= ref->flags & MEM_REF_MUTABLE;
		/* changed where some schema says so, or where none says anything */
		e->mutated = (e->mutable_set & MEM_REF_WRITE) ||
			     e->mutable_set == MEM_REF_NO_SCHEMA;
	}
}

/* The node's frees, which make inputs, before its allocations, which are none. */
static void add_acts(struct build *b, uint32_t node, bool frees)
{
	struct mem_flow *mf = b->mf;
	const struct mem_act *act;
	struct mem_edge *e;

	for (uint32_t i = b->acts.first[node]; i < b->acts.first[node + 1]; i++) {
		act = &mf->acts[b->acts.items[i]];
		if ((act->bytes <= 0) != frees)
			continue;
		e = edge_to(b, &mf->nodes[node], act->key);
		if (frees)
			e->mutated = MEM_DELETED;
		else
			e->version = -1;
	}
}

static int by_key(const void *a, const void *b, void *arg)
{
	const struct mem_edge *x = a, *y = b;
	const struct mem_key *keys = arg;

	if (keys[x->key].id != keys[y->key].id)
		return sort__cmp(keys[x->key].id, keys[y->key].id);
	return sort__cmp(x->key, y->key);
}

static void fill_node(struct build *b, uint32_t node)
{
	struct mem_flow *mf = b->mf;
	struct mem_node *n = &mf->nodes[node];
	struct mem_edge *e, *end;

	n->first_edge = mf->edge_cnt;
	for (uint32_t i = b->ops.first[node]; i < b->ops.first[node + 1]; i++)
		add_inputs(b, n, &mf->ops[b->ops.items[i]]);
	add_acts(b, node, true);
	add_acts(b, node, false);
	n->edge_cnt = mf->edge_cnt - n->first_edge;
	e = mf->edges + n->first_edge;
	end = e + n->edge_cnt;
	sort__array_r(e, n->edge_cnt, sizeof(*e), by_key, mf->keys);
	for (; e < end; e++) {
		/* sorting has moved it, and no other node may find it */
		b->edge_of[e->key] = MEM_NONE;
		if (e->mutated == 1 && e->version >= 0)
			b->version[e->key]++;
	}
}

static void fill_all(struct build *b)
{
	struct mem_flow *mf = b->mf;

	b->edge_of = xmalloc(sizeof(*b->edge_of) * ((size_t)mf->key_cnt + 1));
	b->version = xcalloc((size_t)mf->key_cnt + 1, sizeof(*b->version));
	for (uint32_t i = 0; i < mf->key_cnt; i++)
		b->edge_of[i] = MEM_NONE;
	for (uint32_t i = 0; i < mf->node_cnt; i++)
		fill_node(b, i);
}

/* A slot for each version of each key in arrays by version. */
static void number_versions(struct build *b)
{
	struct mem_flow *mf = b->mf;
	uint64_t slots = 0;
	struct mem_edge *e;

	for (uint32_t i = 0; i < mf->key_cnt; i++) {
		mf->keys[i].version = (uint32_t)b->version[i];
		mf->keys[i].slot = (uint32_t)slots;
		slots += (uint64_t)b->version[i] + 1;
	}
	if (slots >= MEM_NONE)
		mem__end(slots);
	mf->slot_cnt = (uint32_t)slots;
	mf->present = xcalloc((size_t)slots + 1, 1);
	for (e = mf->edges; e < mf->edges + mf->edge_cnt; e++) {
		mf->present[mem_edge__is_input(e) ? mem_edge__in_slot(mf, e) :
						    mf->keys[e->key].slot] = 1;
		if (mem_edge__is_output(e))
			mf->present[mem_edge__out_slot(mf, e)] = 1;
	}
}

void mem_graph__make(struct mem_flow *mf)
{
	struct build b = { .mf = mf, .by_id = mem_ops__by_id(mf) };

	mf->grad_id = xcalloc((size_t)mf->id_cnt + 1, 1);
	for (uint32_t i = 0; i < mf->step_cnt; i++)
		if (mf->steps[i].open_at_begin)
			hashmap__put(&b.open_steps, mf->steps[i].tid, 0, i);
	find_nodes(&b);
	find_members(&b.ops, mf->node_cnt, mf->op_cnt, node_of_op, mf);
	find_members(&b.acts, mf->node_cnt, mf->act_cnt, node_of_act, mf);
	fill_all(&b);
	number_versions(&b);
	hashmap__clear(&b.open_steps);
	free(b.by_id);
	free(b.edge_of);
	free(b.version);
	free(b.ops.first);
	free(b.ops.items);
	free(b.acts.first);
	free(b.acts.items);
}
