/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Categories, by torch's decisions in torch's order (MemoryProfile in _memory_profiler.py):
 *	gradients, temporaries		taken, but gradients only as AccumulateGrad takes them: torch also
 *					reads p.grad of modules and optimizers in Python
 *	parameters that Python shows	torch: those of the modules and optimizers that were called. Here:
 *					arguments whose Python object is an nn.Parameter
 *	inputs				taken
 *	parameters by data flow		taken
 *	activations			taken
 *	optimizer states		torch: attributes of Python objects. Here: what mem_state.c finds
 *	autograd details		taken
 *
 * What torch reads in Python could change the other decisions too. So they are made twice, with the
 * two extreme assumptions, and a category is reported only if both give it:
 *	1. nothing else is a gradient or a parameter
 *	2. whatever else an optimizer's step touches and leaves behind may be a gradient (or state,
 *	   which torch would know); and, where no nn.Parameter was seen at all (none is used, or
 *	   this Python is not understood), every tensor that does not end in the window may be a
 *	   parameter
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "model/memory_priv.h"

struct decision {
	struct mem_flow *mf;
	const uint8_t *may_be_param, *may_be_grad;       /* by id; NULL: none is */
	const uint8_t *state;                            /* by id */
	uint8_t *by_id, *by_key, *by_slot;               /* enum mem_category */
	uint8_t *depends;                                /* by id: on a gradient */
	uint8_t *produces, *candidate, *param, *forward; /* by slot */
	uint32_t *first_taker, *takers; /* nodes by what they take, see find_takers() */
	uint32_t *pending, pending_cnt; /* nodes that are reached and not yet visited */
	uint8_t *reached;               /* by node */
};

static uint8_t *bytes_of(size_t cnt, int c)
{
	uint8_t *p = xmalloc(cnt + 1);

	memset(p, c, cnt + 1);
	return p;
}

static uint32_t id_of(const struct decision *w, const struct mem_edge *e)
{
	return w->mf->keys[e->key].id;
}

/* CategoryDict.get */
static uint8_t category_of(const struct decision *w, uint32_t key, uint32_t slot)
{
	uint8_t cat = w->by_id[w->mf->keys[key].id];

	if (cat == MEM_UNKNOWN)
		cat = w->by_key[key];
	return cat == MEM_UNKNOWN ? w->by_slot[slot] : cat;
}

static uint8_t category_before(const struct decision *w, const struct mem_edge *e)
{
	return category_of(w, e->key, mem_edge__in_slot(w->mf, e));
}

static void set_default(struct decision *w, uint32_t slot, uint8_t category)
{
	if (w->by_slot[slot] == MEM_UNKNOWN)
		w->by_slot[slot] = category;
}

#define for_versions(mf, key, slot)                                                                \
	for (slot = (mf)->keys[key].slot; slot <= (mf)->keys[key].slot + (mf)->keys[key].version;  \
	     slot++)
#define for_nodes(w, n) for (n = (w)->mf->nodes; n < (w)->mf->nodes + (w)->mf->node_cnt; n++)
#define for_nodes_back(w, n)                                                                       \
	for (n = (w)->mf->nodes + (w)->mf->node_cnt; n != (w)->mf->nodes && n--;)
#define for_edges(w, n, e)                                                                         \
	for (e = (w)->mf->edges + (n)->first_edge;                                                 \
	     e < (w)->mf->edges + (n)->first_edge + (n)->edge_cnt; e++)

/* ---- what is known beforehand ---- */

static void set_known(struct decision *w)
{
	const struct mem_flow *mf = w->mf;
	const struct mem_edge *e;
	const struct mem_ref *r;

	for (uint32_t i = 0; i < mf->id_cnt; i++) {
		if (w->may_be_grad && w->may_be_grad[i])
			w->by_id[i] = MEM_GRADIENT;
		if (w->may_be_param && w->may_be_param[i])
			w->by_id[i] = MEM_PARAMETER;
		if (mf->grad_id[i])
			w->by_id[i] = MEM_GRADIENT;
	}
	for (e = mf->edges; e < mf->edges + mf->edge_cnt; e++)
		if (mem_edge__is_intermediate(e))
			w->by_key[e->key] = MEM_TEMPORARY;
	for (r = mf->refs; r < mf->refs + mf->ref_cnt; r++)
		if ((r->flags & MEM_REF_PARAMETER) && r->key != MEM_NONE)
			w->by_id[mf->keys[r->key].id] = MEM_PARAMETER;
}

/* ---- inputs ---- */

/* Of the node, or of what it takes, known from the start. */
static bool takes_gradient(const struct decision *w, const struct mem_node *n)
{
	const struct mem_edge *e;
	uint8_t cat;

	for_edges (w, n, e) {
		if (!mem_edge__is_input(e))
			continue;
		cat = category_before(w, e);
		if (cat == MEM_GRADIENT || cat == MEM_PARAMETER)
			return true;
	}
	return false;
}

/* Nodes that take an id: nodes[first[id] .. first[id + 1]). */
static void find_takers(struct decision *w)
{
	const struct mem_flow *mf = w->mf;
	const struct mem_node *n;
	const struct mem_edge *e;
	uint32_t sum = 0, cnt;

	w->first_taker = xcalloc((size_t)mf->id_cnt + 2, sizeof(*w->first_taker));
	w->takers = xmalloc(sizeof(*w->takers) * ((size_t)mf->edge_cnt + 1));
	w->pending = xmalloc(sizeof(*w->pending) * ((size_t)mf->node_cnt + 1));
	/* counts, one index later: while nodes are put in, begins become ends, which are the next
	 * begins */
	for_nodes (w, n)
		for_edges (w, n, e)
			w->first_taker[id_of(w, e) + 1] += mem_edge__is_input(e);
	for (uint32_t i = 1; i <= mf->id_cnt; i++) {
		cnt = w->first_taker[i];
		w->first_taker[i] = sum;
		sum += cnt;
	}
	for_nodes (w, n)
		for_edges (w, n, e)
			if (mem_edge__is_input(e))
				w->takers[w->first_taker[id_of(w, e) + 1]++] =
					(uint32_t)(n - mf->nodes);
}

static void reach(struct decision *w, uint32_t node)
{
	if (w->reached[node])
		return;
	w->reached[node] = 1;
	w->pending[w->pending_cnt++] = node;
}

static void mark_id(struct decision *w, const struct mem_edge *e)
{
	uint32_t id = id_of(w, e);

	if (w->depends[id])
		return;
	w->depends[id] = 1;
	for (uint32_t i = w->first_taker[id]; i < w->first_taker[id + 1]; i++)
		reach(w, w->takers[i]);
}

/* Ids any version of which depends on a gradient, or will (_any_version_depends_on_gradient): torch
 * goes over all nodes until nothing changes; here each node is visited once, when something that it
 * takes changes. */
static void find_dependents(struct decision *w)
{
	const struct mem_node *n;
	const struct mem_edge *e;
	uint8_t cat;

	memset(w->depends, 0, w->mf->id_cnt);
	memset(w->reached, 0, w->mf->node_cnt);
	w->pending_cnt = 0;
	for_nodes (w, n)
		if (takes_gradient(w, n))
			reach(w, (uint32_t)(n - w->mf->nodes));
	while (w->pending_cnt) {
		n = &w->mf->nodes[w->pending[--w->pending_cnt]];
		for_edges (w, n, e) {
			cat = mem_edge__is_input(e) ? category_before(w, e) : MEM_UNKNOWN;
			if (mem_edge__is_output(e) || cat == MEM_GRADIENT || cat == MEM_PARAMETER)
				mark_id(w, e);
		}
	}
}

static bool produces_gradient(const struct decision *w, const struct mem_edge *e, uint32_t slot)
{
	uint8_t cat = category_of(w, e->key, slot);

	return cat == MEM_GRADIENT || cat == MEM_PARAMETER || w->produces[slot];
}

static void find_producers(struct decision *w)
{
	const struct mem_node *n;
	const struct mem_edge *e;
	bool any;

	for_nodes_back (w, n) {
		any = false;
		for_edges (w, n, e)
			any |= (mem_edge__is_input(e) &&
				produces_gradient(w, e, mem_edge__in_slot(w->mf, e))) ||
			       (mem_edge__is_output(e) &&
				produces_gradient(w, e, mem_edge__out_slot(w->mf, e)));
		for_edges (w, n, e) {
			if (any && mem_edge__is_input(e))
				w->produces[mem_edge__in_slot(w->mf, e)] = 1;
			if (any && mem_edge__is_output(e))
				w->produces[mem_edge__out_slot(w->mf, e)] = 1;
		}
	}
}

static void set_inputs(struct decision *w)
{
	const struct mem_flow *mf = w->mf;
	const struct mem_node *n;
	const struct mem_edge *e;
	uint32_t key, slot;

	find_dependents(w);
	find_producers(w);
	memcpy(w->candidate, w->produces, mf->slot_cnt);
	for_nodes (w, n)
		for_edges (w, n, e)
			if (n->backward && mem_edge__is_output(e))
				w->candidate[mem_edge__out_slot(mf, e)] = 0;
	for (key = 0; key < mf->key_cnt; key++)
		for_versions(mf, key, slot) if (w->candidate[slot] && !w->depends[mf->keys[key].id])
			set_default(w, slot, MEM_INPUT);
}

/* ---- parameters by data flow ---- */

/* Neither reads nor makes a gradient, and depends on an input. */
static bool is_forward(const struct decision *w, const struct mem_node *n)
{
	const struct mem_edge *e;
	bool any = false;

	if (n->backward)
		return false;
	for_edges (w, n, e) {
		if ((mem_edge__is_input(e) && category_before(w, e) == MEM_GRADIENT) ||
		    (mem_edge__is_output(e) &&
		     category_of(w, e->key, mem_edge__out_slot(w->mf, e)) == MEM_GRADIENT))
			return false;
		any |= mem_edge__is_input(e) && w->forward[mem_edge__in_slot(w->mf, e)];
	}
	return any;
}

static void find_candidates(struct decision *w)
{
	const struct mem_flow *mf = w->mf;
	const struct mem_node *n;
	const struct mem_edge *e;
	uint32_t slot;

	memset(w->candidate, 0, mf->slot_cnt);
	for (uint32_t key = 0; key < mf->key_cnt; key++)
		for_versions(mf, key, slot) w->forward[slot] =
			mf->present[slot] && category_of(w, key, slot) == MEM_INPUT;
	for_nodes (w, n) {
		if (!is_forward(w, n))
			continue;
		for_edges (w, n, e)
			if (mem_edge__is_output(e))
				w->forward[mem_edge__out_slot(mf, e)] = 1;
		for_edges (w, n, e)
			if (mem_edge__is_input(e) && !w->forward[mem_edge__in_slot(mf, e)])
				w->candidate[mem_edge__in_slot(mf, e)] = 1;
	}
}

/* Marks in `produces` what contributes to the value of a gradient. */
static void find_used_for_gradient(struct decision *w)
{
	const struct mem_node *n;
	const struct mem_edge *e;
	uint32_t slot;
	bool any;

	memset(w->produces, 0, w->mf->slot_cnt);
	for_nodes_back (w, n) {
		any = false;
		for_edges (w, n, e) {
			if (!mem_edge__is_output(e))
				continue;
			slot = mem_edge__out_slot(w->mf, e);
			any |= w->produces[slot] || category_of(w, e->key, slot) == MEM_GRADIENT;
		}
		for_edges (w, n, e)
			if (any && mem_edge__is_input(e))
				w->produces[mem_edge__in_slot(w->mf, e)] = 1;
	}
}

static void set_parameters(struct decision *w)
{
	const struct mem_flow *mf = w->mf;
	uint32_t key, slot;

	find_candidates(w);
	find_used_for_gradient(w);
	find_dependents(w);
	memset(w->param, 0, mf->id_cnt);
	for (key = 0; key < mf->key_cnt; key++)
		for_versions(mf, key, slot) if (w->candidate[slot] && w->produces[slot] &&
						w->depends[mf->keys[key].id])
			w->param[mf->keys[key].id] = 1;
	for (key = 0; key < mf->id_cnt; key++)
		if (w->param[key])
			w->by_id[key] = MEM_PARAMETER;
}

/* ---- activations, autograd details ---- */

static void set_activations(struct decision *w)
{
	const struct mem_node *n;
	const struct mem_edge *e;
	bool required, other;
	uint8_t cat;

	for_nodes (w, n) {
		required = other = false;
		for_edges (w, n, e) {
			if (!mem_edge__is_input(e))
				continue;
			cat = category_before(w, e);
			required |= cat == MEM_INPUT || cat == MEM_ACTIVATION;
			other |= cat != MEM_INPUT && cat != MEM_ACTIVATION &&
				 cat != MEM_PARAMETER && cat != MEM_TEMPORARY;
		}
		if (!required || other || n->backward)
			continue;
		for_edges (w, n, e)
			if (mem_edge__is_output(e))
				set_default(w, mem_edge__out_slot(w->mf, e), MEM_ACTIVATION);
	}
}

/*
 * What backward nodes make or go on changing. Of two things torch may know better: what
 * AccumulateGrad makes may be a gradient that it sees in Python, and what was there before the
 * window may be anything.
 */
static void set_autograd_detail(struct decision *w)
{
	const struct mem_flow *mf = w->mf;
	const struct mem_node *n;
	const struct mem_edge *e;
	uint8_t before;

	for_nodes (w, n) {
		if (!n->backward)
			continue;
		for_edges (w, n, e) {
			if (!mem_edge__is_output(e))
				continue;
			if (e->version < 0) {
				if (!n->accumulate)
					set_default(w, mem_edge__out_slot(mf, e),
						    MEM_AUTOGRAD_DETAIL);
				continue;
			}
			before = category_before(w, e);
			if (before == MEM_AUTOGRAD_DETAIL ||
			    (before == MEM_UNKNOWN && mf->keys[e->key].alloc_ns))
				set_default(w, mem_edge__out_slot(mf, e), MEM_AUTOGRAD_DETAIL);
		}
	}
}

/* ---- the two assumptions ---- */

/* Makes the arrays of bytes, which are one block. */
static uint8_t *make_arrays(struct decision *w)
{
	const struct mem_flow *mf = w->mf;
	size_t known = (size_t)mf->id_cnt + mf->key_cnt + mf->slot_cnt;
	uint8_t *p =
		bytes_of(known + 2 * (size_t)mf->id_cnt + 3 * (size_t)mf->slot_cnt + mf->node_cnt,
			 0);

	memset(p, MEM_UNKNOWN, known);
	w->by_id = p;
	w->by_key = w->by_id + mf->id_cnt;
	w->by_slot = w->by_key + mf->key_cnt;
	w->depends = w->by_slot + mf->slot_cnt;
	w->param = w->depends + mf->id_cnt;
	w->produces = w->param + mf->id_cnt;
	w->candidate = w->produces + mf->slot_cnt;
	w->forward = w->candidate + mf->slot_cnt;
	w->reached = w->forward + mf->slot_cnt;
	return p;
}

/* Fills out[], by slot. */
static void decide_categories(struct mem_flow *mf, const uint8_t *state,
			      const uint8_t *may_be_param, const uint8_t *may_be_grad, uint8_t *out)
{
	struct decision w = {
		.mf = mf, .state = state, .may_be_param = may_be_param, .may_be_grad = may_be_grad
	};
	uint8_t *arrays = make_arrays(&w);
	uint32_t slot;

	find_takers(&w);
	set_known(&w);
	set_inputs(&w);
	set_parameters(&w);
	set_activations(&w);
	for (uint32_t id = 0; id < mf->id_cnt; id++)
		if (w.state[id])
			w.by_id[id] = MEM_OPTIMIZER_STATE;
	set_autograd_detail(&w);
	for (uint32_t key = 0; key < mf->key_cnt; key++)
		for_versions(mf, key, slot) out[slot] = category_of(&w, key, slot);
	free(arrays);
	free(w.first_taker);
	free(w.takers);
	free(w.pending);
}

/* Ids of what an optimizer's step has to do with and leaves behind, but for state. True: there
 * are some. */
static bool touched_by_steps(const struct mem_flow *mf, const uint8_t *state, uint8_t *touched)
{
	uint8_t *gone = bytes_of(mf->key_cnt, 0);
	const struct mem_edge *e;
	const struct mem_op *op;
	uint32_t key;
	bool any = false;

	for (key = 0; key < mf->key_cnt; key++)
		gone[key] = mf->keys[key].step != MEM_NONE && mf->keys[key].free_ns;
	for (e = mf->edges; e < mf->edges + mf->edge_cnt; e++)
		if (mem_edge__is_intermediate(e))
			gone[e->key] = 1;
	for (op = mf->ops; op < mf->ops + mf->op_cnt; op++) {
		for (uint32_t i = op->first_ref;
		     op->step != MEM_NONE && i < op->first_ref + op->ref_cnt; i++) {
			key = mf->refs[i].key;
			if (key == MEM_NONE || gone[key] || state[mf->keys[key].id])
				continue;
			touched[mf->keys[key].id] = 1;
			any = true;
		}
	}
	free(gone);
	return any;
}

/* ---- what was there before ---- */

/*
 * torch takes for an input whatever was there before the window and took part in a gradient. If the
 * window began in the middle of a training step, that can be what forward() left for backward(). It
 * is an input (or a parameter, by data flow) if some operator outside of backward() has it and it
 * does not end in the window; else it is unknown.
 */
static void drop_leftovers(struct mem_flow *mf)
{
	uint8_t *sure = bytes_of(mf->key_cnt, 0); /* by key */
	const struct mem_node *n;
	const struct mem_edge *e;
	uint32_t slot;
	bool any;

	for (n = mf->nodes; n < mf->nodes + mf->node_cnt; n++)
		for (e = mf->edges + n->first_edge; e < mf->edges + n->first_edge + n->edge_cnt;
		     e++)
			sure[e->key] |= !n->backward && mem_edge__is_input(e) &&
					!mf->keys[e->key].free_ns;
	for (uint32_t i = 0; i < mf->ref_cnt; i++)
		if ((mf->refs[i].flags & MEM_REF_PARAMETER) && mf->refs[i].key != MEM_NONE)
			sure[mf->refs[i].key] = 1;
	for (uint32_t key = 0; key < mf->key_cnt; key++) {
		if (mf->keys[key].alloc_ns || sure[key])
			continue;
		any = false;
		for_versions(mf, key, slot)
		{
			if (mf->category[slot] != MEM_INPUT && mf->category[slot] != MEM_PARAMETER)
				continue;
			mf->category[slot] = MEM_UNKNOWN;
			any = true;
		}
		mf->account.leftovers += any;
	}
	free(sure);
}

/* What is not the same under both assumptions is unknown. */
static void drop_undecided(struct mem_flow *mf, const uint8_t *other)
{
	uint32_t slot;
	bool any;

	for (uint32_t key = 0; key < mf->key_cnt; key++) {
		any = false;
		for_versions(mf, key, slot)
		{
			if (mf->category[slot] == other[slot])
				continue;
			mf->category[slot] = MEM_UNKNOWN;
			any |= mf->present[slot];
		}
		mf->account.undecided += any;
	}
}

/* by id: state, what steps touch, what lasts; by slot: categories under the other assumption */
static void make_categories(struct mem_flow *mf, uint8_t *state, uint8_t *touched, uint8_t *lasting,
			    uint8_t *other)
{
	bool more;

	mem_state__find(mf, state);
	mf->account.no_parameters = true;
	for (uint32_t i = 0; i < mf->ref_cnt; i++)
		if (mf->refs[i].flags & MEM_REF_PARAMETER)
			mf->account.no_parameters = false;
	for (uint32_t i = 0; i < mf->key_cnt && mf->account.no_parameters; i++)
		if (mf->keys[i].tensor && (!mf->keys[i].alloc_ns || !mf->keys[i].free_ns))
			lasting[mf->keys[i].id] = 1;
	more = touched_by_steps(mf, state, touched);
	decide_categories(mf, state, NULL, NULL, mf->category);
	if (!mf->ref_cnt)
		return;
	if (more || mf->account.no_parameters) {
		decide_categories(mf, state, lasting, touched, other);
		drop_undecided(mf, other);
	}
	drop_leftovers(mf);
}

void mem_category__make(struct mem_flow *mf)
{
	uint8_t *by_id = bytes_of(3 * (size_t)mf->id_cnt, 0);
	uint8_t *other = bytes_of(mf->slot_cnt, MEM_UNKNOWN);

	mf->category = bytes_of(mf->slot_cnt, MEM_UNKNOWN);
	make_categories(mf, by_id, by_id + mf->id_cnt, by_id + 2 * (size_t)mf->id_cnt, other);
	free(by_id);
	free(other);
}
