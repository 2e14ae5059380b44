/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The agent's own time: the time stamp counter where the kernel itself keeps time by it, else
 * CLOCK_MONOTONIC.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>
#include <x86intrin.h>

#include "agent.h"

extern bool clock_is_tsc AGENT_HIDDEN; /* changes only while nothing is recorded */

/* Finds out again which clock it is. */
void clock__choose(void);
/* Both clocks at once, the best of a few readings. */
void clock__pair(struct ptb_arec_clock *r);

static inline uint64_t clock__ticks(void)
{
	return clock_is_tsc ? __rdtsc() : agent__mono_ns();
}

#endif /* CLOCK_H */
