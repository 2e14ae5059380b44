/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sorting of arrays that may be large: what is equal keeps its order, and a signal ends it (base/cancel.h), where
 * qsort() would go on for seconds. Takes memory for half of the array, unless runs of it follow one another already.
 */
#ifndef BASE_SORT_H
#define BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

/* cnt elements of `size` bytes; cmp as for qsort(), qsort_r(). 0 or -ECANCELED: the elements are
 * all there in any order, or some of them twice; the caller ends. */
int sort__array(void *v, size_t cnt, size_t size, int (*cmp)(const void *, const void *));
int sort__array_r(void *v, size_t cnt, size_t size, int (*cmp)(const void *, const void *, void *),
		  void *arg);

/* For cmp. */
static inline int sort__cmp(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Binary search: moves lo, of [lo, hi), to the first index `mid` for which `before` (an expression with mid) is
 * false; hi if there is none. */
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

#endif /* BASE_SORT_H */
