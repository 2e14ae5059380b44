/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Ticks to nanoseconds; see recorder_agent.h. */
#include "record/recorder_agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/limits.h"

#define NEAR_TICKS (1ULL << 62) /* further apart no two readings of one machine are */

int agent_clock__add(struct agent_clock *c, uint64_t ticks, uint64_t mono_ns)
{
	const struct agent_clock_pair *last = c->cnt ? &c->pairs[c->cnt - 1] : NULL;

	if (last &&
	    (ticks <= last->ticks || mono_ns <= last->mono_ns || ticks - last->ticks > NEAR_TICKS))
		return -EINVAL;
	/* chunks that wait for a clock pair are later than these */
	if (c->cnt >= LIMIT_AGENT_CLOCKS) {
		c->cnt -= LIMIT_AGENT_CLOCKS / 2;
		memmove(c->pairs, c->pairs + LIMIT_AGENT_CLOCKS / 2, c->cnt * sizeof(*c->pairs));
		c->at = 0;
	}
	vec_push(c->pairs, c->cnt, c->cap, (struct agent_clock_pair){ ticks, mono_ns });
	return 0;
}

bool agent_clock__covers(const struct agent_clock *c, uint64_t ticks)
{
	return c->ns || (c->cnt > 1 && ticks <= c->pairs[c->cnt - 1].ticks);
}

/* The last pair before these ticks that has one behind it. */
static uint32_t find_pair(struct agent_clock *c, uint64_t ticks)
{
	uint32_t first = 0, last = c->cnt - 2;

	if (c->at <= last && c->pairs[c->at].ticks < ticks && ticks <= c->pairs[c->at + 1].ticks)
		return c->at;
	while (first < last) {
		uint32_t mid = first + (last - first + 1) / 2;

		if (c->pairs[mid].ticks < ticks)
			first = mid;
		else
			last = mid - 1;
	}
	return c->at = first;
}

uint64_t agent_clock__mono(struct agent_clock *c, uint64_t ticks)
{
	const struct agent_clock_pair *a, *b;
	__int128 ns;

	if (c->ns)
		return ticks;
	if (c->cnt < 2)
		return 0;
	a = &c->pairs[find_pair(c, ticks)];
	b = a + 1;
	ns = (__int128)a->mono_ns + ((__int128)ticks - (__int128)a->ticks) *
					    (__int128)(b->mono_ns - a->mono_ns) /
					    (__int128)(b->ticks - a->ticks);
	return ns < 0 || ns > INT64_MAX ? 0 : (uint64_t)ns;
}

void agent_clock__free(struct agent_clock *c)
{
	free(c->pairs);
	*c = (struct agent_clock){ 0 };
}
