/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Open-addressing hash map with linear probing; see containers.h. */
#include "base/containers.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/mem.h"

#define SPARSE_MAX (1u << 20) /* slots: larger tables are filled up more, for the sake of memory */

enum { SLOT_FREE, SLOT_LIVE, SLOT_DELETED };

__extension__ typedef unsigned __int128 u128;

static u128 factors[3];
static atomic_bool has_factors;

/* Two threads that come first at once draw the same ones, from the key of the process. */
static void draw_factors(void)
{
	uint64_t half[6];

	for (uint64_t i = 0; i < 6; i++)
		half[i] = siphash__bytes(&i, sizeof(i));
	for (uint64_t i = 0; i < 3; i++)
		factors[i] = (u128)half[2 * i] << 64 | half[2 * i + 1];
	atomic_store_explicit(&has_factors, true, memory_order_release);
}

/*
 * Keys come from files and other processes, which must not be able to choose keys that collide. The
 * upper half of a sum of products with secret factors of 128 bits is strongly universal
 * (Dietzfelbinger: Universal hashing and k-wise independent random variables via integer arithmetic
 * without primes): who does not know the factors makes two keys collide with a chance of 2^-64,
 * whichever they are, at a third of SipHash's cost. Hashes are never shown. What follows is one to
 * one; it keeps keys that are neighbours from having slots that are.
 */
static inline uint64_t mix(uint64_t k0, uint64_t k1)
{
	uint64_t h;

	if (!atomic_load_explicit(&has_factors, memory_order_acquire))
		draw_factors();
	h = (uint64_t)((factors[0] * k0 + factors[1] * k1 + factors[2]) >> 64);
	h = (h ^ h >> 32) * 0xd6e8feb86659fd93ULL;
	return h ^ h >> 32;
}

void hashmap__clear(struct hashmap *m)
{
	free(m->slots);
	*m = (struct hashmap){ 0 };
}

static struct hashmap_slot *find_slot(const struct hashmap *m, uint64_t k0, uint64_t k1)
{
	if (!m->cap)
		return NULL;
	for (uint64_t i = mix(k0, k1) & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
		struct hashmap_slot *s = &m->slots[i];

		if (s->state == SLOT_FREE)
			return NULL;
		if (s->state == SLOT_LIVE && s->k0 == k0 && s->k1 == k1)
			return s;
	}
}

uint64_t *hashmap__get(const struct hashmap *m, uint64_t k0, uint64_t k1)
{
	struct hashmap_slot *s = find_slot(m, k0, k1);

	return s ? &s->val : NULL;
}

static void insert_new(struct hashmap *m, uint64_t k0, uint64_t k1, uint64_t val)
{
	uint64_t i = mix(k0, k1) & (m->cap - 1);

	while (m->slots[i].state != SLOT_FREE)
		i = (i + 1) & (m->cap - 1);
	m->slots[i] = (struct hashmap_slot){ .k0 = k0, .k1 = k1, .val = val, .state = SLOT_LIVE };
	m->used++;
	m->live++;
}

static uint64_t next_cap(const struct hashmap *m)
{
	uint64_t cap = 64;

	while (cap < m->live * 4 && (cap < SPARSE_MAX || cap < m->live * 2))
		cap *= 2;
	return cap;
}

/* Rehashes into a table for the live entries, which also drops the deleted ones. */
static void grow(struct hashmap *m)
{
	struct hashmap n = { .cap = next_cap(m) };

	n.slots = xcalloc(n.cap, sizeof(*n.slots));
	for (uint64_t i = 0; i < m->cap; i++)
		if (m->slots[i].state == SLOT_LIVE)
			insert_new(&n, m->slots[i].k0, m->slots[i].k1, m->slots[i].val);
	free(m->slots);
	*m = n;
}

static bool is_full(const struct hashmap *m)
{
	return m->used * 4 >= m->cap * 3;
}

void hashmap__put(struct hashmap *m, uint64_t k0, uint64_t k1, uint64_t val)
{
	struct hashmap_slot *s = find_slot(m, k0, k1);

	if (s) {
		s->val = val;
		return;
	}
	if (is_full(m))
		grow(m);
	insert_new(m, k0, k1, val);
}

uint64_t hashmap__growth(const struct hashmap *m)
{
	return is_full(m) ? next_cap(m) * sizeof(*m->slots) : 0;
}

bool hashmap__try_put(struct hashmap *m, uint64_t k0, uint64_t k1, uint64_t val)
{
	uint64_t bytes = hashmap__growth(m);

	if (bytes && !find_slot(m, k0, k1) && !mem_limit__allows(bytes))
		return false;
	hashmap__put(m, k0, k1, val);
	return true;
}

bool hashmap__del(struct hashmap *m, uint64_t k0, uint64_t k1)
{
	struct hashmap_slot *s = find_slot(m, k0, k1);

	if (!s)
		return false;
	s->state = SLOT_DELETED;
	m->live--;
	return true;
}

struct hashmap_slot *hashmap__next(const struct hashmap *m, uint64_t *pos)
{
	while (*pos < m->cap) {
		struct hashmap_slot *s = &m->slots[(*pos)++];

		if (s->state == SLOT_LIVE)
			return s;
	}
	return NULL;
}
