/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* attach --progress-fd: lines of JSON for the program that started it
 * (schemas/formats/progress.schema.json). */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdint.h>

#include "cli/opts.h"
#include "cli/outputs.h"
#include "record/run.h"
#include "sample/event_watch.h"

struct progress {
	int fd; /* 0: nobody reads */
};

/* The end of a window that is counted in steps; times are CLOCK_MONOTONIC. */
struct progress_steps {
	uint64_t attached_ns; /* 0: it is not counted in steps */
	uint64_t ended_ns;    /* the last step that counts */
	uint64_t step_ns;     /* mean time of a step, 0: not known */
	bool none;            /* no step ended in time */
};

/* The descriptor of an option's value, 0: none. It is not passed on to other programs. 0 or
 * -EINVAL (reported). */
int progress__open(struct progress *p, int fd);
/* A process is about to be read and attached to. */
void progress__reading(const struct progress *p, pid_t pid);
/* The process has been read, which took so long; failed: in vain. */
void progress__read(const struct progress *p, pid_t pid, uint64_t ns, uint64_t cpu_ns, bool failed);
/* The probes are in place. ended, no_torch: so many of the other processes. */
void progress__attached(const struct progress *p, uint32_t processes, uint64_t took_ns,
			uint32_t ended, uint32_t no_torch);
/* The window begins. */
void progress__begun(const struct progress *p, struct run *run);
/* Nothing is attached any more. capture: NULL: there is none, ended: when so many of the
 * processes had ended; steps: NULL: they were not counted. */
void progress__sealed(const struct progress *p, struct run *run, const struct pid_list *pids,
		      const char *capture, const struct progress_steps *steps, uint32_t ended);
/* ptbpf follow: so many processes are followed, which has cost one of them so much; something
 * has happened in one. */
void progress__following(const struct progress *p, uint32_t processes, uint64_t cost_ns);
void progress__event(const struct progress *p, const struct event *ev);
/* ptbpf frames: one is in that slot; its processes have ended. */
void progress__frame(const struct progress *p, uint32_t slot);
void progress__ended(const struct progress *p);
/* Nothing follows. r: what was exported; NULL: nothing. */
void progress__done(const struct progress *p, int code, const struct outputs_result *r,
		    const struct metrics_window *metrics);

#endif /* CLI_PROGRESS_H */
