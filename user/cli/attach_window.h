/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What ptbpf sample wants of the `ptbpf attach` that records a window: when it begins, how its
 * processes are added, and what the capture says of its reason.
 */
#ifndef CLI_ATTACH_WINDOW_H
#define CLI_ATTACH_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/live.h"

/* --window; times are CLOCK_MONOTONIC in ns. */
struct window_opts {
	uint64_t chosen;         /* the processes began before */
	uint64_t attach;         /* not before this; 0: now */
	uint64_t begin;          /* the window; 0: when the probes are attached */
	uint64_t end;            /* the next one is due; 0: it does not matter */
	uint64_t own_probes;     /* processes share none */
	uint64_t warmup, active; /* steps; active 0: the time of a step is measured */
	uint64_t step_timeout;   /* ns; 0: it is not counted in steps */
};

/* text: KEY=NUMBER,... 0 or -EINVAL (reported). */
int window_opts__parse(const char *text, struct window_opts *wo);
/* Changes the options of the recording as they say. */
void window_opts__apply(const struct window_opts *wo, struct run_cfg *cfg);

/* Records the window of cfg->pids. Exit code. */
int attach_window__run(const struct run_cfg *cfg, const struct window_opts *wo, struct live *live);

/* --notes-fd: lines KEY=TEXT, until its end, become META records. False: none came within the
 * time. */
bool attach_notes__read(int fd, struct recorder *rec, int wait_ms, char *trigger, size_t cap);

/* --flight: makes SIGUSR1 a request of what is held. 0 or negative errno. */
int attach_flight__open(void);
/* In each round: ends the holding when that is requested. */
void attach_flight__tick(const struct run_cfg *cfg, struct run *run);
/* After the loop: with --notes-fd there is a window only if its reader has requested it, who may
 * not have learned yet that the targets have ended. */
bool attach_flight__wanted(const struct run_cfg *cfg, struct run *run);

#endif /* CLI_ATTACH_WINDOW_H */
