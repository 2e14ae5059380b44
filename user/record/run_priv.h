/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What run.c and run_finish.c share; nobody else includes this. */
#ifndef RECORD_RUN_PRIV_H
#define RECORD_RUN_PRIV_H

#include "record/recorder.h"
#include "record/run.h"
#include "record/targets.h"

struct run {
	struct record_opts opts;
	struct probe_set *ps;
	struct recorder *rec;
	struct targets targets;
	struct ptb_task *tasks; /* task records of the last drain, to act upon after it */
	uint32_t task_cnt, task_cap;
	struct pollfd *polls;
	uint32_t poll_cap, polled; /* polled: processes asked in the last wait */
	int signal;
	int pace_ms;
	bool active, stopped;
	bool draining; /* the rings are being read */
	uint64_t begin_ns, last_clock_ns, last_sample_ns;
	int64_t cost_ps;
	enum probe_args kernel_args; /* what kernel probes read: what is asked for, or nothing */
	uint32_t stop_reason, no_tracepoint, refused_pids;
};

/* Moves what is in the rings into the capture: one round. 0 or negative errno (said). */
int run__drain(struct run *run);
/* What /proc says of the targets' memory: at the window's begin and end, and beside memory's records. */
void run__sample_memory(struct run *run, uint64_t now);

#endif /* RECORD_RUN_PRIV_H */
