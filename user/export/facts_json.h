/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What every JSON output has of its session: job, facts, losses. */
#ifndef EXPORT_FACTS_JSON_H
#define EXPORT_FACTS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/job_vars.h"
#include "base/jsonw.h"
#include "model/session.h"

/* What is missing: one place for the summary line, the trace's account and the exit code. */

/* PTB_COUNTERS; the last row has no text. */
extern const struct loss_counter {
	uint32_t id;
	bool loss;
	const char *name, *text;
} loss_counters[];

/* All intervals in which records were lost. */
struct loss_intervals {
	uint64_t records, ns;
};
struct loss_intervals loss_account__intervals(const struct session_info *info);

/*
 * Refused functions that hide calls of operators. Not counted: operators of which only the end is
 * not probed, and C++ functions outside of at::_ops that may dispatch some operator, but which one
 * is not known.
 */
uint32_t loss_account__unseen_operators(const struct session_info *info);
/* What may have been open in the whole window, unseen; empty: nothing. */
struct unseen_open {
	char text[320];
};
struct unseen_open loss_account__unseen_open(const struct session_info *info,
					     const struct session_totals *t);
/* True when anything is missing that the user must know of (exit code 3); fills one sentence. */
bool loss_account__incomplete(const struct session_info *info, const struct session_totals *totals,
			      char *text, size_t cap);

/* What a capture says of the container and the job of its processes. Captures are foreign: only
 * what has the expected form is taken over. */

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
/* Which CPUs the process may use, and did anything else use them? */
struct job_cpus {
	uint32_t allowed;    /* by its affinity */
	double idle, others; /* of these, and of the host's others, were idle on average */
	double quota;        /* of CPUs; 0: none */
	uint32_t gpus;       /* that it has open */
	uint32_t ranks;      /* of its job, that share the host's CPUs; at least 1 */
	int64_t omp_threads; /* OMP_NUM_THREADS; -1: not set */
};
/* False: not known. */
bool job_json__cpus(const struct session *s, const struct session_process *p, struct job_cpus *out);
/* The variable's text, likewise. */
bool job_json__text(const struct session_info *info, uint32_t tgid, enum job_var v,
		    char buf[JOB_TEXT_MAX + 1]);

/*
 * What every document says about the session besides its events: who was traced, when, with how
 * many probes, what was refused, what was lost, what it cost. Each function writes keys into the
 * open object.
 */

#define FACTS_REFUSALS_MAX 100 /* refusals listed by name; the rest is a count */

/* Keys known before the first slice: version, targets, window, probes, refused, loss, cost,
 * capture. */
void session_json__write(struct jsonw *w, const struct session *s);
/* Keys known after the run: totals, complete, account. */
void session_json__write_totals(struct jsonw *w, const struct session_info *info,
				const struct session_totals *totals);

/* Of an enum ptb_stop_reason. */
const char *session_json__stop_text(uint32_t reason);

/* The text of a META record that is a JSON string; "" if there is none. */
void session_json__meta_text(const struct session *s, const char *key, char *buf, size_t cap);

/* How often the process's garbage collector ran over the oldest generation in the window; negative:
 * it is not known. */
double session_json__full_collections(const struct session *s, uint32_t tgid);

#endif /* EXPORT_FACTS_JSON_H */
