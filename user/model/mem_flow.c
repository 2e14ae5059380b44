/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What goes in: of every operator its parent and the tensors among its arguments, and all
 * allocations. What comes out: what happened to which block, with its category
 * (MemoryProfile.timeline). One difference to torch: a block from before the window whose size its
 * allocator does not report when it takes it back (the CPU's) ends here then, if a tensor showed
 * its size; in torch's timeline it lives on. What lies between is done by the other mem_*.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "model/memory_priv.h"

#define BYTES_MAX (1LL << 47)         /* a user's address space: what claims more is no size */
#define STEP_PREFIX "Optimizer.step#" /* pytorch torch/optim/optimizer.py, profile_hook_step */

struct mem_flow *mem_flow__new(bool categories)
{
	struct mem_flow *mf = xcalloc(1, sizeof(*mf));

	mf->categories = categories;
	return mf;
}

void mem_flow__free(struct mem_flow *mf)
{
	if (!mf)
		return;
	op_schemas__clear(&mf->schemas);
	free(mf->ops);
	free(mf->refs);
	free(mf->acts);
	free(mf->steps);
	free(mf->keys);
	free(mf->grad_id);
	free(mf->nodes);
	free(mf->edges);
	free(mf->category);
	free(mf->present);
	free(mf->rows);
	free(mf);
}

/* ---- tensors ---- */

/* The tensor has data, so that its address distinguishes it from others. */
static bool has_key(const struct value *v)
{
	return v->kind == PTB_VAL_TENSOR && (v->flags & PTB_VAL_F_IDS) && v->storage;
}

/* What torch takes for a tensor's size: how far its strides reach (SizeMap). Of other layouts:
 * nothing. */
static uint64_t tensor_bytes(const struct value *v, const struct session_keys *keys)
{
	int64_t most = 1, n;

	if ((v->keys & keys->no_strides) || (v->flags & (PTB_VAL_F_SYMBOLIC | PTB_VAL_F_DIMS_CUT)))
		return 0;
	if (v->ndim && !v->strides)
		most = v->numel;
	for (uint32_t i = 0; v->strides && i < v->ndim; i++) {
		if (__builtin_mul_overflow(v->sizes[i], v->strides[i], &n))
			return 0;
		most = i && most > n ? most : n;
	}
	if (most < 0 || __builtin_mul_overflow(most, (int64_t)dtype__itemsize(v->dtype), &n) ||
	    n > BYTES_MAX)
		return 0;
	return (uint64_t)n;
}

static void add_ref(struct mem_flow *mf, const struct slice *sl, const struct value *v,
		    uint8_t flags, uint32_t arg)
{
	if (!has_key(v))
		return;
	if (mf->ref_cnt == MEM_FLOW_TENSORS_MAX) {
		mf->account.too_many = true;
		return;
	}
	if (v->flags & PTB_VAL_F_PARAMETER)
		flags |= MEM_REF_PARAMETER;
	vec_push(mf->refs, mf->ref_cnt, mf->ref_cap,
		 (struct mem_ref){
			 .storage = v->storage,
			 .tensor = v->tensor,
			 .bytes = tensor_bytes(v, sl->keys),
			 .key = MEM_NONE,
			 .device_type = v->device_type,
			 .device_index = v->device_type ? v->device_index : -1,
			 .flags = flags,
			 .arg = (uint8_t)(arg < UINT8_MAX ? arg : UINT8_MAX),
		 });
}

static void add_refs(struct mem_flow *mf, const struct slice *sl, const struct op_schema *sc)
{
	struct value_iter it = values__begin(&sl->in), sub;
	struct value v, elem;
	uint8_t flags, arg;

	for (uint32_t i = 0; values__next(&it, &v); i++) {
		arg = sc->args && i < sc->cnt ? sc->args[i] : OP_ARG_TENSORS;
		flags = !sc->args || i >= sc->cnt ? MEM_REF_NO_SCHEMA :
			arg & OP_ARG_WRITE        ? MEM_REF_WRITE :
						    MEM_REF_READ;
		if (v.kind == PTB_VAL_TENSOR)
			add_ref(mf, sl, &v, (uint8_t)(flags | (i ? 0 : MEM_REF_FIRST)), i);
		else if (v.kind == PTB_VAL_TENSORS ||
			 (v.kind == PTB_VAL_LIST && (arg & OP_ARG_TENSORS)))
			for (sub = values__begin(&v.elems); values__next(&sub, &elem);)
				add_ref(mf, sl, &elem, flags, i);
	}
}

/* ---- operators ---- */

static bool all_have_keys(const struct value *list)
{
	struct value_iter it = values__begin(&list->elems);
	struct value v;

	while (values__next(&it, &v))
		if (!has_key(&v))
			return false;
	return true;
}

bool mem_flow__matches(const struct op_schema *sc, const struct slice_values *in)
{
	struct value_iter it = values__begin(in);
	struct value v;

	if (!sc->args)
		return false;
	for (uint32_t i = 0; i < sc->cnt; i++) {
		/* cut, or not recorded: it is that operator all the same */
		if (!values__next(&it, &v))
			return true;
		if (v.kind == PTB_VAL_UNKNOWN)
			continue;
		if ((sc->args[i] & OP_ARG_TENSOR) && !has_key(&v))
			return false;
		if ((sc->args[i] & OP_ARG_OPT_TENSOR) && v.kind == PTB_VAL_TENSOR && !has_key(&v))
			return false;
		if ((sc->args[i] & OP_ARG_TENSORS) && !all_have_keys(&v))
			return false;
	}
	return true;
}

static uint8_t op_flags(const struct slice *sl, bool matched)
{
	uint8_t flags = matched ? MEM_OP_MATCHED : 0;

	if (sl->scope == SCOPE_BACKWARD) {
		flags |= MEM_OP_BACKWARD;
		if (!strcmp(sl->name, "torch::autograd::AccumulateGrad"))
			flags |= MEM_OP_ACCUMULATE;
	}
	if (!strcmp(sl->name, "aten::detach") || !strcmp(sl->name, "aten::add_"))
		flags |= MEM_OP_TAKES_GRAD;
	if (sl->cat == SLICE_USER_ANNOTATION &&
	    !strncmp(sl->name, STEP_PREFIX, sizeof(STEP_PREFIX) - 1))
		flags |= MEM_OP_STEP;
	return flags;
}

/* One that was open when the window began and is known only by its end is not the parent of what
 * lies in it. */
static void add_step(struct mem_flow *mf, struct mem_op *op, const struct slice *sl)
{
	const uint32_t no_end = SLICE_UNFINISHED | SLICE_UNWOUND | SLICE_END_LOST |
				SLICE_THREAD_EXIT | SLICE_OTHER_THREAD_END | SLICE_TRUNCATED;

	op->step = mf->step_cnt;
	vec_push(mf->steps, mf->step_cnt, mf->step_cap,
		 (struct mem_step){
			 .begin_ns = sl->begin_ns,
			 .end_ns = sl->end_ns,
			 .tid = sl->tid,
			 .open_at_begin = sl->flags & SLICE_OPEN_AT_BEGIN,
			 .ended = !(sl->flags & no_end),
		 });
}

void mem_flow__slice(struct mem_flow *mf, const struct slice *sl)
{
	static const struct op_schema none;
	struct op_schema sc;
	struct mem_op *op;
	bool matched;

	if (!mf->categories || mf->account.too_many)
		return;
	op_schemas__get(&mf->schemas, sl->schema, &sc);
	vec_reserve((void **)&mf->ops, &mf->op_cap, (uint64_t)mf->op_cnt + 1, sizeof(*mf->ops));
	matched = mem_flow__matches(&sc, &sl->in);
	op = &mf->ops[mf->op_cnt++];
	*op = (struct mem_op){
		.id = sl->id,
		.parent = sl->parent,
		.begin_ns = sl->begin_ns,
		.name = sl->name,
		.tid = sl->tid,
		.first_ref = mf->ref_cnt,
		.node = MEM_NONE,
		.step = MEM_NONE,
		.flags = op_flags(sl, matched),
	};
	add_refs(mf, sl, matched ? &sc : &none);
	if (op->flags & MEM_OP_STEP)
		add_step(mf, op, sl);
	op->ref_cnt = mf->ref_cnt - op->first_ref;
	mf->account.ops += !!(sl->in.flags & VALUES_PRESENT);
	mf->account.cut_ops += !!((sl->in.flags | sl->out.flags) & VALUES_CUT);
	mf->account.tensors = mf->ref_cnt;
}

void mem_flow__memory(struct mem_flow *mf, const struct memory_event *ev, uint32_t owner)
{
	bool alloc = ev->what == MEMORY_ALLOC,
	     sane = ev->bytes >= -BYTES_MAX && ev->bytes <= BYTES_MAX;
	struct mem_act act = {
		.ts_ns = ev->ts_ns,
		.addr = ev->addr,
		.slice = ev->at.slice,
		.bytes = !sane                  ? 0 :
			 alloc || ev->bytes < 0 ? ev->bytes :
						  -ev->bytes,
		.owner = alloc ? owner : 0,
		.key = MEM_NONE,
		.node = MEM_NONE,
		.device_type = (int16_t)ev->device_type,
		.device_index = (int16_t)(ev->device_type ? ev->device_index : -1),
	};

	if (!alloc && ev->what != MEMORY_FREE && ev->what != MEMORY_FREE_UNKNOWN)
		return;
	if (!ev->addr || !sane || (alloc && ev->bytes <= 0))
		return;
	vec_push(mf->acts, mf->act_cnt, mf->act_cap, act);
}

/* ---- rows, after the run ---- */

static uint8_t version_category(const struct mem_flow *mf, uint32_t slot)
{
	return mf->category ? mf->category[slot] : MEM_UNKNOWN;
}

static void add_row(struct mem_flow *mf, uint32_t key, enum mem_action action, uint64_t ts_ns,
		    uint32_t version)
{
	const struct mem_key *k = &mf->keys[key];
	uint8_t cat = version_category(mf, k->slot + version);

	vec_push(mf->rows, mf->row_cnt, mf->row_cap,
		 (struct mem_row){
			 .ts_ns = ts_ns,
			 .bytes = k->bytes,
			 .within = k->within,
			 .owner = k->owner,
			 .device_type = k->device_type,
			 .device_index = k->device_index,
			 .action = (uint8_t)action,
			 .category = cat,
			 .next_category = action == MEM_INCREMENT_VERSION ?
						  version_category(mf, k->slot + version + 1) :
						  cat,
		 });
}

/* Blocks that no tensor showed: all that is known is that they came and went. */
static void unrecorded_rows(struct mem_flow *mf)
{
	const struct mem_act *act;

	for (uint32_t i = 0; i < mf->act_cnt; i++) {
		const struct mem_key *k;
		struct mem_row row;

		act = &mf->acts[i];
		k = act->key == MEM_NONE ? NULL : &mf->keys[act->key];
		if (k && k->tensor)
			continue;
		row = (struct mem_row){
			.ts_ns = act->ts_ns,
			.bytes = k ? k->bytes : (uint64_t)-act->bytes,
			.within = k ? k->within : "",
			.owner = k ? k->owner : 0,
			.device_type = act->device_type,
			.device_index = act->device_index,
			.action = act->bytes > 0 ? MEM_CREATE : MEM_DESTROY,
			.category = MEM_UNKNOWN,
			.next_category = MEM_UNKNOWN,
		};
		vec_push(mf->rows, mf->row_cnt, mf->row_cap, row);
		if (k)
			continue;
		row.ts_ns = 0;
		row.action = MEM_PREEXISTING;
		vec_push(mf->rows, mf->row_cnt, mf->row_cap, row);
	}
}

static void preexisting_rows(struct mem_flow *mf)
{
	for (uint32_t i = 0; i < mf->key_cnt; i++)
		if (mf->keys[i].tensor && !mf->keys[i].alloc_ns && mf->present[mf->keys[i].slot])
			add_row(mf, i, MEM_PREEXISTING, 0, 0);
}

static void edge_rows(struct mem_flow *mf, const struct mem_node *n, const struct mem_edge *e)
{
	const struct mem_key *k = &mf->keys[e->key];

	if (e->version < 0)
		add_row(mf, e->key, MEM_CREATE, k->alloc_ns, 0);
	else if (e->mutated == 1)
		add_row(mf, e->key, MEM_INCREMENT_VERSION, n->begin_ns, (uint32_t)e->version);
	if (e->mutated == MEM_DELETED)
		add_row(mf, e->key, MEM_DESTROY, k->free_ns, k->version);
}

static int cmp_row(const void *a, const void *b)
{
	const struct mem_row *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return sort__cmp(x->ts_ns, y->ts_ns);
	return x->action != y->action ? sort__cmp(x->action, y->action) :
					sort__cmp(x->bytes, y->bytes);
}

static void make_rows(struct mem_flow *mf)
{
	const struct mem_node *n;

	unrecorded_rows(mf);
	preexisting_rows(mf);
	for (n = mf->nodes; n < mf->nodes + mf->node_cnt; n++)
		for (uint32_t i = 0; i < n->edge_cnt; i++)
			edge_rows(mf, n, &mf->edges[n->first_edge + i]);
	sort__array(mf->rows, mf->row_cnt, sizeof(*mf->rows), cmp_row);
}

void mem_flow__finish(struct mem_flow *mf)
{
	if (mf->account.too_many)
		mf->op_cnt = mf->ref_cnt = mf->step_cnt = 0;
	mem_keys__make(mf);
	mem_graph__make(mf);
	mem_category__make(mf);
	make_rows(mf);
}

const struct mem_row *mem_flow__rows(const struct mem_flow *mf, uint32_t *cnt)
{
	*cnt = mf->row_cnt;
	return mf->rows;
}

struct mem_flow_account mem_flow__account(const struct mem_flow *mf)
{
	return mf->account;
}
