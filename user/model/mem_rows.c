/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What happened to which block, with its category (MemoryProfile.timeline). One difference to torch: a
 * block from before the window whose size its allocator does not report when it takes it back (the CPU's)
 * ends here then, if a tensor showed its size; in torch's timeline it lives on.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "base/sort.h"
#include "base/vec.h"
#include "model/mem_priv.h"

static uint8_t version_category(const struct mem_flow *mf, uint32_t slot)
{
	return mf->category ? mf->category[slot] : MEM_UNKNOWN;
}

static int add_row(struct mem_flow *mf, uint32_t key, enum mem_action action, uint64_t ts_ns,
		   uint32_t version)
{
	const struct mem_key *k = &mf->keys[key];
	uint8_t cat = version_category(mf, k->slot + version);

	return vec_push(mf->rows, mf->row_cnt, mf->row_cap,
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
static int unrecorded_rows(struct mem_flow *mf)
{
	const struct mem_act *act;
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < mf->act_cnt; i++) {
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
		err = vec_push(mf->rows, mf->row_cnt, mf->row_cap, row);
		if (err || k)
			continue;
		row.ts_ns = 0;
		row.action = MEM_PREEXISTING;
		err = vec_push(mf->rows, mf->row_cnt, mf->row_cap, row);
	}
	return err;
}

static int preexisting_rows(struct mem_flow *mf)
{
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < mf->key_cnt; i++)
		if (mf->keys[i].tensor && !mf->keys[i].alloc_ns && mf->present[mf->keys[i].slot])
			err = add_row(mf, i, MEM_PREEXISTING, 0, 0);
	return err;
}

static int edge_rows(struct mem_flow *mf, const struct mem_node *n, const struct mem_edge *e)
{
	const struct mem_key *k = &mf->keys[e->key];
	int err = 0;

	if (e->version < 0)
		err = add_row(mf, e->key, MEM_CREATE, k->alloc_ns, 0);
	else if (e->mutated == 1)
		err = add_row(mf, e->key, MEM_INCREMENT_VERSION, n->begin_ns, (uint32_t)e->version);
	if (!err && e->mutated == MEM_DELETED)
		err = add_row(mf, e->key, MEM_DESTROY, k->free_ns, k->version);
	return err;
}

static int by_time(const void *a, const void *b)
{
	const struct mem_row *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return sort__cmp(x->ts_ns, y->ts_ns);
	return x->action != y->action ? sort__cmp(x->action, y->action) : sort__cmp(x->bytes, y->bytes);
}

int mem_rows__make(struct mem_flow *mf)
{
	const struct mem_node *n;
	uint32_t i;
	int err = unrecorded_rows(mf);

	if (!err)
		err = preexisting_rows(mf);
	for (n = mf->nodes; !err && n < mf->nodes + mf->node_cnt; n++)
		for (i = 0; !err && i < n->edge_cnt; i++)
			err = cancel__pending() ? -ECANCELED :
						  edge_rows(mf, n, &mf->edges[n->first_edge + i]);
	if (!err)
		err = sort__array(mf->rows, mf->row_cnt, sizeof(*mf->rows), by_time);
	return err;
}
