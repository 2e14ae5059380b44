/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One window of `sample`, recorded and exported by a `ptbpf attach` of its own: its memory ends
 * with it, a crash costs one window, and the export of one window never delays the next. When ptbpf
 * sample is killed, the window ends, and its capture is sealed.
 */
#ifndef SAMPLE_WINDOW_H
#define SAMPLE_WINDOW_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/jsonw.h"
#include "sample/child.h"
#include "sample/event_watch.h"
#include "sample/proc_select.h"
#include "sample/step_wait.h"
#include "sample/window_jobs.h"

/* Exit codes of ptbpf attach. */
enum { WINDOW_DONE = 0, WINDOW_FAILED = 1, WINDOW_INCOMPLETE = 3 };

/* Of a schedule in steps. */
struct window_steps {
	const char *name; /* of the annotation or operator that ends a step; NULL: windows are not counted in steps */
	bool named; /* by --step-on */
	uint64_t warmup, active, timeout_ns;
};

/* How windows are recorded: the same for all, until the settings change. */
struct window_options {
	struct words args;         /* options of attach */
	struct words samples_args; /* likewise, of a window that samples stacks: the job hangs */
	uint64_t duration_ns;      /* of windows of the schedule; 0: they are counted in steps */
	struct window_steps steps;
	const char *off; /* "cpu" or "cuda": an activity that is switched off; NULL: none is */
};

/* Why a window is recorded. */
struct window_trigger {
	const char *kind; /* "schedule", "request", or of an event (event_watch.h); a literal */
	pid_t by_pid;     /* of a request: whose it was; 0: not in this pid namespace */
	uid_t by_uid;
	pid_t event_pid;            /* of an event: the process in which it happened */
	char event[EVENT_TEXT_MAX]; /* what it was, "": it is none */
	uint64_t ignored;           /* events before it that opened no window */
};

/* What a window is to be. Times are CLOCK_MONOTONIC, if nothing else is said. */
struct sample_window_spec {
	const struct window_options *options;
	pid_t pids[PROC_SELECT_MAX];
	uint32_t pid_cnt;
	uint64_t chosen_ns; /* the processes began before */
	uint32_t selected;  /* so many fit; 0: they are named */
	struct window_jobs jobs;
	uint64_t nr;
	struct window_trigger trigger;
	uint64_t cycle;       /* of the schedule that has it */
	uint64_t duration_ns; /* of a window that no schedule has; 0: as its options say */
	uint64_t end_ns;   /* it ends by then, because the next one is due; 0: it does not matter */
	uint64_t limit_ns; /* it may cost what --max-overhead allows until then; 0: anything */
	uint64_t starts[PROC_SELECT_MAX]; /* of the processes, in clock ticks since boot; 0: not known */
	uint64_t max_cost_ns[PROC_SELECT_MAX]; /* of each; 0: no limit */
	pid_t left_out[PROC_SELECT_MAX];       /* processes that may cost nothing */
	uint32_t left_out_cnt;
	bool apart; /* no process shares probes with others: one may have to lose them */
	uint64_t warmup_ns, begin_ns; /* probes are attached, records are kept */
	uint64_t real_ns;             /* Unix time of the begin */
	bool measure;                 /* the time of a step, and nothing else */
	struct step_wait step_wait;   /* in steps: what is known when it starts */
	bool held; /* its begin is in the memory of a process that holds it (--flight), if there is one */
	bool samples; /* of Python stacks, and nothing else: the job hangs */
	char capture[PATH_MAX], trace[PATH_MAX]; /* trace "": none */
};

struct window_charge {
	uint64_t ns;
	uint64_t cut_ns; /* CLOCK_MONOTONIC: when it lost its probes; 0: it has not */
	bool over;       /* it has cost what it may */
};

#define WINDOW_TEXT_MAX 1024

/* What is known of it, by the lines that its process has reported. */
struct sample_report {
	uint32_t traced;    /* processes when the window began, 0: it has not begun */
	uint64_t late_ns;   /* after spec.begin_ns it began */
	uint64_t attach_ns; /* it took to attach to its processes */
	uint32_t ended; /* of its processes, before they were attached to or, where there is no window, before it began */
	uint32_t no_torch; /* likewise, that have not loaded PyTorch */
	pid_t reading;     /* the process whose libraries it reads, 0: none */
	bool sealed;       /* nothing is attached any more; the rest is export */
	bool has_result;
	struct { /* of a window that is counted in steps */
		uint64_t attached_ns,
			ended_ns; /* CLOCK_MONOTONIC: probes were there, and the last step that counts had ended; 0: never */
		uint64_t step_ns; /* mean time of a step, 0: not known */
		bool none;        /* no step ended in time */
	} steps;
	bool cost_known;
	uint64_t cost_ns; /* then: of the process that it has cost most, when it was sealed or given up */
	uint64_t fixed_ns;                             /* what it costs at least; 0: not known */
	struct window_charge charges[PROC_SELECT_MAX]; /* with cost_known, of each process */
	struct {
		pid_t pid; /* the one that took most processor time of ptbpf to read and attach to; 0: none took too much */
		uint32_t strikes; /* of left_out.h */
		uint64_t cpu_ns, ns;
	} slow;
	/* with has_result */
	uint64_t window_ns, slices, lost, step_cnt;
	double cost_share; /* negative: not measured */
	char stopped_by[64];
	bool shortened;
	char incomplete[WINDOW_TEXT_MAX]; /* what is missing, "": nothing */
};

struct sample_settings;

struct sample_window {
	struct sample_window_spec spec;
	struct sample_settings *settings; /* held */
	struct sample_child child;
	bool counted; /* in steps: its steps and its end have been taken into account */
	pid_t struck; /* the process that took it from the others, which is known by then; 0: none */
	struct sample_report report;
	cJSON *done; /* its last line; NULL: it has not come */
	/* of one that was held: its files until it ends; real_ns 0: it was not */
	struct {
		char capture[PATH_MAX], trace[PATH_MAX];
		uint64_t real_ns;
	} held;
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
static inline bool sample_window__in_steps(const struct sample_window_spec *spec)
{
	return spec->options->steps.name && !spec->duration_ns;
}

/* keep: a descriptor whose lock lasts as long as its process. 0 or negative errno (reported).
 * w->spec is set. */
int sample_window__start(struct sample_window *w, int keep);
/* --flight: records w->spec and keeps the last flight_ns in memory; report.traced when it does.
 * 0 or negative errno (reported). */
int sample_window__hold(struct sample_window *w, uint64_t flight_ns, uint64_t flight_bytes, int keep);
/* What is held becomes the window w, which has its processes. False: nothing is held; nothing
 * has changed. */
bool sample_window__release(struct sample_window *held, struct sample_window *w);
/* Ends one that holds, and drops what it has. */
void sample_window__kill(struct sample_window *w);
/* Reads what the process has reported. */
void sample_window__read(struct sample_window *w);
/* Its process has ended, or is stuck. Returns its exit code, WINDOW_FAILED if a signal ended it
 * (reported). */
int sample_window__end(struct sample_window *w);
/* Of one of a job that hangs: where the stacks of its threads are, in text; else "". Returns buf. */
const char *sample_window__threads(const struct sample_window_spec *spec, char *buf, size_t cap);

#endif /* SAMPLE_WINDOW_H */
