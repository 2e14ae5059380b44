/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The limit on memory: vectors, maps and string tables stop growing there, and what they hold stays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/containers.h"
#include "base/limits.h"
#include "suite.h"

#define ROOM (24ull << 20)
#define SLACK (4ull << 20)

static uint64_t anonymous(void)
{
	unsigned long size, resident, shared;
	FILE *f = fopen("/proc/self/statm", "r");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL_FATAL(fscanf(f, "%lu %lu %lu", &size, &resident, &shared), 3);
	fclose(f);
	return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t begin(void)
{
	uint64_t limit = anonymous() + ROOM;

	CU_ASSERT_EQUAL_FATAL(mem_limit__set(limit), 0);
	return limit;
}

TEST("vectors")
{
	uint64_t limit = begin(), *items = NULL, cnt;
	uint32_t cap = 0;

	for (cnt = 0;
	     cnt < (64u << 20) && vec_try_reserve((void **)&items, &cap, cnt + 1, sizeof(*items)); cnt++)
		items[cnt] = cnt;
	CU_ASSERT(cnt > 10000 && cnt < (64u << 20));
	CU_ASSERT(anonymous() < limit + SLACK);
	CU_ASSERT(mem_limit__refused() == 1);
	CU_ASSERT_EQUAL(items[cnt - 1], cnt - 1);
	free(items);
	CU_ASSERT_EQUAL(mem_limit__set(0), 0);
	CU_ASSERT(mem_limit__allows(1ull << 40));
}

TEST("maps")
{
	uint64_t limit = begin(), k;
	struct hashmap m = { 0 };

	for (k = 0; k < (1u << 24) && hashmap__try_put(&m, k, 1, k); k++)
		;
	CU_ASSERT(k > 1000 && k < (1u << 24));
	CU_ASSERT(anonymous() < limit + SLACK);
	CU_ASSERT(hashmap__try_put(&m, 5, 1, 6)); /* an existing element can be changed */
	CU_ASSERT_EQUAL(*hashmap__get(&m, 5, 1), 6);
	CU_ASSERT_PTR_NULL(hashmap__get(&m, k, 1));
	hashmap__clear(&m);
	mem_limit__set(0);
}

/* Small allocations, and the requests after the first one that was refused. */
TEST("texts")
{
	struct strtab *st = strtab__new();
	uint64_t limit = begin(), refused = 0;
	uint32_t first = strtab__add(st, "first", 5);
	char text[64];

	for (uint64_t i = 0; i < 2000000; i++) {
		int n = snprintf(text, sizeof(text), "a name that a hostile program makes up: %llu",
				 (unsigned long long)i);

		refused += !strtab__try_add(st, text, (size_t)n);
	}
	CU_ASSERT(refused > 0 && refused < 2000000);
	CU_ASSERT_EQUAL(refused, mem_limit__refused());
	CU_ASSERT_EQUAL(refused + strtab__cnt(st), 2000001);
	CU_ASSERT(anonymous() < limit + SLACK);
	CU_ASSERT_EQUAL(strtab__try_add(st, "first", 5), first);
	CU_ASSERT_EQUAL(strtab__find(st, "first", 5), first);
	CU_ASSERT_EQUAL(strtab__find(st, text, strlen(text)), 0);
	strtab__free(st);
	mem_limit__set(0);
}

#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed */
TEST("freed memory is used again")
{
	uint64_t *items = NULL;
	uint32_t cap = 0;

	begin();
	for (int i = 0; i < 100; i++) {
		CU_ASSERT(vec_try_reserve((void **)&items, &cap, ROOM / 2 / sizeof(*items),
					  sizeof(*items)));
		free(items);
		items = NULL;
		cap = 0;
	}
	CU_ASSERT_EQUAL(mem_limit__refused(), 0);
	mem_limit__set(0);
}
#endif

SUITE("mem_limit")
