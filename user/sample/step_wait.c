/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See schedule.h. */
#include "sample/schedule.h"

#define WAIT_MAX (366ULL * 24 * 3600 * 1000000000)
#define RETRY_MAX (3600ULL * 1000000000)

void step_wait__begin(struct step_wait *sw, uint64_t now_ns)
{
	*sw = (struct step_wait){ .from_ns = now_ns };
}

/* Steps before the warm-up of window k, since the last window or the begin. */
static bool steps_before(const struct schedule *s, uint64_t k, uint64_t *steps)
{
	struct schedule_window w, last = { .end = 0 };

	if (!schedule__window(s, k, &w) || (k && !schedule__window(s, k - 1, &last)))
		return false;
	*steps = w.warmup - last.end;
	return true;
}

bool step_wait__due(const struct step_wait *sw, const struct schedule *s, uint64_t k,
		    uint64_t *due_ns, bool *measure)
{
	uint64_t steps, wait = 0;

	if (!steps_before(s, k, &steps))
		return false;
	*measure = steps && !sw->step_ns;
	if (steps && sw->step_ns)
		wait = steps > WAIT_MAX / sw->step_ns ? WAIT_MAX : steps * sw->step_ns;
	*due_ns = sw->from_ns + wait > sw->retry_ns ? sw->from_ns + wait : sw->retry_ns;
	return true;
}

double step_wait__passed(const struct step_wait *sw, uint64_t now_ns)
{
	return sw->step_ns && now_ns > sw->from_ns ?
		       (double)(now_ns - sw->from_ns) / (double)sw->step_ns :
		       0;
}

void step_wait__measured(struct step_wait *sw, uint64_t step_ns)
{
	sw->step_ns = step_ns;
	sw->failures = 0;
}

void step_wait__recorded(struct step_wait *sw, uint64_t end_ns, uint64_t step_ns)
{
	sw->from_ns = end_ns;
	sw->failures = 0;
	if (step_ns)
		sw->step_ns = step_ns;
}

/* A job that makes no steps is left alone for longer and longer. */
void step_wait__failed(struct step_wait *sw, uint64_t end_ns, uint64_t timeout_ns)
{
	uint64_t wait = timeout_ns < RETRY_MAX ? timeout_ns : RETRY_MAX;

	for (uint32_t i = 0; i < sw->failures && wait < RETRY_MAX; i++)
		wait *= 2;
	sw->failures++;
	sw->from_ns = end_ns;
	sw->retry_ns = end_ns + (wait < RETRY_MAX ? wait : RETRY_MAX);
}
