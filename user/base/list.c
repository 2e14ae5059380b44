/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Arrays whose elements are found by a key; see containers.h. */
#include "base/containers.h"

#include <string.h>

void *list__keyed(struct list l, uint64_t k0, uint64_t k1)
{
	const uint64_t *at = hashmap__get(l.ids, k0, k1);

	if (at)
		return (char *)*l.items + l.size * *at;
	vec_reserve(l.items, l.cap, (uint64_t)*l.cnt + 1, l.size);
	hashmap__put(l.ids, k0, k1, *l.cnt);
	return memset((char *)*l.items + l.size * (*l.cnt)++, 0, l.size);
}
