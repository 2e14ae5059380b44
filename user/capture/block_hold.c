/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See capture_priv.h. */
#include "capture/capture_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct node {
	struct node *next;
	struct held_block block; /* data: bytes */
	uint8_t bytes[];
};

struct list {
	struct node *first, **end;
	uint64_t bytes;
};

struct block_hold {
	uint64_t keep_ns, max_bytes, since_ns;
	struct list definitions, events;
};

struct block_hold *block_hold__new(uint64_t keep_ns, uint64_t max_bytes)
{
	struct block_hold *bh = xcalloc(1, sizeof(*bh));

	bh->keep_ns = keep_ns;
	bh->max_bytes = max_bytes;
	bh->definitions.end = &bh->definitions.first;
	bh->events.end = &bh->events.first;
	return bh;
}

static void drop_first(struct list *l)
{
	struct node *n = l->first;

	l->first = n->next;
	if (!l->first)
		l->end = &l->first;
	l->bytes -= sizeof(*n) + n->block.len;
	free(n);
}

void block_hold__free(struct block_hold *bh)
{
	if (!bh)
		return;
	while (bh->definitions.first)
		drop_first(&bh->definitions);
	while (bh->events.first)
		drop_first(&bh->events);
	free(bh);
}

static void drop_event(struct block_hold *bh)
{
	uint64_t newest = bh->events.first->block.newest_ns;

	if (newest && newest >= bh->since_ns)
		bh->since_ns = newest + 1;
	drop_first(&bh->events);
}

int block_hold__put(struct block_hold *bh, const struct held_block *b)
{
	struct list *l = b->defines ? &bh->definitions : &bh->events;
	struct node *n;

	if (b->defines && l->bytes + sizeof(*n) + b->len > bh->max_bytes / 2)
		return -ENOSPC;
	n = xmalloc(sizeof(*n) + b->len);
	memcpy(n->bytes, b->data, b->len);
	n->block = *b;
	n->block.data = n->bytes;
	n->next = NULL;
	*l->end = n;
	l->end = &n->next;
	l->bytes += sizeof(*n) + b->len;
	while (bh->events.first && block_hold__bytes(bh) > bh->max_bytes)
		drop_event(bh);
	return 0;
}

void block_hold__drop(struct block_hold *bh, uint64_t until_ns)
{
	while (bh->events.first && bh->events.first->block.newest_ns < until_ns)
		drop_event(bh);
}

void block_hold__expire(struct block_hold *bh, uint64_t now_ns)
{
	if (now_ns > bh->keep_ns)
		block_hold__drop(bh, now_ns - bh->keep_ns);
}

uint64_t block_hold__since(const struct block_hold *bh)
{
	return bh->since_ns;
}

uint64_t block_hold__bytes(const struct block_hold *bh)
{
	return bh->definitions.bytes + bh->events.bytes;
}

int block_hold__each(const struct block_hold *bh, int (*fn)(void *arg, const struct held_block *b),
		     void *arg)
{
	const struct node *n;
	int ret = 0;

	for (n = bh->definitions.first; n && !ret; n = n->next)
		ret = fn(arg, &n->block);
	for (n = bh->events.first; n && !ret; n = n->next)
		ret = fn(arg, &n->block);
	return ret;
}
