/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef BENCH_QUANTILE_H
#define BENCH_QUANTILE_H

#include <stdlib.h>

static inline int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The value below which so many percent are; 50: the median. Sorts them. */
static inline double quantile(double *v, size_t cnt, unsigned int percent)
{
	qsort(v, cnt, sizeof(*v), compare_doubles);
	return v[(cnt - 1) * percent / 100];
}

#endif /* BENCH_QUANTILE_H */
