/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What is made of a session while it is read once: files that other tools read, and reports. Each
 * is a row, which has everything that the command line knows of it; a file of its own makes it.
 */
#ifndef EXPORT_OUTPUT_H
#define EXPORT_OUTPUT_H

#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#include "base/jsonw.h"
#include "model/session.h"

/*
 * What an output writes to the file that was opened for it, compressed when its path ends in ".gz".
 * Errors are logged once, with the path.
 */

struct out_file;
struct output_args;

void out_file__open(const struct output_args *args, struct out_file **out);
/* A jsonw_out; `of` is the struct out_file. After an error every call returns that error. */
int out_file__write(void *of, const void *data, size_t len);
/* What is written to the stream goes to the file. */
FILE *out_file__stream(struct out_file *of);
/* The same file and a writer of JSON into it. Errors are logged. */
void out_file__open_json(const struct output_args *args, struct out_file **out, struct jsonw *w);
int out_file__end_json(struct out_file *of, struct jsonw *w);
/* Writes what is left of it. 0 or the first error. */
int out_file__end(struct out_file *of);
int out_file__end_stream(struct out_file *of, FILE *f); /* of out_file__stream() */
void out_file__free(struct out_file *of);               /* NULL is fine */

struct output;
struct stack_tree;
struct thread_times;

/* What the user requested; each output takes what concerns it. */
struct output_args {
	const struct output *output;
	const struct session *s;
	const char *capture;                 /* its name */
	const struct session_totals *totals; /* after the run */
	/* files */
	const char *path; /* for messages and its suffix; OUTPUT_STDOUT */
	int fd;           /* where to write */
	uint32_t tgid;    /* of which process it is; 0: Chrome trace: all, others: the first */
	/* of a memory timeline: "cpu", "cuda:0"; NULL: cuda:0 if it allocated there, else cpu */
	const char *device;
	/* of folded stacks, of STACKS_METRICS; NULL: time, as it was recorded */
	const char *metric;
	/* of a memory timeline: a report of one process (tgid), its text is above the chart */
	const struct output *headline;
	int overload_names; /* of a Chrome trace: 1, -1: not, 0: as recorded */
	const char *diff;   /* the second capture of a flame graph; NULL: none */
	int diff_fd;        /* of which this is the open file */
	/* reports */
	FILE *out; /* NULL: standard output */
	bool json;
	int columns; /* of the terminal that it fits; 0: there is none */
	bool colour;
	struct thread_times *times; /* report/report.h; NULL: not counted */
	/* JSON within a page: without the facts of the session, and nothing where a report has
	 * nothing to say */
	bool embedded;
	struct stack_tree *tree; /* of calls, which is another's; NULL: a report makes its own */
	int row_limit;           /* -1: all rows; OUTPUT_ROWS_DEFAULT: not given */
	const char *sort_by;     /* NULL: order of first appearance */
	/* the table's rows and columns: 1, -1: not, 0: as recorded */
	int by_shape, with_flops, exact_memory;
	int group_by_stack_n; /* of the table: that many frames, 0: not */
	/* of lines: also those of libraries; else they count as the line that called them */
	bool all_lines;
};
#define OUTPUT_ROWS_DEFAULT INT_MIN
#define OUTPUT_STDOUT "-"

/* What must have been recorded. */
enum output_needs {
	NEEDS_SHAPES = 1,
	NEEDS_ALLOCATIONS = 2,
	NEEDS_MEMORY = 4, /* of PyTorch or of the kernel */
	NEEDS_STACKS = 8,
	NEEDS_SAMPLES = 16,
	NEEDS_MODULES = 32,
	NEEDS_SAMPLED_OPERATORS = 64,
	NEEDS_GPU = 128,
	NEEDS_SCHED = 256,
	NEEDS_LINES = 512, /* of operators, or of samples beside them */
};

#define OUTPUT_SINKS 32

struct output {
	const char *name; /* value of --format or --by */
	const char *help; /* a line */
	/* of its files without ".gz", separated by blanks; the first one, as it stands, is the
	 * default */
	const char *suffixes;
	const char *title, *viewer; /* of the message with its file's name; viewer: NULL: none */
	uint32_t needs;             /* enum output_needs */
	int rows;                   /* of a report, unless the user says how many; 0: as recorded */
	/* 0 or negative errno (logged). *out is then given to the others. */
	int (*open)(const struct output_args *args, void **out);
	struct session_sink (*sink)(void *o);
	/* in its place where it has several: into list, returns how many */
	uint32_t (*sinks)(void *o, struct session_sink list[OUTPUT_SINKS]);
	/* After the run: completes the file, prints the report. */
	int (*finish)(void *o, const struct output_args *args);
	void (*free)(void *o); /* drops what was not finished; NULL is fine */
};

/* Of `ptbpf export`: its struct output, its name, suffixes (the first one is that of a file that
 * is not named; with and without ".gz"), help. */
/* clang-format off */
#define FILE_OUTPUTS(FIRST, X)                                                                      \
	FIRST(chrome_output, "chrome", ".pt.trace.json.gz .trace.json .json",                       \
	      "Chrome trace as torch.profiler writes it (Perfetto, HTA, TensorBoard)")              \
	X(perfetto_output, "perfetto", ".pftrace",                                                  \
	  "the same trace in Perfetto's own format: a quarter of the size or less (ui.perfetto.dev)")   \
	X(et_output, "et", ".et.json",                                                              \
	  "Execution Trace as torch's ExecutionTraceObserver writes it (Chakra, et_replay, HTA)")   \
	X(timeline_output, "memory", ".memory.json.gz",                                             \
	  "live bytes by category over time, as torch's export_memory_timeline() to .json.gz")      \
	X(timeline_raw_output, "memory-raw", ".memory.raw.json.gz",                                 \
	  "every allocation, change and free with its category, as torch's to .raw.json.gz")        \
	X(timeline_html_output, "memory-html", ".memory.html",                                      \
	  "a page with the same as a chart, as torch's to .html")                                   \
	X(memory_snapshot_output, "memory-snapshot", ".pickle",                                     \
	  "allocations and frees of GPUs and the CPU, as torch's _dump_snapshot() (memory_viz)")    \
	X(stacks_output, "stacks", ".stacks.txt",                                                   \
	  "folded stacks of Python with a metric, as torch's export_stacks() (flamegraph.pl, speedscope)") \
	X(pprof_output, "pprof", ".pb.gz .pprof",                                                   \
	  "stacks of Python, operators and kernels with times and memory (go tool pprof, Pyroscope)") \
	X(speedscope_output, "speedscope", ".speedscope.json",                                      \
	  "a profile of each thread in order of time (speedscope.app)")                             \
	X(threads_output, "threads", ".threads.txt",                                                \
	  "the last sampled Python stack of each thread, as text (--sample-stacks)")                \
	X(flamegraph_output, "flamegraph", ".flamegraph.html",                                      \
	  "a page with the calls of Python and operators, or with the difference of two captures")  \
	X(page_output, "html", ".html",                                                             \
	  "a page with all that the capture knows: verdict, steps, tables, flame graph, memory, threads, GPUs, ranks")
/* clang-format on */

#define X(row, name, suffixes, help) extern const struct output row;
FILE_OUTPUTS(X, X)
#undef X

/* torch's, and those of stack_tree.h that torch does not have. */
#define STACKS_METRICS                                                                                  \
	"self_cpu_time_total, self_cuda_time_total, self_xpu_time_total, self_privateuse1_time_total, " \
	"cpu_memory_allocated, cpu_memory_live, cuda_memory_allocated, cuda_memory_live, page_faults, " \
	"page_fault_bytes, sampled_cpu_time, sampled_wait_time, cpu_wait_time, gil_wait_time, "         \
	"lock_wait_time, io_wait_time, other_wait_time"

/* The options of a recording that has what args->output needs, each with a blank behind it; NULL:
 * this one has it. */
const char *output__lacks(const struct output_args *args);
/* Requesting what was not recorded gets a sentence, not an empty column. 0 or -ENODATA, logged. */
int output__check_recorded(const struct output_args *args);
/* Whose file it is, in a format of one process: args->tgid, or the first one for 0. 0 or
 * negative errno, logged. */
int output__choose_process(const struct output_args *args, uint32_t *tgid);

#endif /* EXPORT_OUTPUT_H */
