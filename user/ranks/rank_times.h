/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What each rank of a capture did between collectives, and who waited for whom. A rank's own time
 * before a collective begins when the last rank called the one before it, where its thread waits
 * for that, else at its own call; it ends with its call. A sink of the session; the criterion is in
 * ranks/rank_times.h.
 */
#ifndef RANKS_RANK_TIMES_H
#define RANKS_RANK_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/job_vars.h"
#include "model/session.h"

/*
 * Is a rank slower than the others, and in which steps? Pure arithmetic on times; docs/ranks.md
 * states the criterion for users.
 *
 * A rank's excess in a step is its own time, outside of collectives, less the median of that of the
 * others. Its noise is the median difference of the excess of two steps that follow one another,
 * scaled to a standard deviation, so that a rank which becomes slow has no more of it. The steps in
 * which a rank may be slow are those with the greatest sum of what the excess has beyond the noise,
 * and beyond half of SKEW_SHARE (a one-sided CUSUM), each clipped so that a few outliers make no
 * sum. It is slow if these are SKEW_STEPS or more, their median excess is at least SKEW_SHARE of a
 * step, the sum is at least SKEW_SUM times the noise, and their excess costs at least SKEW_COST of
 * the time of all steps.
 */

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

/* own[rank * steps + step]: ns; step_ns[step]: duration. verdicts: room for all ranks. */
void skew__judge(const double *own, const double *step_ns, uint32_t ranks, uint32_t steps,
		 struct skew_verdict *verdicts);

/* own of the rank less the median of that of the others; others: room for all ranks. Values lie
 * `stride` apart. */
double skew__excess(const double *own, uint32_t ranks, uint32_t stride, uint32_t rank,
		    double *others);

struct rank_what {                /* of a slow rank's own time, per step in which it is slow */
	const char *name;         /* operator, RANK_LOADING, RANK_OUTSIDE */
	double own_ns, excess_ns; /* less the median of the others */
};
#define RANK_LOADING "data loading"         /* SESSION_LOADER */
#define RANK_OUTSIDE "outside of operators" /* Python, and what else no operator shows */
#define RANK_WHATS 25

struct rank_time {
	const struct session_process *proc;
	bool has_rank;
	struct job_rank rank;
	double own_ns;      /* mean of a step */
	uint64_t waited_ns; /* from its calls to those of the last rank, in all */
	uint64_t caused_ns; /* what all others waited for it, while it was the last */
	uint32_t last_cnt;  /* of that many collectives */
	struct skew_verdict verdict;
	struct rank_what what[RANK_WHATS]; /* greatest excess first; of a slow rank */
	uint32_t what_cnt;
	const char *before;            /* the collective that it calls late, "" */
	uint32_t before_nr, before_of; /* which of a step, from 1 */
	double before_ns;              /* excess there, per step */
};

struct rank_wait { /* a collective */
	const char *name;
	uint64_t at_ns; /* since the window's begin: when the last rank called it */
	int64_t step;   /* -1: in none */
	uint32_t last;  /* index of that rank */
	uint64_t ns;    /* since the first one called it */
	uint32_t first; /* index of that one */
};
#define RANK_WAITS 100

struct rank_times_result {
	struct rank_time *ranks; /* by rank */
	uint32_t rank_cnt;
	/* further processes whose collectives are not those of the first rank */
	uint32_t unmatched;
	uint32_t matched; /* collectives that all ranks called */
	/* Which calls are the same collective is known from times alone, as they do not show that
	 * ranks waited. A rank that is late by more than half of what is between two then looks
	 * early. */
	bool guessed;
	bool by_steps; /* steps are those of the first rank, else each collective counts as one */
	uint32_t step_cnt;       /* that all ranks have whole */
	const int64_t *step_nrs; /* their numbers: of ProfilerStep#N, of the collective */
	double step_ns;          /* their mean */
	struct rank_wait *waits; /* longest first */
	uint32_t wait_cnt;
};

struct rank_times;
struct rank_times *rank_times__new(const struct session *s);
struct session_sink rank_times__sink(struct rank_times *rt);
/* After the run. The result is valid until free. rank_cnt may be 0 or 1. */
const struct rank_times_result *rank_times__finish(struct rank_times *rt);
void rank_times__free(struct rank_times *rt);

#endif /* RANKS_RANK_TIMES_H */
