/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which block an operator's tensor is: memory is one block from its allocation to its free, and
 * those are the allocator's words, so within that time the address is its name (pytorch
 * torch/csrc/profiler/data_flow.cpp). What tensors are is said by their numbers (model_priv.h): all
 * blocks that a tensor ever had share one id. torch numbers them by the address of the TensorImpl
 * and keeps each one that it saw, so that none comes back.
 */
#include <stdlib.h>

#include "base/containers.h"
#include "base/mem.h"
#include "model/memory_priv.h"

static int by_begin(const void *a, const void *b)
{
	const struct mem_op *x = a, *y = b;

	return x->begin_ns != y->begin_ns ? sort__cmp(x->begin_ns, y->begin_ns) :
					    sort__cmp(x->id, y->id);
}

/* ---- operators by id ---- */

static int by_id_of(const void *a, const void *b, void *arg)
{
	const struct mem_op *ops = arg;

	return sort__cmp(ops[*(const uint32_t *)a].id, ops[*(const uint32_t *)b].id);
}

uint32_t *mem_ops__by_id(const struct mem_flow *mf)
{
	uint32_t *by_id = xmalloc(sizeof(*by_id) * ((size_t)mf->op_cnt + 1));

	for (uint32_t i = 0; i < mf->op_cnt; i++)
		by_id[i] = i;
	sort__array_r(by_id, mf->op_cnt, sizeof(*by_id), by_id_of, mf->ops);
	return by_id;
}

struct mem_op *mem_ops__find(const struct mem_flow *mf, const uint32_t *by_id, uint64_t id)
{
	uint32_t lo = 0, hi = id ? mf->op_cnt : 0;

	BISECT(lo, hi, mid, mf->ops[by_id[mid]].id < id);
	return id && lo < mf->op_cnt && mf->ops[by_id[lo]].id == id ? &mf->ops[by_id[lo]] : NULL;
}

/* ---- one pass in order of time ---- */

struct pass {
	struct mem_flow *mf;
	struct hashmap live;    /* (address, device) -> key */
	struct hashmap tensors; /* number -> the key that it was seen with last */
	struct mem_act *acts;   /* those of mf, and the frees that must have been */
	uint32_t act_cnt, act_cap;
	uint32_t *joined; /* by key: another of its id, MEM_NONE: itself */
	uint32_t joined_cap;
};

static uint64_t device_word(int16_t type, int16_t index)
{
	return (uint64_t)(uint16_t)type << 16 | (uint16_t)index;
}

static uint32_t live_key(const struct pass *p, uint64_t addr, uint64_t device)
{
	const uint64_t *key = hashmap__get(&p->live, addr, device);

	return key ? (uint32_t)*key : MEM_NONE;
}

static void new_key(struct pass *p, uint64_t addr, int16_t type, int16_t index, uint32_t *out)
{
	struct mem_flow *mf = p->mf;
	uint64_t need = (uint64_t)mf->key_cnt + 1;

	vec_reserve((void **)&mf->keys, &mf->key_cap, need, sizeof(*mf->keys));
	vec_reserve((void **)&p->joined, &p->joined_cap, need, sizeof(*p->joined));
	hashmap__put(&p->live, addr, device_word(type, index), mf->key_cnt);
	*out = mf->key_cnt++;
	mf->keys[*out] = (struct mem_key){
		.device_type = type, .device_index = index, .step = MEM_NONE, .within = ""
	};
	p->joined[*out] = MEM_NONE;
}

static void put_act(struct pass *p, const struct mem_act *act, uint32_t key)
{
	vec_push(p->acts, p->act_cnt, p->act_cap, *act);

	p->acts[p->act_cnt - 1].key = key;
}

static void set_size(struct mem_key *k, int64_t bytes)
{
	if (!bytes || k->sized)
		return;
	k->bytes = bytes < 0 ? (uint64_t)-bytes : (uint64_t)bytes;
	k->sized = true;
}

static void end_block(struct pass *p, const struct mem_act *act, uint32_t key)
{
	/* of a block that no tensor showed torch reports what an allocator says; the CPU's says
	 * nothing */
	if (key == MEM_NONE) {
		if (act->bytes)
			put_act(p, act, key);
		return;
	}
	p->mf->keys[key].free_ns = act->ts_ns;
	set_size(&p->mf->keys[key], act->bytes);
	hashmap__del(&p->live, act->addr, device_word(act->device_type, act->device_index));
	put_act(p, act, key);
}

static void replay_act(struct pass *p, const struct mem_act *act)
{
	uint32_t key = live_key(p, act->addr, device_word(act->device_type, act->device_index));
	struct mem_act gone = *act;

	if (act->bytes <= 0) {
		end_block(p, act, key);
		return;
	}
	if (key != MEM_NONE) { /* its free was not recorded: by another allocator, or lost */
		gone.bytes = 0;
		gone.slice = 0;
		end_block(p, &gone, key);
	}
	new_key(p, act->addr, act->device_type, act->device_index, &key);
	p->mf->keys[key].alloc_ns = act->ts_ns;
	p->mf->keys[key].owner = act->owner;
	set_size(&p->mf->keys[key], act->bytes);
	put_act(p, act, key);
}

static void find_key(struct pass *p, struct mem_ref *ref)
{
	ref->key = live_key(p, ref->storage, device_word(ref->device_type, ref->device_index));
	if (ref->key == MEM_NONE)
		new_key(p, ref->storage, ref->device_type, ref->device_index, &ref->key);
	p->mf->keys[ref->key].tensor = true;
}

static uint32_t joined_root(const struct pass *p, uint32_t key)
{
	while (p->joined[key] != MEM_NONE) {
		if (p->joined[p->joined[key]] != MEM_NONE) /* half as long the next time */
			p->joined[key] = p->joined[p->joined[key]];
		key = p->joined[key];
	}
	return key;
}

/* A tensor that had another block before (resize_, out=, x.data = y). */
static void join_tensor(struct pass *p, const struct mem_ref *ref)
{
	uint64_t *last = ref->tensor ? hashmap__get(&p->tensors, ref->tensor, 0) : NULL;
	uint32_t a, b;

	if (!ref->tensor || (last && *last == ref->key))
		return;
	if (!last) {
		hashmap__put(&p->tensors, ref->tensor, 0, ref->key);
		return;
	}
	a = joined_root(p, (uint32_t)*last);
	b = joined_root(p, ref->key);
	if (a != b)
		p->joined[a > b ? a : b] = a > b ? b : a;
	*last = ref->key;
}

static void replay_op(struct pass *p, const struct mem_op *op)
{
	struct mem_ref *ref = p->mf->refs + op->first_ref, *end = ref + op->ref_cnt;
	struct mem_key *k;

	for (; ref < end; ref++) {
		find_key(p, ref);
		join_tensor(p, ref);
		k = &p->mf->keys[ref->key];
		if (!k->sized && k->bytes < ref->bytes)
			k->bytes = ref->bytes;
	}
}

/* At one time: what allocators do, what operators begin with. */
static void replay(struct pass *p)
{
	struct mem_flow *mf = p->mf;
	uint32_t op = 0, act = 0;
	uint64_t op_ns, act_ns;

	while (op < mf->op_cnt || act < mf->act_cnt) {
		op_ns = op < mf->op_cnt ? mf->ops[op].begin_ns : UINT64_MAX;
		act_ns = act < mf->act_cnt ? mf->acts[act].ts_ns : UINT64_MAX;
		if (act < mf->act_cnt && act_ns <= op_ns)
			replay_act(p, &mf->acts[act++]);
		else
			replay_op(p, &mf->ops[op++]);
	}
}

/* Ids from 0, of tensors only, in order of their first block. */
static void number_ids(struct pass *p)
{
	struct mem_flow *mf = p->mf;
	uint32_t root;

	for (uint32_t i = 0; i < mf->key_cnt; i++) {
		root = joined_root(p, i);
		mf->keys[i].id = root == i ? mf->id_cnt++ : mf->keys[root].id;
	}
}

void mem_keys__make(struct mem_flow *mf)
{
	struct pass p = { .mf = mf };

	sort__array(mf->ops, mf->op_cnt, sizeof(*mf->ops), by_begin);
	replay(&p);
	number_ids(&p);
	free(mf->acts);
	mf->acts = p.acts;
	mf->act_cnt = p.act_cnt;
	mf->act_cap = p.act_cap;
	free(p.joined);
	hashmap__clear(&p.live);
	hashmap__clear(&p.tensors);
}
