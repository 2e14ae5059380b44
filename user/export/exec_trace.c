/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The Execution Trace that torch's ExecutionTraceObserver writes (schema 1.1.1-chakra.0.0.4,
 * pytorch torch/csrc/profiler/standalone/execution_trace_observer.cpp), of one process, in one
 * streaming pass. Owns the document and its nodes; must not interpret values.
 *
 * Nodes are written when their slices close, children before parents as torch does, so a node names
 * its parent before that is written. All ids are therefore known beforehand or need no order:
 *	1			the process, the root, written last
 *	2			the process groups of torch.distributed
 *	2 * order + 2		slices; even, and ascending in order of start (session__order()), which readers sort by
 *	2 * tid + 1		threads
 *	2 * (2^22 + n) + 1	tensors and storages, n: their numbers (model/model_priv.h)
 * A slice is a node whether or not it has ended (those are the slices of the Chrome trace, and the
 * two files are joined by rf_id), so every parent exists.
 */
#define LOG_DOMAIN "exec_trace"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/containers.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "export/et_priv.h"
#include "export/facts_json.h"
#include "export/output.h"

#define SCHEMA "1.1.1-chakra.0.0.4"

struct exec_trace {
	const struct session *s;
	const struct session_info *info;
	struct out_file *of;
	struct jsonw w;
	uint32_t tgid;
	struct et_ids ids;
	struct et_missing missing;
	/* the thread of the last slice, its id and number: runs of one thread are long */
	uint32_t last_tid;
	uint64_t last_thread, last_nr;
	struct hashmap thread_written; /* tid -> 1: its node is there */
	struct hashmap thread_nr;      /* tid -> logical id, 1, 2, ... by first appearance */
	uint64_t nodes, no_inputs, no_outputs;
};

/* ---- nodes ---- */

struct node_attrs {
	uint64_t rf_id, fw_parent, scope, tid, fw_tid;
	int64_t seq;
	const char *schema;
};

#define put_text(p, text) (memcpy(p, text, sizeof(text) - 1), (p) += sizeof(text) - 1)
#define attr_text(name, type) "{\"name\": \"" name "\", \"type\": \"" type "\", \"value\": "
#define put_attr(p, name, type, v)                                                                 \
	(put_text(p, attr_text(name, type)), (p) += decimal__i64(p, (int64_t)(v)),                 \
	 put_text(p, "}, "))

/*
 * The attributes that every node has, in torch's order, written at once; the list stays open for
 * more. torch knows backend and file of compiled kernels by the call's keyword inputs, which cannot
 * be read from outside. The newest torch always writes tensor_range.
 */
static void put_attrs(struct jsonw *w, const struct node_attrs *a)
{
	static const char tail[] = "}, " attr_text("kernel_backend", "string") "\"\"}, " attr_text(
		"kernel_file", "string") "\"\"}, " attr_text("tensor_range", "string") "\"\"}";
	char buf[640], *p = buf;

	put_text(p, "\"attrs\": [");
	put_attr(p, "rf_id", "uint64", a->rf_id);
	put_attr(p, "fw_parent", "uint64", a->fw_parent);
	put_attr(p, "seq_id", "int64", a->seq);
	put_attr(p, "scope", "uint64", a->scope);
	put_attr(p, "tid", "uint64", a->tid);
	put_attr(p, "fw_tid", "uint64", a->fw_tid);
	put_text(p, attr_text("op_schema", "string"));
	jsonw__key_lit(w, buf, (size_t)(p - buf));
	jsonw__str(w, a->schema);
	jsonw__more(w, tail, sizeof(tail) - 1);
}

static void end_node(struct jsonw *w)
{
	jsonw__more(w, "]", 1);
	jsonw__end_obj(w);
}

static void put_head(struct jsonw *w, uint64_t id, const char *name, uint64_t parent)
{
	jsonw__break(w);
	jsonw__begin_obj(w);
	JSONW_U64(w, "id", id);
	JSONW_STR(w, "name", name);
	JSONW_U64(w, "ctrl_deps", parent);
}

/* The root and the threads: labels without values. */
static void put_label(struct exec_trace *et, uint64_t id, const char *name, uint64_t tid)
{
	static const struct session_keys no_keys;
	const struct node_attrs attrs = {
		.scope = SCOPE_USER, .seq = -1, .tid = tid, .schema = ""
	};
	const struct slice_values none = { .flags = 0 };

	put_head(&et->w, id, name, ET_ROOT);
	JSONW_KEY(&et->w, "inputs");
	et_values__write(&et->w, &none, &no_keys, &et->ids, &et->missing);
	JSONW_KEY(&et->w, "outputs");
	et_values__write(&et->w, &none, &no_keys, &et->ids, &et->missing);
	put_attrs(&et->w, &attrs);
	end_node(&et->w);
	et->nodes++;
}

/* Logical id of a thread, 1, 2, ... by first appearance. */
static uint64_t thread_number(struct exec_trace *et, uint32_t tid)
{
	uint64_t *nr = hashmap__get(&et->thread_nr, tid, 0);

	if (!nr)
		hashmap__put(&et->thread_nr, tid, 0, et->thread_nr.live + 1);
	return nr ? *nr : et->thread_nr.live;
}

/* Sets last_*; writes the thread's node before the first node of the thread. */
static void enter_thread(struct exec_trace *et, uint32_t tid)
{
	if (et->last_nr && et->last_tid == tid)
		return;
	et->last_nr = thread_number(et, tid);
	et->last_tid = tid;
	et->last_thread = et_id__object(&et->ids, tid, ET_THREAD);
	if (hashmap__get(&et->thread_written, tid, 0))
		return;
	put_label(et, et->last_thread, "[pytorch|profiler|execution_trace|thread]", et->last_nr);
	hashmap__put(&et->thread_written, tid, 0, 1);
}

/* What torch writes when the observer begins: the groups as JSON in a text. */
static void put_groups(struct exec_trace *et)
{
	const struct session_process *p = session__process(et->s, et->tgid);
	struct node_attrs attrs = { .scope = SCOPE_USER, .seq = -1, .schema = "" };
	static const struct session_keys no_keys;
	const struct slice_values none = { .flags = 0 };
	char *groups = p ? job_json__groups(p) : NULL;
	struct jsonw *w = &et->w;

	if (groups) {
		enter_thread(et, et->tgid);
		attrs.tid = et->last_nr;
		put_head(w, et_id__slice(0), "## process_group:init ##", et->last_thread);
		JSONW_OBJ(w, "inputs");
		JSONW_ARR(w, "values");
		jsonw__str(w, groups);
		jsonw__end_arr(w);
		JSONW_KEY(w, "shapes");
		jsonw__raw(w, "[[]], \"types\": [\"String\"], \"strides\": [[]]");
		jsonw__end_obj(w);
		JSONW_KEY(w, "outputs");
		et_values__write(w, &none, &no_keys, &et->ids, &et->missing);
		put_attrs(w, &attrs);
		end_node(w);
		et->nodes++;
	}
	free(groups);
}

/* ---- what a node lacks ---- */

#define LACKS_INPUTS 0x01 /* not recorded, though the node may have some */
#define LACKS_OUTPUTS 0x02
#define UNKNOWN_VALUES 0x04
#define CUT_VALUES 0x08

static const struct {
	uint32_t lack, flag; /* one of them is 0 */
	const char *text;
} notes[] = {
	{ LACKS_INPUTS, 0, "no_inputs" },
	{ LACKS_OUTPUTS, 0, "no_outputs" },
	{ UNKNOWN_VALUES, 0, "unknown_values" },
	{ CUT_VALUES, 0, "cut_values" },
	{ 0, SLICE_OPEN_AT_BEGIN, "open_at_attach" },
	{ 0, SLICE_UNFINISHED, "unfinished" },
	{ 0, SLICE_UNWOUND, "unwound" },
	{ 0, SLICE_END_LOST, "end_lost" },
	{ 0, SLICE_THREAD_EXIT, "thread_exit" },
	{ 0, SLICE_NAME_CUT, "name_cut" },
	{ 0, SLICE_DERIVED, "derived" },
	{ 0, SLICE_PARTIAL, "partial" },
};

/* One more attribute, where the node lacks something; readers of torch's traces ignore it. */
static void put_note(struct jsonw *w, const struct slice *sl, uint32_t lacks)
{
	bool open = false;

	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		if (!(lacks & notes[i].lack) && !(sl->flags & notes[i].flag))
			continue;
		if (!open) {
			jsonw__raw(w, attr_text("ptbpf.note", "string") "\"");
		} else {
			jsonw__more(w, ",", 1);
		}
		open = true;
		jsonw__more(w, notes[i].text, strlen(notes[i].text));
	}
	if (open)
		jsonw__more(w, "\"}", 2);
}

/* "ns::f(...) -> ()" */
static bool returns_nothing(const struct slice *sl)
{
	static const char nothing[] = " -> ()";
	size_t len = sl->schema ? strlen(sl->schema) : 0;

	return len > sizeof(nothing) && !strcmp(sl->schema + len - (sizeof(nothing) - 1), nothing);
}

static uint32_t what_lacks(const struct slice *sl)
{
	bool gives = slice__is_operator(sl) && !(sl->flags & (SLICE_UNFINISHED | SLICE_UNWOUND)) &&
		     !returns_nothing(sl);

	return (slice__lacks_inputs(sl) ? LACKS_INPUTS : 0) |
	       (gives && !(sl->out.flags & VALUES_PRESENT) ? LACKS_OUTPUTS : 0);
}

/* ---- slices ---- */

static uint64_t slice_node(const struct exec_trace *et, uint64_t id)
{
	return et_id__slice(session__order(et->s, id));
}

/* What torch finds on top of the forward thread's stack: a slice, else that thread's own node. */
static uint64_t forward_parent(struct exec_trace *et, const struct slice *sl)
{
	if (sl->fw_parent)
		return slice_node(et, sl->fw_parent);
	if (sl->fwd_tid && hashmap__get(&et->thread_written, sl->fwd_tid, 0))
		return et_id__object(&et->ids, sl->fwd_tid, ET_THREAD);
	return 0;
}

static struct node_attrs slice_attrs(struct exec_trace *et, const struct slice *sl)
{
	/* evaluate_function has no number of its own: kineto lends it that of the function
	 * within */
	bool lent = sl->kind == PTB_FUNC_NODE;
	/* our number of the thread that torch's means, where that is known */
	uint64_t fw_tid = sl->fwd_thread && sl->fwd_tid ? thread_number(et, sl->fwd_tid) :
							  sl->fwd_thread;

	return (struct node_attrs){
		.rf_id = sl->id,
		.fw_parent = lent ? 0 : forward_parent(et, sl),
		.scope = sl->scope,
		.tid = et->last_nr,
		.fw_tid = lent ? 0 : fw_tid,
		.seq = lent ? -1 : sl->seq,
		/* et_replay runs nodes with a schema; the inputs of one that was open at the begin
		 * are unknown */
		.schema = sl->schema && !(sl->flags & SLICE_OPEN_AT_BEGIN) ? sl->schema : "",
	};
}

static void put_slice(struct exec_trace *et, const struct slice *sl)
{
	const struct node_attrs attrs = slice_attrs(et, sl);
	struct et_missing missing = { 0 };
	uint32_t lacks = what_lacks(sl);
	struct jsonw *w = &et->w;

	put_head(w, slice_node(et, sl->id), sl->name,
		 sl->parent ? slice_node(et, sl->parent) : et->last_thread);
	JSONW_KEY(w, "inputs");
	et_values__write(w, &sl->in, sl->keys, &et->ids, &missing);
	JSONW_KEY(w, "outputs");
	et_values__write(w, &sl->out, sl->keys, &et->ids, &missing);
	put_attrs(w, &attrs);
	/* what torch writes when a collective's own attributes cannot be had */
	if (!strcmp(sl->name, "record_param_comms"))
		jsonw__raw(w, attr_text("debug", "string") "\"missing comms info\"}");
	lacks |= (missing.unknown ? UNKNOWN_VALUES : 0) | (missing.cut ? CUT_VALUES : 0);
	put_note(w, sl, lacks);
	end_node(w);
	et->nodes++;
	et->no_inputs += !!(lacks & LACKS_INPUTS);
	et->no_outputs += !!(lacks & LACKS_OUTPUTS);
	et->missing.unknown += missing.unknown;
	et->missing.cut += missing.cut;
}

static void write_node(void *arg, const struct slice *sl)
{
	struct exec_trace *et = arg;

	if (sl->tgid != et->tgid)
		return;
	enter_thread(et, sl->tid);
	put_slice(et, sl);
}

static struct session_sink et_sink(void *o)
{
	return (struct session_sink){ .arg = o, .slice = write_node };
}

/* ---- document ---- */

static void put_start(struct exec_trace *et)
{
	const struct session_info *info = et->info;
	time_t unix_s = (time_t)(((int64_t)info->begin_ns + info->mono_to_unix_ns) / 1000000000);
	char text[64] = "";
	struct tm tm;

	if (localtime_r(&unix_s, &tm))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	jsonw__begin_obj(&et->w);
	jsonw__break(&et->w);
	JSONW_STR(&et->w, "schema", SCHEMA);
	JSONW_U64(&et->w, "pid", et->tgid);
	JSONW_STR(&et->w, "time", text);
	JSONW_U64(&et->w, "start_ts", info->begin_ns / 1000000);
	jsonw__break(&et->w);
	JSONW_OBJ(&et->w, "ptbpf");
	session_json__write(&et->w, et->s);
	jsonw__end_obj(&et->w);
	jsonw__break(&et->w);
	JSONW_ARR(&et->w, "nodes");
}

/* What this file holds and lacks, beside what the whole capture does. */
static void put_account(struct exec_trace *et)
{
	struct jsonw *w = &et->w;

	jsonw__break(w);
	JSONW_OBJ(w, "ptbpf_nodes");
	JSONW_U64(w, "nodes", et->nodes);
	JSONW_U64(w, "threads", et->ids.cnt[ET_THREAD]);
	JSONW_U64(w, "tensors", et->ids.cnt[ET_TENSOR]);
	JSONW_U64(w, "storages", et->ids.cnt[ET_STORAGE]);
	JSONW_U64(w, "no_inputs", et->no_inputs);
	JSONW_U64(w, "no_outputs", et->no_outputs);
	JSONW_U64(w, "unknown_values", et->missing.unknown);
	JSONW_U64(w, "cut_values", et->missing.cut);
	JSONW_U64(w, "other_processes", et->info->process_cnt ? et->info->process_cnt - 1 : 0);
	jsonw__end_obj(w);
}

static int begin_exec_trace(struct exec_trace *et, const struct output_args *args)
{
	int err;

	et->s = args->s;
	et->info = session__info(args->s);
	if (!et->info->has_results) {
		pr_error(
			"cannot write '%s': the capture has no results and identities of tensors, of which "
			"an Execution Trace is made; record with --execution-trace",
			args->path);
		return -ENODATA;
	}
	err = output__choose_process(args, &et->tgid);
	if (err)
		return err;
	out_file__open_json(args, &et->of, &et->w);
	put_start(et);
	put_groups(et);
	return 0;
}

static int finish_et(void *o, const struct output_args *args)
{
	struct exec_trace *et = o;
	struct jsonw *w = &et->w;

	put_label(et, ET_ROOT, "[pytorch|profiler|execution_trace|process]", 0);
	jsonw__newline(w);
	jsonw__end_arr(w);
	jsonw__break(w);
	JSONW_U64(w, "finish_ts", et->info->end_ns / 1000000);
	put_account(et);
	jsonw__break(w);
	JSONW_OBJ(w, "ptbpf_totals");
	session_json__write_totals(w, et->info, args->totals);
	jsonw__end_obj(w);
	jsonw__newline(w);
	jsonw__end_obj(w);
	jsonw__newline(w);
	return out_file__end_json(et->of, w);
}

static void free_et(void *o)
{
	struct exec_trace *et = o;

	if (!et)
		return;
	out_file__free(et->of);
	jsonw__free(&et->w);
	hashmap__clear(&et->ids.seen);
	hashmap__clear(&et->thread_nr);
	hashmap__clear(&et->thread_written);
	free(et);
}

static int open_et(const struct output_args *args, void **out)
{
	struct exec_trace *et = xcalloc(1, sizeof(*et));
	int err = begin_exec_trace(et, args);

	if (err)
		free_et(et);
	else
		*out = et;
	return err;
}

const struct output et_output = {
	.title = "Execution Trace",
	.open = open_et,
	.sink = et_sink,
	.finish = finish_et,
	.free = free_et,
};
