/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of `ptbpf sample` share: its state, and what begins and ends windows. */
#ifndef CLI_SAMPLER_H
#define CLI_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/sample_control.h"
#include "cli/sample_events.h"
#include "cli/sample_hold.h"
#include "cli/sample_metrics.h"
#include "cli/sample_opts.h"
#include "sample/cost_account.h"
#include "sample/proc_scout.h"
#include "sample/window.h"
#include "sample/window_dir.h"

#define SAMPLER_WINDOWS_MAX 4  /* at the same time, exports included */
#define SAMPLER_COMMANDS_MAX 8 /* of --on-window at the same time */
#define SAMPLER_PENDING_MAX 8  /* requested windows that wait for their time */

/* A window beside the schedule: why, of what, and when. */
struct window_request {
	struct window_trigger trigger;
	pid_t pids[OPT_PIDS_MAX];
	uint32_t pid_cnt; /* 0: those that are selected when it begins */
	uint64_t named_ns; /* CLOCK_MONOTONIC: else when they were named; set by sampler__request() */
	uint64_t duration_ns;   /* 0: as long as those of the schedule */
	uint64_t start_real_ns; /* Unix time, 0: now */
	bool limited;           /* by --max-overhead */
	bool samples, held;     /* of sample_window_spec */
};

struct pending_window {
	struct window_request request;
	uint64_t nr;
};

struct sampler {
	struct sample_settings *settings;
	const struct sample_cfg *cfg; /* of the settings, as the next two */
	struct schedule schedule;
	double max_overhead;
	struct step_wait step_wait; /* of a schedule in steps */
	struct window_dir dir;
	int holds[OPT_PIDS_MAX]; /* of --pid */
	struct proc_list procs;  /* that are selected, with their turns */
	uint64_t start_ns;       /* of the schedule */
	uint64_t next;           /* window of the schedule */
	uint64_t resumed; /* cycles of it that an earlier ptbpf has recorded: it has so many less */
	uint64_t nr;      /* of the next window, in the log */
	uint64_t last_real_ns; /* Unix time in the names of the window that ended last */
	uint64_t skipped;      /* since the last one that was started */
	struct sample_window windows[SAMPLER_WINDOWS_MAX];
	uint32_t window_cnt;
	struct pending_window pending[SAMPLER_PENDING_MAX];
	uint32_t pending_cnt;
	pid_t commands[SAMPLER_COMMANDS_MAX];
	uint32_t command_cnt;
	struct sample_hold hold; /* --flight */
	uint64_t attach_ns;      /* it takes to attach, as of the last window; 0: not known */
	double fixed_ns; /* that it costs a process to place and remove its probes, as of the last window; 0: not known */
	struct cost_account account; /* what windows have cost each process */
	double watch_spent_ns; /* what watches for events have cost the process that they have cost most */
	uint64_t lost;         /* records, in all windows */
	struct metrics metrics;
	struct sample_control control;
	struct sample_events events;
	uint32_t signals;
	int argc;
	char **argv;
	int reload_fd;        /* SIGHUP; -1: it ends the program */
	bool any, incomplete; /* a window was recorded; one was not, or not completely */
};

/* ---- cmd_sample.c ---- */

/* Switches activities of the windows that are started from now on. 0, or -EINVAL: `why` has a sentence. */
int sampler__toggle(struct sampler *s, const struct control_request *rq, char *why, size_t cap);

/* ---- sample_begin.c: which processes, and when ---- */

/* Processes of the window that begins now; *selected: so many fit, 0: they are named. Returns how many. */
uint32_t sampler__select(struct sampler *s, pid_t *pids, uint32_t *selected);
/* Chooses the names of its files, by its first process and spec->real_ns. False: they are too long. */
bool sampler__name_files(const struct sampler *s, struct sample_window_spec *spec);
/* A window is not recorded, which a warning says. */
void sampler__skip(struct sampler *s, uint64_t nr, const char *why);
/*
 * Chooses the names of the window's files and starts its process. w is the next one of s->windows; its spec has everything else. 0 or
 * negative errno: `why` has the reason.
 */
int sampler__launch(struct sampler *s, struct sample_window *w, const char **why);
/* Starts the window that is due; returns ns until the next one is, UINT64_MAX: there is none. */
uint64_t sampler__follow_schedule(struct sampler *s);
/* Unix time at which the next window of the schedule begins, 0: not known, or there is none. */
uint64_t sampler__next_real_ns(const struct sampler *s);

/* ---- sample_budget.c: what windows may cost, and have cost ---- */

/*
 * What the window may cost each of its processes until spec->limit_ns. Those for which that is
 * nothing of use are taken out of it, and of `facts`. False: so are all.
 */
bool sample_budget__set(const struct sampler *s, struct sample_window_spec *spec,
			struct proc_facts *facts);
void sample_budget__ended(struct sampler *s, const struct sample_window *w);
double sample_budget__watch_ns(const struct sampler *s); /* what watches for events have cost each process, at most */
/* For the line in the log: processes that lost their probes, and those that were left out. */
void sample_budget__put(struct jsonw *j, const struct sample_window *w);

/* ---- sample_request.c: windows beside the schedule ---- */

/*
 * Opens a window now, or at its time, because of rq->trigger: the only way to one that no schedule has. *nr: its number. 0, or negative errno: refused, and `why` has a
 * sentence: among others while another window is recorded, since windows do not overlap. Unless rq->limited, --max-overhead does not limit it, but
 * what it costs counts.
 */
int sampler__request(struct sampler *s, const struct window_request *rq, uint64_t *nr, char *why,
		     size_t cap);
/* Starts the pending windows whose time has come; returns ns until the next one is due, UINT64_MAX: there is none. */
uint64_t sampler__follow_requests(struct sampler *s);
/* No window begins any more. */
void sampler__drop_requests(struct sampler *s);
/* How long they last, if nobody says. */
uint64_t sampler__duration(const struct sampler *s);
/* Does a requested window, in hand or pending, take this time (CLOCK_MONOTONIC)? */
bool sampler__is_taken(const struct sampler *s, uint64_t begin_ns, uint64_t end_ns);

/* ---- sample_end.c: what is done with a window that has ended ---- */

void sampler__end_window(struct sampler *s, uint32_t i);
/* A process takes the window from the others, as far as is known: the next ones do not have it. */
void sampler__strike_slow(const struct sampler *s, struct sample_window *w);
void sampler__trim(const struct sampler *s);
void sampler__reap_commands(struct sampler *s);

#endif /* CLI_SAMPLER_H */
