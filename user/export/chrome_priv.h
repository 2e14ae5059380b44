/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The parts of the Chrome trace writer; private to chrome_*.c. Layout: kineto output_json.cpp. */
#ifndef EXPORT_CHROME_PRIV_H
#define EXPORT_CHROME_PRIV_H

#include "args/schema.h"
#include "base/jsonw.h"
#include "export/output.h"

/* CLOCK_MONOTONIC to the trace's time: ns since baseTimeNanoseconds. */
struct chrome_clock {
	uint64_t base_unix_ns;
	int64_t mono_to_unix_ns;
};

uint64_t chrome_clock__rel(const struct chrome_clock *c, uint64_t mono_ns); /* negative: 0 */
/* The same of a time that may lie outside the window: then the window's begin or end. */
uint64_t chrome_clock__in_window(const struct chrome_clock *c, const struct session_info *info,
				 uint64_t mono_ns);

/* chrome_args.c: torch's keys for a slice's inputs; returns what of them is missing. */
struct chrome_args_opts {
	bool kernel_memory; /* --kernel-memory */
	bool inputs;        /* arguments are recorded */
	bool overload_names;
	struct op_schemas *schemas;
};
/* clang-format off */
/* values are not known: all, or some that stand there as such that torch would not show */
#define CHROME_ARGS_UNKNOWN 0x1
/* inputs, elements or dimensions that torch would show are left out */
#define CHROME_ARGS_CUT 0x2
/* clang-format on */
uint32_t chrome_args__write(struct jsonw *w, const struct slice *sl,
			    const struct chrome_args_opts *opts);
/* What the arguments of a collective say of it; nothing for other slices. */
struct arg_list;
void chrome_comms__write(struct jsonw *w, const struct slice *sl, const struct arg_list *al);

/* Opens an event: on its own line, with its phase. */
static inline void chrome_event__head(struct jsonw *w, const char *ph)
{
	jsonw__begin_row(w);
	JSONW_STR(w, "ph", ph);
}

/* Closes an event with args. */
static inline void chrome_event__end(struct jsonw *w)
{
	jsonw__end_obj(w);
	jsonw__end_obj(w);
}

/* chrome_events.c: one event each, on its own line; times are already relative. */
struct chrome_slice {
	const char *cat, *name;
	const char *overload; /* behind the name; NULL, "": none */
	int64_t pid;
	uint32_t tid;
	uint64_t begin, end;
};
void chrome_event__begin_slice(struct jsonw *w, const struct chrome_slice *s); /* up to its args */
struct chrome_python;
void chrome_event__slice(struct jsonw *w, const struct slice *sl,
			 const struct chrome_args_opts *opts, struct chrome_python *python,
			 uint64_t begin, uint64_t end);
struct chrome_flow {
	uint64_t id;
	uint32_t pid, tid;
	uint64_t ts;
};
void chrome_event__flow(struct jsonw *w, const char *cat, bool begin, const struct chrome_flow *f);
struct chrome_meta { /* metadata with one argument: the text, or the number where there is none; */
	const char *what;
	int64_t pid;
	uint32_t tid;
	const char *key, *text;
	uint64_t number;
	const char *python_name; /* and for people; NULL: none */
};
void chrome_event__meta(struct jsonw *w, uint64_t ts, const struct chrome_meta *m);
/* A process, or a device that is shown as one; p: whose name it has, NULL: not known. */
void chrome_event__process(struct jsonw *w, uint32_t pid, const struct session_process *p,
			   const char *label, uint64_t sort_index, uint64_t ts);
/* name: as torch writes it; python_name: that of threading.Thread, "": not known. */
void chrome_event__thread(struct jsonw *w, uint32_t pid, uint32_t tid, uint32_t sort_index,
			  const char *name, const char *python_name, uint64_t ts);
void chrome_event__lost(struct jsonw *w, uint32_t pid, const struct session_lost *lost,
			uint64_t begin, uint64_t end);
void chrome_event__span(struct jsonw *w, uint64_t begin, uint64_t end);

/* chrome_memory.c: memory events as instants, values over time as counters. */
struct chrome_memory;
struct chrome_memory *chrome_memory__new(struct jsonw *w, const struct session_info *info,
					 const struct chrome_clock *clock,
					 uint32_t only); /* only: a process, 0: all */
void chrome_memory__free(struct chrome_memory *cm);
void chrome_memory__event(struct chrome_memory *cm, const struct memory_event *ev);
void chrome_memory__kernel(struct chrome_memory *cm, const struct kernel_event *ev);
void chrome_memory__finish(struct chrome_memory *cm);
/* What the kernel did while a slice was open, in its args. */
/* ---- chrome_sched.c: what threads did ---- */

struct chrome_sched;
struct chrome_sched *chrome_sched__new(struct jsonw *w, const struct session *s,
				       const struct chrome_clock *clock);
void chrome_sched__free(struct chrome_sched *cs);
void chrome_sched__event(struct chrome_sched *cs, const struct sched_event *ev);
void chrome_sched__finish(const struct chrome_sched *cs);

void chrome_memory__slice_args(struct jsonw *w, const struct slice_memory *m);

/* chrome_nest.c: calls fitted between the slices of their threads. */
struct chrome_nest;
struct chrome_nest *chrome_nest__new(void);
void chrome_nest__free(struct chrome_nest *n);
void chrome_nest__slice(struct chrome_nest *n, uint32_t tgid, uint32_t tid, uint64_t begin,
			uint64_t end);
/* After the last slice, for calls in order of their begins: makes the call's times fit; begin and
 * end are equal where there is no room for it. */
void chrome_nest__fit(struct chrome_nest *n, uint32_t tgid, uint32_t tid, uint64_t *begin,
		      uint64_t *end);

/* clang-format off */
#define OWNER_ROW 10000000u     /* rows of the second, third, ... process on the same device */
#define OVERLAP_ROW 1000000000u /* rows of what would cross a slice on its stream's row */
#define GPU_SORT_INDEX 5000000u
/* clang-format on */
/* chrome_gpu.c: activities of GPUs and the calls that caused them, with their flows. */
struct chrome_gpu;
struct chrome_gpu_totals { /* what only the trace knows */
	uint64_t calls;    /* slices of API calls */
	/* calls that torch does not show: its own list, driver calls of a runtime call */
	uint64_t hidden;
	uint64_t clipped;      /* cut by no more than the clocks' error, to keep slices nested */
	uint64_t clipped_more; /* and by more */
	uint64_t left_out; /* for which there was no room at all, or that are outside the window */
	uint64_t work, flows, overheads, annotations, syncs, events;
};
struct chrome_gpu *chrome_gpu__new(struct jsonw *w, const struct session *s,
				   const struct chrome_clock *clock);
void chrome_gpu__free(struct chrome_gpu *cg);
void chrome_gpu__slice(struct chrome_gpu *cg, const struct slice *sl);
/* The same of a slice of the trace's own. */
void chrome_gpu__span(struct chrome_gpu *cg, uint32_t tgid, uint32_t tid, uint64_t begin_ns,
		      uint64_t end_ns);
void chrome_gpu__event(struct chrome_gpu *cg, const struct gpu_slice *g);
void chrome_gpu__finish(struct chrome_gpu *cg); /* names of devices and streams */
const struct chrome_gpu_totals *chrome_gpu__totals(const struct chrome_gpu *cg);

/* chrome_python.c: Python functions, and the stacks of slices. */
struct chrome_python_totals {
	uint64_t functions; /* slices */
	uint64_t not_drawn; /* that would cross a slice, or for which there was no room in time */
};
struct chrome_python *chrome_python__new(struct jsonw *w, const struct session *s,
					 const struct chrome_clock *clock, struct chrome_gpu *gpu);
void chrome_python__free(struct chrome_python *cp);
void chrome_python__slice(struct chrome_python *cp, const struct slice *sl);
/* The args of a slice with this stack, into its open object. */
void chrome_python__call_stack(struct chrome_python *cp, uint32_t stack);
void chrome_python__modules(struct chrome_python *cp, uint32_t stack); /* an operator's */
/* After the last slice, before the first call to CUDA: writes the functions. Once; then it does
 * nothing. */
void chrome_python__sample(struct chrome_python *cp, const struct py_sample *sample);
void chrome_python__finish(struct chrome_python *cp);
const struct chrome_python_totals *chrome_python__totals(const struct chrome_python *cp);

/* chrome_gpu_args.c: kineto's args of one activity, in its order, into the open object. corr: as
 * the trace numbers it. line: of Python, that captured it; "". */
void chrome_gpu_args__work(struct jsonw *w, const struct gpu_slice *g, uint64_t corr,
			   const char *line);
void chrome_gpu_args__call(struct jsonw *w, const struct gpu_slice *g, uint64_t corr);
void chrome_gpu_args__sync(struct jsonw *w, const struct gpu_slice *g, uint64_t corr,
			   uint64_t event_corr);
void chrome_gpu_args__event(struct jsonw *w, const struct gpu_slice *g, uint64_t corr);

#endif /* EXPORT_CHROME_PRIV_H */
