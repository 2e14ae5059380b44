/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the log of windows says of the processes of a window: their ranks, and the jobs to which they belong. */
#ifndef SAMPLE_WINDOW_JOBS_H
#define SAMPLE_WINDOW_JOBS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/job_vars.h"
#include "base/jsonw.h"

#define WINDOW_JOBS_PIDS 256
#define WINDOW_JOBS_MAX 8 /* different ones */

struct window_jobs {
	int32_t ranks[WINDOW_JOBS_PIDS]; /* -1: none */
	uint32_t cnt;                    /* of processes */
	char jobs[WINDOW_JOBS_MAX][80]; /* "slurm:42", "torchrun:ID" (cut), "pod:UID", "container:ID" */
	uint32_t job_cnt;
	uint32_t other_cnt; /* processes of further jobs */
};

/* Of one process: its rank, -1: none; job: its job, "": not known. */
int32_t window_jobs__of(pid_t pid, char job[80]);
/* Of the next process: what window_jobs__of() says of it. */
void window_jobs__add(struct window_jobs *wj, int32_t rank, const char *job);
/* The keys "ranks" and "jobs", as far as something is known. */
void window_jobs__write(struct jsonw *w, const struct window_jobs *wj);

#endif /* SAMPLE_WINDOW_JOBS_H */
