/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The inside of inject: one request, shared by the methods. */
#ifndef INJECT_INJECT_PRIV_H
#define INJECT_INJECT_PRIV_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "inject/inject.h"
#include "inject/root_file.h"

struct inject_job {
	pid_t pid;
	int pidfd;              /* a process that gets the same pid later is another one */
	struct remote_mem *mem; /* of the address space that it had at first; what it executes later has
			       * another one, which is never written to */
	const char *path;       /* as the process names it */
	char real[PATH_MAX]; /* ... and without links */
	struct stat file;    /* of it, or of its copy */
	struct root_temp copy;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	struct inject_result *res;
};

#define refuse(job, ...) snprintf((job)->res->why, sizeof((job)->res->why), __VA_ARGS__)

bool inject__is_mapped(const struct inject_job *job);
bool inject__is_alive(const struct inject_job *job); /* false: and says that the process has ended */
bool inject__is_running(int pidfd); /* not reaped yet, so its pid is still its own */
bool inject__is_time(const struct inject_job *job); /* is there any left, and no signal pending? */
void inject__nap(uint64_t ns);                      /* other work goes on: sandbox__idle() */

/* 0, or negative errno with job->res->why; -EAGAIN from remote execution: nothing happened, another method may
 * be tried. */
int remote_exec__load(struct inject_job *job);
int ptrace_load__library(struct inject_job *job);

/* Stops the main thread for a moment, to read its seccomp filters: would they let the library be loaded? 0;
 * -EPERM: no; -EAGAIN: it was not at a point where it may be stopped, until `end_ns`. */
int ptrace_load__check_filters(struct inject_job *job, uint64_t end_ns);

#endif /* INJECT_INJECT_PRIV_H */
