/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writes one capture: the records of the rings in their order, and the facts that make them
 * readable without the target (names, plan, processes, threads, clocks, losses, counters). Looks
 * into a record only to find what has to be read from the living target: unknown addresses, new
 * threads, forks.
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

/* Called for each fork, exec and exit; the run loop handles them. */
typedef void (*recorder_task_fn)(void *arg, const struct ptb_task *task);
/* Reads the rings without ending a round. */
typedef void (*recorder_drain_fn)(void *arg);

/* With opts->steps.only path is NULL, and no file is written. */
int recorder__open(const char *path, recorder_task_fn fn, void *arg, const struct record_opts *opts,
		   struct recorder **out);
/* Sets the function that empties the rings while chunks are unpacked. It gets the arg of
 * recorder__open(). */
void recorder__set_drain(struct recorder *r, recorder_drain_fn fn);
int recorder__dup_capture(const struct recorder *r); /* capture_writer__dup() */
/* Seals and closes the capture; returns the result of capture_writer__close(). */
int recorder__close(struct recorder *r);
/* Frees r and removes its file. NULL is fine. */
void recorder__discard(struct recorder *r);

void recorder__meta(struct recorder *r, const char *key, const char *json);
/* Writes a META record whose JSON comes from write_value(). */
void recorder__meta_json(struct recorder *r, const char *key,
			 void (*write_value)(struct jsonw *w, const void *arg), const void *arg);
/* Writes a META record whose JSON is the text as a string. */
void recorder__meta_text(struct recorder *r, const char *key, const char *text);
/* Records the boot and the pid namespace. Captures of one boot share CLOCK_MONOTONIC; captures of
 * one namespace share the numbers of processes. */
void recorder__machine(struct recorder *r);
void recorder__clock(struct recorder *r);
void recorder__window(struct recorder *r, bool begin, uint64_t ts_ns, uint32_t reason);
/* Holds records from ts_ns on in memory (capture_writer__hold()). The window begins with
 * recorder__release(). 0 or negative errno. */
int recorder__hold(struct recorder *r, uint64_t ts_ns, uint64_t keep_ns, uint64_t max_bytes);
void recorder__expire(struct recorder *r, uint64_t now_ns);
/* Writes the held records. *since_ns: time from which on nothing was dropped; 0: nothing was
 * dropped. */
void recorder__release(struct recorder *r, uint64_t *since_ns);
/* Sets the time after which agents' records are not written. Before the last drains. */
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
/* Writes the wanted functions that the plan refuses, before the process's first record. Returns
 * their number. */
uint32_t recorder__refusals(struct recorder *r, const struct torch_plan *plan,
			    const struct recorder_plan *rp,
			    bool (*wanted)(const struct plan_func *pf));
void recorder__refused_site(struct recorder *r, const struct torch_plan *plan,
			    const struct recorder_plan *rp, uint32_t site);

/* Writes a process that is traced from start_ns on, with its classes and threads. After
 * recorder__learn(). */
struct recorder_process {
	uint32_t parent;
	bool by_agent; /* its agent records operators */
	uint64_t start_ns, gap_ns;
};
void recorder__process(struct recorder *r, const struct torch_proc *tp,
		       const struct torch_plan *plan, const struct recorder_process *rp);
/* Records that the process loses its probes. Called before they are removed: what follows may be
 * incomplete. */
void recorder__unprobed(struct recorder *r, uint32_t tgid);
/* Reads schemas from the process's dispatcher. */
void recorder__schema_layout(struct recorder *r, struct proc_ops *po);
/* Reads the names of operators and, with arguments, their schemas from the living process's
 * dispatcher. */
void recorder__learn(struct recorder *r, struct proc_ops *po);

/* Reads the process's Python stacks with this layout from now on. parent: the process that forked
 * it; 0: unknown. After recorder__learn(). */
int recorder__python(struct recorder *r, uint32_t tgid, uint32_t parent,
		     const struct ptb_py_layout *layout);

/* Writes the C++ stacks of the process's threads, which takes up to seconds. After
 * recorder__python(). */
void recorder__native_stacks(struct recorder *r, struct probe_set *samples, uint32_t tgid);

/* Callback for probe_set__drain(); arg is the recorder. */
void recorder__ring_record(void *arg, uint32_t ring, const void *rec, uint32_t len);
/* Ends a round: writes the watermark. */
void recorder__round(struct recorder *r, uint64_t watermark_ns);
/* Reads unknown names from the processes. May wait for a child that reads one of their files. */
void recorder__resolve(struct recorder *r);
/* Writes the names of threads and the process groups at the window's end. */
void recorder__read_at_end(struct recorder *r);

/* Writes the buffered records. recorder__stats() then shows whether the file had room for them. */
void recorder__flush(struct recorder *r);

/* Needs opts->steps. */
struct step_count *recorder__steps(const struct recorder *r);
/* During the warm-up steps are counted and processes are followed, but no record is kept. */
void recorder__warm_up(struct recorder *r, bool on);

/* Returns each process once whose tensors do not match its layout, and writes its counter; 0: no
 * more. */
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
