/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * When the next window of a schedule in steps is due. Nothing is attached between windows, so what lies between them is
 * not counted: it is inferred from the time of a step, which a window, or before the first one a measurement, has found.
 */
#ifndef SAMPLE_STEP_WAIT_H
#define SAMPLE_STEP_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "sample/schedule.h"

struct step_wait {
	uint64_t from_ns; /* what is waited for began here: the schedule, or the end of the last window */
	uint64_t retry_ns; /* not before this: no step ended last time */
	uint64_t step_ns;  /* 0: not known */
	uint32_t failures; /* in a row */
};

void step_wait__begin(struct step_wait *sw, uint64_t now_ns);
/* When window k's probes are to be attached. *measure: before that, the time of a step must be measured, at the time returned. False:
 * there is no such window. */
bool step_wait__due(const struct step_wait *sw, const struct schedule *s, uint64_t k,
		    uint64_t *due_ns, bool *measure);
/* Steps since sw->from_ns, 0: not known. */
double step_wait__passed(const struct step_wait *sw, uint64_t now_ns);
/* A measurement or a window has ended; step_ns 0: no step was seen, within timeout_ns. */
void step_wait__measured(struct step_wait *sw, uint64_t step_ns);
void step_wait__recorded(struct step_wait *sw, uint64_t end_ns, uint64_t step_ns);
void step_wait__failed(struct step_wait *sw, uint64_t end_ns, uint64_t timeout_ns);

#endif /* SAMPLE_STEP_WAIT_H */
