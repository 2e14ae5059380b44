/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* base/list: elements by key, and a list unchanged when memory is refused. */
#include <stdlib.h>

#include "base/containers.h"
#include "suite.h"

struct item {
	uint64_t v;
};

static struct owner {
	struct item *items;
	uint32_t item_cnt, item_cap;
	struct hashmap item_ids;
} o;

#define ITEMS KEYED_LIST(&o, items, item)

static void drop(void)
{
	free(o.items);
	hashmap__clear(&o.item_ids);
	o = (struct owner){ .items = NULL };
}

TEST("a new element is zeroed")
{
	struct item *i = list__keyed(ITEMS, 1, 0);

	CU_ASSERT_PTR_NOT_NULL_FATAL(i);
	i->v = 7;
	o.item_cnt = 0; /* its room is used again */
	hashmap__clear(&o.item_ids);
	i = list__keyed(ITEMS, 1, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(i);
	CU_ASSERT_EQUAL(i->v, 0);
	CU_ASSERT_EQUAL(o.item_cnt, 1);
	drop();
}

TEST("keyed")
{
	for (uint64_t k = 0; k < 1000; k++) {
		struct item *i = list__keyed(ITEMS, k, ~k);

		CU_ASSERT_PTR_NOT_NULL_FATAL(i);
		CU_ASSERT_EQUAL(i->v, 0);
		i->v = k + 1;
	}
	for (uint64_t k = 0; k < 1000; k++) {
		struct item *i = list__keyed(ITEMS, k, ~k);

		CU_ASSERT_PTR_NOT_NULL_FATAL(i);
		CU_ASSERT_EQUAL(i->v, k + 1);
	}
	CU_ASSERT_EQUAL(o.item_cnt, 1000);
	drop();
}

SUITE("list")
