/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * CUPTI's time of a process against CLOCK_MONOTONIC. A pair is a reading of the one between two
 * readings of the other, so it is wrong by at most half their distance, and it is read again and
 * again while a capture runs.
 *
 * Between two pairs time is linear; before the first and after the last it goes on as the clocks
 * did over the nearest second. Pairs that the thread was interrupted in are wide and left out where
 * there are better ones; pairs that no two clocks of one machine could give, against that with the
 * median difference, are damage. The bound of a converted time is the widest pair that is left, and
 * how far any of them lies from the line between its neighbours.
 */
#include <stdlib.h>

#include "base/containers.h"
#include "model/gpu_priv.h"

#define DRIFT_MAX 1000  /* clocks that differ by more than 1 ns in so many are not believed */
#define JITTER_NS 1000  /* and so much at any distance */
#define WIDE 8          /* times the median error: too wide */
#define WIDE_MIN_NS 500 /* but this is fine */
#define SLOPE_NS 1000000000ULL /* what the slope outside is taken from */
#define PAIRS_MAX (1u << 20)   /* ten a second for a day */

void gpu_clock__add(struct gpu_clock *c, const struct ptb_gpu_clock *r)
{
	if (r->gpu_ns >= TS_MAX || r->mono_ns >= TS_MAX || r->err_ns >= TS_MAX ||
	    c->cnt >= PAIRS_MAX)
		return; /* damaged: as if it had not come */
	vec_push(c->pairs, c->cnt, c->cap, (struct gpu_pair){ r->gpu_ns, r->mono_ns, r->err_ns });
}

static int cmp_err(const void *a, const void *b)
{
	return sort__cmp(((const struct gpu_pair *)a)->err_ns,
			 ((const struct gpu_pair *)b)->err_ns);
}

static int cmp_gpu(const void *a, const void *b)
{
	const struct gpu_pair *x = a, *y = b;
	int c = sort__cmp(x->gpu_ns, y->gpu_ns);

	return c ? c : sort__cmp(x->mono_ns, y->mono_ns);
}

static int64_t pair_offset(const struct gpu_pair *p)
{
	return (int64_t)(p->mono_ns - p->gpu_ns); /* both below TS_MAX */
}

static int cmp_offset(const void *a, const void *b)
{
	int64_t x = pair_offset(a), y = pair_offset(b);

	return (x > y) - (x < y);
}

static uint64_t distance(int64_t a, int64_t b)
{
	return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* Could the two clocks of one machine give both? */
static bool pairs_agree(const struct gpu_pair *a, const struct gpu_pair *b)
{
	uint64_t apart = distance((int64_t)a->gpu_ns, (int64_t)b->gpu_ns);

	return distance(pair_offset(a), pair_offset(b)) <=
	       apart / DRIFT_MAX + a->err_ns + b->err_ns + JITTER_NS;
}

static void drop_wide(struct gpu_clock *c)
{
	uint64_t limit;

	sort__array(c->pairs, c->cnt, sizeof(*c->pairs), cmp_err);
	limit = c->pairs[c->cnt / 2].err_ns * WIDE;
	if (limit < WIDE_MIN_NS)
		limit = WIDE_MIN_NS;
	while (c->pairs[c->cnt - 1].err_ns > limit)
		c->cnt--;
}

/* Leaves those that agree with the one of the median difference and rise in both times. */
static void drop_strange(struct gpu_clock *c)
{
	struct gpu_pair middle;
	uint32_t n = 0;

	sort__array(c->pairs, c->cnt, sizeof(*c->pairs), cmp_offset);
	middle = c->pairs[c->cnt / 2];
	sort__array(c->pairs, c->cnt, sizeof(*c->pairs), cmp_gpu);
	for (uint32_t i = 0; i < c->cnt; i++) {
		const struct gpu_pair *p = &c->pairs[i];

		if (!pairs_agree(p, &middle))
			continue;
		if (n && (p->gpu_ns <= c->pairs[n - 1].gpu_ns ||
			  p->mono_ns <= c->pairs[n - 1].mono_ns)) {
			if (p->err_ns >= c->pairs[n - 1].err_ns)
				continue;
			n--;
			while (n && p->mono_ns <= c->pairs[n - 1].mono_ns)
				n--;
		}
		c->pairs[n++] = *p;
	}
	c->cnt = n;
}

static uint64_t along(const struct gpu_pair *a, const struct gpu_pair *b, uint64_t gpu_ns)
{
	long double slope =
		(long double)(b->mono_ns - a->mono_ns) / (long double)(b->gpu_ns - a->gpu_ns);
	long double at = (long double)a->mono_ns +
			 ((long double)gpu_ns - (long double)a->gpu_ns) * slope + 0.5L;

	return at < 0 || at >= (long double)TS_MAX ? TS_MAX : (uint64_t)at;
}

/* A second from the ends, or as far as there are pairs. */
static void set_slopes(struct gpu_clock *c)
{
	const struct gpu_pair *p = c->pairs;
	uint32_t n = c->cnt;

	if (n < 2)
		return;
	c->slope_first = 1;
	while (c->slope_first + 1 < n && p[c->slope_first].gpu_ns - p[0].gpu_ns < SLOPE_NS)
		c->slope_first++;
	c->slope_last = n - 2;
	while (c->slope_last && p[n - 1].gpu_ns - p[c->slope_last].gpu_ns < SLOPE_NS)
		c->slope_last--;
}

uint32_t gpu_clock__fit(struct gpu_clock *c)
{
	uint32_t before = c->cnt;
	uint64_t deviation = 0, widest = 0;

	if (!c->cnt)
		return 0;
	drop_wide(c);
	drop_strange(c);
	for (uint32_t i = 0; i < c->cnt; i++) {
		const struct gpu_pair *p = &c->pairs[i];
		uint64_t off = 0;

		if (i && i + 1 < c->cnt)
			off = distance((int64_t)along(p - 1, p + 1, p->gpu_ns),
				       (int64_t)p->mono_ns);
		deviation = off > deviation ? off : deviation;
		widest = p->err_ns > widest ? p->err_ns : widest;
	}
	c->err_ns = widest + deviation;
	set_slopes(c);
	return before - c->cnt;
}

bool gpu_clock__to_mono(const struct gpu_clock *c, uint64_t gpu_ns, uint64_t *mono_ns)
{
	const struct gpu_pair *p = c->pairs;
	uint32_t i = 0, n = c->cnt, hi = n; /* i: the first pair after gpu_ns, n: none */

	BISECT(i, hi, mid, p[mid].gpu_ns <= gpu_ns);
	if (!n || gpu_ns >= TS_MAX)
		return false;
	if (n == 1) {
		*mono_ns = (uint64_t)((int64_t)gpu_ns + pair_offset(p));
		return *mono_ns < TS_MAX;
	}
	if (!i)
		*mono_ns = along(&p[0], &p[c->slope_first], gpu_ns);
	else if (i == n)
		*mono_ns = along(&p[c->slope_last], &p[n - 1], gpu_ns);
	else
		*mono_ns = along(&p[i - 1], &p[i], gpu_ns);
	return *mono_ns < TS_MAX;
}
