/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* base/hashmap against a plain array under random puts and deletes, and its edges. */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "suite.h"

TEST("empty")
{
	struct hashmap m = { 0 };
	uint64_t pos = 0;

	CU_ASSERT_PTR_NULL(hashmap__get(&m, 1, 2));
	CU_ASSERT_FALSE(hashmap__del(&m, 1, 2));
	CU_ASSERT_PTR_NULL(hashmap__next(&m, &pos));
	hashmap__clear(&m);
}

TEST("put replaces")
{
	struct hashmap m = { 0 };

	hashmap__put(&m, 7, 8, 1);
	hashmap__put(&m, 7, 8, 2);
	CU_ASSERT_EQUAL(*hashmap__get(&m, 7, 8), 2);
	CU_ASSERT_EQUAL(m.live, 1);
	*hashmap__get(&m, 7, 8) = 3;
	CU_ASSERT_EQUAL(*hashmap__get(&m, 7, 8), 3);
	hashmap__clear(&m);
	CU_ASSERT_PTR_NULL(hashmap__get(&m, 7, 8));
	hashmap__put(&m, 7, 8, 4); /* usable again */
	CU_ASSERT_EQUAL(*hashmap__get(&m, 7, 8), 4);
	hashmap__clear(&m);
}

/* Both words are the key: swapped or partly equal keys are others; all values are allowed. */
TEST("both words are the key")
{
	static const uint64_t words[] = { 0, 1, 2, UINT64_MAX, 1ULL << 63, 0x9e3779b97f4a7c15ULL };
	const uint64_t n = sizeof(words) / sizeof(words[0]);
	struct hashmap m = { 0 };

	for (uint64_t i = 0; i < n; i++)
		for (uint64_t j = 0; j < n; j++)
			hashmap__put(&m, words[i], words[j], i * n + j);
	CU_ASSERT_EQUAL(m.live, n * n);
	for (uint64_t i = 0; i < n; i++) {
		for (uint64_t j = 0; j < n; j++) {
			uint64_t *v = hashmap__get(&m, words[i], words[j]);

			CU_ASSERT_PTR_NOT_NULL_FATAL(v);
			CU_ASSERT_EQUAL(*v, i * n + j);
		}
	}
	hashmap__clear(&m);
}

#define KEYS 5000

/* Random operations over a small key space, so that every key is put and deleted many times. */
TEST("against an array")
{
	static uint64_t want[KEYS]; /* 0: absent */
	struct hashmap m = { 0 };
	uint64_t live = 0, seen = 0, pos = 0;
	struct hashmap_slot *s;

	srand(1);
	memset(want, 0, sizeof(want));
	for (uint64_t i = 1; i <= 400000; i++) {
		uint64_t k = (uint64_t)rand() % KEYS;

		if (rand() % 3) {
			hashmap__put(&m, k, ~k, i);
			live += !want[k];
			want[k] = i;
		} else {
			CU_ASSERT_EQUAL_FATAL(hashmap__del(&m, k, ~k), want[k] != 0);
			live -= want[k] != 0;
			want[k] = 0;
		}
	}
	CU_ASSERT_EQUAL(m.live, live);
	for (uint64_t i = 0; i < KEYS; i++) {
		uint64_t *v = hashmap__get(&m, i, ~i);

		CU_ASSERT_EQUAL_FATAL(v ? *v : 0, want[i]);
	}
	while ((s = hashmap__next(&m, &pos))) {
		seen++;
		CU_ASSERT_EQUAL_FATAL(s->val, want[s->k0]);
	}
	CU_ASSERT_EQUAL(seen, live);
	/* deleted slots are dropped when the table is rebuilt: it cannot grow without end */
	CU_ASSERT(m.cap <= KEYS * 16);
	hashmap__clear(&m);
}

/* A queue's life: each key comes once and goes; the table must stay small. */
TEST("churn")
{
	struct hashmap m = { 0 };

	for (uint64_t i = 0; i < 1000000; i++) {
		hashmap__put(&m, i, 0, i);
		if (i >= 10)
			CU_ASSERT_TRUE_FATAL(hashmap__del(&m, i - 10, 0));
	}
	CU_ASSERT_EQUAL(m.live, 10);
	CU_ASSERT(m.cap <= 256);
	hashmap__clear(&m);
}

/* Keys with a pattern, as addresses, handles and numbers have one, lie as scattered as any: the most slots in a row
 * are some 300 where three quarters are taken. */
TEST("keys with a pattern")
{
	static const uint64_t steps[][2] = { { 1, 0 },          { 64, 0 },
					     { 4096, 0 },       { 1ULL << 32, 0 },
					     { 0, 1 },          { 1ULL << 63, 1 },
					     { 1, 1ULL << 40 }, { 0x9e3779b97f4a7c15ULL, 0 } };
	uint64_t run, most;

	for (uint64_t k = 0; k < sizeof(steps) / sizeof(*steps); k++) {
		struct hashmap m = { 0 };

		for (uint64_t i = 0; i < 96000; i++)
			hashmap__put(&m, i * steps[k][0], i * steps[k][1], i);
		for (uint64_t i = run = most = 0; i < m.cap; i++) {
			run = m.slots[i].state ? run + 1 : 0;
			most = run > most ? run : most;
		}
		CU_ASSERT(most < 2000);
		hashmap__clear(&m);
	}
}

/* SipHash-1-3 under the key 0, 1, ... 15, as Rust's core::hash::sip tests it. */
TEST("siphash")
{
	static const unsigned char zero[1] = { 0 };
	uint64_t key[2] = { 0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL };

	CU_ASSERT_EQUAL(siphash__keyed(key, zero, 0), 0xabac0158050fc4dcULL);
	CU_ASSERT_EQUAL(siphash__keyed(key, zero, 1), 0xc9f49bf37d57ca93ULL);
	CU_ASSERT_EQUAL(siphash__bytes(key, 16), siphash__bytes(key, 16));
}

SUITE("hashmap")
