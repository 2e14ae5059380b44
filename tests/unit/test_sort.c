/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* sort__array(): any order comes out right, equal elements keep theirs. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "suite.h"

#define CNT 300000

struct item {
	uint32_t key, nr; /* nr: its position before */
	uint64_t pad;
};

static struct item v[CNT];

static int by_key(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static int downwards(const void *a, const void *b, void *arg)
{
	++*(uint64_t *)arg;
	return by_key(b, a);
}

/* Sorted and whole: each element is there once. */
static void check(uint32_t cnt, int sign)
{
	static bool seen[CNT];
	uint32_t wrong = 0;

	memset(seen, 0, sizeof(seen));
	for (uint32_t i = 0; i < cnt; i++) {
		int c = i ? sign * by_key(&v[i - 1], &v[i]) : -1;

		wrong += c > 0 || (!c && v[i - 1].nr > v[i].nr) || seen[v[i].nr];
		seen[v[i].nr] = true;
	}
	CU_ASSERT_EQUAL(wrong, 0);
}

static void fill(uint32_t cnt, uint32_t keys)
{
	for (uint32_t i = 0; i < cnt; i++)
		v[i] = (struct item){ .key = (uint32_t)random() % keys, .nr = i };
}

TEST("orders")
{
	static const uint32_t cnts[] = { 0, 1, 2, 3, 65536, 65537, 200001, CNT };
	uint64_t compared = 0;

	for (uint32_t k = 0; k < sizeof(cnts) / sizeof(*cnts); k++) {
		fill(cnts[k], k % 2 ? 50 : UINT32_MAX);
		sort__array(v, cnts[k], sizeof(*v), by_key);
		check(cnts[k], 1);
	}
	fill(CNT, 100000);
	sort__array_r(v, CNT, sizeof(*v), downwards, &compared);
	check(CNT, -1);
	for (uint32_t i = 0; i < CNT; i++) /* in order already but for a few, as records are */
		v[i] = (struct item){ .key = i % 1000 == 7 ? i - 5000 % i : i, .nr = i };
	sort__array(v, CNT, sizeof(*v), by_key);
	check(CNT, 1);
}

SUITE("sort")
