/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Growable arrays (vec.h) that get one element at a time, and those whose elements are found by a key. The array is
 * fields of its owner, whose names begin alike:
 *	struct foo *foos; uint32_t foo_cnt, foo_cap; struct hashmap foo_ids;
 *	struct foo *f = list__append(LIST(owner, foos, foo, "count foos"));
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
	const char *purpose; /* of the message "cannot PURPOSE: out of memory"; NULL: the caller logs it */
};

#define LIST(owner, field, one, why)                                                               \
	((struct list){ (void **)&(owner)->field, &(owner)->one##_cnt, &(owner)->one##_cap,        \
			sizeof(*(owner)->field), NULL, why })
#define KEYED_LIST(owner, field, one, why)                                                         \
	((struct list){ (void **)&(owner)->field, &(owner)->one##_cnt, &(owner)->one##_cap,        \
			sizeof(*(owner)->field), &(owner)->one##_ids, why })

/* A new zeroed element at the end; NULL when out of memory. It may move the others. */
void *list__append(struct list l);
/* The element with this key, a new one if there is none. */
void *list__keyed(struct list l, uint64_t k0, uint64_t k1);

#endif /* BASE_LIST_H */
