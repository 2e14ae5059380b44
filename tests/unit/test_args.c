/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* model/args: arguments and results on slices, doubles that come later, numbers, scopes. */
#include <string.h>

#include "capture_builder.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 9000000
#define AUTOGRAD 0x10ULL

static const int64_t shape23[] = { 2, 3 };
static const struct session_keys keys = { .autograd = AUTOGRAD, .nested = 0x20 };

static struct value nth(const struct slice_values *sv, uint32_t n)
{
	struct value_iter it = values__begin(sv);
	struct value v = { 0 };

	do {
		CU_ASSERT_TRUE_FATAL(values__next(&it, &v));
	} while (n--);
	return v;
}

/* Inputs come with the entry and outlive the children's, results come with the exit. */
static void operators(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	struct value_words in = { 0 }, out = { 0 }, inner = { 0 };
	const struct slice *sl;
	struct slice_log *log;

	vw__shape(&in, 2, shape23);
	vw__int(&in, 7);
	vw__shape(&out, 1, shape23);
	vw__string(&inner, "inner");
	builder__values(b, &in);
	builder__enter(b, f, 2000000, 0x9000);
	builder__values(b, &inner);
	builder__enter(b, g, 2000100, 0x8000);
	builder__exit(b, g, 2000200, 0x7f00);
	builder__values(b, &out);
	builder__exit(b, f, 2000300, 0x8f00);
	builder__enter(b, f, 2001000, 0x9000);
	builder__exit(b, f, 2001100, 0x8f00);
	in.cnt = 0; /* recorded, and there are none */
	builder__values(b, &in);
	builder__enter(b, f, 2002000, 0x9000);
	builder__exit(b, f, 2002100, 0x8f00);
	log = slice_log__of(b, NULL);
	sl = slice_log__must(log, "aten::f", 0);
	CU_ASSERT_EQUAL(sl->in.flags, VALUES_PRESENT);
	CU_ASSERT_EQUAL(values__count(&sl->in), 2);
	CU_ASSERT_EQUAL(nth(&sl->in, 0).sizes[1], 3);
	CU_ASSERT_EQUAL(nth(&sl->in, 1).i, 7);
	CU_ASSERT_EQUAL(sl->out.flags, VALUES_PRESENT);
	CU_ASSERT_EQUAL(values__count(&sl->out), 1);
	CU_ASSERT_EQUAL(nth(&sl->out, 0).ndim, 1);
	sl = slice_log__must(log, "aten::g", 0);
	CU_ASSERT_EQUAL(memcmp(nth(&sl->in, 0).data, "inner", 5), 0);
	CU_ASSERT_EQUAL(sl->out.flags, 0);
	sl = slice_log__must(log, "aten::f", 1);
	CU_ASSERT_EQUAL(sl->in.flags, 0); /* nothing stays of the call before */
	CU_ASSERT_EQUAL(sl->out.flags, 0);
	sl = slice_log__must(log, "aten::f", 2);
	CU_ASSERT_EQUAL(sl->in.flags, VALUES_PRESENT);
	CU_ASSERT_EQUAL(values__count(&sl->in), 0);
	CU_ASSERT_EQUAL(log->totals.bad_records, 0);
	slice_log__done(log, b);
}

/* A frame that an exception left has no results; one open since before the window has only them. */
static void ends(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	struct value_words w = { 0 };
	const struct slice *sl;
	struct slice_log *log;

	vw__int(&w, 1);
	builder__values(b, &w);
	builder__exit(b, g, BEGIN + 5000, 0x9f00);
	builder__values(b, &w);
	builder__enter(b, f, 2000000, 0x9000);
	builder__values(b, &w);
	builder__enter(b, g, 2000100, 0x8000);
	builder__values(b, &w);
	builder__exit(b, f, 2000300, 0x8f00);
	builder__values(b, &w);
	builder__enter(b, f, 8000000, 0x9000);
	log = slice_log__of(b, NULL);
	sl = slice_log__must(log, "aten::g", 0);
	CU_ASSERT_TRUE(sl->flags & SLICE_OPEN_AT_BEGIN);
	CU_ASSERT_EQUAL(sl->in.flags, 0);
	CU_ASSERT_EQUAL(values__count(&sl->out), 1);
	sl = slice_log__must(log, "aten::g", 1);
	CU_ASSERT_TRUE(sl->flags & SLICE_UNWOUND);
	CU_ASSERT_EQUAL(values__count(&sl->in), 1);
	CU_ASSERT_EQUAL(sl->out.flags, 0);
	CU_ASSERT_EQUAL(values__count(&slice_log__must(log, "aten::f", 0)->out), 1);
	sl = slice_log__must(log, "aten::f", 1);
	CU_ASSERT_TRUE(sl->flags & SLICE_UNFINISHED);
	CU_ASSERT_EQUAL(values__count(&sl->in), 1);
	slice_log__done(log, b);
}

static void cut_and_unsound(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct value_words w = { 0 };
	const struct slice *sl;
	struct slice_log *log;

	vw__int(&w, 1);
	builder__values_cut(b, &w);
	builder__enter(b, f, 2000000, 0x9000);
	builder__exit(b, f, 2000100, 0x8f00);
	vw__list(&w, PTB_VAL_LIST, 5, 1);
	vw__none(&w);
	builder__values(b, &w);
	builder__enter(b, f, 2001000, 0x9000);
	builder__exit(b, f, 2001100, 0x8f00);
	builder__enter(b, f, 2002000, 0x9000);
	builder__values(b, &w);
	builder__exit(b, f, 2002100, 0x8f00);
	vw__raw(&w, 77, 0, 0, 0, NULL, 0);
	builder__values(b, &w);
	builder__enter(b, f, 2003000, 0x9000);
	builder__exit(b, f, 2003100, 0x8f00);
	log = slice_log__of(b, NULL);
	sl = slice_log__must(log, "aten::f", 0);
	CU_ASSERT_EQUAL(sl->in.flags, VALUES_PRESENT | VALUES_CUT);
	CU_ASSERT_TRUE(sl->flags & SLICE_ARGS_CUT);
	sl = slice_log__must(log, "aten::f", 1);
	CU_ASSERT_EQUAL(sl->in.flags, VALUES_PRESENT);
	CU_ASSERT_TRUE(sl->flags & SLICE_ARGS_CUT);
	sl = slice_log__must(log, "aten::f", 2);
	CU_ASSERT_EQUAL(sl->in.flags, 0);
	CU_ASSERT_TRUE(sl->flags & SLICE_ARGS_CUT);
	sl = slice_log__must(log, "aten::f", 3);
	CU_ASSERT_EQUAL(sl->in.flags, VALUES_PRESENT | VALUES_CUT);
	CU_ASSERT_EQUAL(values__count(&sl->in), 2);
	CU_ASSERT_EQUAL(log->totals.bad_records, 1);
	slice_log__done(log, b);
}

/* Doubles are in vector registers at the entry: a later record has them, by number. */
static void late_doubles(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	struct value_words w = { 0 }, late = { 0 };
	const struct slice *sl;
	struct slice_log *log;

	vw__pending(&w, 0);
	vw__int(&w, 3);
	vw__pending(&w, 1);
	vw__pending(&w, 2);
	builder__values(b, &w);
	builder__enter(b, f, 2000000, 0x9000);
	builder__values(b, &w);
	builder__enter(b, f, 2000010, 0x8000); /* a call inside: the record is of the innermost */
	vw__late(&late, 2, 0.25);
	vw__late(&late, 0, -1.5);
	builder__values(b, &late);
	builder__args_more(b, f, 2000020, 0x7f80);
	builder__exit(b, f, 2000100, 0x7f00);
	builder__values(b, &late);
	builder__args_more(b, g, 2000110, 0x8f80); /* not of this function */
	builder__args_more(b, f, 2000120, 0x8f80); /* without values */
	builder__exit(b, f, 2000200, 0x8f00);
	builder__values(b, &late);
	builder__args_more(b, f, 2000300, 0x8f80); /* nothing is open */
	log = slice_log__of(b, NULL);
	sl = slice_log__must(log, "aten::f", 1);
	CU_ASSERT_EQUAL(nth(&sl->in, 0).d, -1.5);
	CU_ASSERT_EQUAL(nth(&sl->in, 0).kind, PTB_VAL_DOUBLE);
	CU_ASSERT_EQUAL(nth(&sl->in, 1).i, 3);
	CU_ASSERT_EQUAL(nth(&sl->in, 2).kind, PTB_VAL_UNKNOWN);
	CU_ASSERT_EQUAL(nth(&sl->in, 3).d, 0.25);
	sl = slice_log__must(log, "aten::f", 0);
	CU_ASSERT_EQUAL(nth(&sl->in, 0).kind, PTB_VAL_UNKNOWN);
	CU_ASSERT_EQUAL(nth(&sl->in, 3).kind, PTB_VAL_UNKNOWN);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 0);
	slice_log__done(log, b);
}

/* What torch never shows keeps its values to itself. */
static void hidden(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"),
		 box = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true);
	struct value_words w = { 0 };
	struct slice_log *log;

	builder__opdef(b, 1, 0x20, "aten::size.int", true);
	vw__int(&w, 1);
	builder__enter(b, f, 2000000, 0x9000);
	builder__values(b, &w);
	builder__boxed(b, box, 2000010, 0x8000, 0x20);
	builder__values(b, &w);
	builder__exit(b, box, 2000020, 0x7f00);
	builder__exit(b, f, 2000100, 0x8f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 1);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::f", 0)->in.flags, 0);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::f", 0)->out.flags, 0);
	slice_log__done(log, b);
}

/* ---- backward nodes ---- */

/* Inputs are of the node's own call, whichever function they were read in. */
static void nodes(bool node_call)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t node = builder__func(b, "Engine::evaluate_function", PTB_FUNC_NODE, true);
	uint32_t call = node_call ? builder__func(b, "Node::operator()", PTB_FUNC_NODE_CALL, true) : 0;
	struct value_words w = { 0 };
	struct slice_log *log;

	builder__node_type(b, 1, 0x70, "torch::autograd::generated::MmBackward0");
	vw__shape(&w, 2, shape23);
	vw__undefined(&w, 0);
	builder__values(b, &w);
	builder__node(b, node, 2000000, 0x9000, 0x70, 5, 1, NULL);
	if (node_call) {
		w.cnt = 0;
		vw__int(&w, 1);
		builder__values(b, &w);
		builder__node(b, call, 2000010, 0x8000, 0x70, 5, 1, NULL);
		builder__exit(b, call, 2000020, 0x7f00);
	}
	builder__exit(b, node, 2000100, 0x8f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(
		slice_log__must(log, "autograd::engine::evaluate_function: MmBackward0", 0)->in.flags, 0);
	CU_ASSERT_EQUAL(values__count(&slice_log__must(log, "MmBackward0", 0)->in), node_call ? 1 : 2);
	slice_log__done(log, b);
}

static void node_inputs(void)
{
	nodes(true);
	nodes(false);
}

/* The slice on top of the forward thread's stack when the node began. */
static void forward_parents(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	uint32_t node = builder__func(b, "Engine::evaluate_function", PTB_FUNC_NODE, true);
	const struct slice *call, *outer;
	struct slice_log *log;

	builder__meta(b, "args", "\"full\"");
	builder__node_type(b, 1, 0x70, "torch::autograd::generated::FBackward0");
	builder__thread(b, 1, 1);
	builder__enter(b, f, 2000000, 0x9000);
	builder__seq(b, 2000010, 0x8000, 5);
	builder__exit(b, f, 2000100, 0x8f00);
	builder__enter(b, f, 2000200, 0x9000);
	builder__seq(b, 2000210, 0x8000, 6);
	builder__exit(b, f, 2000300, 0x8f00);
	builder__enter(b, g, 2001000, 0x9000); /* waits for the backward thread */
	builder__thread(b, 1, 2);
	builder__node(b, node, 2001100, 0x9000, 0x70, 6, 1, NULL);
	builder__exit(b, node, 2001200, 0x8f00);
	builder__thread(b, 1, 1);
	builder__exit(b, g, 2001300, 0x8f00);
	builder__node(b, node, 2002100, 0x9000, 0x70, 5, 1, NULL); /* here, inside nothing */
	builder__exit(b, node, 2002200, 0x8f00);
	builder__node(b, node, 2003100, 0x9000, 0x70, UINT64_MAX, 9, NULL); /* of a thread never seen */
	builder__exit(b, node, 2003200, 0x8f00);
	log = slice_log__of(b, NULL);
	call = slice_log__must(log, "FBackward0", 0);
	CU_ASSERT_EQUAL(call->fwd_tid, 1);
	CU_ASSERT_EQUAL(call->fw_parent, slice_log__must(log, "aten::g", 0)->id);
	call = slice_log__must(log, "FBackward0", 1);
	outer = slice_log__must(log, "autograd::engine::evaluate_function: FBackward0", 1);
	CU_ASSERT_EQUAL(call->fwd_tid, 1);
	CU_ASSERT_EQUAL(call->fw_parent, outer->id);
	CU_ASSERT_EQUAL(outer->fw_parent, 0);
	call = slice_log__must(log, "FBackward0", 2);
	CU_ASSERT_EQUAL(call->fwd_tid, 0);
	CU_ASSERT_EQUAL(call->fw_parent, 0);
	CU_ASSERT_EQUAL(log->flow_cnt, 2);
	slice_log__done(log, b);
}

/* ---- numbers ---- */

struct number_case {
	bool grad;
	uint64_t tensor, included, excluded;
	int64_t want;
};

/* torch stamps an operator with the next number when autograd is in its dispatch set and grad mode is on;
 * the arrows go on to follow who made the node. */
static void numbers(void)
{
	static const struct number_case cases[] = {
		{ true, AUTOGRAD, 0, 0, 9 },
		{ false, AUTOGRAD, 0, 0, -1 },
		{ true, 0, 0, 0, -1 },
		{ true, 0, AUTOGRAD, 0, 9 },
		{ true, AUTOGRAD, 0, AUTOGRAD, -1 },
		{ true, AUTOGRAD | 1, 2, 4, 9 },
	};
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	uint32_t py = builder__func(b, "apply", PTB_FUNC_PYFUNC, true);
	struct slice_log *log;

	builder__keys(b, 1, &keys);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t ts = 2000000 + i * 1000;
		struct value_words w = { 0 };
		struct vw_tensor t = { .dtype = 6, .ndim = 1, .sizes = { 4 }, .keys = cases[i].tensor };

		vw__state(&w, cases[i].grad, 9, cases[i].included, cases[i].excluded);
		vw__list(&w, PTB_VAL_TENSORS, 2, 2);
		vw__undefined(&w, 0);
		vw__tensor(&w, &t);
		builder__values(b, &w);
		builder__enter(b, f, ts, 0x9000);
		builder__enter(b, g, ts + 10, 0x8000); /* this one makes the node, with no state read */
		builder__seq(b, ts + 20, 0x7000, 20 + i);
		builder__exit(b, g, ts + 30, 0x7f00);
		builder__exit(b, f, ts + 40, 0x8f00);
		w.cnt = 0;
		vw__state(&w, false, 9, 0, 0);
		vw__tensor(&w, &t);
		vw__unknown(&w);
		builder__values(b, &w);
		builder__named(b, py, ts + 100, 0x9000, "Mine");
		builder__exit(b, py, ts + 110, 0x8f00);
	}
	log = slice_log__of(b, NULL);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_EQUAL(slice_log__must(log, "aten::f", i)->seq, cases[i].want);
		CU_ASSERT_EQUAL(values__count(&slice_log__must(log, "aten::f", i)->in), 1); /* the state is none */
		CU_ASSERT_EQUAL(slice_log__must(log, "aten::g", i)->seq, 20 + i);
		CU_ASSERT_EQUAL(slice_log__must(log, "Mine", i)->seq, 9); /* stamped always */
		CU_ASSERT_EQUAL(values__count(&slice_log__must(log, "Mine", i)->in), 2);
	}
	slice_log__done(log, b);
}

/* A tensor may be among the values that were not read: then only the created node has the number. */
/* No flag at all: on until the thread has made its flags, then off. */
static void numbers_without_flags(void)
{
	static const struct {
		uint32_t mode;
		int64_t seq;
	} calls[] = {
		{ PTB_STATE_GRAD | PTB_STATE_UNMADE, 9 },
		{ 0, -1 },
		{ PTB_STATE_GRAD | PTB_STATE_UNMADE, -1 },
		{ PTB_STATE_GRAD, 9 },
	};
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *log;

	builder__keys(b, 1, &keys);
	for (uint32_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct vw_tensor t = { .dtype = 6, .ndim = 1, .sizes = { 4 }, .keys = AUTOGRAD };
		struct value_words w = { 0 };

		vw__state(&w, calls[i].mode, 9, 0, 0);
		vw__tensor(&w, &t);
		builder__values(b, &w);
		builder__enter(b, f, 2000000 + i * 1000, 0x9000);
		builder__exit(b, f, 2000500 + i * 1000, 0x8f00);
	}
	log = slice_log__of(b, NULL);
	for (uint32_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		CU_ASSERT_EQUAL(slice_log__must(log, "aten::f", i)->seq, calls[i].seq);
	slice_log__done(log, b);
}

static void numbers_of_some(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *log;

	builder__keys(b, 1, &keys);
	for (uint32_t i = 0; i < 6; i++) {
		struct vw_tensor t = { .dtype = 6, .keys = i % 3 == 2 ? AUTOGRAD : 0 };
		uint64_t ts = 2000000 + i * 1000;
		struct value_words w = { 0 };

		vw__state(&w, i < 3, 9, 0, 0);
		vw__tensor(&w, &t);
		if (i % 3 == 0)
			vw__unknown(&w);
		if (i % 3 == 1)
			builder__values_cut(b, &w);
		else
			builder__values(b, &w);
		builder__enter(b, f, ts, 0x9000);
		builder__seq(b, ts + 20, 0x7000, 20);
		builder__exit(b, f, ts + 40, 0x8f00);
	}
	log = slice_log__of(b, NULL);
	for (uint32_t i = 0; i < 6; i++)
		CU_ASSERT_EQUAL(slice_log__must(log, "aten::f", i)->seq, i >= 3 ? -1 :
									 i == 2 ? 9 :
										  20);
	slice_log__done(log, b);
}

/* The meaning of the bits is unknown: the numbers of the created nodes are used. */
static void numbers_without_keys(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct value_words w = { 0 };
	struct slice_log *log;

	vw__state(&w, true, 9, 0, 0);
	vw__shape(&w, 2, shape23);
	builder__values(b, &w);
	builder__enter(b, f, 2000000, 0x9000);
	builder__seq(b, 2000010, 0x8000, 9);
	builder__exit(b, f, 2000100, 0x8f00);
	builder__values(b, &w);
	builder__enter(b, f, 2001000, 0x9000);
	builder__exit(b, f, 2001100, 0x8f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::f", 0)->seq, 9);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::f", 1)->seq, -1);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::f", 0)->keys->autograd, 0);
	slice_log__done(log, b);
}

/* ---- scopes ---- */

static void announced(struct builder *b, uint64_t ts, const char *name, const struct value_words *w)
{
	if (w)
		builder__values(b, w);
	builder__annotate(b, ts, 0xa000, 0x50, name);
	builder__scope_end(b, ts + 100, 0xa000, 0x50);
}

static void scopes(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t box = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true);
	struct value_words w = { 0 }, none = { 0 };
	struct slice_log *log;

	builder__opdef(b, 1, 0x10, "profiler::_record_function_enter_new", false);
	announced(b, 2000000, "no argument", &none);
	vw__string(&w, "args");
	announced(b, 2001000, "one", &w);
	vw__none(&w);
	vw__int(&w, 4);
	announced(b, 2002000, "three", &w);
	announced(b, 2003000, "none", NULL);
	/* announced with arguments, never begun: the arguments are dropped */
	builder__values(b, &w);
	builder__scope_name(b, 2004000, 0x9000, "lost");
	announced(b, 2005000, "after", NULL);
	/* the helper operator has them, the function inside it does not; None is no argument */
	for (uint32_t i = 0; i < 2; i++) {
		w.cnt = 0;
		vw__string(&w, "boxed");
		if (i)
			vw__none(&w);
		else
			vw__string(&w, "its args");
		builder__values(b, &w);
		builder__boxed(b, box, 2006000 + i * 200, 0xb000, 0x10);
		builder__annotate(b, 2006010 + i * 200, 0xa000, 0x50, "boxed");
		builder__exit(b, box, 2006020 + i * 200, 0xaf00);
		builder__scope_end(b, 2006100 + i * 200, 0xa000, 0x50);
	}
	w.cnt = 0;
	vw__string(&w, "0/0");
	builder__values(b, &w);
	builder__scope_begin(b, 2007000, 0x9000, 0x60, 0, "Torch-Compiled Region");
	builder__scope_end(b, 2007100, 0x9000, 0x60);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(values__count(&slice_log__must(log, "no argument", 0)->in), 0);
	CU_ASSERT_EQUAL(slice_log__must(log, "no argument", 0)->in.flags, VALUES_PRESENT);
	CU_ASSERT_EQUAL(values__count(&slice_log__must(log, "one", 0)->in), 1);
	CU_ASSERT_EQUAL(values__count(&slice_log__must(log, "three", 0)->in), 3);
	CU_ASSERT_EQUAL(slice_log__must(log, "none", 0)->in.flags, 0);
	CU_ASSERT_EQUAL(slice_log__must(log, "after", 0)->in.flags, 0);
	CU_ASSERT_EQUAL(values__count(&slice_log__must(log, "boxed", 0)->in), 1);
	CU_ASSERT_EQUAL(slice_log__must(log, "boxed", 1)->in.flags, VALUES_PRESENT);
	CU_ASSERT_EQUAL(values__count(&slice_log__must(log, "boxed", 1)->in), 0);
	CU_ASSERT_EQUAL(memcmp(nth(&slice_log__must(log, "boxed", 0)->in, 0).data, "its args", 8), 0);
	CU_ASSERT_EQUAL(values__count(&slice_log__must(log, "Torch-Compiled Region", 0)->in), 1);
	slice_log__done(log, b);
}

/* Values of many open frames at once, large and small, and threads that end with some. */
static void many(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *log;

	for (uint32_t k = 0; k < 3; k++) {
		for (uint32_t i = 0; i < 60; i++) {
			struct value_words w = { 0 };
			uint32_t n = i % 7 == 0 ? 3000 : i;

			vw__int(&w, i);
			while (n--)
				vw__int(&w, n);
			builder__values(b, &w);
			builder__enter(b, f, 2000000 + k * 100000 + i * 10, 0x90000 - i * 256);
		}
		for (uint32_t i = 60; i-- > (k == 2 ? 30 : 0);)
			builder__exit(b, f, 2010000 + k * 100000 + (60 - i) * 10,
				      0x90000 - i * 256 - 128);
	}
	builder__task(b, PTB_REC_EXIT, 3000000, 0, 0, false, "t");
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 180);
	for (uint32_t i = 0; i < log->cnt; i++) {
		const struct slice *sl = slice_log__must(log, "aten::f", i);
		uint32_t level = i % 60;

		CU_ASSERT_EQUAL(nth(&sl->in, 0).i, level);
		CU_ASSERT_EQUAL(values__count(&sl->in), 1 + (level % 7 == 0 ? 3000 : level));
	}
	slice_log__done(log, b);
}

static const CU_TestInfo tests[] = {
	{ "operators", operators },
	{ "frames that end otherwise", ends },
	{ "cut and unsound", cut_and_unsound },
	{ "late doubles", late_doubles },
	{ "hidden frames", hidden },
	{ "inputs of nodes", node_inputs },
	{ "forward parents", forward_parents },
	{ "numbers", numbers },
	{ "numbers with values missing", numbers_of_some },
	{ "numbers without keys", numbers_without_keys },
	{ "numbers without flags", numbers_without_flags },
	{ "scopes", scopes },
	{ "many at once", many },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("args", tests);
}
