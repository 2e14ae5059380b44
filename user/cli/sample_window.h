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
#include "sample/metrics.h"
#include "sample/metrics_server.h"
#include "sample/thin.h"
#include "sample/window_jobs.h"
#include "sample/step_wait.h"

/* Of a schedule in steps. */
struct sample_step_report {
	uint64_t attached_ns,
		ended_ns; /* CLOCK_MONOTONIC: probes were there, and the last step that counts had ended; 0: never */
	uint64_t step_ns; /* mean time of a step, 0: not known */
	bool none;        /* no step ended in time */
};

struct sample_settings;

struct sample_window_spec {
	const struct run_cfg *cfg; /* rec.duration_ns: length of the window */
	pid_t pids[OPT_PIDS_MAX];
	uint32_t pid_cnt;
	uint32_t selected; /* so many fit; 0: they are named */
	struct window_jobs jobs;
	uint64_t nr;
	uint64_t max_cost_ns, end_ns; /* of record_opts; end_ns: when the next window is due */
	uint64_t warmup_ns, begin_ns; /* CLOCK_MONOTONIC: probes are attached, records are kept */
	uint64_t real_ns;             /* Unix time of the begin */
	bool measure;                 /* the time of a step, and nothing else */
	struct step_wait step_wait;   /* in steps: what is known when it starts */
	enum thin_level thin;
	char capture[PATH_MAX], trace[PATH_MAX]; /* trace "": none */
	const struct metrics *metrics; /* what the window's will be added to; NULL: they are not wanted */
	const struct metrics_server *server; /* NULL: there is none */
};

/* What the process of a window reports when it begins, when it is sealed and when it is exported. */
struct sample_report {
	uint32_t traced;    /* processes when the window began, 0: it has not begun */
	uint64_t late_ns;   /* after spec.begin_ns it began */
	uint64_t attach_ns; /* it took to attach to its processes */
	bool sealed;        /* nothing is attached any more; the rest is export */
	bool has_result;
	struct sample_step_report steps;
	bool over_cost; /* before it could begin */
	bool cost_known;
	uint64_t cost_ns;       /* then: by run__cost_ns(), when it was sealed or given up */
	uint64_t begin_cost_ns; /* likewise, when it began */
	struct outputs_result result;
	struct metrics_window metrics; /* with has_result */
};

struct sample_window {
	struct sample_window_spec spec;
	struct sample_settings *settings; /* held */
	pid_t pid;
	int pidfd, pipe;
	bool counted; /* in steps: its steps and its end have been taken into account */
	struct sample_report report; /* the last one */
};

/* 0 or negative errno (reported). w->spec is set. */
int sample_window__start(struct sample_window *w);
/* Reads what the process has reported. */
void sample_window__read(struct sample_window *w);
/* After the process has ended: closes what belongs to w. Returns its exit code, EXIT_FAILED if a signal ended it
 * (reported). */
int sample_window__end(struct sample_window *w);
/* Of one with --when: the key "when" of its line in the log. */
void sample_window__put_when(struct jsonw *j, const struct sample_window *w);

#endif /* CLI_SAMPLE_WINDOW_H */
