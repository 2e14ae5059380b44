/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a capture says of the container and the job of its processes. Captures are foreign: only
 * what has the expected form is taken over. */
#ifndef EXPORT_JOB_JSON_H
#define EXPORT_JOB_JSON_H

#include "base/job_vars.h"
#include "base/jsonw.h"
#include "model/session.h"

/* The key "job" (schemas/formats/facts.schema.json), if something is known. */
void job_json__write(struct jsonw *w, const struct session_process *p);

/* The rank that the capture has as a whole: of its processes' ranks the first one. Those by SLURM
 * come last: a launcher is a task of a SLURM step, and its workers are the ranks. tgid: of this
 * process alone; 0: of all. The process whose it is, NULL: there is none. */
const struct session_process *job_json__rank(const struct session_info *info, uint32_t tgid,
					     struct job_rank *out);
/* Its own: torch.distributed's, else by the environment. */
bool job_json__rank_of(const struct session_process *p, struct job_rank *out);
/* What torch.profiler writes of the process as `distributedInfo`, an object. False: it is not
 * known, and nothing is written. */
bool job_json__distributed(struct jsonw *w, const struct session_process *p);
/* The same groups as an Execution Trace has them (pytorch torch/distributed/distributed_c10d.py,
 * pg_config_info): JSON from malloc. NULL: not known. */
char *job_json__groups(const struct session_process *p);
/* The processes that are the ranks, at most max of them, in order of rank: of those that
 * inherited the variables from a rank that is in the capture, too, none. Returns how many there
 * are. */
struct job_rank_of {
	uint32_t tgid;
	struct job_rank rank;
};
uint32_t job_json__ranks(const struct session *s, struct job_rank_of *list, uint32_t max);
/* The variable's text, likewise. */
bool job_json__text(const struct session_info *info, uint32_t tgid, enum job_var v,
		    char buf[JOB_TEXT_MAX + 1]);

#endif /* EXPORT_JOB_JSON_H */
