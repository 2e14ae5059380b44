/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See window_jobs.h. */
#include "sample/window_jobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "target/job_facts.h"

/* The launcher's name of the job, else where it runs. torchrun calls a job "none" that was given no id. */
static void name_job(const struct job_facts *f, char *buf, size_t cap)
{
	const char *run_id = f->texts[JOB_TORCHELASTIC_RUN_ID];

	if (f->numbers[JOB_SLURM_JOB_ID] >= 0)
		snprintf(buf, cap, "slurm:%" PRId64, f->numbers[JOB_SLURM_JOB_ID]);
	else if (run_id && *run_id && strcmp(run_id, "none") != 0)
		snprintf(buf, cap, "torchrun:%.64s", run_id);
	else if (*f->pod_uid)
		snprintf(buf, cap, "pod:%s", f->pod_uid);
	else if (*f->container_id)
		snprintf(buf, cap, "container:%s", f->container_id);
	else
		*buf = '\0';
}

static void add_job(struct window_jobs *wj, const char *job)
{
	uint32_t i = 0;

	while (i < wj->job_cnt && strcmp(wj->jobs[i], job) != 0)
		i++;
	if (i == WINDOW_JOBS_MAX)
		wj->other_cnt++;
	else if (i == wj->job_cnt)
		snprintf(wj->jobs[wj->job_cnt++], sizeof(wj->jobs[0]), "%s", job);
}

int32_t window_jobs__of(pid_t pid, char job[80])
{
	struct job_facts f;
	struct job_rank r;
	int32_t rank;

	job_facts__read(pid, &f);
	rank = job_vars__rank(f.numbers, &r) ? (int32_t)r.rank : -1;
	name_job(&f, job, 80);
	job_facts__clear(&f);
	return rank;
}

void window_jobs__add(struct window_jobs *wj, int32_t rank, const char *job)
{
	if (wj->cnt == WINDOW_JOBS_PIDS)
		return;
	wj->ranks[wj->cnt++] = rank;
	if (*job)
		add_job(wj, job);
}

void window_jobs__write(struct jsonw *w, const struct window_jobs *wj)
{
	bool any = false;

	for (uint32_t i = 0; i < wj->cnt; i++)
		any |= wj->ranks[i] >= 0;
	if (any) {
		JSONW_ARR(w, "ranks");
		for (uint32_t i = 0; i < wj->cnt; i++) {
			if (wj->ranks[i] >= 0)
				jsonw__i64(w, wj->ranks[i]);
			else
				jsonw__null(w);
		}
		jsonw__end_arr(w);
	}
	if (wj->job_cnt) {
		JSONW_ARR(w, "jobs");
		for (uint32_t i = 0; i < wj->job_cnt; i++)
			jsonw__str(w, wj->jobs[i]);
		jsonw__end_arr(w);
		if (wj->other_cnt)
			JSONW_U64(w, "in_other_jobs", wj->other_cnt);
	}
}
