/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The processes of one recording: their state, their facts, and the plans they share. Knows the order
 * open -> plan -> probes for one process; does not know when to do it.
 */
#ifndef RECORD_TARGETS_H
#define RECORD_TARGETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "plan/lib_plan.h"
#include "probe/probe_set.h"
#include "record/recorder.h"
#include "record/target_agent.h"
#include "record/target_cuda.h"
#include "record/target_python.h"
#include "target/torch_proc.h"

enum target_state { TARGET_WAITING, TARGET_TRACED, TARGET_GONE };

struct target {
	pid_t pid;
	int pidfd; /* negative when it could not be had: it had ended */
	struct remote_mem *mem; /* with --agent inject, while it is attached: of the program that is examined; else NULL */
	enum target_state state;
	uint32_t parent;
	bool inherits;          /* forked from a traced process and not exec'd: it has torch */
	uint64_t born_ns;       /* fork or exec seen in the window; 0: was there before */
	uint64_t main_ended_ns; /* its main thread, with others left; 0: it has not */
	uint64_t max_cost_ns; /* it loses its probes when it has cost so much; 0: no limit; a fork has its parent's */
	uint64_t changes_ns;  /* of placing and removing its probes; processor time */
	uint64_t bare_hits;   /* without a record, when last asked for */
	uint64_t cut_ns;      /* GONE: when it lost its probes for its cost; 0: it has not */
	bool over_cost;       /* it has cost so much */
	uint64_t next_try_ns; /* WAITING: when to poll again, */
	uint32_t tries;       /* and how often it was */
	uint32_t proc_idx;    /* TRACED */
	/* TRACED before torch had registered its operators (record): facts that its dispatcher's table
	 * will hold are read again */
	bool facts_missing, no_args;
	struct target_agent *agent; /* that got requests, NULL: none */
	char agent_why[256];        /* why none is used, "": nothing to say */
	uint64_t next_facts_ns;
	struct target_cuda cuda;
	struct target_python python; /* a forked process has its parent's */
	bool sampled;                /* and nothing else */
	bool open_tried, open_known; /* open operators were requested of its agent; samples have them */
};

/* Functions whose refusals are recorded when they are to be probed. */
enum refusals {
	REFUSALS_OPS,
	REFUSALS_TENSORS,
	REFUSALS_MEMORY,
	REFUSALS_CUDA_CALLS,
	REFUSALS_CNT
};

struct shared_plan { /* of torch's libraries, or of one of CUDA's */
	struct torch_plan *plan;
	struct recorder_plan recorded; /* site_base 0: not in the capture yet */
	bool refusals_recorded[REFUSALS_CNT];
	uint32_t args_base; /* of its argument programs, 0: not loaded */
};

struct targets { /* zeroed: plans can be made, nothing is attached */
	struct probe_set *ps;
	struct recorder *rec;
	const struct record_opts *opts;
	enum probe_args kernel_args; /* what kernel probes can read here: opts->args, or nothing */
	bool active;                 /* the window is open */
	bool stopped; /* the processes are stopped: their agents can answer only later */
	struct target *items;
	uint32_t cnt, cap;
	struct shared_plan *plans;
	uint32_t plan_cnt, plan_cap;
	uint64_t plan_ns, attach_ns;
	uint64_t probes, refused, uncovered_ns, cuda_late_ns, children_missed;
	uint64_t over_processes; /* beyond LIMIT_PROCESSES */
	uint64_t over_libs;      /* processes with more than LIMIT_CUDA_LIBS */
	uint64_t agents_cut; /* processes that ended, or agents that fell silent, with records not sent */
	uint64_t agents_restarted; /* how often they began anew within the window */
	uint64_t agents_gave_up; /* in the midst of a window: what came until probes were there is missing */
	uint64_t no_shapes, unplaced; /* processes without shapes; arguments whose place is not known */
	uint64_t no_stacks;           /* processes whose Python stacks cannot be read */
};

void targets__free(struct targets *ts);
struct target *targets__find(struct targets *ts, pid_t pid); /* newest with that pid that is not gone, NULL if none */
struct target *targets__find_any(struct targets *ts, pid_t pid); /* likewise, gone or not */
/* What has been placed or removed since probe_set__share_ns() was share_ns was for this one. */
void targets__charge(struct targets *ts, struct target *t, uint64_t share_ns);
/* NULL: no memory, or beyond LIMIT_PROCESSES (logged). */
struct target *targets__add(struct targets *ts, pid_t pid, uint32_t parent, uint64_t born_ns);
uint32_t targets__count(const struct targets *ts, enum target_state state);

/* Sentence for a process that cannot be opened; on stderr. */
void targets__say_why(pid_t pid, enum torch_proc_why why, int err);

/* The plan of libraries, an array by role: an earlier one that fits, or a new one. NULL after an error (logged). */
struct shared_plan *targets__plan(struct targets *ts, const struct torch_lib *libs, bool no_cache);

/* A site of a plan, without arguments. */
struct probe_site targets__site(const struct shared_plan *sp, uint32_t i);

/* Probes and facts of one process. 0, -EAGAIN when torch is not (wholly) mapped, or negative errno (reported). */
int targets__attach(struct targets *ts, struct target *t);
/* Reads facts again that a process's dispatcher did not have yet. */
void targets__renew_facts(struct targets *ts);

/* Probes CUDA's libraries that were loaded later, and those of processes whose agent no longer records GPUs. */
void targets__follow_cuda(struct targets *ts);
/* Records and counts, once, what a plan refuses of these functions. */
void targets__record_refusals(struct targets *ts, struct shared_plan *sp, enum refusals kind);
/* Functions of a plan that the kernel would not probe: recorded, counted. */
void targets__report_refusals(struct targets *ts, const struct shared_plan *sp,
			      const struct probe_lib *libs, uint32_t lib_cnt);

/* Is every site of the plan in the process's libraries and in its memory? Before anything of the plan is used for the
 * process: names, offsets in its memory, the agent's configuration. 0; -ESTALE (logged); another negative errno. */
int targets__verify_plan(const struct torch_proc *tp, const struct shared_plan *sp);
/* Its agent is not used, or not any more: for the user, and for the capture. */
void targets__say_agent(const struct targets *ts, struct target *t, const char *why);
/* Sends requests to the process's agent, if it has one, and waits for the answer where nothing is missed meanwhile. */
void targets__request_agent(struct targets *ts, struct target *t, struct proc_ops *po);
/* Polls agents that have not answered; replaces those that do not by probes. */
void targets__settle_agents(struct targets *ts);
/* Takes the requests back. */
void targets__dismiss_agents(struct targets *ts);
/* Have all sent what they had? */
bool targets__agents_quiet(const struct targets *ts);
/* Processes whose agent was requested to record their GPUs and could not. */
uint64_t targets__gpu_refused(const struct targets *ts);
/* META "agent", when there is something to say. */
void targets__agents_meta(const struct targets *ts);

/* Puts into the capture what /proc says of the traced processes' memory. */
void targets__sample_memory(const struct targets *ts);

#endif /* RECORD_TARGETS_H */
