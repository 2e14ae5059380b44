/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which calls of two ranks are the same collective, and how far their clocks may be apart by these. All ranks of a process group
 * call its collectives in the same order, so the two lists are one, of which each window has another part: the lag.
 */
#ifndef RANKS_MATCH_H
#define RANKS_MATCH_H

#include "ranks/collectives.h"

struct calls_match {
	int64_t lag;    /* b's call i is a's call i + lag */
	uint32_t pairs; /* calls that both have; 0: none match */
	/*
	 * What may be added to b's times: no rank is done with a collective before every rank has called it. INT64_MIN,
	 * INT64_MAX: no bound. lo > hi: the calls contradict each other by so much, as when a rank does not wait.
	 */
	int64_t lo_ns, hi_ns;
	uint32_t bounds; /* pairs that gave one */
};

/* shift_ns: added to b's times before they are compared; bound_ns: they are right within this, as far as is known. */
struct calls_match calls_match__find(const struct rank_calls *a, const struct rank_calls *b,
				     int64_t shift_ns, uint64_t bound_ns);

/* The bounds of one lag; pairs 0: the names differ. */
struct calls_match calls_match__at(const struct rank_calls *a, const struct rank_calls *b,
				   int64_t shift_ns, int64_t lag);

static inline bool calls_match__consistent(const struct calls_match *m)
{
	return m->pairs && m->lo_ns <= m->hi_ns;
}

#endif /* RANKS_MATCH_H */
