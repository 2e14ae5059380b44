/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Single events of a Chrome trace, keys in the order of kineto's writer (libkineto
 * output_json.cpp), one event per line. Knows no state of the trace.
 */
#include "export/chrome_priv.h"

#include <string.h>

#include "export/texts.h"

/* What a slice says about itself beyond torch's own args. Names are a contract:
 * schemas/formats/. */
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

static void put_slice_marks(struct jsonw *w, uint32_t flags)
{
	if (flags & SLICE_UNFINISHED) { /* torch's own mark */
		JSONW_BOOL(w, "finished", false);
	}
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (!(flags & marks[i].flag))
			continue;
		jsonw__key(w, marks[i].key);
		jsonw__bool(w, true);
	}
}

/* "aten::add.Tensor", as kineto with capture_overload_names (libkineto, by way of pytorch
 * torch/csrc/profiler/collection.cpp). */
static void put_name(struct jsonw *w, const char *name, const char *overload)
{
	if (!overload || !*overload) {
		jsonw__str(w, name);
		return;
	}
	jsonw__str_begin(w);
	jsonw__str_put(w, name, strlen(name));
	jsonw__str_put(w, ".", 1);
	jsonw__str_put(w, overload, strlen(overload));
	jsonw__str_end(w);
}

void chrome_event__begin_slice(struct jsonw *w, const struct chrome_slice *s)
{
	chrome_event__head(w, "X");
	JSONW_STR(w, "cat", s->cat);
	JSONW_KEY(w, "name");
	put_name(w, s->name, s->overload);
	JSONW_I64(w, "pid", s->pid);
	JSONW_U64(w, "tid", s->tid);
	JSONW_US(w, "ts", s->begin);
	JSONW_US(w, "dur", s->end > s->begin ? s->end - s->begin : 0);
	JSONW_OBJ(w, "args");
}

void chrome_event__slice(struct jsonw *w, const struct slice *sl,
			 const struct chrome_args_opts *opts, struct chrome_python *python,
			 uint64_t begin, uint64_t end)
{
	uint32_t missing;

	chrome_event__begin_slice(
		w,
		&(struct chrome_slice){
			.cat = sl->cat == SLICE_USER_ANNOTATION ? "user_annotation" : "cpu_op",
			.name = sl->name,
			.overload = opts->overload_names && slice__is_operator(sl) ? sl->overload :
										     NULL,
			.pid = sl->tgid,
			.tid = sl->tid,
			.begin = begin,
			.end = end });
	/* one number in all three: consumers join a trace with an Execution Trace by either name */
	JSONW_U64(w, "External id", sl->id);
	JSONW_U64(w, "Record function id", sl->id);
	if (sl->seq >= 0) {
		JSONW_U64(w, "Sequence number", (uint64_t)sl->seq);
		JSONW_U64(w, "Fwd thread id", sl->fwd_thread);
	}
	missing = chrome_args__write(w, sl, opts);
	if (sl->stack)
		chrome_python__call_stack(python, sl->stack);
	if (sl->stack && sl->cat == SLICE_CPU_OP)
		chrome_python__modules(python, sl->stack);
	if (opts->kernel_memory && sl->mem)
		chrome_memory__slice_args(w, sl->mem);
	JSONW_U64(w, "Ev Idx", sl->id - 1); /* ids are given in order of start, from 1 */
	put_slice_marks(w, sl->flags);
	if (missing & CHROME_ARGS_UNKNOWN)
		JSONW_BOOL(w, "ptbpf.args_unknown", true);
	if (missing & CHROME_ARGS_CUT)
		JSONW_BOOL(w, "ptbpf.args_cut", true);
	chrome_event__end(w);
}

void chrome_event__flow(struct jsonw *w, const char *cat, bool begin, const struct chrome_flow *f)
{
	chrome_event__head(w, begin ? "s" : "f");
	JSONW_U64(w, "id", f->id);
	JSONW_U64(w, "pid", f->pid);
	JSONW_U64(w, "tid", f->tid);
	JSONW_US(w, "ts", f->ts);
	JSONW_STR(w, "cat", cat);
	JSONW_STR(w, "name", cat);
	if (!begin)
		JSONW_STR(w, "bp", "e");
	jsonw__end_obj(w);
}

void chrome_event__meta(struct jsonw *w, uint64_t ts, const struct chrome_meta *m)
{
	chrome_event__head(w, "M");
	JSONW_STR(w, "name", m->what);
	JSONW_US(w, "ts", ts);
	JSONW_I64(w, "pid", m->pid);
	JSONW_U64(w, "tid", m->tid);
	JSONW_OBJ(w, "args");
	jsonw__key(w, m->key);
	if (m->text)
		jsonw__str(w, m->text);
	else
		jsonw__u64(w, m->number);
	if (m->python_name && *m->python_name)
		JSONW_STR(w, "ptbpf.name", m->python_name);
	chrome_event__end(w);
}

void chrome_event__process(struct jsonw *w, uint32_t pid, const struct session_process *p,
			   const char *label, uint64_t sort_index, uint64_t ts)
{
	const char *name = !p ? NULL : p->comm && *p->comm ? p->comm : p->exe;

	chrome_event__meta(w, ts,
			   &(struct chrome_meta){ "process_name", pid, 0, "name",
						  name && *name ? name : "python", 0, NULL });
	chrome_event__meta(w, ts,
			   &(struct chrome_meta){ "process_labels", pid, 0, "labels", label, 0,
						  NULL });
	chrome_event__meta(w, ts,
			   &(struct chrome_meta){ "process_sort_index", pid, 0, "sort_index", NULL,
						  sort_index, NULL });
}

void chrome_event__thread(struct jsonw *w, uint32_t pid, uint32_t tid, uint32_t sort_index,
			  const char *name, const char *python_name, uint64_t ts)
{
	chrome_event__meta(w, ts,
			   &(struct chrome_meta){ "thread_name", pid, tid, "name", name, 0,
						  python_name });
	chrome_event__meta(w, ts,
			   &(struct chrome_meta){ "thread_sort_index", pid, tid, "sort_index", NULL,
						  sort_index, NULL });
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
	chrome_event__end(w);
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
	chrome_event__end(w);

	chrome_event__head(w, "M");
	JSONW_STR(w, "name", "process_sort_index");
	JSONW_US(w, "ts", begin);
	JSONW_STR(w, "pid", "Spans");
	JSONW_U64(w, "tid", 0);
	JSONW_OBJ(w, "args");
	JSONW_U64(w, "sort_index", 536870912); /* below every process */
	chrome_event__end(w);

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
