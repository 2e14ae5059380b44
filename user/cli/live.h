/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What attach, record and sample share: their options, where the files go, the sentence when the
 * window opens, and the outputs after it closed.
 */
#ifndef CLI_LIVE_H
#define CLI_LIVE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/opts.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "record/run.h"

struct run_cfg {
	struct record_opts rec;
	struct pid_list pids;
	const char *name;   /* instead of a pid; NULL: none */
	const char *output; /* "": in memory */
	const char *trace, *et, *flamegraph, *page;
	struct output_file files[OUTPUTS_FILES]; /* beside the capture, all that are named */
	bool record_shapes, with_flops, by_shape, execution_trace, exact_memory, overload_names;
	const char *activities, *gpu, *agent;
	const char *step_on;
	bool no_steps;
	bool wait;
	bool dry_run;
	const char *sort_by;
	int row_limit; /* OUTPUT_ROWS_DEFAULT: 20 */
	const char *table;
	bool no_table, json;
	const struct output *report; /* in place of the table; NULL: none */
	bool quiet;
	const char *log;
	int progress_fd, notes_fd;     /* 0: none */
	const char *window, *max_cost; /* of attach_window.h */
	uint64_t max_cost_ns;          /* what probes may cost each process; 0: no limit */
	const char *threads;           /* NULL: no stacks of threads */
};

/* The rows shared by attach, record and sample; they fill a struct run_cfg. */
/* clang-format off */
#define STEP_OPTS \
	{ OPT_STR, 0, "step-on", offsetof(struct run_cfg, step_on), "NAME",                             \
	  "end a ProfilerStep after each annotation or operator NAME (default: the annotation that PTBPF_STEP_ON names in the process's environment, else Optimizer.step)" },      \
	{ OPT_FLAG, 0, "no-steps", offsetof(struct run_cfg, no_steps), NULL,                            \
	  "do not derive ProfilerStep slices" }
#define RECORDING_OPTS \
	{ OPT_GROUP, 0, "", 0, NULL, "recording" },                                              \
	{ OPT_STR, 0, "activities", offsetof(struct run_cfg, activities), "LIST",                       \
	  "comma-separated: cpu (operators), cuda (GPU activities), sync (waits for GPUs), graphs (which operators CUDA graphs captured) (default: cpu,cuda)" },                                 \
	{ OPT_FLAG, 0, "record-shapes", offsetof(struct run_cfg, record_shapes), NULL,                  \
	  "record arguments of operators: shapes, strides, types, scalar values", OPT_BASIC },                        \
	{ OPT_FLAG, 0, "with-flops", offsetof(struct run_cfg, with_flops), NULL,                        \
	  "a column of floating point operations, as torch counts them (implies --record-shapes)" },  \
	{ OPT_FLAG, 0, "execution-trace", offsetof(struct run_cfg, execution_trace), NULL,              \
	  "record arguments, results and their identities, for an Execution Trace" },                      \
	{ OPT_FLAG, 0, "with-stack", offsetof(struct run_cfg, rec.stacks), NULL,                        \
	  "record the Python stack of every operator, annotation, allocation and launch", OPT_BASIC },             \
	{ OPT_INT, 0, "sample-stacks", offsetof(struct run_cfg, rec.sample_hz), "HZ=99",                   \
	  "sample the Python stack of every thread HZ times a second (without a value: 99), running or not, and record nothing else: no probes, the lowest cost; with --activities cpu also the operator that is open, from the agent", OPT_BASIC },             \
	{ OPT_INT, 0, "with-samples", offsetof(struct run_cfg, rec.with_samples), "HZ=99",                  \
	  "sample the Python stack of every thread HZ times a second (without a value: 99) beside all else: which lines the time outside operators is in", OPT_BASIC }, \
	{ OPT_FLAG, 0, "with-modules", offsetof(struct run_cfg, rec.modules), NULL,                     \
	  "record which module (nn.Module) each call of one in these stacks is (implies --with-stack)" }, \
	{ OPT_FLAG, 0, "profile-memory", offsetof(struct run_cfg, rec.memory), NULL,                \
	  "record allocations and frees of tensor memory, CUDA memory calls, out-of-memory errors", OPT_BASIC },       \
	{ OPT_FLAG, 0, "kernel-memory", offsetof(struct run_cfg, rec.kernel_memory), NULL,                  \
	  "record page faults, mappings, resident memory, reclaim stalls, OOM kills, by operator" },          \
	{ OPT_FLAG, 0, "sched", offsetof(struct run_cfg, rec.sched), NULL,                                   \
	  "record what every thread waits for when it does not run: a CPU, the GIL, a lock, I/O, ...", OPT_BASIC }
#define SOURCE_OPTS \
	{ OPT_GROUP, 0, "", 0, NULL, "sources" },                                                       \
	{ OPT_CHOICE, 0, "agent", offsetof(struct run_cfg, agent), "MODE=auto, off, inject",                         \
	  "ptbpf's agent in the process: auto (use it if loaded), off, inject (load it)" },       \
	{ OPT_CHOICE, 0, "gpu", offsetof(struct run_cfg, gpu), "MODE=auto, off",                                \
	  "GPU activities: auto (from the agent; without one, CUDA calls by uprobes), off" }
/* After all other options. */
#define EXPERT_OPTS \
	{ OPT_GROUP, 0, "", 0, NULL, "for experts" },                                                   \
	{ OPT_SIZE, 0, "ringbuf", offsetof(struct run_cfg, rec.ring_bytes), "SIZE",                         \
	  "size of the ring buffer of each CPU (default: by the number of CPUs, at most 128 MiB in all, 256 with the agent)" },         \
	{ OPT_SIZE, 0, "max-memory", offsetof(struct run_cfg, rec.max_memory), "SIZE",                      \
	  "memory limit while recording, ring buffers not included; records beyond it are dropped and counted (default: 512 MiB)" }, \
	{ OPT_FLAG, 0, "perf-uprobes", offsetof(struct run_cfg, rec.perf_uprobes), NULL,                    \
	  "use perf-event uprobes, as before Linux 6.6 (slower to attach)" },                          \
	{ OPT_FLAG, 0, "no-cache", offsetof(struct run_cfg, rec.no_cache), NULL,                            \
	  "analyse the libraries again; do not use /var/cache/ptbpf" },                            \
	{ OPT_STR, 0, "log", offsetof(struct run_cfg, log), "DOMAINS",                                  \
	  "print debug messages of these parts, comma-separated: " LOG_DOMAINS ", or all" }
/* Of attach and record. */
#define RUN_OPTS \
	{ OPT_GROUP, 0, "", 0, NULL, "window" },                                                        \
	{ OPT_DURATION, 'd', "duration", offsetof(struct run_cfg, rec.duration_ns), "TIME",                 \
	  "stop after this time (default: at Ctrl-C or when the target exits)", OPT_BASIC },                \
	STEP_OPTS, \
	RECORDING_OPTS, \
	{ OPT_GROUP, 0, "", 0, NULL, "output" },                                                        \
	{ OPT_STR, 'o', "output", offsetof(struct run_cfg, output), "FILE",                             \
	  "capture file, .ptb, or what its suffix says with the capture beside it: .json, .json.gz or .pftrace a trace, .et.json an Execution Trace, " \
	  ".html a page (default: ptbpf-PID-TIME.ptb)", OPT_BASIC },                                        \
	{ OPT_STR, 0, "trace", offsetof(struct run_cfg, trace), "FILE",                                 \
	  "Chrome trace, .json or .json.gz, or Perfetto's own, .pftrace (default without -o: Chrome's, next to the capture)", OPT_BASIC },                 \
	{ OPT_FLAG, 0, "overload-names", offsetof(struct run_cfg, overload_names), NULL,                \
	  "in traces operators with their overloads (aten::add.Tensor), as torch's capture_overload_names" }, \
	{ OPT_STR, 0, "et", offsetof(struct run_cfg, et), "FILE",                                       \
	  "Execution Trace, .json or .json.gz (implies --execution-trace)" },                           \
	{ OPT_STR, 0, "flamegraph", offsetof(struct run_cfg, flamegraph), "FILE",                       \
	  "flame graph, .html: of samples with --sample-stacks, else of operators (implies --with-stack)", OPT_BASIC }, \
	{ OPT_STR, 0, "html", offsetof(struct run_cfg, page), "FILE",                                   \
	  "page with all that was recorded, .html: for a browser, without a network", OPT_BASIC },       \
	{ OPT_FLAG, 0, "group-by-input-shape", offsetof(struct run_cfg, by_shape), NULL,                \
	  "one table row per operator and input shape (implies --record-shapes)" },      \
	{ OPT_FLAG, 0, "exact-memory", offsetof(struct run_cfg, exact_memory), NULL,                    \
	  "memory columns: count only what the operator's thread allocates (torch: all threads)" },       \
	{ OPT_CHOICE, 0, "sort-by", offsetof(struct run_cfg, sort_by), "KEY=" OUTPUTS_SORT_KEYS,                              \
	  "order of the table (default: " OUTPUTS_SORTED ")" },                                        \
	{ OPT_INT, 0, "row-limit", offsetof(struct run_cfg, row_limit), "N",                            \
	  "rows of the table, -1: all (default: 20)", OPT_BASIC },                                                 \
	{ OPT_CHOICE, 0, "table", offsetof(struct run_cfg, table), "FORM=" OUTPUTS_TABLES,                      \
	  OUTPUTS_TABLE_HELP },                                                                         \
	{ OPT_FLAG, 0, "no-table", offsetof(struct run_cfg, no_table), NULL, "do not print the table" },        \
	{ OPT_FLAG, 'q', "quiet", offsetof(struct run_cfg, quiet), NULL,                                \
	  "print only warnings, errors and the summary on stderr", OPT_BASIC }, \
	SOURCE_OPTS
/* clang-format on */

struct live {
	const struct run_cfg *cfg;
	struct run *run;
	char capture[PATH_MAX];
	struct output_file files[OUTPUTS_FILES];
	char trace[PATH_MAX], et[PATH_MAX]; /* names that were chosen */
	char who[160];                      /* whose progress is shown */
	uint64_t shown_ns;
	bool announced;
	struct progress progress;
	bool no_summary;
	struct outputs_result *result; /* filled in by live__export(); NULL: not wanted */
	/* after live__seal(): the finished capture; negative errno: it cannot be opened */
	int capture_fd;
	int run_err;                    /* of the recording, 0: none */
	int write_err;                  /* of the capture, 0: it is complete */
	struct metrics_window *metrics; /* of struct outputs */
};

/* Checks options that contradict each other or name nothing: non-zero (reported). Also sets the log
 * options. */
int live__check(struct run_cfg *cfg);
/* Of --max-overhead: unless it is given; no limit. */
#define MAX_OVERHEAD "1%"
#define MAX_OVERHEAD_OFF "off"
/* A value of --max-overhead as a share of the time; 0: off. 0 or -EINVAL (reported). */
int live__parse_overhead(const char *command, const char *text, double *share);
/* Of --flight: 0, or -EINVAL (reported). */
int live__check_flight(struct run_cfg *cfg);
/* What their names mean: cfg->files, what these need to be recorded. 0 or -EINVAL (reported). */
int live_files__check(struct run_cfg *cfg);
/* Of a recording, whose process gives a file without a name one. */
void live_files__choose(struct live *live, const struct run_cfg *cfg, pid_t pid);
/* 0 or negative errno (logged). */
int live_files__can_write(const struct live *live);
/* Chooses the files and opens the recording. Exit code (0: go on). */
int live__open(struct live *live, const struct run_cfg *cfg, pid_t pid);
/* Opens the window, with a message. */
void live__announce(struct live *live);
/* A line on the terminal with what was recorded until now. */
void live__show(struct live *live, struct run *run);
/* Runs the loop. Exit code (0: go on with live__seal()). */
int live__loop(struct live *live, run_tick_fn tick, void *arg);
/* Seals the capture. Exit code (0: go on with live__export()). */
int live__seal(struct live *live);
/* Writes the outputs. Exit code. */
int live__export(struct live *live);
/* When a window has nothing in it: what its processes do, and which of their children may be
 * meant. */
void no_operators__say(const struct run_cfg *cfg, uint64_t window_ns);
/* The second part, of one process. */
void no_operators__say_children(pid_t pid);
/* All three. Exit code. */
int live__record(struct live *live, run_tick_fn tick, void *arg);
/* All of `attach`, of the processes of cfg. Exit code. */
int attach__run(const struct run_cfg *cfg, struct live *live);
/* A capture whose window never began is removed; what stood at its path is as it was. */
void live__free(struct live *live);

#endif /* CLI_LIVE_H */
