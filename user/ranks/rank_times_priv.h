/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the sink keeps, and the tables over ranks and collectives that conclusions are drawn from. */
#ifndef RANKS_RANK_TIMES_PRIV_H
#define RANKS_RANK_TIMES_PRIV_H

#include "export/text_ids.h"
#include "ranks/collectives.h"
#include "ranks/match.h"
#include "ranks/rank_times.h"

struct rt_step {
	uint32_t tgid;
	int64_t nr;
	uint64_t begin_ns, end_ns;
};

struct rt_piece {          /* time of one operator before a collective of its process */
	uint32_t tgid, nr; /* struct collective.nr */
	uint32_t name;
	uint64_t ns;
};

struct rank_times {
	const struct session *s;
	struct collectives calls;
	struct session_sink calls_sink;
	struct text_ids texts;
	uint32_t loading, outside; /* texts */
	struct rt_step *steps;
	uint32_t step_cnt, step_cap;
	struct rt_piece *pieces;
	uint32_t piece_cnt, piece_cap;
	struct hashmap piece_ids; /* (tgid and nr, name) */

	/* after the run */
	struct rank_times_result out;
	const struct rank_calls **lists; /* of ranks */
	int64_t *lags;
	int64_t from, to;  /* collectives of the first rank that all have */
	uint64_t *last_ns; /* by collective - from: when the last rank called it */
	int32_t *step_of;  /* by collective - from: index of its step, -1: none */
	int64_t *step_nrs;
	double *step_ns;
	double *own; /* [rank * steps + step] */
};

/* Of the collective c of the first rank: the rank's call. */
static inline const struct collective *rt__call(const struct rank_times *rt, uint32_t rank, int64_t c)
{
	return &rt->lists[rank]->calls[c - rt->lags[rank]];
}

/* Own time of the rank before the collective, which is not the first one. */
double rt__own_before(const struct rank_times *rt, uint32_t rank, int64_t c);

/* rank_causes.c: what the excess of the slow ranks is made of. */
void rt__find_causes(struct rank_times *rt);

#endif /* RANKS_RANK_TIMES_PRIV_H */
