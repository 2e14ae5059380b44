/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The daemon of `ptbpf sample`: windows by a schedule, by request and by events, for as long as the
 * targets live or for ever. Between windows nothing is attached. It selects the processes, starts a
 * `ptbpf attach` for each window, and keeps the log, the quota, the budget and the HTTP server.
 */
#ifndef SAMPLE_SAMPLE_H
#define SAMPLE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/proc_select.h"
#include "sample/schedule.h"

/* Words of a command line; zeroed: none. */
struct words {
	char **list; /* NULL-terminated */
	uint32_t cnt, cap;
};

void words__add(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void words__free(struct words *w);

#define SAMPLE_CONTROL_OFF "off" /* as a path of the control socket: there is none */

/* The options of the command line and the configuration file. */
struct sample_settings {
	const pid_t *pids; /* --pid; pid_cnt 0: the processes that `select` matches */
	uint32_t pid_cnt;
	struct proc_select select;
	uint32_t process_limit; /* of a window, when they are selected; 0: it depends */
	bool can_share;         /* this machine lets processes share probes */

	const char *schedule_text;
	struct schedule schedule;
	const char *step_name; /* the annotation or operator that ends a step */
	bool step_named;       /* by --step-on */
	uint64_t step_timeout_ns;
	const char *open_on; /* NULL: events open no window */
	uint64_t open_interval_ns;
	uint64_t flight_ns, flight_bytes;
	double max_overhead; /* a share of the time, 0: no limit */

	const char *dir, *traces, *on_window, *metrics, *control;
	uint64_t max_disk;

	bool cpu, cuda, samples;  /* what windows record */
	const char *activities;   /* NULL: cpu and cuda */
	struct words args;        /* options of the ptbpf attach of a window */
	struct words hang_args;   /* likewise where the job hangs: the window samples stacks */
	struct words follow_args; /* options of ptbpf follow, with open_on */
};

/* Reads the configuration file again, on SIGHUP. NULL: the settings remain as they are
 * (reported). */
typedef const struct sample_settings *(*sample_reload_fn)(void *arg);

/* The exit codes of ptbpf attach and ptbpf sample. */
enum sample_code { SAMPLE_DONE = 0, SAMPLE_FAILED = 1, SAMPLE_INCOMPLETE = 3 };

/*
 * Runs until a signal, the end of the targets or of the schedule. All settings stay valid until it
 * returns: windows in hand refer to earlier ones. reload NULL: SIGHUP ends it.
 */
enum sample_code sample__run(const struct sample_settings *set, sample_reload_fn reload, void *arg);

#endif /* SAMPLE_SAMPLE_H */
