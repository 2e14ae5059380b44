/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * When windows begin and end: torch.profiler.schedule() (pytorch torch/profiler/profiler.py), in
 * steps or with a unit of time in place of a step. A cycle is wait, warmup, active; the window is
 * its active part.
 */
#ifndef SAMPLE_SCHEDULE_H
#define SAMPLE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct schedule {
	uint64_t wait, warmup, active, skip_first; /* ns, or steps */
	uint64_t repeat;                           /* cycles, 0: no limit */
	bool skip_first_wait;                      /* the first cycle has no wait */
	bool in_steps;
	bool none; /* no windows of its own: they are requested */
};

/* In ns, or steps, since the schedule began. */
struct schedule_window {
	uint64_t warmup, begin, end;
};

/*
 * "wait=55s,active=5s", "wait=1000,active=5": keys of struct schedule, each at most once; active is
 * required. Or "none". 0 or -EINVAL (reported).
 */
int schedule__parse(const char *text, struct schedule *s);
/* Window k, from 0 on. False: there is none. */
bool schedule__window(const struct schedule *s, uint64_t k, struct schedule_window *w);

/*
 * ---- step_wait.c: a schedule in steps ----
 *
 * Nothing is attached between windows, so the steps between them are not counted: their number is
 * inferred from the time of a step, which a window, or before the first one a measurement, has
 * found.
 */

struct step_wait {
	uint64_t from_ns;  /* the schedule began here, or the last window ended */
	uint64_t retry_ns; /* no window before this: no step ended last time */
	uint64_t step_ns;  /* 0: not known */
	uint32_t failures; /* in a row */
};

void step_wait__begin(struct step_wait *sw, uint64_t now_ns);
/*
 * When the probes of window k are to be attached. *measure: first the time of a step must be
 * measured, at the time returned. False: there is no such window.
 */
bool step_wait__due(const struct step_wait *sw, const struct schedule *s, uint64_t k,
		    uint64_t *due_ns, bool *measure);
/* Steps since sw->from_ns, 0: not known. */
double step_wait__passed(const struct step_wait *sw, uint64_t now_ns);
/* A measurement has found the time of a step. */
void step_wait__measured(struct step_wait *sw, uint64_t step_ns);
/* A window has ended; step_ns 0: it does not know the time of a step. */
void step_wait__recorded(struct step_wait *sw, uint64_t end_ns, uint64_t step_ns);
/* No step ended within timeout_ns. */
void step_wait__failed(struct step_wait *sw, uint64_t end_ns, uint64_t timeout_ns);

#endif /* SAMPLE_SCHEDULE_H */
