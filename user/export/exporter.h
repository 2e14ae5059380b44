/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Exporters: one row per --format. An exporter is a pure function of the session model; it never
 * reads the target or a capture itself.
 */
#ifndef EXPORT_EXPORTER_H
#define EXPORT_EXPORTER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "model/key_averages.h"
#include "model/session.h"

/* ---- chrome trace ---- */

struct chrome_opts {
	const char *trace_name; /* final path, for "traceName" */
	const char *tool_version;
	const char *host_name;
	bool no_concrete_inputs; /* torch's record_concrete_inputs off */
};

/*
 * Streams into `path` by way of `path`.tmp and a rename; gzip if path ends in ".gz". A sink during
 * session__run(), then finish. 0 or negative errno, logged with the path.
 */
struct chrome_trace;
int chrome_trace__open(const char *path, const struct session *s, const struct chrome_opts *opts,
		       struct chrome_trace **out);
struct session_sink chrome_trace__sink(struct chrome_trace *ct);
/* Writes thread names, span, window end, the loss account; closes and renames. */
int chrome_trace__finish(struct chrome_trace *ct, const struct session_totals *totals);
/* Drops the temporary file; NULL is fine; after finish only frees. */
void chrome_trace__free(struct chrome_trace *ct);

/* ---- Execution Trace (schema 1.1.1-chakra.0.0.4) ---- */

struct et_opts {
	uint32_t tgid; /* the process: an Execution Trace has one. 0: the first */
};

/* As the Chrome trace: a sink, then finish; temporary file, rename, gzip by name. */
struct exec_trace;
int exec_trace__open(const char *path, const struct session *s, const struct et_opts *opts,
		     struct exec_trace **out);
struct session_sink exec_trace__sink(struct exec_trace *et);
int exec_trace__finish(struct exec_trace *et, const struct session_totals *totals);
void exec_trace__free(struct exec_trace *et);

/* ---- memory timeline (torch's export_memory_timeline) ---- */

enum timeline_format { TIMELINE_JSON, TIMELINE_RAW, TIMELINE_HTML };

struct timeline_opts {
	enum timeline_format format;
	uint32_t tgid;      /* the process, 0: the first */
	const char *device; /* "cpu", "cuda:0"; NULL: cuda:0 if it allocated there, else cpu */
};

/* As the Chrome trace: a sink, then finish; temporary file, rename, gzip by name. Finish fails with -ENODATA,
 * said, when nothing was allocated on the device. */
struct mem_timeline;
int mem_timeline__open(const char *path, const struct session *s, const struct timeline_opts *opts,
		       struct mem_timeline **out);
struct session_sink mem_timeline__sink(struct mem_timeline *mt);
int mem_timeline__finish(struct mem_timeline *mt, const struct session_totals *totals);
void mem_timeline__free(struct mem_timeline *mt);

/* ---- report --memory ---- */

struct mem_report_opts {
	int row_limit; /* rows of each list, -1: all */
	bool json;
};
struct mem_report;
struct mem_report *mem_report__new(const struct session *s); /* NULL: out of memory */
struct session_sink mem_report__sink(struct mem_report *mr);
/* After the run. 0 or negative errno, logged. */
int mem_report__print(struct mem_report *mr, const struct session_totals *totals,
		      const struct mem_report_opts *opts, FILE *out);
void mem_report__free(struct mem_report *mr);

/* ---- report --gpu ---- */

struct gpu_report_opts {
	int row_limit; /* rows of each list, -1: all */
	bool json;
};
struct gpu_report;
struct gpu_report *gpu_report__new(const struct session *s); /* NULL: out of memory */
struct session_sink gpu_report__sink(struct gpu_report *gr);
/* After the run. 0 or negative errno, logged. */
int gpu_report__print(struct gpu_report *gr, const struct session_totals *totals,
		      const struct gpu_report_opts *opts, FILE *out);
void gpu_report__free(struct gpu_report *gr);

/* ---- table ---- */

struct table_opts {
	const char *sort_by; /* NULL: order of first appearance; of TABLE_SORT_KEYS */
	int row_limit;       /* -1: all */
	bool profile_memory; /* the columns of memory */
	bool device_time;    /* the columns of GPU time */
};

/* Attributes of torch's FunctionEventAvg. */
#define TABLE_SORT_KEYS                                                                            \
	"self_cpu_time_total, cpu_time_total, cpu_time, self_cuda_time_total, cuda_time_total, "   \
	"cuda_time, self_device_time_total, device_time_total, device_time, count, key, flops, "   \
	"cpu_memory_usage, self_cpu_memory_usage, cuda_memory_usage, self_cuda_memory_usage, "     \
	"device_memory_usage, self_device_memory_usage"
bool table__is_sort_key(const char *key);
int table__print(const struct ka_row *rows, uint32_t cnt, const struct table_opts *opts, FILE *out);
/* For machines: an object with rows, window, loss account and totals. */
int table__print_json(const struct ka_row *rows, uint32_t cnt, const struct table_opts *opts,
		      const struct session *s, const struct session_totals *totals, FILE *out);

/* The text of a META record that is a JSON string; "" if there is none. */
void facts__meta_text(const struct session *s, const char *key, char *buf, size_t cap);

/* ---- what is missing: one place for the summary line, the trace's account and the exit code ---- */

/*
 * Refused functions that hide calls of operators. Not counted: operators of which only the end is not probed, and C++
 * functions outside of at::_ops that may dispatch some operator, but which one is not known.
 */
uint32_t loss_account__unseen_operators(const struct session_info *info);
/* True when anything is missing that the user must know of (exit code 3); fills one sentence. */
bool loss_account__incomplete(const struct session_info *info, const struct session_totals *totals,
			      char *text, size_t cap);

/* ---- formats of `ptbpf export` ---- */
enum export_kind { EXPORT_CHROME, EXPORT_ET, EXPORT_TIMELINE };
struct export_format {
	const char *name;    /* value of --format */
	const char *summary; /* one line of help */
	const char *suffix;  /* default file name suffix */
	enum export_kind kind;
	enum timeline_format timeline;
};
extern const struct export_format export_formats[];
extern const size_t export_format_cnt;

#endif /* EXPORT_EXPORTER_H */
