/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One window of `sample`, recorded and exported by a process of its own: its memory ends with it, a crash costs one window,
 * and the export of one window never delays the next. When ptbpf is killed, the window ends, and its capture is sealed.
 */
#ifndef CLI_SAMPLE_WINDOW_H
#define CLI_SAMPLE_WINDOW_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/jsonw.h"
#include "cli/live.h"
#include "plan/plan_failures.h"
#include "record/run.h"
#include "sample/event_watch.h"
#include "sample/metrics.h"
#include "sample/window_jobs.h"
#include "sample/step_wait.h"

/* Of a schedule in steps. */
struct sample_step_report {
	uint64_t attached_ns,
		ended_ns; /* CLOCK_MONOTONIC: probes were there, and the last step that counts had ended; 0: never */
	uint64_t step_ns; /* mean time of a step, 0: not known */
	bool none;        /* no step ended in time */
};

struct http_server;
struct sample_settings;

/* Why a window is recorded. */
struct window_trigger {
	const char *kind; /* "schedule", "request", or of an event (sample/event_watch.h); a literal */
	pid_t by_pid;     /* of a request: whose it was; 0: not in this pid namespace */
	uid_t by_uid;
	pid_t event_pid;            /* of an event: the process in which it happened */
	char event[EVENT_TEXT_MAX]; /* what it was, "": it is none */
	uint64_t ignored;           /* events before it that opened no window */
};

struct sample_window_spec {
	const struct run_cfg *cfg; /* rec.duration_ns: length of the window */
	pid_t pids[OPT_PIDS_MAX];
	uint32_t pid_cnt;
	uint64_t chosen_ns; /* CLOCK_MONOTONIC: they began before */
	uint32_t selected;  /* so many fit; 0: they are named */
	struct window_jobs jobs;
	uint64_t nr;
	struct window_trigger trigger;
	uint64_t cycle;       /* of the schedule that has it */
	uint64_t duration_ns; /* of a window that no schedule has; 0: that of cfg */
	uint64_t end_ns;      /* of record_opts: when the next window is due */
	uint64_t limit_ns; /* CLOCK_MONOTONIC: it may cost what --max-overhead allows until then; 0: anything */
	uint64_t starts[OPT_PIDS_MAX]; /* of the processes, in clock ticks since boot; 0: not known */
	uint64_t max_cost_ns[OPT_PIDS_MAX]; /* of each; 0: no limit */
	pid_t left_out[OPT_PIDS_MAX];       /* processes that may cost nothing */
	uint32_t left_out_cnt;
	pid_t *reading; /* shared with its process: the one whose libraries it reads; NULL, 0: none */
	bool apart;     /* no process shares probes with others: one may have to lose them */
	uint64_t warmup_ns, begin_ns; /* CLOCK_MONOTONIC: probes are attached, records are kept */
	uint64_t real_ns;             /* Unix time of the begin */
	bool measure;                 /* the time of a step, and nothing else */
	struct step_wait step_wait;   /* in steps: what is known when it starts */
	bool held; /* its begin is in the memory of a process that holds it (--flight), if there is one */
	bool samples;    /* of Python stacks, and nothing else: the job hangs */
	const char *off; /* "cpu" or "cuda": an activity that is switched off; NULL: none is */
	char capture[PATH_MAX], trace[PATH_MAX]; /* trace "": none */
	const struct metrics *metrics; /* what the window's will be added to; NULL: they are not wanted */
	const struct http_server *server; /* NULL: there is none */
};

#define WINDOW_FAILURES_MAX 4

/* What the process of a window reports when it begins, when it is sealed and when it is exported. */
struct sample_report {
	uint32_t traced;    /* processes when the window began, 0: it has not begun */
	uint64_t late_ns;   /* after spec.begin_ns it began */
	uint64_t attach_ns; /* it took to attach to its processes */
	uint32_t ended; /* of its processes, before they were attached to or, where there is no window, before it began */
	uint32_t no_torch; /* likewise, that have not loaded PyTorch */
	bool sealed;       /* nothing is attached any more; the rest is export */
	bool has_result;
	struct sample_step_report steps;
	bool cost_known;
	uint64_t cost_ns;  /* then: by run__cost_ns(), when it was sealed or given up */
	uint64_t fixed_ns; /* run__fixed_cost_ns() */
	struct run_cost charges[OPT_PIDS_MAX]; /* with cost_known, of each process */
	struct slow_process {
		pid_t pid; /* the one that took most processor time of ptbpf to read and attach to; 0: none took SLOW_CPU_NS */
		bool failed;      /* for nothing */
		uint32_t strikes; /* of left_out.h */
		uint64_t cpu_ns, ns;
	} slow;
	struct plan_failure failures[WINDOW_FAILURES_MAX]; /* of plans, while it attached */
	uint32_t failure_cnt;
	struct outputs_result result;
	struct metrics_window metrics; /* with has_result */
};

struct sample_window {
	struct sample_window_spec spec;
	struct sample_settings *settings; /* held */
	pid_t pid;
	int pidfd, pipe;
	int answers;  /* what it learns of libraries (target/elf_child.h); -1: nothing comes */
	bool counted; /* in steps: its steps and its end have been taken into account */
	pid_t struck; /* the process that took it from the others, which is known by then; 0: none */
	struct sample_report report; /* the last one */
};

/* It has been started, and something is attached, or will be. */
static inline bool sample_window__unsealed(const struct sample_window *w)
{
	return !w->report.sealed;
}

/* All its processes ended before it began: there was nothing to record. */
static inline bool sample_window__all_ended(const struct sample_window *w)
{
	return w->report.ended && w->report.ended == w->spec.pid_cnt;
}

/* Its end is a number of steps. */
static inline bool sample_window__in_steps(const struct sample_window *w)
{
	return w->spec.cfg->rec.steps.name && !w->spec.duration_ns;
}

/* 0 or negative errno (reported). w->spec is set. */
int sample_window__start(struct sample_window *w);
/*
 * A process that records and holds what happens (--flight), with the processes of a first spec, in whose capture it is until it becomes that of a
 * window. It ends when its window does, or when ptbpf ends.
 */
struct sample_held {
	const struct sample_settings *settings; /* that it records by; not held */
	pid_t pid;                              /* 0: there is none */
	int pidfd, pipe, orders;
};
/* There is one, and it can still become the process of a window. */
bool sample_held__lives(const struct sample_held *sp);
/* Makes it the process of the window. False: it has ended; nothing has changed. */
bool sample_held__use(struct sample_held *sp, struct sample_window *w);
void sample_held__end(struct sample_held *sp); /* if there is one */
/* It reports when it has begun to hold. The pointers of `first` must be valid until it is used. 0 or negative errno (reported). */
int sample_hold__start(struct sample_held *sp, const struct sample_window_spec *first);
/* Reads what the process has reported. */
void sample_window__read(struct sample_window *w);
/* After the process has ended: closes what belongs to w. Returns its exit code, EXIT_FAILED if a signal ended it
 * (reported). */
int sample_window__end(struct sample_window *w);
/* Of one of a job that hangs: where the stacks of its threads are, in text; else "". Returns buf. */
const char *sample_window__threads(const struct sample_window_spec *spec, char *buf, size_t cap);
/* In its process: what it has cost so far. */
void sample_window__note_costs(struct sample_report *r, const struct sample_window_spec *spec,
			       struct run *run);

#endif /* CLI_SAMPLE_WINDOW_H */
