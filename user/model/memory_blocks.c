/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The table of live blocks: found by process, device and address, listed in order of allocation. Its memory
 * is bounded by the blocks that are live at once; texts of input shapes by a budget of their own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/effort.h"
#include "base/sort.h"
#include "base/vec.h"
#include "model/memory_priv.h"

/* clang-format off */
#define SHAPES_TEXT_MAX 2048          /* of one operator; the list of a whole model's gradients is longer */
#define SHAPES_BUDGET (16ULL << 20) /* of all operators: training repeats few shapes, serving may not */
#define SHAPES_CUT "[...]"
/* clang-format on */

static uint64_t place_key(uint32_t gen, const struct memory_block *b)
{
	return (uint64_t)gen << 32 | (uint64_t)(uint16_t)b->device_type << 16 | (uint16_t)b->device_index;
}

struct block *blocks__find(struct blocks *bs, uint32_t gen, const struct memory_block *at)
{
	const uint64_t *i = hashmap__get(&bs->by_addr, at->addr, place_key(gen, at));

	return i ? &bs->v[*i] : NULL;
}

void blocks__remove(struct blocks *bs, struct block *b)
{
	hashmap__del(&bs->by_addr, b->b.addr, place_key(b->gen, &b->b));
	b->live = false;
	b->next_free = bs->first_free;
	bs->first_free = (uint32_t)(b - bs->v) + 1;
	bs->live--;
}

struct block *blocks__add(struct blocks *bs, uint32_t gen, const struct memory_block *proto)
{
	uint32_t i = bs->first_free ? bs->first_free - 1 : bs->cnt;

	if (vec_reserve((void **)&bs->v, &bs->cap, (uint64_t)i + 1, sizeof(*bs->v)) ||
	    hashmap__put(&bs->by_addr, proto->addr, place_key(gen, proto), i))
		return NULL;
	if (i == bs->cnt)
		bs->cnt++;
	else
		bs->first_free = bs->v[i].next_free;
	bs->v[i] = (struct block){ .b = *proto, .gen = gen, .order = bs->next_order++, .live = true };
	bs->live++;
	return &bs->v[i];
}

void blocks__drop(struct blocks *bs, uint32_t gen)
{
	uint32_t i;

	effort__spend(bs->live ? bs->cnt : 0);
	for (i = 0; i < bs->cnt && bs->live; i++)
		if (bs->v[i].live && bs->v[i].gen == gen)
			blocks__remove(bs, &bs->v[i]);
}

const char *blocks__shapes(struct model *m, const struct thread *t, const struct entry *op,
			   const struct slice_values *in)
{
	struct slice sl = { .kind = op->kind, .in = *in, .keys = t->keys };
	struct blocks *bs = &m->memory->blocks;
	uint32_t known = strtab__cnt(m->f->texts), id;

	if (!(in->flags & VALUES_PRESENT))
		return "";
	if (op->args->shapes)
		return op->args->shapes;
	op->args->shapes = SHAPES_CUT;
	if (input_shapes__text(&sl, &bs->shapes)) {
		m->err = -ENOMEM;
		return "";
	}
	if (bs->shapes.len > SHAPES_TEXT_MAX || bs->shapes_bytes > SHAPES_BUDGET)
		return SHAPES_CUT;
	id = strtab__add(m->f->texts, bs->shapes.text, bs->shapes.len);
	if (!id)
		m->err = -ENOMEM;
	if (id > known)
		bs->shapes_bytes += bs->shapes.len + 1;
	return op->args->shapes = strtab__text(m->f->texts, id);
}

static int cmp_order(const void *a, const void *b, void *arg)
{
	const struct block *v = arg, *x = &v[*(const uint32_t *)a], *y = &v[*(const uint32_t *)b];

	return (x->order > y->order) - (x->order < y->order);
}

int blocks__list(const struct blocks *bs, struct memory_block **list, uint32_t *cnt)
{
	uint32_t *live, i, n = 0;
	int err;

	*list = NULL;
	*cnt = 0;
	if (!bs->live)
		return 0;
	live = calloc(bs->live, sizeof(*live));
	*list = calloc(bs->live, sizeof(**list));
	if (!live || !*list) {
		free(live);
		free(*list);
		*list = NULL;
		return -ENOMEM;
	}
	for (i = 0; i < bs->cnt; i++)
		if (bs->v[i].live)
			live[n++] = i;
	err = sort__array_r(live, n, sizeof(*live), cmp_order, bs->v);
	for (i = 0; i < n; i++)
		(*list)[i] = bs->v[live[i]].b;
	free(live);
	*cnt = n;
	return err;
}

void blocks__clear(struct blocks *bs)
{
	free(bs->v);
	free(bs->shapes.text);
	hashmap__clear(&bs->by_addr);
}
