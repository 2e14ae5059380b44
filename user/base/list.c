/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Arrays that get one element at a time; see list.h. */
#define LOG_DOMAIN "list"
#include "base/list.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/vec.h"

static void *no_memory(const struct list *l)
{
	if (l->purpose)
		pr_error("cannot %s: %s", l->purpose, errstr(ENOMEM));
	return NULL;
}

void *list__append(struct list l)
{
	char *e;

	if (vec_reserve(l.items, l.cap, (uint64_t)*l.cnt + 1, l.size))
		return no_memory(&l);
	e = (char *)*l.items + l.size * (*l.cnt)++;
	memset(e, 0, l.size);
	return e;
}

void *list__keyed(struct list l, uint64_t k0, uint64_t k1)
{
	const uint64_t *at = hashmap__get(l.ids, k0, k1);
	void *e;

	if (at)
		return (char *)*l.items + l.size * *at;
	e = list__append(l);
	if (!e || !hashmap__put(l.ids, k0, k1, *l.cnt - 1))
		return e;
	--*l.cnt;
	return no_memory(&l);
}
