/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The processes of one recording: their state, their facts, and the plans they share. Knows the
 * order open -> plan -> probes for one process; does not know when to do it.
 */
#ifndef RECORD_TARGETS_H
#define RECORD_TARGETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/jsonw.h"
#include "plan/plan.h"
#include "probe/probe_set.h"
#include "ptb_python.h"
#include "python/python.h"
#include "record/recorder.h"
#include "record/run.h"
#include "target/torch.h"

/* The CPython of one target: what its stacks are read with, or why they are not. */

struct targets;
struct target;

enum python_state {
	PYTHON_UNKNOWN, /* not searched for yet, or stacks are not recorded */
	PYTHON_NONE,    /* there is none in the process */
	PYTHON_READ,
	PYTHON_REFUSED,
};

struct target_python {
	enum python_state state;
	struct ptb_py_layout layout; /* READ; REFUSED: the version, if it is known */
	struct py_code_end code_end;
	uint32_t code_ends; /* as in a layout: which process of the probe set counts them */
	char why[PY_INTERP_WHY + 64]; /* REFUSED */
};

/* Finds and verifies it, which takes some time; says and counts what is refused. Not if its state
 * is known. */
void target_python__find(struct targets *ts, struct target *t);
/*
 * The same for a process that may not be ready yet: 0; -EAGAIN: there is no Python in it, or none
 * that runs (t->python.why); -ETIMEDOUT: to find out takes too long, which is reported and counted;
 * another negative errno.
 */
int target_python__await(struct targets *ts, struct target *t);
/* From now on stacks are recorded at the probes of process `idx` of the probe set. */
void target_python__use(struct targets *ts, struct target *t, uint32_t idx);
/* META "python", if stacks are recorded. */
void target_python__meta(const struct targets *ts);

/*
 * What is probed of CUDA's libraries in one target: any number of them, whenever they are loaded,
 * as long as its agent does not record its GPUs. Knows neither what the calls mean nor when to
 * poll; never reads the target.
 */

struct probe_set;
struct target;
struct targets;

struct cuda_lib {
	struct torch_lib lib; /* a copy */
	enum torch_lib_role role;
	uint32_t plan; /* index into targets.plans */
};

enum cuda_purpose { CUDA_MEMORY, CUDA_CALLS, CUDA_PURPOSES };

struct cuda_probes {   /* of one purpose, so that they come and go by themselves */
	uint32_t idx;  /* in the probe set, if on */
	uint32_t done; /* of the libraries, so many have been dealt with */
	bool on;
};

struct target_cuda {
	struct cuda_lib *libs;
	uint32_t cnt, cap;
	struct cuda_probes probes[CUDA_PURPOSES];
	bool over;           /* it has more of them than are probed: counted once */
	bool called;         /* there were probes on calls */
	bool warned;         /* that the agent does not record GPUs */
	uint64_t code_bytes; /* how much code the process had mapped when last polled, ... */
	uint64_t digest;     /* and which files that may be CUDA's */
	uint64_t polled_ns;
};

/* Before torch is planned for: makes the plans of the libraries that are mapped, so that they are
 * in the cache. */
void target_cuda__plan(struct targets *ts, const struct torch_proc *tp, bool no_cache);
/* The libraries that tp has. What cannot be probed is reported and left out. */
void target_cuda__attach(struct targets *ts, struct target *t, const struct torch_proc *tp);
/* Polls, at a bounded pace, for libraries that were loaded later, and whether the agent still
 * records GPUs. */
void target_cuda__follow(struct targets *ts, struct target *t);
/* The program is no more: its probes go. */
void target_cuda__clear(struct target_cuda *tc, struct probe_set *ps);
void target_cuda__free(struct target_cuda *tc);

/*
 * The agent of one target: finds it (or, on request, loads it), sends requests, waits for answers,
 * withdraws them. Knows what may be requested and why it was not; knows neither chunks nor records.
 */

struct remote_mem;

struct recorder;

enum agent_answer {
	AGENT_PENDING, /* it has not answered yet */
	AGENT_DONE,    /* it does what it can: ta->ops, ta->gpu */
	AGENT_SILENT,  /* it does nothing, or is gone: ta->why */
};

struct target_agent {
	struct agent_lib lib;
	struct probe_agent sites;
	uint32_t proc_idx; /* of its sites in the probe set */
	uint32_t requests;
	uint64_t requested_ns, gpu_polled_ns;
	enum agent_answer answer;
	bool ops, gpu;                 /* what comes from it; of samples, ops: which are open */
	bool graphs_requested, graphs; /* the nodes of CUDA graphs */
	bool injected;
	/* it began after the requests: GPUs only, and probes record CUDA calls until it does */
	bool late;
	bool patient;   /* the process is just being loaded: the answer may take long */
	bool no_values; /* it stopped recording inputs and outputs */
	uint32_t ops_why, gpu_why, cupti_version;
	char why[256]; /* it is not used, or not for all that was requested: a sentence */
};

/*
 * Finds the agent of pid; loads it if opts request that, into the program whose memory is `mem`
 * (inject.h). NULL: there is none, or it may not be used: *why (of cap bytes) has a sentence where
 * the user should know, else "". To be freed by target_agent__free().
 */
struct target_agent *target_agent__find(pid_t pid, struct remote_mem *mem,
					const struct record_opts *opts, char *why, size_t cap);
void target_agent__free(struct target_agent *ta); /* NULL is fine */
bool target_agent__is_there(pid_t pid);           /* one that answers, or one that does not */
/* Is there one that would answer? */
bool target_agent__is_awake(pid_t pid);

/* Listens and requests. stacks: operators with Python stacks, or none. 0 or negative errno
 * (ta->why). */
int target_agent__request(struct target_agent *ta, pid_t pid, const struct record_opts *opts,
			  bool stacks, struct proc_ops *po, struct probe_set *ps,
			  struct recorder *rec);
/* What it has answered by now. */
enum agent_answer target_agent__poll(struct target_agent *ta, pid_t pid);
/* Where samples find which operators are open, once it keeps that. 0 or negative errno. */
int target_agent__open_ops(const struct target_agent *ta, pid_t pid, struct ptb_py_layout *layout);
/* It recorded operators and does not any more (ta->why); that it records no values any more is
 * noted (ta->no_values). */
bool target_agent__gave_up(struct target_agent *ta, const struct recorder *rec, pid_t pid);
/* GPUs may come to it later, and it may give them up: keeps what is known of them while the process
 * lives. */
void target_agent__note_gpu(struct target_agent *ta, pid_t pid);
/* Do operators come from it, or may they yet? NULL: no. */
bool target_agent__has_ops(const struct target_agent *ta);
/* Does it record GPUs, so that CUDA calls need no probes? Also where it waits for the process to
 * use CUDA. NULL: no. */
bool target_agent__has_gpu(const struct target_agent *ta);
/* It cannot record the GPUs, for good. False for a process that does not use CUDA. */
bool target_agent__gpu_refused(const struct target_agent *ta);
/* No more requests. */
void target_agent__dismiss(struct target_agent *ta, struct probe_set *ps);
/* Has it sent all it had? Also true when the process is gone. */
bool target_agent__is_quiet(const struct target_agent *ta, pid_t pid);

/* The agent's file beside this program; 0 or -ENOENT. */
int target_agent__file(char *buf, size_t cap);

enum target_state { TARGET_WAITING, TARGET_TRACED, TARGET_GONE };

struct target {
	pid_t pid;
	int pidfd; /* negative when it could not be had: it had ended */
	/* with --agent inject, while it is attached: of the program that is examined; else NULL */
	struct remote_mem *mem;
	enum target_state state;
	uint32_t parent;
	bool inherits;          /* forked from a traced process and not exec'd: it has torch */
	uint64_t born_ns;       /* fork or exec seen in the window; 0: was there before */
	uint64_t main_ended_ns; /* its main thread, with others left; 0: it has not */
	/* it loses its probes when it has cost so much; 0: no limit; a fork has its parent's */
	uint64_t max_cost_ns;
	uint64_t changes_ns;  /* of placing and removing its probes; processor time */
	uint64_t bare_hits;   /* without a record, when last asked for */
	uint64_t cut_ns;      /* GONE: when it lost its probes for its cost; 0: it has not */
	bool over_cost;       /* it has cost so much */
	uint64_t next_try_ns; /* WAITING: when to poll again, */
	uint32_t tries;       /* and how often it was */
	uint32_t proc_idx;    /* TRACED */
	/* TRACED before torch had registered its operators (record): facts that its dispatcher's
	 * table will hold are read again */
	bool facts_missing, no_args;
	struct target_agent *agent; /* that got requests, NULL: none */
	char agent_why[256];        /* why none is used, "": nothing to say */
	uint64_t next_facts_ns;
	struct target_cuda cuda;
	struct target_python python; /* a forked process has its parent's */
	bool sampled;                /* and nothing else */
	/* open operators were requested of its agent; samples have them */
	bool open_tried, open_known;
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
	/* processes that ended, or agents that fell silent, with records not sent */
	uint64_t agents_cut;
	uint64_t agents_restarted; /* how often they began anew within the window */
	/* in the midst of a window: what came until probes were there is missing */
	uint64_t agents_gave_up;
	/* processes without shapes; arguments whose place is not known */
	uint64_t no_shapes, unplaced;
	uint64_t no_stacks; /* processes whose Python stacks cannot be read */
};

void targets__free(struct targets *ts);
/* newest with that pid that is not gone, NULL if none */
struct target *targets__find(struct targets *ts, pid_t pid);
struct target *targets__find_any(struct targets *ts, pid_t pid); /* likewise, gone or not */
/* What has been placed or removed since probe_set__share_ns() was share_ns was for this one. */
void targets__charge(struct targets *ts, struct target *t, uint64_t share_ns);
/* NULL: no memory, or beyond LIMIT_PROCESSES (logged). */
struct target *targets__add(struct targets *ts, pid_t pid, uint32_t parent, uint64_t born_ns);
uint32_t targets__count(const struct targets *ts, enum target_state state);

/* Sentence for a process that cannot be opened; on stderr. */
void targets__say_why(pid_t pid, enum torch_proc_why why, int err);

/* The plan of libraries, an array by role: an earlier one that fits, or a new one. NULL after an
 * error (logged). */
struct shared_plan *targets__plan(struct targets *ts, const struct torch_lib *libs, bool no_cache);

/* A site of a plan, without arguments. */
struct probe_site targets__site(const struct shared_plan *sp, uint32_t i);

/* Probes and facts of one process. 0, -EAGAIN when torch is not (wholly) mapped, or negative errno
 * (reported). */
int targets__attach(struct targets *ts, struct target *t);
/* Reads facts again that a process's dispatcher did not have yet. */
void targets__renew_facts(struct targets *ts);

/* Probes CUDA's libraries that were loaded later, and those of processes whose agent no longer
 * records GPUs. */
void targets__follow_cuda(struct targets *ts);
/* Records and counts, once, what a plan refuses of these functions. */
void targets__record_refusals(struct targets *ts, struct shared_plan *sp, enum refusals kind);
/* Functions of a plan that the kernel would not probe: recorded, counted. */
void targets__report_refusals(struct targets *ts, const struct shared_plan *sp,
			      const struct probe_lib *libs, uint32_t lib_cnt);

/* Is every site of the plan in the process's libraries and in its memory? Before anything of the
 * plan is used for the process: names, offsets in its memory, the agent's configuration. 0; -ESTALE
 * (logged); another negative errno. */
int targets__verify_plan(const struct torch_proc *tp, const struct shared_plan *sp);
/* Its agent is not used, or not any more: for the user, and for the capture. */
void targets__say_agent(const struct targets *ts, struct target *t, const char *why);
/* Sends requests to the process's agent, if it has one, and waits for the answer where nothing is
 * missed meanwhile. */
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

/* Samples that say which operator was open: only where the process's agent keeps that. */

/* Requests it of the agent, if it has one and torch; else target_open__follow() does when there
 * is. */
void target_open__begin(struct targets *ts, struct target *t, const struct torch_proc *tp);
/* For sampled processes, in each round. */
void target_open__follow(struct targets *ts, struct target *t);

#endif /* RECORD_TARGETS_H */
