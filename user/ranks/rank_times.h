/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What each rank of a capture did between collectives, and who waited for whom. A rank's own time before a collective begins when the
 * last rank called the one before it, where its thread waits for that, else at its own call; it ends with its call. A sink of the
 * session; the criterion is in ranks/skew.h.
 */
#ifndef RANKS_RANK_TIMES_H
#define RANKS_RANK_TIMES_H

#include "base/job_vars.h"
#include "model/session.h"
#include "ranks/skew.h"

struct rank_what {                /* of a slow rank's own time, per step in which it is slow */
	const char *name;         /* operator, RANK_LOADING, RANK_OUTSIDE */
	double own_ns, excess_ns; /* less the median of the others */
};
#define RANK_LOADING "data loading"         /* enumerate(DataLoader)#... */
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
	uint32_t unmatched; /* further processes whose collectives are not those of the first rank */
	uint32_t matched;   /* collectives that all ranks called */
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
/* After the run; 0 or negative errno. The result is valid until free. rank_cnt may be 0 or 1. */
int rank_times__finish(struct rank_times *rt, const struct rank_times_result **out);
void rank_times__free(struct rank_times *rt);

#endif /* RANKS_RANK_TIMES_H */
