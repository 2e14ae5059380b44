/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Growable arrays, lists, hash maps, tables of strings, and sorting. */
#ifndef BASE_CONTAINERS_H
#define BASE_CONTAINERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Growable arrays. A vector is three fields that the user names:
 *	struct foo *items; uint32_t cnt, cap;
 *	vec_push(v.items, v.cnt, v.cap, (struct foo){ ... });
 */

/* Makes room for `need` elements in all. New room is zeroed. */
void vec_reserve(void **items, uint32_t *cap, uint64_t need, size_t elem_sz);
/* The same of what others make grow; false: the limit on memory (limits.h) does not allow it. */
bool vec_try_reserve(void **items, uint32_t *cap, uint64_t need, size_t elem_sz);

/* Appends an element to such a vector. */
#define vec_push(items, cnt, cap, ...)                                                             \
	(vec_reserve((void **)&(items), &(cap), (uint64_t)(cnt) + 1, sizeof(*(items))),            \
	 (items)[(cnt)++] = (__VA_ARGS__))

void *vec_dup(const void *data, size_t cnt, size_t elem_sz); /* from malloc */

/*
 * Open-addressing map from a 128-bit key (two words) to a 64-bit value; the values are the user's
 * (an index, a pointer). Not thread-safe.
 */

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
void hashmap__put(struct hashmap *m, uint64_t k0, uint64_t k1, uint64_t val);
/* The same of what others make grow; false: the limit on memory (limits.h) does not allow it. */
bool hashmap__try_put(struct hashmap *m, uint64_t k0, uint64_t k1, uint64_t val);
uint64_t hashmap__growth(const struct hashmap *m); /* bytes that the next new key takes */
bool hashmap__del(struct hashmap *m, uint64_t k0, uint64_t k1);
/* Iteration: *pos starts at 0; NULL at the end. No put while iterating. */
struct hashmap_slot *hashmap__next(const struct hashmap *m, uint64_t *pos);

/*
 * Growable arrays whose elements are found by a key. The array is fields of its owner, whose names
 * begin alike:
 *	struct foo *foos; uint32_t foo_cnt, foo_cap; struct hashmap foo_ids;
 *	struct foo *f = list__keyed(KEYED_LIST(owner, foos, foo), k0, k1);
 */

struct list {
	void **items;
	uint32_t *cnt, *cap;
	size_t size;
	struct hashmap *ids; /* key -> index */
};

#define KEYED_LIST(owner, field, one)                                                              \
	((struct list){ (void **)&(owner)->field, &(owner)->one##_cnt, &(owner)->one##_cap,        \
			sizeof(*(owner)->field), &(owner)->one##_ids })

/* The element with this key, a new zeroed one at the end if there is none. It may move the
 * others. */
void *list__keyed(struct list l, uint64_t k0, uint64_t k1);

/*
 * SipHash-1-3 (Aumasson, Bernstein: SipHash, a fast short-input PRF) under a key that the process
 * draws at random when it first needs one: who makes a file cannot know which of its keys will
 * collide. Results differ from run to run; nothing that is written may depend on them.
 */

uint64_t siphash__bytes(const void *data, size_t len);
/* The function itself, under a given key: for its test. */
uint64_t siphash__keyed(const uint64_t key[2], const void *data, size_t len);

/* String interning: equal texts get one id, from 1; 0 means none. Texts live until free. */

struct strtab;

struct strtab *strtab__new(void);
void strtab__free(struct strtab *st);
/* Id of the text (len bytes, may hold any byte but is kept NUL-terminated). */
uint32_t strtab__add(struct strtab *st, const char *text, size_t len);
/* The same of what others make grow; 0: the limit on memory (limits.h) does not allow it. */
uint32_t strtab__try_add(struct strtab *st, const char *text, size_t len);
/* Id of a text that was added; 0: it was not. */
uint32_t strtab__find(const struct strtab *st, const char *text, size_t len);
const char *strtab__text(const struct strtab *st, uint32_t id); /* "" for 0 and unknown ids */
uint32_t strtab__cnt(const struct strtab *st);                  /* ids 1..cnt are valid */

/* As qsort() and qsort_r(), but what is equal keeps its order; glibc's keeps it or not, as it finds
 * the machine's memory. */
void sort__array(void *v, size_t cnt, size_t size, int (*cmp)(const void *, const void *));
void sort__array_r(void *v, size_t cnt, size_t size, int (*cmp)(const void *, const void *, void *),
		   void *arg);

void sort__u64(uint64_t *v, size_t cnt); /* ascending */
void sort__doubles(double *v, size_t cnt);

/* For cmp. */
static inline int sort__cmp(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Binary search: moves lo, of [lo, hi), to the first index `mid` for which `before` (an expression
 * with mid) is false; hi if there is none. */
#define BISECT(lo, hi, mid, before)                                                                \
	do {                                                                                       \
		while ((lo) < (hi)) {                                                              \
			uint32_t mid = (lo) + ((hi) - (lo)) / 2;                                   \
                                                                                                   \
			if (before)                                                                \
				(lo) = mid + 1;                                                    \
			else                                                                       \
				(hi) = mid;                                                        \
		}                                                                                  \
	} while (0)

#endif /* BASE_CONTAINERS_H */
