/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Is a rank slower than the others, and in which steps? Pure arithmetic on times; docs/ranks.md states the criterion for users.
 *
 * A rank's excess in a step is its own time, outside of collectives, less the median of that of the others. Its noise is the
 * median difference of the excess of two steps that follow one another, scaled to a standard deviation, so that a rank which becomes
 * slow has no more of it. The steps in which a rank may be slow are those with the greatest sum of what the excess has beyond the
 * noise, and beyond half of SKEW_SHARE (a one-sided CUSUM), each clipped so that a few outliers make no sum. It is slow if these are
 * SKEW_STEPS or more, their median excess is at least SKEW_SHARE of a step, the sum is at least SKEW_SUM times the noise, and their
 * excess costs at least SKEW_COST of the time of all steps.
 */
#ifndef RANKS_SKEW_H
#define RANKS_SKEW_H

#include <stdbool.h>
#include <stdint.h>

#define SKEW_SHARE 0.05
#define SKEW_STEPS 5
#define SKEW_SUM 5.0
#define SKEW_COST 0.02

struct skew_verdict {
	bool slow;
	uint32_t first, last; /* of the steps, if it is; else all */
	double excess_ns;     /* median of these steps */
	double noise_ns;      /* of one step */
	double share;         /* sum of the excess of these steps, of their duration */
};

/* own[rank * steps + step]: ns; step_ns[step]: duration. verdicts: room for all ranks. 0 or
 * -ECANCELED. */
int skew__judge(const double *own, const double *step_ns, uint32_t ranks, uint32_t steps,
		struct skew_verdict *verdicts);

/* The median; v is reordered. 0: of nothing. */
double skew__median(double *v, uint32_t cnt);
/* own of the rank less the median of that of the others; others: room for all ranks. Values lie `stride` apart. */
double skew__excess(const double *own, uint32_t ranks, uint32_t stride, uint32_t rank, double *others);

#endif /* RANKS_SKEW_H */
