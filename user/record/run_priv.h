/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of a recording share: run_begin.c, run.c, run_tasks.c and run_end.c. */
#ifndef RECORD_RUN_PRIV_H
#define RECORD_RUN_PRIV_H

#include <poll.h>

#include "ptb_event.h"
#include "record/recorder_priv.h"
#include "record/run.h"
#include "record/targets.h"

#define RUN_SNAPSHOTS 16 /* the oldest is overwritten */

enum { POLL_CANCEL, POLL_RINGS, POLL_SAMPLES, FIXED_POLLS }; /* in run->polls, before the targets */

struct run {
	struct record_opts opts;
	struct targets targets;
	struct ptb_task *tasks; /* drained, and not acted upon yet */
	uint32_t task_cnt, task_cap;
	uint64_t watermark; /* what is older has been drained */
	struct pollfd *polls;
	uint32_t poll_cap, polled; /* polled: processes in the last wait */
	int signal;
	int pace_ms;
	bool draining; /* the rings are being read */
	bool warming_up, warmed_up;
	uint64_t step_ns, surplus_hits;
	uint64_t before[PTB_CNT_MAP]; /* counters of the warm-up */
	uint64_t begin_ns, last_clock_ns, last_sample_ns;
	uint64_t wake_ns; /* 0: by the pace alone */
	/* from then on the duration counts: the window's begin, or when what was held was wanted */
	uint64_t opened_ns;
	bool holding;
	struct run_snapshot { /* of the counters, now and then while holding */
		uint64_t ts_ns, counters[PTB_CNT_MAP];
	} snapshots[RUN_SNAPSHOTS];
	uint32_t snapshot_cnt;
	int64_t cost_ps;
	struct cost_meter hits; /* that have a record, or samples of threads that ran */
	uint64_t bare_hits;     /* of all processes that have none, when they were read last */
	uint32_t cut_cnt;       /* processes that have lost their probes for their cost */
	bool limited;           /* a process has a limit on it */
	bool detached;
	uint32_t stop_reason, no_tracepoint, refused_pids;
};

/* When the window ends; UINT64_MAX: not by the clock. */
uint64_t run__window_end(const struct run *run);
/* A counter of the BPF programs in the window: what it had in the warm-up is not in it. */
uint64_t run__counted(const struct run *run, uint32_t id);
/* Empties the rings; reads no process. 0 or negative errno (reported). */
int run__read_rings(struct run *run);
/* Likewise, and ends a round. */
int run__drain_rings(struct run *run);
/* Moves what is in the rings into the capture: one round. 0 or negative errno (reported). */
int run__drain(struct run *run);
/* ---- run_flight.c ---- */
int run__hold(struct run *run, uint64_t now);
void run__take_snapshot(struct run *run, uint64_t now);

/* What /proc says of the targets' memory: at the window's begin and end, and beside memory's
 * records. */
void run__sample_memory(struct run *run, uint64_t now);

/* ---- run_cost.c ---- */
/* Processes that have cost what they may lose their probes. True: the window ends, since there is
 * no other one, or they have them in common. */
bool run__over_cost(struct run *run);
/* To remove all probes took ns of processor time. */
void run__charge_detach(struct run *run, uint64_t ns);

/* What an agent of the target has sent is written. */
void run__end_agent(struct run *run, struct target *t);
void run__mark_gone(struct run *run, struct target *t);
/* Follows the forks and execs of targets that have been drained. */
void run__act_on_tasks(struct run *run);
/* The window has ended: forks of traced processes that had no probes by then. */
void run__count_missed(struct run *run, uint64_t end);
/* Attaches to processes that had no torch when last polled, and have it now. */
void run__try_waiting(struct run *run);
/* After the drain: what a process did before it ended (exec) has been acted upon by then. */
void run__reap_exited(struct run *run);

#endif /* RECORD_RUN_PRIV_H */
