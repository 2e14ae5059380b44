/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Growable arrays (vec.h) whose elements are found by a key. The array is fields of its owner, whose names begin alike:
 *	struct foo *foos; uint32_t foo_cnt, foo_cap; struct hashmap foo_ids;
 *	struct foo *f = list__keyed(KEYED_LIST(owner, foos, foo), k0, k1);
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/hashmap.h"

struct list {
	void **items;
	uint32_t *cnt, *cap;
	size_t size;
	struct hashmap *ids; /* key -> index */
};

#define KEYED_LIST(owner, field, one)                                                              \
	((struct list){ (void **)&(owner)->field, &(owner)->one##_cnt, &(owner)->one##_cap,        \
			sizeof(*(owner)->field), &(owner)->one##_ids })

/* The element with this key, a new zeroed one at the end if there is none. It may move the others. */
void *list__keyed(struct list l, uint64_t k0, uint64_t k1);

#endif /* BASE_LIST_H */
