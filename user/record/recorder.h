/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writes one capture: the records of the rings as they come, and the facts that make them readable
 * without the target (names, plan, processes, threads, clocks, losses, counters). Peeks at a record's
 * kind only to find out what must be read of the target while it lives: unknown addresses, new threads,
 * forks. Never interprets operators.
 */
#ifndef RECORD_RECORDER_H
#define RECORD_RECORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/jsonw.h"
#include "plan/proc_ops.h"
#include "ptb_event.h"
#include "ptb_python.h"
#include "record/record_opts.h"
#include "target/proc_info.h"

struct recorder;
struct step_count;

/* A task record (fork, exec, exit) that the run loop must act on. */
typedef void (*recorder_task_fn)(void *arg, const struct ptb_task *task);
/* Reads the rings, and ends no round. */
typedef void (*recorder_drain_fn)(void *arg);

/* path NULL, with opts->steps.only: what the recorder learns is written nowhere. */
int recorder__open(const char *path, recorder_task_fn fn, void *arg, const struct record_opts *opts,
		   struct recorder **out);
/* Is called, with the arg of recorder__open(), now and then while what agents have sent is taken. */
void recorder__set_drain(struct recorder *r, recorder_drain_fn fn);
int recorder__dup_capture(const struct recorder *r); /* capture_writer__dup() */
/* Seals and closes; returns what capture_writer__close() does. */
int recorder__close(struct recorder *r);
/* Frees r, and removes what it wrote. NULL is fine. */
void recorder__discard(struct recorder *r);

void recorder__meta(struct recorder *r, const char *key, const char *json);
/* META with what write_value() writes. */
void recorder__meta_json(struct recorder *r, const char *key,
			 void (*write_value)(struct jsonw *w, const void *arg), const void *arg);
/* META with a JSON string made from text. */
void recorder__meta_text(struct recorder *r, const char *key, const char *text);
/* Which machine this is: captures of one boot share CLOCK_MONOTONIC, those of one pid namespace the numbers of processes. */
void recorder__machine(struct recorder *r);
void recorder__clock(struct recorder *r);
void recorder__window(struct recorder *r, bool begin, uint64_t ts_ns, uint32_t reason);
/* Instead of a begin of the window: what comes from ts_ns on is held in memory (capture_writer__hold()). 0 or negative errno. */
int recorder__hold(struct recorder *r, uint64_t ts_ns, uint64_t keep_ns, uint64_t max_bytes);
/* Writes what is held. *since_ns: from this time on it is all that there was; 0: since recorder__hold(). */
void recorder__release(struct recorder *r, uint64_t *since_ns);
/* Agents' records of after this are not written; before the last drains. */
void recorder__window_ends(struct recorder *r, uint64_t ts_ns);
void recorder__counter(struct recorder *r, uint32_t id, uint64_t value);
void recorder__rss(struct recorder *r, uint32_t tgid, const struct proc_memory *mem);
void recorder__lost(struct recorder *r, uint32_t ring, uint64_t begin_ns, uint64_t end_ns, uint64_t cnt);

/* Functions and sites of a plan; the site id of plan->sites[i] is rp->site_base + i. A site that
 * the kernel refused is recorded by recorder__refused_site() before this process's first record. */
struct recorder_plan {
	uint32_t func_base, site_base;
};
void recorder__plan(struct recorder *r, const struct torch_plan *plan, const struct torch_lib *libs,
		    struct recorder_plan *rp);
/* The functions that the plan refuses, of those that are to be probed; before the first record of the
 * process. Returns their number. */
uint32_t recorder__refusals(struct recorder *r, const struct torch_plan *plan,
			    const struct recorder_plan *rp, bool (*wanted)(const struct plan_func *pf));
void recorder__refused_site(struct recorder *r, const struct torch_plan *plan,
			    const struct recorder_plan *rp, uint32_t site);

/* A process that is traced from start_ns on; its classes and threads. After recorder__learn(). */
struct recorder_process {
	uint32_t parent;
	bool by_agent; /* its operators come from its agent */
	uint64_t start_ns, gap_ns;
};
void recorder__process(struct recorder *r, const struct torch_proc *tp,
		       const struct torch_plan *plan, const struct recorder_process *rp);
/* From now on it has no probes. */
void recorder__unprobed(struct recorder *r, uint32_t tgid);
/* The process's dispatcher has schemas now. */
void recorder__schema_layout(struct recorder *r, struct proc_ops *po);
/* Reads what only the live process knows of its operators: the dispatcher's table (names) and, with
 * arguments, schemas. */
void recorder__learn(struct recorder *r, struct proc_ops *po);

/* Python stacks of the process are read with this layout; parent: whose fork it is, 0: of none that is known. After
 * recorder__learn(). */
int recorder__python(struct recorder *r, uint32_t tgid, uint32_t parent,
		     const struct ptb_py_layout *layout);

/* Where the threads of the process stand in C++. After recorder__python(). Takes up to seconds. */
void recorder__native_stacks(struct recorder *r, struct probe_set *samples, uint32_t tgid);

/* Callback for probe_set__drain(): arg is the recorder. */
void recorder__ring_record(void *arg, uint32_t ring, const void *rec, uint32_t len);
/* Ends a drain round: writes the watermark. */
void recorder__round(struct recorder *r, uint64_t watermark_ns);
/* Asks the processes for what the rounds left unknown. May wait for a child that reads a file of theirs. */
void recorder__resolve(struct recorder *r);
/* Names that threads have taken since, and process groups that were made: the last ones count.
 * Once, at the window's end. */
void recorder__read_at_end(struct recorder *r);

/* Writes what is buffered, so that the statistics say whether it had room. */
void recorder__flush(struct recorder *r);

/* With opts->steps: those counted so far. */
struct step_count *recorder__steps(const struct recorder *r);
/* Steps are counted and processes are followed, but no record of them is kept. */
void recorder__warm_up(struct recorder *r, bool on);

/* A process whose tensors do not match its layout, once each; 0: none. The capture has its counter already. */
uint32_t recorder__next_bad_layout(struct recorder *r);

struct recorder_stats {
	uint64_t records, bytes, write_dropped, unresolved;
	uint64_t over_names, over_operators; /* of PTB_LIMITS */
	uint64_t py_codes_gone, py_classes_gone;
	uint64_t covered_ns; /* cut: the file has all records before this */
	bool cut;            /* some could not be written */
	int error;           /* first write error, 0: none */
};
struct recorder_stats recorder__stats(const struct recorder *r);

#endif /* RECORD_RECORDER_H */
