/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See containers.h. A merge sort; what is in order already costs one comparison for each. */
#include "base/containers.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct sorting {
	size_t size;
	int (*cmp)(const void *, const void *, void *);
	void *arg;
	char *tmp; /* room for half of all */
};

/* Of two elements or more. */
static void sort_part(const struct sorting *s, char *v, size_t cnt)
{
	size_t half = cnt / 2 * s->size;
	char *b = v + half, *end = v + cnt * s->size, *a = s->tmp, *a_end = a + half;

	if (cnt > 3)
		sort_part(s, v, cnt / 2);
	if (cnt > 2)
		sort_part(s, b, cnt - cnt / 2);
	if (s->cmp(b - s->size, b, s->arg) <= 0)
		return;
	memcpy(s->tmp, v, half);
	for (; a < a_end && b < end; v += s->size) {
		char **from = s->cmp(a, b, s->arg) <= 0 ? &a : &b;

		memcpy(v, *from, s->size);
		*from += s->size;
	}
	memcpy(v, a, (size_t)(a_end - a));
}

void sort__array_r(void *v, size_t cnt, size_t size, int (*cmp)(const void *, const void *, void *),
		   void *arg)
{
	struct sorting s = { size, cmp, arg, NULL };

	if (cnt < 2)
		return;
	s.tmp = xmalloc(cnt / 2 * size);
	sort_part(&s, v, cnt);
	free(s.tmp);
}

struct plain {
	int (*cmp)(const void *, const void *);
};

static int cmp_plain(const void *a, const void *b, void *arg)
{
	return ((const struct plain *)arg)->cmp(a, b);
}

void sort__array(void *v, size_t cnt, size_t size, int (*cmp)(const void *, const void *))
{
	struct plain p = { cmp };

	sort__array_r(v, cnt, size, cmp_plain, &p);
}

static int cmp_u64(const void *a, const void *b)
{
	return sort__cmp(*(const uint64_t *)a, *(const uint64_t *)b);
}

void sort__u64(uint64_t *v, size_t cnt)
{
	sort__array(v, cnt, sizeof(*v), cmp_u64);
}

static int cmp_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void sort__doubles(double *v, size_t cnt)
{
	sort__array(v, cnt, sizeof(*v), cmp_doubles);
}
