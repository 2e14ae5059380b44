/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writes one capture: the records of the rings as they come, and the facts that make them readable
 * without the target (names, plan, processes, threads, clocks, losses, counters). Peeks at a
 * record's kind only to find out what must be read of the target while it lives: unknown addresses,
 * new threads, forks. Never interprets operators.
 */
#ifndef RECORD_RECORDER_H
#define RECORD_RECORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/jsonw.h"
#include "plan/plan.h"
#include "ptb_event.h"
#include "ptb_python.h"
#include "record/run.h"
#include "target/proc_info.h"

struct recorder;
struct step_count;

/* A task record (fork, exec, exit) that the run loop must act on. */
typedef void (*recorder_task_fn)(void *arg, const struct ptb_task *task);
/* Reads the rings, and ends no round. */
typedef void (*recorder_drain_fn)(void *arg);

/* With opts->steps.only path is NULL, and nothing is written. */
int recorder__open(const char *path, recorder_task_fn fn, void *arg, const struct record_opts *opts,
		   struct recorder **out);
/* fn is called with the arg of recorder__open(), now and then, while agents' chunks are
 * unpacked. */
void recorder__set_drain(struct recorder *r, recorder_drain_fn fn);
int recorder__dup_capture(const struct recorder *r); /* capture_writer__dup() */
/* Seals and closes; returns what capture_writer__close() does. */
int recorder__close(struct recorder *r);
/* Frees r and removes its file. NULL is fine. */
void recorder__discard(struct recorder *r);

void recorder__meta(struct recorder *r, const char *key, const char *json);
/* META whose JSON write_value() writes. */
void recorder__meta_json(struct recorder *r, const char *key,
			 void (*write_value)(struct jsonw *w, const void *arg), const void *arg);
/* META with the text as a JSON string. */
void recorder__meta_text(struct recorder *r, const char *key, const char *text);
/* Identifies the boot and the pid namespace: captures with the same boot share CLOCK_MONOTONIC,
 * those with the same namespace share the numbers of processes. */
void recorder__machine(struct recorder *r);
void recorder__clock(struct recorder *r);
void recorder__window(struct recorder *r, bool begin, uint64_t ts_ns, uint32_t reason);
/* Holds what comes from ts_ns on in memory (capture_writer__hold()); the window begins with
 * recorder__release(). 0 or negative errno. */
int recorder__hold(struct recorder *r, uint64_t ts_ns, uint64_t keep_ns, uint64_t max_bytes);
/* Writes what is held. *since_ns: nothing was dropped from this time on; 0: nothing at all. */
void recorder__release(struct recorder *r, uint64_t *since_ns);
/* Agents' records after ts_ns are not written; called before the last drains. */
void recorder__window_ends(struct recorder *r, uint64_t ts_ns);
void recorder__counter(struct recorder *r, uint32_t id, uint64_t value);
void recorder__rss(struct recorder *r, uint32_t tgid, const struct proc_memory *mem);
void recorder__lost(struct recorder *r, uint32_t ring, uint64_t begin_ns, uint64_t end_ns,
		    uint64_t cnt);

/* Writes the functions and sites of a plan; plan->sites[i] has the site id rp->site_base + i. Sites
 * that the kernel refused follow by recorder__refused_site(), before the process's first record. */
struct recorder_plan {
	uint32_t func_base, site_base;
};
void recorder__plan(struct recorder *r, const struct torch_plan *plan, const struct torch_lib *libs,
		    struct recorder_plan *rp);
/* Writes the functions that are wanted and that the plan refuses, before the process's first
 * record. Returns their number. */
uint32_t recorder__refusals(struct recorder *r, const struct torch_plan *plan,
			    const struct recorder_plan *rp,
			    bool (*wanted)(const struct plan_func *pf));
void recorder__refused_site(struct recorder *r, const struct torch_plan *plan,
			    const struct recorder_plan *rp, uint32_t site);

/* Writes a process that is traced from start_ns on, its classes and threads. After
 * recorder__learn(). */
struct recorder_process {
	uint32_t parent;
	bool by_agent; /* its agent records operators */
	uint64_t start_ns, gap_ns;
};
void recorder__process(struct recorder *r, const struct torch_proc *tp,
		       const struct torch_plan *plan, const struct recorder_process *rp);
/* The process has no probes any more. */
void recorder__unprobed(struct recorder *r, uint32_t tgid);
/* The process's dispatcher has schemas now. */
void recorder__schema_layout(struct recorder *r, struct proc_ops *po);
/* Reads the names of operators from the live process's dispatcher and, with arguments, their
 * schemas. */
void recorder__learn(struct recorder *r, struct proc_ops *po);

/* Python stacks of the process are read with this layout. parent: the process that it was forked
 * by, 0: not known. After recorder__learn(). */
int recorder__python(struct recorder *r, uint32_t tgid, uint32_t parent,
		     const struct ptb_py_layout *layout);

/* Writes the C++ stacks of the process's threads, which takes up to seconds. After
 * recorder__python(). */
void recorder__native_stacks(struct recorder *r, struct probe_set *samples, uint32_t tgid);

/* Callback for probe_set__drain(): arg is the recorder. */
void recorder__ring_record(void *arg, uint32_t ring, const void *rec, uint32_t len);
/* Ends a drain round: writes the watermark. */
void recorder__round(struct recorder *r, uint64_t watermark_ns);
/* Reads from the processes what the rounds left unknown. May wait for a child that reads a file of
 * theirs. */
void recorder__resolve(struct recorder *r);
/* Writes the names of threads and the process groups as they are at the window's end. */
void recorder__read_at_end(struct recorder *r);

/* Writes what is buffered: the statistics then say whether the file had room for it. */
void recorder__flush(struct recorder *r);

/* With opts->steps. */
struct step_count *recorder__steps(const struct recorder *r);
/* While it warms up, steps are counted and processes are followed, but no record is kept. */
void recorder__warm_up(struct recorder *r, bool on);

/* Next process whose tensors do not match its layout, each once; 0: none. Its counter is in the
 * capture. */
uint32_t recorder__next_bad_layout(struct recorder *r);

struct recorder_stats {
	uint64_t records, bytes, write_dropped, unresolved;
	uint64_t over_names, over_operators; /* of PTB_LIMITS */
	uint64_t py_codes_gone, py_classes_gone;
	uint64_t covered_ns; /* if cut: the file has all records before this time */
	bool cut;            /* some records could not be written */
	int error;           /* first write error, 0: none */
};
struct recorder_stats recorder__stats(const struct recorder *r);

#endif /* RECORD_RECORDER_H */
