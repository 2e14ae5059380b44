/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One recording: its processes with their plans and probes, the loop that moves records from the
 * rings into the capture, and its end. Its users, attach and record, decide when. Never changes the
 * target and never leaves probes behind (the kernel removes them with ptbpf's links).
 */
#ifndef RECORD_RUN_H
#define RECORD_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/probe_set.h"

/* What a recording records and how. A command sets it once. */

struct ptb_mem_report;
struct step_hooks;

enum agent_mode { AGENT_AUTO, AGENT_OFF, AGENT_INJECT };

/* Counting of steps during the recording (step_count.h). */
struct step_opts {
	/* the annotation or operator that marks the ends of steps; NULL: none are counted */
	const char *name;
	/* The user chose the name: operators of that name count, too, and PTBPF_STEP_ON does
	 * not. */
	bool ops;
	uint32_t warmup; /* number of steps before the window */
	/* number of steps in the window; 0: there is no window, and the warm-up's steps are
	 * measured */
	uint32_t active;
	uint64_t timeout_ns;            /* time within which a step must end */
	bool only;                      /* nothing else is probed, and there is no capture */
	const char *event;              /* name of an annotation to report; NULL: none */
	const struct step_hooks *hooks; /* NULL: none */
	/* With `only`; both may be NULL. Called at the begin of an annotation; named: its name is
	 * `event`. */
	void (*annotation)(void *arg, uint32_t tgid, bool named, uint64_t ts_ns);
	/* Called when an allocator is out of memory. */
	void (*oom)(void *arg, uint32_t tgid, const struct ptb_mem_report *report);
	void *arg;
};

struct record_opts {
	bool ops;             /* operators */
	bool called_ops;      /* by probes: those that the process has called before the window */
	bool names_only;      /* of operators only the names of annotations, by probes */
	enum probe_args args; /* what agents or probes read of operators */
	bool stacks;          /* Python stacks */
	bool modules; /* the stacks have the module of each call of nn.Module; implies stacks */
	/* with stacks: nothing but samples, so many a second; 0: no samples */
	int sample_hz;
	/* samples beside all that the others say, so many a second; 0: none */
	int with_samples;
	/* with sample_hz: C++ stacks of all threads when the window begins */
	bool native_stacks;
	bool memory; /* allocations */
	bool kernel_memory;
	bool sched;  /* what threads do when they do not run */
	bool gpu;    /* GPU activities; without an agent, CUDA calls */
	bool sync;   /* also synchronisation with GPUs */
	bool graphs; /* also origins of CUDA graphs' nodes; by agents only */
	enum agent_mode agent;
	bool children; /* forks of targets are targets, too */
	/* latest end of the window (CLOCK_MONOTONIC), when another one is due; 0: none */
	uint64_t end_ns;
	struct step_opts steps;
	/* Records of this time, in at most flight_bytes, are held until run__release(); 0: they are
	 * written at once. */
	uint64_t flight_ns;
	uint64_t flight_bytes;
	uint64_t duration_ns; /* 0: until a signal or the targets' end */
	/* Limits of costs apply after this time of the window, or sooner: as soon as so many steps
	 * are whole (0: not sooner), whose ends this annotation marks. */
	uint64_t unlimited_ns;
	uint32_t least_steps;
	const char *least_steps_on;
	/* at its limit a process loses the probes on operators; what needs none goes on */
	bool limit_ops;
	uint64_t ring_bytes; /* per ring; 0: by the number of processors */
	uint64_t max_memory; /* 0: LIMIT_MEMORY */
	bool perf_uprobes;
	bool no_cache; /* of plans */
};

struct recorder;
struct run;

/* Does this machine allow tracing, with the user's rights? 0 or -EPERM (reported). */
int run__check(void);
/* Checks the machine, loads the programs, measures the cost of a probe, opens the capture. With
 * opts->steps.only there is no capture (capture_path NULL), and only run__warm_up() and run__loop()
 * follow. 0 or negative errno (reported). */
int run__open(const struct record_opts *opts, const char *capture_path, struct run **out);
/* For META records of the command's options. */
struct recorder *run__recorder(const struct run *run);
/* Detaches. Removes an unfinished capture. NULL is fine. */
void run__free(struct run *run);

/* Adds a process with its plan, probes and facts. 0; -EAGAIN: torch is not mapped yet (not
 * reported); another negative errno (reported). */
int run__add(struct run *run, pid_t pid);
/* Adds a process that was chosen at by_ns (CLOCK_MONOTONIC). -ESRCH (reported): its pid belongs to
 * a process that began later. */
int run__add_chosen(struct run *run, pid_t pid, uint64_t by_ns);
/* Announces the processes that will be added before the window, so that they can share probes. */
void run__expect(struct run *run, const pid_t *pids, uint32_t cnt);
/* Can processes share probes on this machine? */
bool run__can_share(void);
/* Has the process been added, and is it still followed? */
bool run__has(struct run *run, pid_t pid);
/* Removes a process that is not the intended one. */
void run__remove(struct run *run, pid_t pid);
/* Counts in the capture the processes that the user named and that could not be added. */
void run__refused(struct run *run, uint32_t cnt);
/* Watches a process without torch and, with opts->children, its children. run__loop() adds each
 * when it has loaded torch. */
int run__await(struct run *run, pid_t pid);
/* With opts->children: also adds the running descendants of pid. */
void run__add_descendants(struct run *run, pid_t pid);

/* While targets are stopped, whatever has to run in an added process is postponed. */
void run__targets_stopped(struct run *run, bool stopped);
/* With opts->steps: counts steps and keeps nothing until the window begins. run__loop() ends if no
 * step ends in time, and after the warm-up if there is no window. */
void run__warm_up(struct run *run);
/* Have the warm-up's steps ended? */
bool run__warmed_up(const struct run *run);
/* Makes run__loop() run a round at this time (CLOCK_MONOTONIC), in which its caller can begin the
 * window. */
void run__wake_at(struct run *run, uint64_t mono_ns);
/* Begins the window or, with opts->flight_ns, the holding of records. 0 or negative errno. */
int run__activate(struct run *run);
bool run__is_holding(const struct run *run);
/* Writes the held records. The window begins with the first of them and lasts opts->duration_ns
 * from now on. why: the reason, for the capture. */
void run__release(struct run *run, const char *why);
/*
 * While records are held: the window so far, as one of many. run__end_window() ends it and begins
 * the next one; when late records have come, run__cut() makes a capture of it in memory: *fd, the
 * caller's. 0 or negative errno (logged).
 */
struct run_window {
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
};
struct run_window run__end_window(struct run *run);
int run__cut(struct run *run, const struct run_window *w, int *fd);
/* What was recorded until now. */
struct run_status {
	uint64_t begin_ns; /* of the window, CLOCK_MONOTONIC; 0: not yet */
	uint64_t records, bytes, lost;
};
struct run_status run__status(const struct run *run);
/* Called in every round of the loop. */
typedef void (*run_tick_fn)(void *arg, struct run *run);
/* Moves records until the window ends. 0 or negative errno. */
int run__loop(struct run *run, run_tick_fn tick, void *arg);
/* Ends the window, detaches, writes the counters, seals the capture. Returns the result of
 * capture_writer__close(). *capture: the capture for reading, which the caller closes, or negative
 * errno. */
int run__finish(struct run *run, int *capture);

/* With opts->sample_hz: why the process is not sampled yet. */
const char *run__no_python(struct run *run, pid_t pid);
/*
 * The cost of the probes for a process, including their removal: its hits while probes are
 * attached, and the processor time of placing and removing them, which interrupts its threads. Each
 * counts RUN_COST_FACTOR times the measured time, since the caches of a job are colder. With
 * samples: the time for which they interrupted it. Without operators that agents record.
 */
#define RUN_COST_FACTOR 2
struct run_cost {
	uint64_t ns;
	/* CLOCK_MONOTONIC, when run__limit_cost() removed its probes; 0: it did not */
	uint64_t cut_ns;
	bool over; /* it has reached its limit */
};
struct run_cost run__cost_of(struct run *run, pid_t pid);
uint64_t run__cost_ns(struct run *run); /* of the process with the highest cost */
/* The cost of the process's hits alone. */
uint64_t run__hits_cost_ns(struct run *run, pid_t pid);
/* The lowest cost of placing and removing a process's probes, once they are placed; 0: none. */
uint64_t run__fixed_cost_ns(const struct run *run);
/* Limits the cost of a process, and of each of its forks: at the limit its probes are removed. For
 * the last process and for processes that share probes the window ends instead, unless
 * opts->limit_ops. 0: no limit. */
void run__limit_cost(struct run *run, pid_t pid, uint64_t max_ns);

/* Mean time of a step in the last count; 0: unknown. */
uint64_t run__step_ns(const struct run *run);
uint32_t run__traced(const struct run *run);      /* processes added so far */
uint32_t run__stop_reason(const struct run *run); /* enum ptb_stop_reason, after the loop */
int run__signal(const struct run *run);           /* the signal that ended the loop, 0: none */

#endif /* RECORD_RUN_H */
