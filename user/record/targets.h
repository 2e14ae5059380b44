/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The processes of one recording: their states, their facts, and the plans that they share. Defines
 * the order open, plan, attach for one process; run.c decides when.
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

struct remote_mem;
struct target;
struct targets;

/* The CPython of one target: the layout that its stacks are read with, or the reason why they are
 * not read. */

enum python_state {
	PYTHON_UNKNOWN, /* not searched for yet, or stacks are not recorded */
	PYTHON_NONE,    /* the process has no CPython */
	PYTHON_READ,
	PYTHON_REFUSED,
};

struct target_python {
	enum python_state state;
	struct ptb_py_layout layout; /* READ; REFUSED: only the version, if known */
	struct py_code_end code_end;
	bool gil_known;        /* it was searched for */
	struct ptb_py_gil gil; /* end 0: it was not found */
	/* of garbage, in the window; before its end: until it began */
	uint64_t collections[PY_GENERATIONS];
	bool counted;       /* they are known */
	uint32_t code_ends; /* index of the process of the probe set that counts code_end's hits */
	char why[PY_INTERP_WHY + 64]; /* REFUSED */
};

/* Finds and verifies the CPython, unless the state is known. Takes some time. Reports and counts a
 * refusal. */
void target_python__find(struct targets *ts, struct target *t);
/*
 * Likewise for a process that may not be ready yet. 0; -EAGAIN: no Python runs in it
 * (t->python.why); -ETIMEDOUT: the search takes too long (reported and counted); another negative
 * errno.
 */
int target_python__await(struct targets *ts, struct target *t);
/* With opts->sched: waits for its GIL are known as such from now on. Takes some time. */
void target_python__use_gil(struct targets *ts, struct target *t);
/* Records stacks at the probes of process `idx` of the probe set from now on, and samples beside
 * them. */
void target_python__use(struct targets *ts, struct target *t, uint32_t idx);
/* Writes META "python" if stacks are recorded. */
void target_python__meta(const struct targets *ts);
/* When the window begins and when it has ended. */
void target_python__count_collections(struct targets *ts, bool end);

/*
 * The probes in CUDA's libraries of one target: in any number of libraries, whenever they are
 * loaded, as long as the agent does not record the GPUs. Never reads the target.
 */

struct cuda_lib {
	struct torch_lib lib; /* a copy */
	enum torch_lib_role role;
	uint32_t plan; /* index into targets.plans */
};

enum cuda_purpose { CUDA_MEMORY, CUDA_CALLS, CUDA_PURPOSES };

struct cuda_probes {   /* each purpose has its own, which are attached and detached separately */
	uint32_t idx;  /* in the probe set, while on */
	uint32_t done; /* number of libraries that have been handled */
	bool on;
};

struct target_cuda {
	struct cuda_lib *libs;
	uint32_t cnt, cap;
	struct cuda_probes probes[CUDA_PURPOSES];
	bool over;           /* it has more libraries than are probed (counted once) */
	bool called;         /* calls have been probed */
	bool warned;         /* the user knows that the agent does not record GPUs */
	uint64_t code_bytes; /* size of the mapped code at the last poll */
	uint64_t digest;     /* of the files mapped then that may be CUDA's */
	uint64_t polled_ns;
};

/* Makes and caches the plans of the libraries that are mapped. Before the plan of torch. */
void target_cuda__plan(struct targets *ts, const struct torch_proc *tp, bool no_cache);
/* Attaches to the libraries in tp. Reports and skips those that cannot be probed. */
void target_cuda__attach(struct targets *ts, struct target *t, const struct torch_proc *tp);
/* At a bounded pace, checks for libraries that were loaded later, and whether the agent still
 * records GPUs. */
void target_cuda__follow(struct targets *ts, struct target *t);
/* Removes the probes of a program that has ended. */
void target_cuda__clear(struct target_cuda *tc, struct probe_set *ps);
void target_cuda__free(struct target_cuda *tc);

/*
 * The agent of one target: finds it (or loads it on request), sends requests, waits for answers,
 * withdraws the requests. Decides what is requested, and keeps the reasons against it. Reads no
 * chunks and no records.
 */

enum agent_answer {
	AGENT_PENDING, /* it has not answered yet */
	AGENT_DONE,    /* it records what it can: ta->ops, ta->gpu */
	AGENT_SILENT,  /* it records nothing, or has ended: ta->why */
};

struct target_agent {
	struct agent_lib lib;
	struct probe_agent sites;
	uint32_t proc_idx; /* of its sites, in the probe set */
	uint32_t requests;
	uint64_t requested_ns, gpu_polled_ns;
	enum agent_answer answer;
	bool ops, gpu; /* what it records; with samples, ops: it keeps the open operators */
	bool graphs_requested, graphs; /* of the nodes of CUDA graphs */
	bool injected;
	/* It was loaded after the requests: it records GPUs only, and probes record CUDA calls
	 * until then. */
	bool late;
	bool patient;   /* the process is still being loaded, so the answer may take long */
	bool no_values; /* it has stopped recording inputs and outputs */
	uint32_t ops_why, gpu_why, cupti_version;
	char why[256]; /* a sentence: why it is not used, or not for all requests */
};

/*
 * Finds the agent of pid. If opts request it, loads the agent into the program whose memory is
 * `mem` (inject.h). Returns NULL if there is no agent or it may not be used; *why (of cap bytes)
 * then has a sentence for the user, or "". The caller frees with target_agent__free().
 */
struct target_agent *target_agent__find(pid_t pid, struct remote_mem *mem,
					const struct record_opts *opts, char *why, size_t cap);
void target_agent__free(struct target_agent *ta); /* NULL is fine */
bool target_agent__is_there(pid_t pid);           /* whether it answers or not */
/* Has the process an agent that would answer? */
bool target_agent__is_awake(pid_t pid);

/* Attaches to the agent's sites and sends the requests. stacks: request operators only with Python
 * stacks. 0 or negative errno (ta->why). */
int target_agent__request(struct target_agent *ta, pid_t pid, const struct record_opts *opts,
			  bool stacks, struct proc_ops *po, struct probe_set *ps,
			  struct recorder *rec);
/* The answer so far. */
enum agent_answer target_agent__poll(struct target_agent *ta, pid_t pid);
/* Has it stopped recording operators (ta->why)? Notes in ta->no_values that it has stopped
 * recording values. */
bool target_agent__gave_up(struct target_agent *ta, const struct recorder *rec, pid_t pid);
/* Updates ta->gpu while the process lives: an agent may start or stop recording GPUs at any
 * time. */
void target_agent__note_gpu(struct target_agent *ta, pid_t pid);
/* Does the agent record operators, or may it still begin to? NULL: no. */
bool target_agent__has_ops(const struct target_agent *ta);
/* Does the agent record GPUs, or wait for the process to use CUDA? CUDA calls then need no probes.
 * NULL: no. */
bool target_agent__has_gpu(const struct target_agent *ta);
/* Has it refused to record the GPUs for good? False for a process that does not use CUDA. */
bool target_agent__gpu_refused(const struct target_agent *ta);
/* Withdraws all requests. */
void target_agent__dismiss(struct target_agent *ta, struct probe_set *ps);
/* Has it sent everything? True for a process that has ended. */
bool target_agent__is_quiet(const struct target_agent *ta, pid_t pid);

/* The path of the agent's file beside this program. 0 or -ENOENT. */
int target_agent__file(char *buf, size_t cap);

/* With opts->called_ops: the operators of one target that had not been called, and have no
 * probes. */
struct target_calls {
	uint64_t *handles; /* addresses of their handles */
	uint32_t cnt, cap;
};

/* Is it an operator that the process has not called? Notes it. False where that is not known. */
bool target_calls__skip(struct target *t, const struct torch_proc *tp, const struct plan_func *pf);
/* How many of those noted have been called by now. */
uint32_t target_calls__new(const struct target *t);
void target_calls__clear(struct target_calls *c);

enum target_state { TARGET_WAITING, TARGET_TRACED, TARGET_GONE };

struct target {
	pid_t pid;
	int pidfd; /* negative: the process had ended */
	/* With --agent inject, during the attach: the memory of the examined program; else NULL. */
	struct remote_mem *mem;
	enum target_state state;
	uint32_t parent;
	bool inherits;          /* forked from a traced process without an exec: it has torch */
	uint64_t born_ns;       /* time of its fork or exec in the window; 0: it is older */
	uint64_t main_ended_ns; /* end of its main thread, while others live on; 0: none */
	/* Its probes are removed at this cost; 0: no limit. A fork has its parent's. */
	uint64_t max_cost_ns;
	uint64_t throttled_ns; /* proc__throttled_ns() when it was attached to, with opts->sched */
	uint64_t changes_ns;   /* processor time of placing and removing its probes */
	uint64_t bare_hits;    /* hits without a record, at the last reading */
	uint64_t cut_ns; /* GONE: when it lost its probes because of its cost; 0: it did not */
	bool over_cost;  /* it has reached max_cost_ns */
	bool unprobed;   /* TRACED: no more operators are probed, only names of annotations, */
	uint64_t max_names_ns; /* until this cost; 0: no limit */
	uint64_t next_try_ns;  /* WAITING: time of the next poll */
	uint32_t tries;        /* WAITING: number of polls */
	uint32_t proc_idx;     /* TRACED */
	/* TRACED before torch had registered its operators (record): what is read from its
	 * dispatcher's table is read again. */
	bool facts_missing, no_args;
	struct target_agent *agent; /* NULL: none has requests */
	char agent_why[256];        /* why no agent is used; "": nothing to report */
	uint64_t next_facts_ns;
	struct target_calls calls;
	struct target_cuda cuda;
	struct target_python python; /* a fork has its parent's */
	bool sampled;                /* samples are its only records */
	/* its agent was asked for the open operators; samples have them */
	bool open_tried, open_known;
};

/* Kinds of functions. The refusals of a kind are recorded when it is to be probed. */
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
	uint32_t args_base; /* of its argument programs; 0: not loaded */
};

struct targets { /* a zeroed struct can make plans and has nothing attached */
	struct probe_set *ps;
	struct recorder *rec;
	const struct record_opts *opts;
	enum probe_args kernel_args; /* what kernel probes read: opts->args, or nothing */
	bool active;
	bool stopped; /* the processes are stopped, so their agents cannot answer */
	struct target *items;
	uint32_t cnt, cap;
	struct shared_plan *plans;
	uint32_t plan_cnt, plan_cap;
	uint64_t plan_ns, attach_ns;
	uint64_t probes, refused, uncovered_ns, cuda_late_ns, children_missed;
	uint64_t over_processes; /* processes beyond LIMIT_PROCESSES */
	uint64_t over_libs;      /* processes with more than LIMIT_CUDA_LIBS */
	/* agents whose process ended, or that stopped answering, with unsent records */
	uint64_t agents_cut;
	uint64_t agents_restarted; /* restarts of recording within the window */
	/* agents that stopped within a window; records are missing until probes were placed */
	uint64_t agents_gave_up;
	/* processes without shapes; arguments with unknown locations */
	uint64_t no_shapes, unplaced;
	uint64_t new_ops;   /* operators without probes that were called in the window */
	uint64_t no_stacks; /* processes whose Python stacks cannot be read */
};

void targets__free(struct targets *ts);
/* The newest target with this pid that is not gone, or NULL. */
struct target *targets__find(struct targets *ts, pid_t pid);
struct target *targets__find_any(struct targets *ts, pid_t pid); /* likewise, gone or not */
/* Charges the target with all changes since probe_set__share_ns() returned share_ns. */
void targets__charge(struct targets *ts, struct target *t, uint64_t share_ns);
/* From now on nothing is probed in it but names of annotations, the second time not even these. An
 * agent, samples and waits go on. */
void targets__remove_probes(struct targets *ts, struct target *t);
/* NULL: beyond LIMIT_PROCESSES (logged). */
struct target *targets__add(struct targets *ts, pid_t pid, uint32_t parent, uint64_t born_ns);
uint32_t targets__count(const struct targets *ts, enum target_state state);

/* Reports why a process cannot be opened. */
void targets__say_why(pid_t pid, enum torch_proc_why why, int err);

/* The plan of an array of libraries by role, made or reused. NULL: an error (logged). */
struct shared_plan *targets__plan(struct targets *ts, const struct torch_lib *libs, bool no_cache);

/* The probe of a site of the plan, without arguments. */
struct probe_site targets__site(const struct shared_plan *sp, uint32_t i);

/* Attaches to one process and records its facts. 0; -EAGAIN: torch is not completely mapped;
 * another negative errno (reported). */
int targets__attach(struct targets *ts, struct target *t);
/* Reads facts again that a process's dispatcher did not have at the attach. */
void targets__renew_facts(struct targets *ts);

/* Attaches to CUDA libraries that were loaded later, and to those of processes whose agent no
 * longer records GPUs. */
void targets__follow_cuda(struct targets *ts);
/* Records and counts, once, the plan's refusals of one kind. */
void targets__record_refusals(struct targets *ts, struct shared_plan *sp, enum refusals kind);
/* Records and counts functions that the kernel refused to probe. */
void targets__report_refusals(struct targets *ts, const struct shared_plan *sp,
			      const struct probe_lib *libs, uint32_t lib_cnt);

/* Verifies that every site of the plan is in the process's libraries and memory. Must precede any
 * use of the plan for the process. 0; -ESTALE (logged); another negative errno. */
int targets__verify_plan(const struct torch_proc *tp, const struct shared_plan *sp);
/* Reports to the user and in the capture why the process's agent is not used, or no longer used. */
void targets__say_agent(const struct targets *ts, struct target *t, const char *why);
/* Sends the requests to the process's agent, if it has one. XX */
void targets__request_agent(struct targets *ts, struct target *t, struct proc_ops *po);
/* Polls the agents that have not answered. Replaces those that do not answer by probes. */
void targets__settle_agents(struct targets *ts);
/* Withdraws all requests. */
void targets__dismiss_agents(struct targets *ts);
/* Have all agents sent everything? */
bool targets__agents_quiet(const struct targets *ts);
/* Number of processes whose agent could not record the GPUs as requested. */
uint64_t targets__gpu_refused(const struct targets *ts);
/* Writes META "agent" if there is something to report. */
void targets__agents_meta(const struct targets *ts);

/* Records the memory figures of the traced processes from /proc. */
void targets__sample_memory(const struct targets *ts);

/* Samples with the open operator, which the process's agent keeps. */

/* Requests the open operators from the agent. target_open__follow() does so later if the process
 * has no torch yet. */
void target_open__begin(struct targets *ts, struct target *t, const struct torch_proc *tp);
/* Called in each round for sampled processes. */
void target_open__follow(struct targets *ts, struct target *t);

#endif /* RECORD_TARGETS_H */
