/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Open-addressing map from a 128-bit key (two words) to a 64-bit value; the values are the user's
 * (an index, a pointer). Not thread-safe.
 */
#ifndef BASE_HASHMAP_H
#define BASE_HASHMAP_H

#include <stdbool.h>
#include <stdint.h>

struct hashmap {
	struct hashmap_slot *slots;
	uint64_t cap;  /* power of two or 0 */
	uint64_t used; /* live and deleted slots */
	uint64_t live;
};

struct hashmap_slot {
	uint64_t k0, k1, val;
	uint8_t state; /* 0 free, 1 live, 2 deleted */
};

/* A zeroed struct is an empty map. */
void hashmap__clear(struct hashmap *m); /* frees */
/* Pointer to the value, NULL if absent; valid until the next put. */
uint64_t *hashmap__get(const struct hashmap *m, uint64_t k0, uint64_t k1);
/* Inserts or replaces. */
int hashmap__put(struct hashmap *m, uint64_t k0, uint64_t k1, uint64_t val);
/* The same of what others make grow; false: the limit on memory (mem_limit.h) does not allow it. */
bool hashmap__try_put(struct hashmap *m, uint64_t k0, uint64_t k1, uint64_t val);
uint64_t hashmap__growth(const struct hashmap *m); /* bytes that the next new key takes */
bool hashmap__del(struct hashmap *m, uint64_t k0, uint64_t k1);
/* Iteration: *pos starts at 0; NULL at the end. No put while iterating. */
struct hashmap_slot *hashmap__next(const struct hashmap *m, uint64_t *pos);

#endif /* BASE_HASHMAP_H */
