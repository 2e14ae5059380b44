/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One recording: the processes, their plans and probes, the loop that moves records from the rings
 * into the capture, and the end of it. Used by attach and record, which decide when what happens.
 * Never changes the target; never leaves probes behind (the kernel removes them with our links).
 */
#ifndef RECORD_RUN_H
#define RECORD_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/probe_set.h"

/* What one recording records, and by what means: filled once by a command, read by all of
 * user/record. */

struct ptb_mem_report;
struct step_hooks;

enum agent_mode { AGENT_AUTO, AGENT_OFF, AGENT_INJECT };

/* Steps are counted while they are recorded (step_count.h). */
struct step_opts {
	/* of the annotation or operator that marks their ends; NULL: they are not counted */
	const char *name;
	/* the user named it: operators of that name count, too, and PTBPF_STEP_ON of processes does
	 * not */
	bool ops;
	uint32_t warmup; /* ends of steps before the window begins */
	/* whole steps of the window; 0: there is none, the steps of the warm-up are measured */
	uint32_t active;
	uint64_t timeout_ns; /* in which a step must end */
	bool only;           /* nothing else is probed, and nothing is kept: there is no capture */
	const char *event;   /* annotation whose begin is of interest; NULL: none */
	const struct step_hooks *hooks; /* NULL: none */
	/* With `only`; both may be NULL. An annotation begins; named: it is called as `event`
	 * is. */
	void (*annotation)(void *arg, uint32_t tgid, bool named, uint64_t ts_ns);
	/* An allocator reports that it is out of memory. */
	void (*oom)(void *arg, uint32_t tgid, const struct ptb_mem_report *report);
	void *arg;
};

struct record_opts {
	bool ops;             /* operators */
	enum probe_args args; /* of operators: what is read, by agents or by probes */
	bool stacks;          /* Python stacks */
	bool modules;         /* in them, which module each call of one is; implies stacks */
	/* with stacks: samples of them, so many a second, and nothing else; 0: none */
	int sample_hz;
	/* with sample_hz: where all threads stand in C++ when the window begins */
	bool native_stacks;
	bool memory; /* allocations */
	bool kernel_memory;
	bool gpu;    /* what GPUs do; without an agent, CUDA calls */
	bool sync;   /* also what waits for GPUs */
	bool graphs; /* also what captured the nodes of CUDA graphs; by agents only */
	enum agent_mode agent;
	bool children; /* processes that the targets fork are targets, too */
	/* CLOCK_MONOTONIC: the window ends by then, because another one is due; 0: no limit */
	uint64_t end_ns;
	struct step_opts steps;
	/* records are held for so long, in at most flight_bytes, until run__release(); 0: they are
	 * written at once */
	uint64_t flight_ns;
	uint64_t flight_bytes;
	uint64_t duration_ns; /* 0: until a signal or the end of the targets */
	uint64_t ring_bytes;  /* per ring, 0: by the number of processors */
	uint64_t max_memory;  /* 0: LIMIT_MEMORY */
	bool perf_uprobes;
	bool no_cache; /* of plans */
};

struct recorder;
struct run;

/* Can this machine be traced on, with these rights? 0 or -EPERM (reported). */
int run__check(void);
/* Checks that, loads the programs, measures a probe's cost, opens the capture. With
 * opts->steps.only capture_path is NULL, there is no capture, and only run__warm_up() and
 * run__loop() follow. 0 or negative errno (reported). */
int run__open(const struct record_opts *opts, const char *capture_path, struct run **out);
/* for META records of the command's options */
struct recorder *run__recorder(const struct run *run);
/* Detaches; removes a capture that was not finished. NULL is fine. */
void run__free(struct run *run);

/* Adds a process: plan, probes, facts. 0; -EAGAIN: torch is not mapped yet (not reported); another
 * negative errno (reported). */
int run__add(struct run *run, pid_t pid);
/* Adds a process that was chosen at by_ns (CLOCK_MONOTONIC). -ESRCH (reported): its pid belongs to
 * a process that began later. */
int run__add_chosen(struct run *run, pid_t pid, uint64_t by_ns);
/* Says which processes will be added before the window, so that they can share probes. */
void run__expect(struct run *run, const pid_t *pids, uint32_t cnt);
/* Can processes share probes on this machine? */
bool run__can_share(void);
/* Has the process been added, and neither ended nor been given up? */
bool run__has(struct run *run, pid_t pid);
/* Removes a process that turned out to be another one. */
void run__remove(struct run *run, pid_t pid);
/* Counts in the capture processes that the user named and that could not be added. */
void run__refused(struct run *run, uint32_t cnt);
/* Watches a process that has no torch yet and, with opts->children, its children: run__loop() adds
 * each when it has loaded torch. */
int run__await(struct run *run, pid_t pid);
/* With opts->children: adds the running descendants of pid, too. */
void run__add_descendants(struct run *run, pid_t pid);

/* While targets are stopped, what must run in a process that is added waits. */
void run__targets_stopped(struct run *run, bool stopped);
/* With opts->steps: counts steps and keeps nothing until the window begins. run__loop() ends when
 * no step ends in time, and when the warm-up has ended if there is to be no window. */
void run__warm_up(struct run *run);
/* Have the steps of the warm-up ended, so that the window may begin? */
bool run__warmed_up(const struct run *run);
/* run__loop() makes a round at this time (CLOCK_MONOTONIC), in which its caller can begin the
 * window. */
void run__wake_at(struct run *run, uint64_t mono_ns);
/* Begins the window; with opts->flight_ns: begins to hold records. 0 or negative errno. */
int run__activate(struct run *run);
bool run__is_holding(const struct run *run);
/* Writes what is held. The window begins where that does and lasts opts->duration_ns from now on.
 * why: the reason, for the capture. */
void run__release(struct run *run, const char *why);
/* What the caller does in every round of the loop. */
typedef void (*run_tick_fn)(void *arg, struct run *run);
/* Moves records until the window ends. 0 or negative errno. */
int run__loop(struct run *run, run_tick_fn tick, void *arg);
/* Ends the window, detaches, writes the counters, seals the capture; returns what
 * capture_writer__close() does. *capture: the capture for reading, the caller's to close, or
 * negative errno. */
int run__finish(struct run *run, int *capture);

/* With opts->sample_hz: why the process is not sampled yet. */
const char *run__no_python(struct run *run, pid_t pid);
/*
 * What the probes have cost a process so far, and will until they are gone: its hits in the window,
 * and before and after it while probes are attached, and the processor time of placing and removing
 * them, which interrupts its threads. Each at RUN_COST_FACTOR times what is measured, since the
 * caches of a job are colder. With samples: the time for which they interrupted it. Operators that
 * agents record are not in it.
 */
#define RUN_COST_FACTOR 2
struct run_cost {
	uint64_t ns;
	/* CLOCK_MONOTONIC: when it lost its probes because of run__limit_cost(); 0: it has not */
	uint64_t cut_ns;
	bool over; /* it has cost what it may */
};
struct run_cost run__cost_of(struct run *run, pid_t pid);
uint64_t run__cost_ns(struct run *run); /* of the process that it has cost most */
/* What the hits alone have cost this one. */
uint64_t run__hits_cost_ns(struct run *run, pid_t pid);
/* What it costs a process at least to place and remove its probes, once they are placed; 0:
 * nothing. */
uint64_t run__fixed_cost_ns(const struct run *run);
/* A process that was added, and those that it forks, each: it loses its probes when they have cost
 * it so much. The last process, and those that share their probes, end the window instead. 0: no
 * limit. */
void run__limit_cost(struct run *run, pid_t pid, uint64_t max_ns);

/* mean time of a step of the last count; 0: not known */
uint64_t run__step_ns(const struct run *run);
uint32_t run__traced(const struct run *run);      /* processes added so far */
uint32_t run__stop_reason(const struct run *run); /* enum ptb_stop_reason, after the loop */
int run__signal(const struct run *run);           /* the signal that ended the loop, 0: none */

#endif /* RECORD_RUN_H */
