/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Shared by the recorder's files only. */
#ifndef RECORD_RECORDER_PRIV_H
#define RECORD_RECORDER_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/containers.h"
#include "capture/capture.h"
#include "record/recorder.h"
#include "steps/step_events.h"
#include "target/torch.h"

/* Counts the hits of probes by process: a limit on their cost protects each process, and not their
 * average. */

struct cost_meter {          /* zeroed: no hits */
	struct hashmap hits; /* by process */
	uint64_t cnt;        /* all */
	uint64_t nobodys;    /* of these, whose is not known */
	uint32_t tgid;       /* whose hits `run` are, not in the map yet */
	uint64_t run;
};

void cost_meter__clear(struct cost_meter *m);
/* The hits of a thread come one after the other, mostly: one comparison for most of them. */
static inline void cost_meter__hit(struct cost_meter *m, uint32_t tgid);
/* Brings cnt up to date. */
void cost_meter__settle(struct cost_meter *m);
/* The hits of one process. */
uint64_t cost_meter__of(struct cost_meter *m, uint32_t tgid);

static inline void cost_meter__hit(struct cost_meter *m, uint32_t tgid)
{
	if (tgid != m->tgid) {
		cost_meter__settle(m);
		m->tgid = tgid;
	}
	m->run++;
}

/* The process groups of torch.distributed in a process: what torch.profiler writes of them as
 * `distributedInfo`. */

/*
 * A JSON object from malloc, without pg_config where not all of that could be read or it is too
 * much. NULL: torch.distributed is not initialized, or could not be read. tensor_class: address of
 * a pointer to the type torch.Tensor (libtorch_python's THPVariableClass), 0: not known.
 * old_string_abi: as of remote__read_string().
 */
char *process_groups__read(pid_t pid, uint64_t tensor_class, bool old_string_abi);

#define ASK_TIMES_MAX 5 /* an address may not be readable yet (record: libraries still load) */

/* What is known of a process; it lives longer than its torch_proc. */
struct recorder_proc {
	uint32_t tgid;
	int pidfd;
	bool old_string_abi;
	uint64_t tensor_class;   /* for process_groups__read() */
	char *groups;            /* its last result, NULL: none */
	uint64_t next_groups_ns; /* when to read the groups again, */
	uint64_t groups_wait_ns; /* so long after the last time */
	bool gone;               /* exited or exec'd: its memory can no longer be read */
	bool table_too_large;    /* counted once */
	uint64_t singletons[TORCH_LIB_ROLES];
	uint32_t singleton_cnt;
	uint64_t last_table_ns; /* when the dispatcher's table was last read */
	uint64_t table_cost_ns; /* how long that took */
	/* last operator of the table when last polled; when to poll again */
	uint64_t tail, next_poll_ns;
	uint32_t observed_off;    /* live_ops.observed_off, 0: the table was not read yet */
	bool tail_known;          /* operators up to tail are known */
	bool by_agent;            /* an agent sends its operators with their names */
	struct hashmap unknown;   /* (address, UNKNOWN_*) -> times requested */
	uint64_t demangle_ns;     /* processor time spent on names of classes */
	struct hashmap no_schema; /* OperatorDef* called boxed, schema not known -> times asked */
	struct live_schema_layout schema_layout;
	bool schemas_readable;
	uint64_t schemas_ns;   /* processor time spent on reading schemas */
	uint64_t nested_keys;  /* dispatch keys of tensors whose fields are not their shape */
	uint32_t checked, bad; /* tensors that were checked, and those that were implausible */
	bool bad_layout, bad_reported;
	struct py_codes *py;      /* NULL: its Python stacks are not read */
	struct hashmap py_frames; /* frames whose PY_LINE is in the capture: (code, at and check) */
};

struct recorder {
	struct capture_writer *cw;
	recorder_task_fn task_fn;
	recorder_drain_fn drain_fn;
	void *task_arg;
	struct strtab *names;
	struct hashmap threads; /* (tgid, tid) known by name */
	struct hashmap opdefs;  /* (tgid, address) -> name id */
	struct hashmap schemas; /* (tgid, OperatorDef*) whose schema is in the capture */
	struct hashmap planned; /* name ids of operators whose schema the plan has */
	struct hashmap classes; /* (tgid, vptr) known */
	/* (tgid, address of a map of all processes) -> entries of this process */
	struct hashmap shares;
	struct recorder_proc *procs;
	uint32_t proc_cnt, proc_cap;
	uint32_t next_func, next_site;
	uint64_t records;
	uint64_t over_names, over_operators, over_unknown, over_agent, gpu_no_times;
	uint64_t last_tgid_tid; /* thread of the record before, which is known */
	bool args;              /* arguments are recorded */
	bool identities;        /* of tensors are */
	bool memory;            /* allocations are */
	bool op_left;    /* an operator left the dispatcher: its address may be another's now */
	bool cuda_calls; /* CUDA calls of the host are recorded */
	int error;
	uint64_t begin_ns, end_ns; /* of the window, 0: not yet */
	bool holding;              /* the capture is held in memory */
	struct host_funcs *host_funcs;
	struct hashmap kernels; /* (tgid, address of a host stub) that was looked up */
	/* Python (recorder_python.c), over all processes */
	uint64_t py_frames, py_bytes;
	uint64_t py_codes_gone, py_classes_gone;
	/* steps (recorder_steps.c); steps NULL: they are not counted */
	struct step_count *steps;
	struct step_rule step_rule;
	/* tgid -> id in names of what its environment names instead; 0: nothing */
	struct hashmap step_names;
	struct step_opts step_opts;
	uint64_t event_text;              /* hash of the annotation's name, 0: none */
	struct recorder_site *step_sites; /* by site id */
	uint32_t step_site_cnt, step_site_cap;
	bool warming_up;
	/* agents (recorder_agent.c) */
	struct agent_proc **agents;
	struct agent_queued {
		uint64_t ts_ns, nr; /* nr: in the order read */
		struct ptb_agent_data *rec;
	} * agent_queue;
	uint64_t agent_queue_nr, rings_read_ns; /* when they were last read */
	uint32_t agent_queue_cnt, agent_queue_cap;
	uint32_t agent_cnt, agent_cap;
	uint64_t agent_counts[PTB_CNT_AGENT_REFUSED - PTB_CNT_AGENT_LOST + 1];
	bool agent_gpu;
};

void recorder__put(struct recorder *r, uint8_t kind, struct ptb_rec_hdr *h, uint32_t len);
/* A struct ptb_text with the ids of head. A text that is too long for a record is cut. */
void recorder__put_text(struct recorder *r, uint8_t kind, const struct ptb_text *head,
			const char *text, size_t len);
/* A record as it came from a ring. */
void recorder__put_ring(struct recorder *r, uint32_t ring, const struct ptb_rec_hdr *h);
/* Id of a name in the capture, where it is cut at its limit; 0: there are too many, which is
 * counted. tgid: the process that it comes from, 0: none. */
uint32_t recorder__name(struct recorder *r, uint32_t tgid, const char *text);
/* uncut, for schemas */
uint32_t recorder__text(struct recorder *r, uint32_t tgid, const char *text);
/* Puts an address of a process into a map that has a limit, and takes it out. */
void recorder__remember(struct recorder *r, struct hashmap *m, uint32_t tgid, uint64_t key,
			uint64_t val);
void recorder__forget(struct recorder *r, struct hashmap *m, uint32_t tgid, uint64_t key);
/* May the process have another entry in it? If not, counts it. */
bool recorder__has_room(struct recorder *r, const struct hashmap *m, uint32_t tgid);
void recorder__know_thread(struct recorder *r, uint32_t tgid, uint32_t tid, uint32_t name);
void recorder__thread(struct recorder *r, uint32_t tgid, uint32_t tid, const char *comm);
void recorder__addr_name(struct recorder *r, uint8_t kind, uint32_t tgid, uint64_t addr,
			 const char *name, uint32_t flags);
void recorder__class(struct recorder *r, uint32_t tgid, uint64_t vptr, const char *name);
/* An operator left the dispatcher. */
void recorder__opdef_gone(struct recorder *r, const struct ptb_opdef_gone *g);
void recorder__opdef(struct recorder *r, uint32_t tgid, uint64_t addr, const char *name,
		     uint32_t flags);

void recorder__peek(struct recorder *r, const struct ptb_rec_hdr *h);
uint64_t recorder__unresolved(const struct recorder *r);
/* Is it still the process that was attached to? Asked after reading its memory and before believing
 * that. */
bool recorder__is_there(const struct recorder_proc *p);
struct recorder_proc *recorder__find_proc(struct recorder *r, uint32_t tgid); /* NULL: none */

/* ---- recorder_job.c ---- */
void recorder__job(struct recorder *r, uint32_t tgid);
/*
 * A program makes process groups while it runs, and may end before the recording does: they are
 * read GROUPS_WAIT_NS after the begin, then after twice as long each time, and at the end.
 */
#define GROUPS_WAIT_NS 500000000u
void recorder__watch_groups(struct recorder *r, struct recorder_proc *p, bool at_end);

/* ---- recorder_args.c ---- */
void recorder__plan_schemas(struct recorder *r, const struct torch_plan *plan, uint32_t func_base);
void recorder__keys(struct recorder *r, const struct torch_plan *plan, uint32_t tgid);
void recorder__boxed_call(struct recorder *r, uint32_t tgid, uint64_t opdef);
void recorder__resolve_schemas(struct recorder *r, struct recorder_proc *p);
void recorder__check_layout(struct recorder *r, const struct ptb_rec_hdr *h);

/* ---- recorder_python.c ---- */
/* Resolves the frames of a PY_STACK_DEF before it goes into the capture, and takes out those that
 * are not the program's. 0; -EINVAL: it is damaged. */
int recorder__py_stack(struct recorder *r, struct ptb_py_stack_def *def);
void recorder__py_forget(struct recorder *r, struct recorder_proc *p);

/* ---- recorder_steps.c ---- */
void recorder__steps_open(struct recorder *r, const struct step_opts *opts);
void recorder__steps_free(struct recorder *r);
void recorder__steps_plan(struct recorder *r, const struct torch_plan *plan,
			  const struct recorder_plan *rp);
/* name: PTBPF_STEP_ON of the process's environment; NULL: it has none. */
void recorder__steps_process(struct recorder *r, uint32_t tgid, const char *name);
/* With r->steps: a record of a ring, or an agent's with its time as CLOCK_MONOTONIC. */
void recorder__steps_record(struct recorder *r, const struct ptb_rec_hdr *h);

#endif /* RECORD_RECORDER_PRIV_H */
