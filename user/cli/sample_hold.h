/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sample --flight: a process that records all the time and keeps the last seconds in memory, until an event makes it the process of a
 * window. Then these seconds are in it.
 */
#ifndef CLI_SAMPLE_HOLD_H
#define CLI_SAMPLE_HOLD_H

#include <stdint.h>

#include "sample/window.h"

struct sampler;

struct sample_hold {                 /* zeroed: there is none */
	struct sample_window window; /* its own: processes, and where its capture is until it is a window */
	const struct sample_settings *settings; /* that it records by; not held */
	uint64_t retry_ns;                      /* CLOCK_MONOTONIC: not before this */
};

/* It has the last seconds. */
bool sample_hold__is_ready(const struct sample_hold *h);
/* Sees to it that there is one, where there should be. */
void sample_hold__keep(struct sampler *s);
/* To be polled: readable when it is ready, or has ended; -1: nothing. */
int sample_hold__fd(const struct sample_hold *h);
/* It attaches to the processes now, which holds them up. */
bool sample_hold__is_attaching(const struct sample_hold *h);
/* Makes it the process of w, which has its processes from then on. False: there is none; nothing has changed. */
bool sample_hold__use(struct sampler *s, struct sample_window *w);
void sample_hold__end(struct sampler *s); /* what it holds is gone */

#endif /* CLI_SAMPLE_HOLD_H */
