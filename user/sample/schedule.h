/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * When windows begin and end: torch.profiler.schedule() (pytorch torch/profiler/profiler.py), in steps or with a unit of time
 * in place of a step. A cycle is wait, warmup, active; the window is its active part.
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

/* "wait=55s,active=5s", "wait=1000,active=5": keys of struct schedule, each at most once; active is required. Or "none". 0 or -EINVAL (reported). */
int schedule__parse(const char *text, struct schedule *s);
/* Window k, from 0 on. False: there is none. */
bool schedule__window(const struct schedule *s, uint64_t k, struct schedule_window *w);

#endif /* SAMPLE_SCHEDULE_H */
