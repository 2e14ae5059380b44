/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One recording: the processes, their plans and probes, the loop that moves records from the rings
 * into the capture, and the end of it. Used by attach and record, which decide when what happens.
 * Never changes the target; never leaves probes behind (the kernel removes them with our links).
 */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/opts.h"
#include "cli/outputs.h"
#include "cli/target_agent.h"
#include "probe/probe_set.h"

struct run_cfg {
	struct pid_list pids;
	bool children;
	uint64_t duration_ns; /* 0: until a signal or the target's end */
	const char *output, *trace, *et;
	bool record_shapes, with_flops, by_shape, execution_trace;
	bool profile_memory, kernel_memory, exact_memory;
	const char *activities, *gpu, *agent;
	const char *step_on;
	bool no_steps;
	uint64_t ring_bytes, max_memory;
	bool wait;
	bool dry_run;
	bool perf_uprobes;
	const char *sort_by;
	int row_limit; /* OUTPUTS_ROWS_UNSAID: 20 */
	bool no_table;
	bool no_cache;
	bool quiet;
	const char *log;
};

/* The rows shared by attach and record; they fill a struct run_cfg. */
#define RUN_OPTS                                                                                        \
	{ OPT_GROUP, 0, "", 0, NULL, "window" },                                                        \
	{ OPT_DURATION, 'd', "duration", offsetof(struct run_cfg, duration_ns), "TIME",                 \
	  "stop after this time (5s, 500ms, 2m); default: at Ctrl-C or when the target exits" },                \
	{ OPT_STR, 0, "step-on", offsetof(struct run_cfg, step_on), "NAME",                             \
	  "end a ProfilerStep after each annotation or operator NAME (default: Optimizer.step)" },      \
	{ OPT_FLAG, 0, "no-steps", offsetof(struct run_cfg, no_steps), NULL,                            \
	  "do not derive ProfilerStep slices" },                                                            \
	{ OPT_GROUP, 0, "", 0, NULL, "recording" },                                              \
	{ OPT_STR, 0, "activities", offsetof(struct run_cfg, activities), "LIST",                       \
	  "comma-separated: cpu (operators), cuda (GPU activities), sync (waits for GPUs) (default: cpu,cuda)" },                                 \
	{ OPT_FLAG, 0, "record-shapes", offsetof(struct run_cfg, record_shapes), NULL,                  \
	  "record arguments of operators: shapes, strides, types, scalar values" },                        \
	{ OPT_FLAG, 0, "with-flops", offsetof(struct run_cfg, with_flops), NULL,                        \
	  "a column of floating point operations, as torch counts them (implies --record-shapes)" },  \
	{ OPT_FLAG, 0, "execution-trace", offsetof(struct run_cfg, execution_trace), NULL,              \
	  "record arguments, results and their identities, for an Execution Trace" },                      \
	{ OPT_FLAG, 0, "profile-memory", offsetof(struct run_cfg, profile_memory), NULL,                \
	  "record allocations and frees of tensor memory, CUDA memory calls, out-of-memory errors" },       \
	{ OPT_FLAG, 0, "kernel-memory", offsetof(struct run_cfg, kernel_memory), NULL,                  \
	  "record page faults, mappings, resident memory, reclaim stalls, OOM kills, by operator" },           \
	{ OPT_GROUP, 0, "", 0, NULL, "output" },                                                        \
	{ OPT_STR, 'o', "output", offsetof(struct run_cfg, output), "FILE",                             \
	  "capture file (default: ptbpf-PID-TIME.ptb)" },                                               \
	{ OPT_STR, 0, "trace", offsetof(struct run_cfg, trace), "FILE",                                 \
	  "Chrome trace, .json or .json.gz (default without -o: next to the capture)" },                 \
	{ OPT_STR, 0, "et", offsetof(struct run_cfg, et), "FILE",                                       \
	  "Execution Trace, .json or .json.gz (implies --execution-trace)" },                           \
	{ OPT_FLAG, 0, "group-by-input-shape", offsetof(struct run_cfg, by_shape), NULL,                \
	  "one table row per operator and input shape (implies --record-shapes)" },      \
	{ OPT_FLAG, 0, "exact-memory", offsetof(struct run_cfg, exact_memory), NULL,                    \
	  "memory columns: count only what the operator's thread allocates (torch: all threads)" },       \
	{ OPT_CHOICE, 0, "sort-by", offsetof(struct run_cfg, sort_by), "KEY=" OUTPUTS_SORT_KEYS,                              \
	  "order of the table (default: " OUTPUTS_SORTED ")" },                                        \
	{ OPT_INT, 0, "row-limit", offsetof(struct run_cfg, row_limit), "N",                            \
	  "rows of the table, -1: all (default: 20)" },                                                 \
	{ OPT_FLAG, 0, "no-table", offsetof(struct run_cfg, no_table), NULL, "do not print the table" },        \
	{ OPT_FLAG, 'q', "quiet", offsetof(struct run_cfg, quiet), NULL,                                \
	  "print only warnings, errors and the summary on stderr" },                                          \
	{ OPT_GROUP, 0, "", 0, NULL, "sources" },                                                       \
	{ OPT_CHOICE, 0, "agent", offsetof(struct run_cfg, agent), "MODE=auto, off, inject",                         \
	  "ptbpf's agent in the process: auto (use it if loaded), off, inject (load it)" },       \
	{ OPT_CHOICE, 0, "gpu", offsetof(struct run_cfg, gpu), "MODE=auto, off",                                \
	  "GPU activities: auto (from the agent; without one, CUDA calls by kernel probes), off" },                                     \
	{ OPT_GROUP, 0, "", 0, NULL, "probing" },                                                       \
	{ OPT_SIZE, 0, "ringbuf", offsetof(struct run_cfg, ring_bytes), "SIZE",                         \
	  "size of the ring buffer of each CPU (default: by the number of CPUs, at most 128 MiB in all, 256 with the agent)" },         \
	{ OPT_SIZE, 0, "max-memory", offsetof(struct run_cfg, max_memory), "SIZE",                      \
	  "memory limit while recording, ring buffers not included; records beyond it are dropped and counted (default: 512 MiB)" }, \
	{ OPT_FLAG, 0, "perf-uprobes", offsetof(struct run_cfg, perf_uprobes), NULL,                    \
	  "use perf-event uprobes, as on kernels before 6.6 (slower to attach)" },                          \
	{ OPT_FLAG, 0, "no-cache", offsetof(struct run_cfg, no_cache), NULL,                            \
	  "analyse the libraries again; do not use /var/cache/ptbpf" },                            \
	{ OPT_STR, 0, "log", offsetof(struct run_cfg, log), "DOMAINS",                                  \
	  "print debug messages of these parts (comma-separated, or 'all')" }

/* What the operators' probes have to read for these options. */
enum probe_args run_cfg__args(const struct run_cfg *cfg);
bool run_cfg__ops(const struct run_cfg *cfg); /* operators are recorded */
bool run_cfg__gpu(const struct run_cfg *cfg); /* what GPUs do is */
bool run_cfg__sync(const struct run_cfg *cfg); /* what waits for them is */
enum agent_mode run_cfg__agent(const struct run_cfg *cfg);
/* A value of --activities that means nothing: -EINVAL, with a sentence. */
int run_cfg__check(const struct run_cfg *cfg);

struct run;

/* Checks what the kernel allows, loads the programs, measures a probe's cost, opens the capture.
 * capture_path is copied. 0 or negative errno (said on stderr). */
int run__open(const struct run_cfg *cfg, const char *capture_path, struct run **out);
/* Detaches; removes a capture that was not finished. NULL is fine. */
void run__free(struct run *run);

/* Adds a process: plan, probes, facts. 0; -EAGAIN: torch is not mapped yet (nothing said); other
 * negative errno: said on stderr. */
int run__add(struct run *run, pid_t pid);
/* Takes a process out again: it turned out to be another one. */
void run__remove(struct run *run, pid_t pid);
/* So many processes that the user named could not be added: counted in the capture. */
void run__refused(struct run *run, uint32_t cnt);
/* Keeps an eye on a process that has no torch yet (and, with cfg->children, on its children): it is
 * added from inside the loop when torch appears. */
int run__await(struct run *run, pid_t pid);
/* Adds the running descendants of pid too (cfg->children). */
void run__add_descendants(struct run *run, pid_t pid);

/* The processes that are added now stand still: what must run in them comes later. */
void run__targets_stand(struct run *run, bool stand);
/* Begins the window. */
void run__activate(struct run *run);
/* Called in every round of the loop; for record, which must do something of its own. */
typedef void (*run_tick_fn)(void *arg, struct run *run);
/* Moves records until the window ends. 0 or negative errno. */
int run__loop(struct run *run, run_tick_fn tick, void *arg);
/* Ends the window, detaches, writes the counters, seals the capture; returns what capture_writer__close() does.
 * *capture: the capture for reading, the caller's to close, or negative errno. */
int run__finish(struct run *run, int *capture);

uint32_t run__traced(const struct run *run);    /* processes added so far */
int run__signal(const struct run *run);         /* the signal that ended the loop, 0: none */

#endif /* CLI_RUN_H */
