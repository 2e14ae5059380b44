/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * See ranks_priv.h. The clocks say about which lag it is; of those near it the first counts whose
 * names are the same and whose bounds leave what the clocks say possible. If there is none, the
 * clocks are wrong: then it is the nearest one that leaves anything possible. A wrong lag leaves
 * nothing: what is called again after a wait begins after the call before it was done on every
 * rank, and steps do not take equally long.
 */
#include "ranks/ranks_priv.h"

#include "base/containers.h"

#define NEAR_LAGS 8 /* to either side of what the clocks say, if they are right */
#define LAGS 4096   /* and if not */
#define LEAST_BOUNDS 8
#define PROBES 33 /* calls that the lag is guessed from */

/* UINT64_MAX: not known when it was done. */
static uint64_t done_ns(const struct collective *c)
{
	return c->waits ? c->until_ns : UINT64_MAX;
}

/* The bounds of one lag; pairs 0: the names differ. whole: also of calls that contradict each
 * other. */
static struct calls_match match_at(const struct rank_calls *a, const struct rank_calls *b,
				   int64_t shift_ns, int64_t lag, bool whole)
{
	struct calls_match m = { .lag = lag, .lo_ns = INT64_MIN, .hi_ns = INT64_MAX };
	int64_t from = lag < 0 ? -lag : 0, to = (int64_t)a->cnt - lag;

	to = to < (int64_t)b->cnt ? to : (int64_t)b->cnt;
	for (int64_t i = from; i < to && (whole || m.lo_ns <= m.hi_ns); i++) {
		const struct collective *x = &a->calls[i + lag], *y = &b->calls[i];
		uint64_t x_done = done_ns(x), y_done = done_ns(y);
		int64_t d;

		if (x->name != y->name)
			return (struct calls_match){ .lag = lag };
		m.pairs++;
		if (!x->waits)
			continue;
		m.bounds += x_done != UINT64_MAX || y_done != UINT64_MAX;
		if (x_done != UINT64_MAX) {
			d = (int64_t)(x_done - y->begin_ns) - shift_ns;
			m.hi_ns = d < m.hi_ns ? d : m.hi_ns;
		}
		if (y_done != UINT64_MAX) {
			d = (int64_t)(x->begin_ns - y_done) - shift_ns;
			m.lo_ns = d > m.lo_ns ? d : m.lo_ns;
		}
	}
	return m;
}

/* The call of a that begins nearest to `at`. */
static int64_t nearest(const struct rank_calls *a, int64_t at)
{
	uint32_t lo = 0, hi = a->cnt;

	BISECT(lo, hi, mid, (int64_t)a->calls[mid].begin_ns < at);
	if (lo == a->cnt ||
	    (lo && at - (int64_t)a->calls[lo - 1].begin_ns < (int64_t)a->calls[lo].begin_ns - at))
		lo--;
	return lo;
}

static int cmp_lags(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* What the clocks say: the middle lag of some of b's calls from `first` on. */
static int64_t guess_lag(const struct rank_calls *a, const struct rank_calls *b, int64_t shift_ns,
			 uint32_t first, uint32_t cnt)
{
	int64_t lags[PROBES];

	for (uint32_t k = 0; k < PROBES; k++) {
		uint32_t i = first + (uint32_t)((uint64_t)(cnt - 1) * k / (PROBES - 1));

		lags[k] = nearest(a, (int64_t)b->calls[i].begin_ns + shift_ns) - i;
	}
	sort__array(lags, PROBES, sizeof(lags[0]), cmp_lags);
	return lags[PROBES / 2];
}

/* b's calls that begin while a's do, by the clocks: how many, from *first on. */
static uint32_t common_calls(const struct rank_calls *a, const struct rank_calls *b,
			     int64_t shift_ns, uint32_t *first)
{
	int64_t from = (int64_t)a->calls[0].begin_ns - shift_ns;
	int64_t to = (int64_t)a->calls[a->cnt - 1].begin_ns - shift_ns;
	uint32_t lo = 0, hi = b->cnt;

	BISECT(lo, hi, mid, (int64_t)b->calls[mid].begin_ns < from);
	*first = lo;
	hi = b->cnt;
	BISECT(lo, hi, mid, (int64_t)b->calls[mid].begin_ns <= to);
	return lo - *first;
}

static int64_t near_lag(int64_t guess, int64_t k)
{
	return guess + (k % 2 ? (k + 1) / 2 : -(k / 2));
}

struct calls_match calls_match__find(const struct rank_calls *a, const struct rank_calls *b,
				     int64_t shift_ns, uint64_t bound_ns)
{
	uint32_t shorter = a->cnt < b->cnt ? a->cnt : b->cnt, first, common;
	int64_t guess, bound = bound_ns < INT64_MAX ? (int64_t)bound_ns : INT64_MAX;

	common = a->cnt && b->cnt ? common_calls(a, b, shift_ns, &first) : 0;
	if (!common)
		return (struct calls_match){ .pairs = 0 };
	guess = guess_lag(a, b, shift_ns, first, common);
	for (int64_t k = 0; k <= 2 * NEAR_LAGS; k++) {
		struct calls_match m = match_at(a, b, shift_ns, near_lag(guess, k), true);

		if (calls_match__consistent(&m) && m.lo_ns <= bound && m.hi_ns >= -bound)
			return m;
	}
	/* the clocks are wrong: where both were recorded for long, the calls show by how much */
	for (int64_t k = 0; common >= shorter / 4 && k <= 2 * LAGS; k++) {
		struct calls_match m = match_at(a, b, shift_ns, near_lag(guess, k), false);

		if (calls_match__consistent(&m) && m.pairs >= shorter / 2 &&
		    m.bounds >= LEAST_BOUNDS)
			return m;
	}
	return match_at(a, b, shift_ns, guess, true);
}
