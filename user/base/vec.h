/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Growable arrays. A vector is three fields that the user names:
 *	struct foo *items; uint32_t cnt, cap;
 *	vec_push(v.items, v.cnt, v.cap, (struct foo){ ... });
 */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes room for `need` elements in all. New room is zeroed. */
int vec_reserve(void **items, uint32_t *cap, uint64_t need, size_t elem_sz);
/* The same of what others make grow; false: the limit on memory (mem_limit.h) does not allow it. */
bool vec_try_reserve(void **items, uint32_t *cap, uint64_t need, size_t elem_sz);

/* Appends an element to such a vector. */
#define vec_push(items, cnt, cap, ...)                                                             \
	(vec_reserve((void **)&(items), &(cap), (uint64_t)(cnt) + 1, sizeof(*(items))) ||          \
	 ((items)[(cnt)++] = (__VA_ARGS__), 0))

void *vec_dup(const void *data, size_t cnt, size_t elem_sz); /* from malloc */

#endif /* BASE_VEC_H */
