/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See containers.h. Runs that fit a cache are sorted by qsort_r(), then merged two by two. */
#include "base/containers.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/mem.h"

#define RUN_BYTES (1u << 20) /* glibc sorts so few in order, always */
#define CHECK_EVERY 4096     /* elements */

struct sorting {
	size_t size;
	int (*cmp)(const void *, const void *, void *);
	void *arg;
	char *tmp;
	size_t tmp_bytes;
};

static void reserve(struct sorting *s, size_t bytes)
{
	if (bytes <= s->tmp_bytes)
		return;
	free(s->tmp);
	s->tmp = xmalloc(bytes);
	s->tmp_bytes = bytes;
}

/* How many of the first cnt are not behind x. */
static size_t in_place(const struct sorting *s, const char *v, size_t cnt, const char *x)
{
	size_t lo = 0, hi = cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->cmp(v + mid * s->size, x, s->arg) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Two runs, of which the first has mid elements, become one. */
static int merge(struct sorting *s, char *v, size_t mid, size_t cnt)
{
	size_t skip = in_place(s, v, mid, v + mid * s->size), left = (mid - skip) * s->size, n = 0;
	char *out = v + skip * s->size, *b = v + mid * s->size, *b_end = v + cnt * s->size, *a,
	     *a_end;

	if (!left)
		return 0;
	reserve(s, left);
	memcpy(s->tmp, out, left);
	for (a = s->tmp, a_end = a + left; a < a_end && b < b_end; out += s->size) {
		char **from = s->cmp(a, b, s->arg) <= 0 ? &a : &b;

		if (!(++n % CHECK_EVERY) && cancel__pending())
			return -ECANCELED;
		memcpy(out, *from, s->size);
		*from += s->size;
	}
	memcpy(out, a, (size_t)(a_end - a));
	return 0;
}

int sort__array_r(void *v, size_t cnt, size_t size, int (*cmp)(const void *, const void *, void *),
		  void *arg)
{
	struct sorting s = { .size = size, .cmp = cmp, .arg = arg };
	size_t run = RUN_BYTES / size > 16 ? RUN_BYTES / size : 16;
	int err = 0;

	for (size_t i = 0; i < cnt && !err; i += run) {
		qsort_r((char *)v + i * size, cnt - i < run ? cnt - i : run, size, cmp, arg);
		err = cancel__pending() ? -ECANCELED : 0;
	}
	for (size_t width = run; width < cnt && !err; width *= 2)
		for (size_t i = 0; i + width < cnt && !err; i += 2 * width)
			err = merge(&s, (char *)v + i * size, width,
				    cnt - i < 2 * width ? cnt - i : 2 * width);
	free(s.tmp);
	return err;
}

struct plain {
	int (*cmp)(const void *, const void *);
};

static int cmp_plain(const void *a, const void *b, void *arg)
{
	return ((const struct plain *)arg)->cmp(a, b);
}

int sort__array(void *v, size_t cnt, size_t size, int (*cmp)(const void *, const void *))
{
	struct plain p = { cmp };

	return sort__array_r(v, cnt, size, cmp_plain, &p);
}
