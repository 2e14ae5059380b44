/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Single events of a Chrome trace, keys in the order of kineto's writer (libkineto output_json.cpp),
 * one event per line. Knows no state of the trace.
 */
#include "export/chrome_priv.h"

#include <stdio.h>

static const char *const cat_names[] = {
	[SLICE_CPU_OP] = "cpu_op",
	[SLICE_USER_ANNOTATION] = "user_annotation",
};

/* What a slice says about itself beyond torch's own args. Names are a contract: schemas/formats/. */
static const struct {
	uint32_t flag;
	const char *key;
} marks[] = {
	{ SLICE_OPEN_AT_BEGIN, "ptbpf.open_at_attach" },
	{ SLICE_UNWOUND, "ptbpf.unwound" },
	{ SLICE_END_LOST, "ptbpf.end_lost" },
	{ SLICE_END_INFERRED, "ptbpf.end_inferred" },
	{ SLICE_DERIVED, "ptbpf.derived" },
	{ SLICE_PARTIAL, "ptbpf.partial" },
	{ SLICE_NAME_CUT, "ptbpf.name_cut" },
	{ SLICE_THREAD_EXIT, "ptbpf.thread_exit" },
	{ SLICE_OTHER_THREAD_END, "ptbpf.other_thread_end" },
	{ SLICE_TRUNCATED, "ptbpf.truncated" },
};

static void put_marks(struct jsonw *w, uint32_t flags)
{
	size_t i;

	if (flags & SLICE_UNFINISHED) { /* torch's own mark */
		JSONW_BOOL(w, "finished", false);
	}
	for (i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (!(flags & marks[i].flag))
			continue;
		jsonw__key(w, marks[i].key);
		jsonw__bool(w, true);
	}
}

void chrome_event__slice(struct jsonw *w, const struct slice *sl,
			 const struct chrome_args_opts *opts, uint64_t begin, uint64_t end)
{
	uint32_t missing;

	chrome_event__head(w, "X");
	JSONW_STR(w, "cat",
		  cat_names[sl->cat == SLICE_USER_ANNOTATION ? SLICE_USER_ANNOTATION : SLICE_CPU_OP]);
	JSONW_STR(w, "name", sl->name);
	JSONW_U64(w, "pid", sl->tgid);
	JSONW_U64(w, "tid", sl->tid);
	JSONW_US(w, "ts", begin);
	JSONW_US(w, "dur", end > begin ? end - begin : 0);
	JSONW_OBJ(w, "args");
	/* one number in all three: consumers join a trace with an Execution Trace by either name */
	JSONW_U64(w, "External id", sl->id);
	JSONW_U64(w, "Record function id", sl->id);
	if (sl->seq >= 0) {
		JSONW_U64(w, "Sequence number", (uint64_t)sl->seq);
		JSONW_U64(w, "Fwd thread id", sl->fwd_thread);
	}
	missing = chrome_args__write(w, sl, opts);
	if (opts->kernel_memory && sl->mem)
		chrome_memory__slice_args(w, sl->mem);
	JSONW_U64(w, "Ev Idx", sl->id - 1); /* ids are given in order of start, from 1 */
	put_marks(w, sl->flags);
	if (missing & CHROME_ARGS_UNKNOWN)
		JSONW_BOOL(w, "ptbpf.args_unknown", true);
	if (missing & CHROME_ARGS_CUT)
		JSONW_BOOL(w, "ptbpf.args_cut", true);
	jsonw__end_obj(w);
	jsonw__end_obj(w);
}

void chrome_event__flow(struct jsonw *w, char ph, uint64_t id, uint32_t pid, uint32_t tid, uint64_t ts)
{
	chrome_event__head(w, ph == 's' ? "s" : "f");
	JSONW_U64(w, "id", id);
	JSONW_U64(w, "pid", pid);
	JSONW_U64(w, "tid", tid);
	JSONW_US(w, "ts", ts);
	JSONW_STR(w, "cat", "fwdbwd");
	JSONW_STR(w, "name", "fwdbwd");
	if (ph != 's')
		JSONW_STR(w, "bp", "e");
	jsonw__end_obj(w);
}

/* Opens a metadata event up to its args. */
static void meta_head(struct jsonw *w, const char *name, uint64_t ts, uint32_t pid, uint32_t tid)
{
	chrome_event__head(w, "M");
	JSONW_STR(w, "name", name);
	JSONW_US(w, "ts", ts);
	JSONW_U64(w, "pid", pid);
	JSONW_U64(w, "tid", tid);
	JSONW_OBJ(w, "args");
}

static void meta_end(struct jsonw *w)
{
	jsonw__end_obj(w);
	jsonw__end_obj(w);
}

void chrome_event__process(struct jsonw *w, const struct session_process *p, uint64_t ts)
{
	const char *name = p->comm && *p->comm ? p->comm : p->exe;

	meta_head(w, "process_name", ts, p->tgid, 0);
	JSONW_STR(w, "name", name && *name ? name : "python");
	meta_end(w);
	meta_head(w, "process_labels", ts, p->tgid, 0);
	JSONW_STR(w, "labels", "CPU");
	meta_end(w);
	meta_head(w, "process_sort_index", ts, p->tgid, 0);
	JSONW_U64(w, "sort_index", p->tgid);
	meta_end(w);
}

void chrome_event__thread(struct jsonw *w, uint32_t pid, uint32_t tid, const char *comm, uint64_t ts)
{
	char name[64];

	snprintf(name, sizeof(name), "thread %u (%s)", tid, comm);
	meta_head(w, "thread_name", ts, pid, tid);
	JSONW_STR(w, "name", name);
	meta_end(w);
	meta_head(w, "thread_sort_index", ts, pid, tid);
	JSONW_U64(w, "sort_index", tid);
	meta_end(w);
}

/*
 * An instant over the whole view: an X slice of an unknown category would become an operator in one
 * consumer and an exception in another.
 */
void chrome_event__lost(struct jsonw *w, uint32_t pid, const struct session_lost *lost,
			uint64_t begin, uint64_t end)
{
	chrome_event__head(w, "i");
	JSONW_STR(w, "s", "g");
	JSONW_STR(w, "name", "LOST records");
	JSONW_U64(w, "pid", pid);
	JSONW_U64(w, "tid", pid);
	JSONW_US(w, "ts", begin);
	JSONW_OBJ(w, "args");
	JSONW_U64(w, "count", lost->cnt);
	JSONW_US(w, "duration_us", end > begin ? end - begin : 0);
	JSONW_U64(w, "ring", lost->ring);
	jsonw__end_obj(w);
	jsonw__end_obj(w);
}

void chrome_event__span(struct jsonw *w, uint64_t begin, uint64_t end)
{
	chrome_event__head(w, "X");
	JSONW_STR(w, "cat", "Trace");
	JSONW_STR(w, "name", "PyTorch Profiler (0)");
	JSONW_STR(w, "pid", "Spans");
	JSONW_STR(w, "tid", "PyTorch Profiler");
	JSONW_US(w, "ts", begin);
	JSONW_US(w, "dur", end > begin ? end - begin : 0);
	JSONW_OBJ(w, "args");
	JSONW_U64(w, "Op count", 0);
	jsonw__end_obj(w);
	jsonw__end_obj(w);

	chrome_event__head(w, "M");
	JSONW_STR(w, "name", "process_sort_index");
	JSONW_US(w, "ts", begin);
	JSONW_STR(w, "pid", "Spans");
	JSONW_U64(w, "tid", 0);
	JSONW_OBJ(w, "args");
	JSONW_U64(w, "sort_index", 536870912); /* below every process */
	jsonw__end_obj(w);
	jsonw__end_obj(w);

	chrome_event__head(w, "i");
	JSONW_STR(w, "s", "g");
	JSONW_STR(w, "name", "Iteration Start: PyTorch Profiler");
	JSONW_STR(w, "pid", "Traces");
	JSONW_STR(w, "tid", "Trace PyTorch Profiler");
	JSONW_US(w, "ts", begin);
	jsonw__end_obj(w);

	chrome_event__head(w, "i");
	JSONW_STR(w, "s", "g");
	JSONW_STR(w, "name", "Record Window End");
	JSONW_STR(w, "pid", "");
	JSONW_STR(w, "tid", "");
	JSONW_US(w, "ts", end);
	jsonw__end_obj(w);
}
