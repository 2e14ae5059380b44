/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * An agent's ticks as CLOCK_MONOTONIC: straight lines between the pairs that it sent. The kernel's clock is
 * itself such a line of the time stamp counter, bent a little at each of its ticks.
 */
#ifndef RECORD_AGENT_CLOCK_H
#define RECORD_AGENT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct agent_clock {
	bool ns; /* ticks are ns of CLOCK_MONOTONIC */
	struct agent_clock_pair {
		uint64_t ticks, mono_ns;
	} * pairs; /* rising in both */
	uint32_t cnt, cap;
	uint32_t at; /* of the last question: the next one is near it */
};

/* 0, -EINVAL (not after the last one: ignored), or -ENOMEM. */
int agent_clock__add(struct agent_clock *c, uint64_t ticks, uint64_t mono_ns);
/* Does a time lie between two pairs? */
bool agent_clock__covers(const struct agent_clock *c, uint64_t ticks);
/* Outside of the pairs the nearest line goes on; 0: fewer than two pairs are known. */
uint64_t agent_clock__mono(struct agent_clock *c, uint64_t ticks);
void agent_clock__free(struct agent_clock *c);

#endif /* RECORD_AGENT_CLOCK_H */
