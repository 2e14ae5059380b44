/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What attach and record share around a recording: where the files go, the sentence when the window
 * opens, and the outputs after it closed.
 */
#ifndef CLI_LIVE_H
#define CLI_LIVE_H

#include <limits.h>
#include <sys/types.h>

#include "cli/run_opts.h"
#include "record/run.h"

struct live {
	const struct run_cfg *cfg;
	struct run *run;
	char capture[PATH_MAX];
	char trace[PATH_MAX]; /* "": none */
	char et[PATH_MAX];    /* likewise */
	bool announced;
};

/* Checks options that contradict each other or name nothing: non-zero (reported). Also sets the log options. */
int live__check(struct run_cfg *cfg);
/* Chooses the files, opens the recording. Exit code (0: go on). */
int live__open(struct live *live, const struct run_cfg *cfg, pid_t pid);
/* Opens the window, with a message. */
void live__announce(struct live *live);
/* Runs the loop, finishes, writes the outputs. Exit code. */
int live__record(struct live *live, run_tick_fn tick, void *arg);
/* A capture whose window never began is removed; what stood at its path is as it was. */
void live__free(struct live *live);

#endif /* CLI_LIVE_H */
