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

/* an address may not be readable yet (record: libraries are still being loaded) */
#define ASK_TIMES_MAX 5

/* What is known of a process. Lives longer than its torch_proc. */
struct recorder_proc {
	uint32_t tgid;
	int pidfd;
	bool old_string_abi;
	uint64_t tensor_class;   /* where THPVariableClass points to torch.Tensor; 0: unknown */
	char *groups;            /* JSON of the last reading; NULL: none */
	uint64_t next_groups_ns; /* time of the next reading */
	uint64_t groups_wait_ns; /* interval between readings */
	bool gone;               /* exited or exec'd: its memory cannot be read any more */
	bool table_too_large;    /* already counted */
	uint64_t singletons[TORCH_LIB_ROLES];
	uint32_t singleton_cnt;
	uint64_t last_table_ns; /* when the dispatcher's table was last read */
	uint64_t table_cost_ns; /* duration of that reading */
	/* at the last poll: last operator of the table; time of the next poll */
	uint64_t tail, next_poll_ns;
	uint32_t observed_off;  /* live_ops.observed_off; 0: the table has not been read */
	bool tail_known;        /* all operators up to tail are known */
	bool by_agent;          /* an agent sends its operators and their names */
	struct hashmap unknown; /* (address, UNKNOWN_*) -> number of requests */
	uint64_t demangle_ns;   /* processor time spent on demangling names of classes */
	/* OperatorDef* called boxed, without a known schema -> number of requests */
	struct hashmap no_schema;
	struct live_schema_layout schema_layout;
	bool schemas_readable;
	uint64_t schemas_ns; /* processor time spent on reading schemas */
	/* dispatch keys of tensors whose fields do not describe their shape */
	uint64_t nested_keys;
	uint32_t checked, bad; /* tensors checked, and implausible ones among them */
	bool bad_layout, bad_reported;
	struct py_codes *py; /* NULL: its Python stacks are not read */
	/* (code, at and check) of frames whose PY_LINE is in the capture */
	struct hashmap py_frames;
	struct py_modules *py_modules; /* recorder_modules.c; NULL: none yet */
};

struct recorder {
	struct capture_writer *cw;
	recorder_task_fn task_fn;
	recorder_drain_fn drain_fn;
	void *task_arg;
	struct strtab *names;
	struct hashmap threads;      /* (tgid, tid) -> name id */
	struct hashmap thread_names; /* the same for Python's own names of threads */
	struct hashmap opdefs;       /* (tgid, address) -> name id */
	struct hashmap schemas;      /* (tgid, OperatorDef*) of schemas in the capture */
	struct hashmap planned;      /* name ids of operators with a schema in the plan */
	struct hashmap classes;      /* (tgid, vptr) of known classes */
	/* (tgid, address of a map of all processes) -> this process's entries in it */
	struct hashmap shares;
	struct recorder_proc *procs;
	uint32_t proc_cnt, proc_cap;
	uint32_t next_func, next_site;
	uint64_t records;
	uint64_t over_names, over_operators, over_unknown, over_agent, gpu_no_times;
	uint64_t last_tgid_tid; /* thread of the previous record, already known */
	bool args;
	bool identities;
	bool memory;
	bool op_left; /* an operator has left the dispatcher: another one may have its address */
	bool cuda_calls;
	bool torch_version; /* it is in the capture */
	int error;
	uint64_t begin_ns, end_ns; /* the window; 0: not yet */
	bool holding;              /* the capture is held in memory */
	struct host_funcs *host_funcs;
	/* (tgid, address of a host stub) of stubs that have been resolved */
	struct hashmap kernels;
	/* for all processes (recorder_python.c) */
	uint64_t py_frames, py_bytes;
	uint64_t py_codes_gone, py_classes_gone;
	/* recorder_steps.c; NULL: steps are not counted */
	struct step_count *steps;
	struct step_rule step_rule;
	/* tgid -> name id of PTBPF_STEP_ON in its environment; 0: none */
	struct hashmap step_names;
	struct step_opts step_opts;
	uint64_t event_text;              /* hash of the annotation's name; 0: none */
	struct recorder_site *step_sites; /* by site id */
	uint32_t step_site_cnt, step_site_cap;
	bool warming_up;
	/* recorder_agent.c */
	struct agent_proc **agents;
	struct agent_queued {
		uint64_t ts_ns, nr; /* nr: order of reading */
		struct ptb_agent_data *rec;
	} * agent_queue;
	uint64_t agent_queue_nr, rings_read_ns; /* rings_read_ns: time of the last reading */
	uint32_t agent_queue_cnt, agent_queue_cap;
	uint32_t agent_cnt, agent_cap;
	uint64_t agent_counts[PTB_CNT_AGENT_REFUSED - PTB_CNT_AGENT_LOST + 1];
	bool agent_gpu;
};

void recorder__put(struct recorder *r, uint8_t kind, struct ptb_rec_hdr *h, uint32_t len);
/* Writes a struct ptb_text with the ids of head. Cuts a text that is too long for a record. */
void recorder__put_text(struct recorder *r, uint8_t kind, const struct ptb_text *head,
			const char *text, size_t len);
/* Writes a record from a ring, unchanged. */
void recorder__put_ring(struct recorder *r, uint32_t ring, const struct ptb_rec_hdr *h);
/* Id of a name in the capture, cut at its limit; 0: too many names (counted). tgid: the process
 * that has the name; 0: none. */
uint32_t recorder__name(struct recorder *r, uint32_t tgid, const char *text);
/* The same without a limit on the length; for schemas. */
uint32_t recorder__text(struct recorder *r, uint32_t tgid, const char *text);
/* Adds an address of a process to a map with a limit, or removes it. */
void recorder__remember(struct recorder *r, struct hashmap *m, uint32_t tgid, uint64_t key,
			uint64_t val);
void recorder__forget(struct recorder *r, struct hashmap *m, uint32_t tgid, uint64_t key);
/* May the process add an entry to the map? Counts a refusal. */
bool recorder__has_room(struct recorder *r, const struct hashmap *m, uint32_t tgid);
void recorder__know_thread(struct recorder *r, uint32_t tgid, uint32_t tid, uint32_t name);
void recorder__thread(struct recorder *r, uint32_t tgid, uint32_t tid, const char *comm);
void recorder__addr_name(struct recorder *r, uint8_t kind, uint32_t tgid, uint64_t addr,
			 const char *name, uint32_t flags);
void recorder__class(struct recorder *r, uint32_t tgid, uint64_t vptr, const char *name);
void recorder__opdef_gone(struct recorder *r, const struct ptb_opdef_gone *g);
void recorder__opdef(struct recorder *r, uint32_t tgid, uint64_t addr, const char *name,
		     uint32_t flags);

void recorder__peek(struct recorder *r, const struct ptb_rec_hdr *h);
uint64_t recorder__unresolved(const struct recorder *r);
/* Is it still the process that was attached to? To be checked after its memory is read and before
 * the result is used. */
bool recorder__is_there(const struct recorder_proc *p);
struct recorder_proc *recorder__find_proc(struct recorder *r, uint32_t tgid); /* NULL: none */

/* ---- recorder_job.c ---- */
void recorder__job(struct recorder *r, uint32_t tgid);
/* Of the first process where it is known. */
void recorder__torch_version(struct recorder *r, const struct torch_proc *tp);
/*
 * A program may create process groups at any time and end before the recording does. They are read
 * GROUPS_WAIT_NS after its begin, then after twice as long each time, and at the end.
 */
#define GROUPS_WAIT_NS 500000000u
void recorder__watch_groups(struct recorder *r, struct recorder_proc *p, bool at_end);

/* ---- recorder_threads.c ---- */
/* Names that Python gives to the process's threads, as far as they are new. */
void recorder__thread_names(struct recorder *r, struct recorder_proc *p);

/* ---- recorder_args.c ---- */
void recorder__plan_schemas(struct recorder *r, const struct torch_plan *plan, uint32_t func_base);
void recorder__keys(struct recorder *r, const struct torch_plan *plan, uint32_t tgid);
void recorder__boxed_call(struct recorder *r, uint32_t tgid, uint64_t opdef);
void recorder__resolve_schemas(struct recorder *r, struct recorder_proc *p);
void recorder__check_layout(struct recorder *r, const struct ptb_rec_hdr *h);

/* ---- recorder_python.c ---- */
/* Resolves the frames of a PY_STACK_DEF before it goes into the capture, and removes frames that do
 * not belong to the program. 0; -EINVAL: the record is damaged. */
int recorder__py_stack(struct recorder *r, struct ptb_py_stack_def *def);
void recorder__py_forget(struct recorder *r, struct recorder_proc *p);
/* Address of the main interpreter's state; 0: its stacks are not read. */
uint64_t recorder__interp(const struct recorder_proc *p);

/* ---- recorder_modules.c ---- */
/* Finds the paths of the modules in the outermost one of a stack, whose frame this is. */
void recorder__module_root(struct recorder *r, struct recorder_proc *p,
			   const struct ptb_py_frame *f);
/* Reads further modules, in a part of this round. */
void recorder__modules_go_on(struct recorder *r, struct recorder_proc *p);
/* Adds the path to the line of a module's frame. */
void recorder__module_line(struct recorder *r, struct recorder_proc *p, struct ptb_py_line *rec);
void recorder__modules_forget(struct recorder_proc *p);

/* ---- recorder_steps.c ---- */
/* If something is to mark the ends of steps. */
void recorder__steps_open(struct recorder *r, const struct record_opts *all);
void recorder__steps_free(struct recorder *r);
void recorder__steps_plan(struct recorder *r, const struct torch_plan *plan,
			  const struct recorder_plan *rp);
/* name: PTBPF_STEP_ON in the process's environment; NULL: it is not set. */
void recorder__steps_process(struct recorder *r, uint32_t tgid, const char *name);
/* Needs r->steps. An agent's record has its time as CLOCK_MONOTONIC. */
void recorder__steps_record(struct recorder *r, const struct ptb_rec_hdr *h);

#endif /* RECORD_RECORDER_PRIV_H */
