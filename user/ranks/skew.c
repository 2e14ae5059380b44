/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See rank_times.h. */
#include "ranks/rank_times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"

/* Median difference of two independent normal values, in standard deviations of one: 0.6745 *
 * sqrt(2). */
#define NOISE_SCALE 0.9539
#define CLIP 2.0 /* times the threshold: more of one step does not count */

/* The median; v is reordered. 0: of nothing. */
static double median(double *v, uint32_t cnt)
{
	if (!cnt)
		return 0;
	sort__doubles(v, cnt);
	return cnt % 2 ? v[cnt / 2] : (v[cnt / 2 - 1] + v[cnt / 2]) / 2;
}

/* The median of all but one of the values, of which there are 2 or more, sorted. */
static double median_without(const double *sorted, uint32_t cnt, double one)
{
	uint32_t n = cnt - 1, at = n / 2;
	/* before the one that is left out, each has its own place; from there on, that of the one
	 * before it */
	double upper = sorted[at] < one ? sorted[at] : sorted[at + 1], lower;

	if (n % 2)
		return upper;
	lower = sorted[at - 1] < one ? sorted[at - 1] : sorted[at];
	return (lower + upper) / 2;
}

/* Of all ranks in all steps, one row for each rank. tmp: room for all ranks. */
static void find_excess(const double *own, uint32_t ranks, uint32_t steps, double *excess,
			double *tmp)
{
	for (uint32_t s = 0; s < steps; s++) {
		for (uint32_t r = 0; r < ranks; r++)
			tmp[r] = own[(size_t)r * steps + s];
		sort__doubles(tmp, ranks);
		for (uint32_t r = 0; r < ranks; r++) {
			size_t at = (size_t)r * steps + s;

			excess[at] = own[at] - median_without(tmp, ranks, own[at]);
		}
	}
}

double skew__excess(const double *own, uint32_t ranks, uint32_t stride, uint32_t rank,
		    double *others)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < ranks; r++)
		if (r != rank)
			others[n++] = own[(size_t)r * stride];
	return own[(size_t)rank * stride] - median(others, n);
}

static double noise_of(const double *excess, uint32_t steps, double *tmp)
{
	for (uint32_t s = 1; s < steps; s++)
		tmp[s - 1] = fabs(excess[s] - excess[s - 1]);
	return median(tmp, steps - 1) / NOISE_SCALE;
}

/* The interval with the greatest sum of the clipped excess beyond the threshold; returns the sum,
 * 0: there is none. */
static double find_steps(const double *excess, uint32_t steps, double threshold, uint32_t *first,
			 uint32_t *last)
{
	double best = 0, sum = 0;
	uint32_t begin = 0;

	for (uint32_t s = 0; s < steps; s++) {
		double beyond = excess[s] - threshold;

		if (sum <= 0) {
			sum = 0;
			begin = s;
		}
		sum += beyond > CLIP * threshold ? CLIP * threshold : beyond;
		if (sum > best) {
			best = sum;
			*first = begin;
			*last = s;
		}
	}
	return best;
}

/* tmp: room for all steps. */
static struct skew_verdict judge_rank(const double *excess, const double *step_ns, uint32_t steps,
				      double step, double *tmp)
{
	struct skew_verdict v = { .last = steps - 1 };
	double least = SKEW_SHARE * step, threshold, sum, total = 0, all = 0, window = 0;
	uint32_t cnt;

	v.noise_ns = noise_of(excess, steps, tmp);
	threshold = v.noise_ns > least / 2 ? v.noise_ns : least / 2;
	sum = find_steps(excess, steps, threshold, &v.first, &v.last);
	cnt = v.last - v.first + 1;
	for (uint32_t s = v.first; s <= v.last; s++) {
		tmp[s - v.first] = excess[s];
		total += excess[s];
		all += step_ns[s];
	}
	for (uint32_t s = 0; s < steps; s++)
		window += step_ns[s];
	v.excess_ns = median(tmp, cnt);
	v.share = all > 0 ? total / all : 0;
	v.slow = sum > 0 && sum >= SKEW_SUM * v.noise_ns && cnt >= SKEW_STEPS &&
		 v.excess_ns >= least && total >= SKEW_COST * window;
	return v;
}

void skew__judge(const double *own, const double *step_ns, uint32_t ranks, uint32_t steps,
		 struct skew_verdict *verdicts)
{
	double *tmp, *excess, step;

	for (uint32_t r = 0; r < ranks; r++)
		verdicts[r] = (struct skew_verdict){ .slow = false };
	if (steps < SKEW_STEPS || ranks < 2)
		return;
	tmp = xcalloc((size_t)steps + ranks, sizeof(*tmp));
	excess = xcalloc((size_t)steps * ranks, sizeof(*excess));
	find_excess(own, ranks, steps, excess, tmp);
	memcpy(tmp, step_ns, steps * sizeof(*tmp));
	step = median(tmp, steps);
	for (uint32_t r = 0; r < ranks; r++)
		verdicts[r] = judge_rank(excess + (size_t)r * steps, step_ns, steps, step, tmp);
	free(tmp);
	free(excess);
}
