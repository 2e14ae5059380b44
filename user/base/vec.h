/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Checked growable arrays: the only callers of realloc. A vector is three fields that the user names:
 *	struct foo *items; uint32_t cnt, cap;
 *	if (vec_reserve((void **)&v.items, &v.cap, v.cnt + 1, sizeof(*v.items))) return -ENOMEM;
 */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* Makes room for `need` elements in all. 0, or -ENOMEM (no memory, or mem_limit.h allows no more) with the array
 * unchanged. New room is zeroed. */
int vec_reserve(void **items, uint32_t *cap, uint64_t need, size_t elem_sz);

/* Appends an element to such a vector: 0 or -ENOMEM. */
#define vec_push(items, cnt, cap, ...)                                                             \
	(vec_reserve((void **)&(items), &(cap), (uint64_t)(cnt) + 1, sizeof(*(items))) ||          \
			 ((items)[(cnt)++] = (__VA_ARGS__), 0) ?                                   \
		 -ENOMEM :                                                                         \
		 0)

/* malloc'ed array helpers that cannot overflow; NULL on out of memory, as above. */
void *vec_dup(const void *data, size_t cnt, size_t elem_sz);

#endif /* BASE_VEC_H */
