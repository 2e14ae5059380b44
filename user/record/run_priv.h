/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Shared by run.c and run_*.c only. */
#ifndef RECORD_RUN_PRIV_H
#define RECORD_RUN_PRIV_H

#include <poll.h>

#include "ptb_event.h"
#include "record/recorder_priv.h"
#include "record/run.h"
#include "record/targets.h"
#include "target/proc_info.h"

/* Counts hits of probes, or samples, by process, because a cost limit protects each single process.
 * A zeroed struct has none. */
struct cost_meter {
	struct hashmap hits; /* by process */
	uint64_t cnt;        /* of all processes */
	uint32_t tgid;       /* the process of the last `run` hits, which are not in the map yet */
	uint64_t run;
};

void cost_meter__clear(struct cost_meter *m);
/* Moves `run` into the map and into cnt. */
void cost_meter__settle(struct cost_meter *m);
uint64_t cost_meter__of(struct cost_meter *m, uint32_t tgid);

/* One comparison for most hits: those of one thread usually follow each other. */
static inline void cost_meter__hit(struct cost_meter *m, uint32_t tgid)
{
	if (tgid != m->tgid) {
		cost_meter__settle(m);
		m->tgid = tgid;
	}
	m->run++;
}

#define RUN_SNAPSHOTS 16 /* the oldest is overwritten */

enum { POLL_CANCEL, POLL_RINGS, POLL_SAMPLES, FIXED_POLLS }; /* in run->polls, before the targets */

struct run {
	struct record_opts opts;
	struct targets targets;
	struct ptb_task *tasks; /* taken from the rings and not handled yet */
	uint32_t task_cnt, task_cap;
	uint64_t watermark; /* older records have been drained */
	struct pollfd *polls;
	uint32_t poll_cap, polled; /* polled: the number of processes in the last poll() */
	int signal;
	int pace_ms;
	bool draining; /* guards against draining while the rings are drained */
	bool warming_up, warmed_up;
	uint64_t step_ns, surplus_hits;
	uint64_t before[PTB_CNT_MAP]; /* the counters at the end of the warm-up */
	struct cpu_times cpus;        /* with opts.sched: at the window's begin */
	uint64_t begin_ns, last_clock_ns, last_sample_ns;
	uint64_t wake_ns; /* when the loop makes an extra round; 0: never */
	/* The duration counts from here: from the window's begin, or from run__release(). */
	uint64_t opened_ns;
	bool holding;
	struct run_snapshot { /* the counters at several moments while records are held */
		uint64_t ts_ns, counters[PTB_CNT_MAP];
	} snapshots[RUN_SNAPSHOTS];
	uint32_t snapshot_cnt;
	uint64_t cut[PTB_CNT_MAP]; /* of run__cut(): the counters of that window */
	uint64_t cut_begin_ns;     /* of the window that is not ended; 0: begin_ns */
	int64_t cost_ps;
	struct cost_meter hits;    /* hits with a record */
	struct cost_meter samples; /* samples of running threads */
	uint64_t bare_hits; /* hits without a record, of all processes, at the last reading */
	uint32_t cut_cnt;   /* processes that lost their probes because of their cost */
	bool limited;       /* at least one process has a cost limit */
	bool detached;
	uint32_t stop_reason, no_tracepoint, refused_pids;
};

/* When time ends the window; UINT64_MAX: only other events end it. */
uint64_t run__window_end(const struct run *run);
/* How much a counter of the BPF programs has grown since the warm-up. */
uint64_t run__counted(const struct run *run, uint32_t id);
/* Empties the rings and reads no process. 0 or negative errno (reported). */
int run__read_rings(struct run *run);
/* Empties the rings and ends a round. 0 or negative errno (reported). */
int run__drain_rings(struct run *run);
/* A whole round: empties the rings, then reads unknown names from the processes. 0 or negative
 * errno (reported). */
int run__drain(struct run *run);
/* What of GPUs the capture has. */
void run__gpu_meta(const struct run *run);
/* ---- run_flight.c ---- */
int run__hold(struct run *run, uint64_t now);
void run__take_snapshot(struct run *run, uint64_t now);

/* Records the targets' memory figures from /proc. */
void run__sample_memory(struct run *run, uint64_t now);

/* ---- run_cost.c ---- */
/* Removes the probes of processes that exceed their cost limits. Returns true when the window has
 * to end instead: the process is the last one, or it shares its probes. */
bool run__over_cost(struct run *run);
/* Distributes the processor time of removing all probes, ns, among the processes. */
void run__charge_detach(struct run *run, uint64_t ns);

/* Writes what the target's agent has sent. */
void run__end_agent(struct run *run, struct target *t);
void run__mark_gone(struct run *run, struct target *t);
/* Follows the drained forks and execs. */
void run__act_on_tasks(struct run *run);
/* After the window: counts forks of traced processes that never had probes. */
void run__count_missed(struct run *run, uint64_t end);
/* Attaches to waiting processes that have loaded torch. */
void run__try_waiting(struct run *run);
/* Only after a drain, so that a process's exec has been handled before its end. */
void run__reap_exited(struct run *run);

#endif /* RECORD_RUN_PRIV_H */
