/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Slices from the agent's records of RecordFunction objects: names, kinds, numbers, threads, losses. */
#include <stdlib.h>
#include <string.h>

#include "base/effort.h"
#include "capture_builder.h"
#include "mem_log.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 90000000
#define MM 0x1000 /* OperatorDef* */
#define ADD 0x2000

enum { FUNCTION, BACKWARD, TORCHSCRIPT, USER = 7 }; /* at::RecordScope */

static struct builder *new_builder(void)
{
	struct builder *b = builder__new(BEGIN, END);

	builder__opdef(b, 10, MM, "aten::mm", false);
	builder__opdef(b, 10, ADD, "aten::add.Tensor", true);
	builder__opdef_schema(b, 10, ADD, "aten::add.Tensor(Tensor self, Tensor other) -> Tensor");
	builder__thread(b, 10, 10);
	return b;
}

static void op(struct builder *b, uint64_t ts, uint64_t rf, uint64_t opdef, int64_t seq)
{
	builder__rf_begin(b, ts, &(struct ptb_rf_begin){ .rf = rf, .opdef = opdef, .seq = seq }, NULL);
}

static void text(struct builder *b, uint64_t ts, uint64_t rf, uint32_t scope, const char *name)
{
	builder__rf_begin(b, ts, &(struct ptb_rf_begin){ .rf = rf, .seq = -1, .scope = scope }, name);
}

static void names_and_kinds(void)
{
	struct builder *b = new_builder();
	const struct slice *train, *add, *sl;
	struct slice_log *log;

	text(b, 2000000, 0xa0, USER, "train");
	op(b, 2000100, 0xb0, ADD, 4);
	op(b, 2000200, 0xc0, MM, -1);
	builder__rf_end(b, 2000300, 0xc0);
	builder__rf_end(b, 2000400, 0xb0);
	builder__rf_end(b, 2000500, 0xa0);
	text(b, 2001000, 0xb0, TORCHSCRIPT, "forward");
	builder__rf_end(b, 2001100, 0xb0);
	text(b, 2001200, 0xb0, FUNCTION, "DistributedDataParallel.forward");
	builder__rf_end(b, 2001300, 0xb0);
	builder__rf_begin(b, 2001400, &(struct ptb_rf_begin){ .rf = 0xb0, .seq = 5 }, "MyFn");
	builder__rf_end(b, 2001500, 0xb0);
	op(b, 2001600, 0xb0, 0x9999, -1); /* unknown */
	builder__rf_end(b, 2001700, 0xb0);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 7);
	train = slice_log__must(log, "train", 0);
	CU_ASSERT_EQUAL(train->cat, SLICE_USER_ANNOTATION);
	CU_ASSERT_EQUAL(train->kind, PTB_FUNC_SCOPE);
	CU_ASSERT_EQUAL(train->begin_ns, 2000000);
	CU_ASSERT_EQUAL(train->end_ns, 2000500);
	CU_ASSERT_EQUAL(slice_log__child_cnt(log, train), 1);
	add = slice_log__must(log, "aten::add", 0);
	CU_ASSERT_STRING_EQUAL(add->overload, "Tensor");
	CU_ASSERT_STRING_EQUAL(add->schema, "aten::add.Tensor(Tensor self, Tensor other) -> Tensor");
	CU_ASSERT_EQUAL(add->parent, train->id);
	CU_ASSERT_EQUAL(add->kind, PTB_FUNC_OP);
	CU_ASSERT_EQUAL(add->cat, SLICE_CPU_OP);
	CU_ASSERT_EQUAL(add->seq, 4);
	sl = slice_log__must(log, "aten::mm", 0);
	CU_ASSERT_EQUAL(sl->parent, add->id);
	CU_ASSERT_EQUAL(sl->depth, 2);
	CU_ASSERT_EQUAL(sl->seq, -1);
	CU_ASSERT_EQUAL(sl->flags, 0);
	CU_ASSERT_EQUAL(slice_log__must(log, "forward", 0)->kind, PTB_FUNC_SCRIPT);
	CU_ASSERT_EQUAL(slice_log__must(log, "forward", 0)->scope, TORCHSCRIPT);
	CU_ASSERT_EQUAL(slice_log__must(log, "DistributedDataParallel.forward", 0)->kind,
			PTB_FUNC_FUNCTION);
	CU_ASSERT_EQUAL(slice_log__must(log, "DistributedDataParallel.forward", 0)->cat, SLICE_CPU_OP);
	CU_ASSERT_EQUAL(slice_log__must(log, "MyFn", 0)->kind, PTB_FUNC_PYFUNC);
	CU_ASSERT_EQUAL(log->totals.unresolved_names, 1);
	CU_ASSERT_EQUAL(log->totals.annotations, 1);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 0);
	CU_ASSERT_EQUAL(log->totals.truncated_annotations, 0);
	slice_log__done(log, b);
}

/* Values of both records; evaluate_function's are not shown. */
static void values(void)
{
	static const int64_t shape[] = { 2, 3 };
	struct builder *b = new_builder();
	struct value_words in = { 0 }, out = { 0 };
	struct slice_log *log;

	builder__meta(b, "args", "\"full\"");
	vw__shape(&in, 2, shape);
	vw__shape(&in, 1, shape);
	vw__shape(&out, 2, shape);
	builder__values(b, &in);
	op(b, 2000000, 0xb0, ADD, -1);
	builder__values_cut(b, &out);
	builder__rf_end(b, 2000100, 0xb0);
	builder__values(b, &in);
	text(b, 2000200, 0xb0, USER, "with arguments");
	builder__rf_end(b, 2000300, 0xb0);
	in.cnt = 0;
	builder__values(b, &in);
	text(b, 2000400, 0xb0, FUNCTION, "autograd::engine::evaluate_function: MmBackward0");
	builder__rf_end(b, 2000500, 0xb0);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(values__count(&slice_log__must(log, "aten::add", 0)->in), 2);
	CU_ASSERT_EQUAL(values__count(&slice_log__must(log, "aten::add", 0)->out), 1);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::add", 0)->flags, SLICE_ARGS_CUT);
	CU_ASSERT_EQUAL(values__count(&slice_log__must(log, "with arguments", 0)->in), 2);
	CU_ASSERT_EQUAL(
		slice_log__must(log, "autograd::engine::evaluate_function: MmBackward0", 0)->in.flags, 0);
	CU_ASSERT_EQUAL(slice_log__must(log, "autograd::engine::evaluate_function: MmBackward0", 0)->kind,
			PTB_FUNC_NODE);
	slice_log__done(log, b);
}

static void backward(struct builder *b, uint64_t ts, int64_t seq, uint64_t fwd_thread, uint64_t logical)
{
	text(b, ts, 0xa00, FUNCTION, "autograd::engine::evaluate_function: MmBackward0");
	builder__rf_begin(b, ts + 10,
			  &(struct ptb_rf_begin){ .rf = 0xb00,
						  .seq = seq,
						  .scope = BACKWARD,
						  .fwd_thread = fwd_thread,
						  .logical = logical },
			  "MmBackward0");
	op(b, ts + 20, 0xc00, MM, -1);
	builder__rf_end(b, ts + 30, 0xc00);
	builder__rf_end(b, ts + 40, 0xb00);
	builder__rf_end(b, ts + 50, 0xa00);
}

/* Two threads have the same numbers; torch's own ids, which the agent reports, identify the right one. */
static void autograd(void)
{
	struct builder *b = new_builder();
	const struct slice *outer, *inner;
	struct slice_log *log;

	builder__meta(b, "args", "\"full\"");
	for (uint32_t i = 0; i < 2; i++) {
		builder__thread(b, 10, 20 + i);
		builder__ring(b, i);
		builder__rf_begin(b, 2000000,
				  &(struct ptb_rf_begin){
					  .rf = 0x100, .opdef = ADD, .seq = 7, .logical = 1 + i },
				  NULL);
		op(b, 2000100, 0x90, MM, 7); /* torch's rule: the last one with the number */
		builder__rf_end(b, 2000200, 0x90);
		op(b, 2000300, 0x90, ADD, 8);
		builder__rf_end(b, 2000400, 0x90);
		builder__rf_end(b, 2000500, 0x100);
	}
	builder__thread(b, 10, 30);
	builder__ring(b, 2);
	backward(b, 2001000, 7, 2, 3);
	backward(b, 2002000, 7, 9, 3);  /* an unknown thread */
	backward(b, 2003000, -1, 2, 3); /* AccumulateGrad has none */
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL_FATAL(log->flow_cnt, 1);
	CU_ASSERT_EQUAL(log->flows[0].fwd_tid, 21);
	CU_ASSERT_EQUAL(log->flows[0].bwd_tid, 30);
	CU_ASSERT_EQUAL(log->flows[0].fwd_begin_ns, 2000100);
	CU_ASSERT_EQUAL(log->flows[0].bwd_begin_ns, 2001010);
	outer = slice_log__must(log, "autograd::engine::evaluate_function: MmBackward0", 0);
	inner = slice_log__must(log, "MmBackward0", 0);
	CU_ASSERT_EQUAL(inner->parent, outer->id);
	CU_ASSERT_EQUAL(inner->kind, PTB_FUNC_NODE_CALL);
	CU_ASSERT_EQUAL(inner->seq, 7);
	CU_ASSERT_EQUAL(inner->fwd_tid, 21);
	CU_ASSERT_EQUAL(outer->seq, 7);
	CU_ASSERT_EQUAL(outer->fwd_thread, 2);
	slice_log__done(log, b);
}

/* Without torch's ids the threads are learnt, as with probes. */
static void autograd_learnt(void)
{
	struct builder *b = new_builder();
	struct slice_log *log;

	for (uint32_t i = 0; i < 4; i++) {
		op(b, 2000000 + 100 * i, 0x90, MM, i);
		builder__rf_end(b, 2000050 + 100 * i, 0x90);
	}
	builder__thread(b, 10, 30);
	for (uint32_t i = 4; i--;)
		backward(b, 2009000 - 1000 * i, i, 1, 0);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->flow_cnt, 4);
	slice_log__done(log, b);
}

static void other_threads(void)
{
	struct builder *b = new_builder();
	struct slice_log *log;

	text(b, 2000000, 0xa0, USER, "async");
	op(b, 2000100, 0xb0, MM, -1);
	builder__rf_end(b, 2000200, 0xb0);
	text(b, 2000300, 0xc0, USER, "other");
	op(b, 2000400, 0xb0, ADD, -1);
	builder__thread(b, 10, 11);
	builder__ring(b, 1);
	builder__rf_end(b, 2000500, 0xc0); /* its thread is in an operator */
	builder__thread(b, 11, 12);
	builder__rf_end(b, 2000600, 0xa0); /* the same address in another process */
	builder__thread(b, 10, 10);
	builder__ring(b, 0);
	builder__rf_end(b, 2000700, 0xb0);
	builder__thread(b, 10, 11);
	builder__ring(b, 1);
	builder__rf_end(b, 2000900, 0xa0);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 4);
	CU_ASSERT_EQUAL(slice_log__must(log, "async", 0)->flags, SLICE_OTHER_THREAD_END);
	CU_ASSERT_EQUAL(slice_log__must(log, "async", 0)->end_ns, 2000900);
	CU_ASSERT_EQUAL(slice_log__must(log, "async", 0)->tid, 10);
	CU_ASSERT_EQUAL(slice_log__must(log, "other", 0)->flags, SLICE_OTHER_THREAD_END);
	CU_ASSERT_EQUAL(slice_log__must(log, "other", 0)->end_ns, 2000500);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::add", 0)->flags, SLICE_TRUNCATED);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::add", 0)->parent,
			slice_log__must(log, "other", 0)->id);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 1);
	slice_log__done(log, b);
}

/* Annotations in a dispatch mode, and some that cross each other: each end that comes belongs to something. */
static void crossing(void)
{
	struct builder *b = new_builder();
	const struct slice *sl;
	struct slice_log *log;

	text(b, 2000000, 0xa0, FUNCTION, "PythonDispatchMode");
	text(b, 2000100, 0xb0, USER, "inner");
	builder__rf_end(b, 2000200, 0xa0);
	op(b, 2000300, 0xc0, MM, -1);
	builder__rf_end(b, 2001000, 0xc0);
	text(b, 2002000, 0xa0, FUNCTION, "PythonDispatchMode");
	builder__rf_end(b, 2002100, 0xb0);
	op(b, 2002110, 0xc0, MM, -1); /* what the mode does beside */
	builder__rf_end(b, 2002120, 0xc0);
	builder__rf_end(b, 2002200, 0xa0);
	text(b, 2003000, 0xa0, USER, "first");
	text(b, 2003100, 0xb0, USER, "second");
	op(b, 2003200, 0xc0, ADD, -1);
	builder__rf_end(b, 2003300, 0xc0);
	builder__rf_end(b, 2003400, 0xa0);
	op(b, 2003500, 0xc0, ADD, -1);
	builder__rf_end(b, 2003600, 0xc0);
	builder__rf_end(b, 2003700, 0xb0);
	log = slice_log__of(b, NULL);
	sl = slice_log__must(log, "inner", 0);
	CU_ASSERT_EQUAL(sl->begin_ns, 2000100);
	CU_ASSERT_EQUAL(sl->end_ns, 2002100);
	CU_ASSERT_EQUAL(sl->flags, 0);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 0)->parent, sl->id);
	CU_ASSERT_EQUAL(slice_log__must(log, "PythonDispatchMode", 1)->parent, sl->id);
	CU_ASSERT_EQUAL(slice_log__must(log, "PythonDispatchMode", 0)->flags, SLICE_TRUNCATED);
	CU_ASSERT_EQUAL(slice_log__must(log, "PythonDispatchMode", 0)->end_ns, 2000097);
	CU_ASSERT_EQUAL(slice_log__must(log, "PythonDispatchMode", 1)->end_ns, 2002097);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 1)->parent, 0);
	CU_ASSERT_EQUAL(slice_log__must(log, "first", 0)->end_ns, 2003400);
	CU_ASSERT_EQUAL(slice_log__must(log, "second", 0)->flags, SLICE_TRUNCATED);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::add", 1)->parent, 0);
	CU_ASSERT_EQUAL(log->totals.truncated_annotations, 1);
	CU_ASSERT_EQUAL(log->totals.truncated_ops, 2);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 0);
	slice_log__done(log, b);
}

static void edges(void)
{
	struct builder *b = new_builder();
	struct slice_log *log;

	builder__rf_end(b, 2000000, 0x50); /* its begin was not recorded */
	op(b, 2000100, 0xb0, MM, -1);
	builder__thread(b, 10, 11);
	builder__ring(b, 1);
	op(b, 2000200, 0xc0, ADD, -1);
	text(b, 2000300, 0xd0, USER, "dies");
	builder__task(b, PTB_REC_EXIT, 2000400, 0, 0, false, "t");
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 1);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 0)->flags, SLICE_UNFINISHED);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::add", 0)->flags, SLICE_THREAD_EXIT);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::add", 0)->end_ns, 2000400);
	CU_ASSERT_EQUAL(slice_log__must(log, "dies", 0)->flags, SLICE_THREAD_EXIT);
	slice_log__done(log, b);
}

/* The agent reports what was open when the window began. */
static void open_at_begin(void)
{
	struct ptb_rf_begin train = { .h.flags = PTB_F_OPEN, .rf = 0xa0, .seq = -1, .scope = USER };
	struct ptb_rf_begin add = { .h.flags = PTB_F_OPEN, .rf = 0xb0, .opdef = ADD, .seq = -1 };
	struct builder *b = new_builder();
	const struct slice *sl;
	struct slice_log *log;

	builder__rf_begin(b, BEGIN, &train, "train");
	builder__rf_begin(b, BEGIN, &add, NULL);
	op(b, BEGIN + 100, 0xc0, MM, -1);
	builder__rf_end(b, BEGIN + 200, 0xc0);
	builder__rf_end(b, BEGIN + 300, 0xb0);
	op(b, BEGIN + 400, 0xb0, MM, -1);
	builder__rf_end(b, BEGIN + 500, 0xb0);
	builder__rf_end(b, BEGIN + 600, 0xa0);
	log = slice_log__of(b, NULL);
	sl = slice_log__must(log, "train", 0);
	CU_ASSERT_EQUAL(sl->flags, SLICE_OPEN_AT_BEGIN);
	CU_ASSERT_TRUE(sl->begin_ns < BEGIN + 10);
	CU_ASSERT_EQUAL(slice_log__child_cnt(log, sl), 2);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::add", 0)->flags, SLICE_OPEN_AT_BEGIN);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::add", 0)->parent, sl->id);
	CU_ASSERT_TRUE(slice_log__must(log, "aten::add", 0)->begin_ns < BEGIN + 10);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 0)->parent,
			slice_log__must(log, "aten::add", 0)->id);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 0)->begin_ns, BEGIN + 100);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 1)->flags, 0);
	CU_ASSERT_EQUAL(log->totals.open_at_begin, 2);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 0);
	slice_log__done(log, b);
}

/* Ends are lost: an object around them, or one at the same address, shows that they have ended. */
static void lost_ends_by(uint32_t counter)
{
	struct builder *b = new_builder();
	struct slice_log *log;

	builder__counter(b, counter, 1);
	text(b, 2000000, 0xa0, USER, "train");
	op(b, 2000100, 0xb0, ADD, -1);
	op(b, 2000200, 0xc0, MM, -1);
	builder__rf_end(b, 2000400, 0xb0); /* of mm none came */
	op(b, 2000500, 0xb0, ADD, -1);
	op(b, 2000600, 0xc0, MM, -1);
	op(b, 2000700, 0xb0, ADD, -1); /* where the first one was */
	builder__rf_end(b, 2000800, 0xb0);
	op(b, 2000900, 0xb0, MM, -1);
	builder__rf_end(b, 2001000, 0xa0);
	text(b, 2001100, 0xa0, USER, "next");
	builder__rf_end(b, 2001200, 0xa0);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 0)->flags, SLICE_END_LOST);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::add", 0)->flags, 0);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::add", 1)->flags, SLICE_END_LOST);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::add", 1)->end_ns, 2000700);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 1)->flags, SLICE_END_LOST);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::add", 2)->parent,
			slice_log__must(log, "train", 0)->id);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 2)->flags, SLICE_END_LOST);
	CU_ASSERT_EQUAL(slice_log__must(log, "train", 0)->flags, 0);
	CU_ASSERT_EQUAL(slice_log__must(log, "next", 0)->parent, 0);
	slice_log__done(log, b);
}

static void lost_ends(void)
{
	lost_ends_by(PTB_CNT_AGENT_LOST);
}

/* What was open when an agent stopped in the window has no end either. */
static void agent_gave_up(void)
{
	lost_ends_by(PTB_CNT_AGENT_GAVE_UP);
}

/* A deep stack, and very many objects that are not in it: each is searched for, but not in the whole stack. */
static void deep_stack(void)
{
	const uint32_t depth = 30000, calls = 40000;
	struct builder *b = new_builder();
	struct slice_log *log;
	uint64_t ts = 2000000;

	builder__counter(b, PTB_CNT_AGENT_LOST, 1);
	for (uint32_t i = 0; i < depth; i++)
		op(b, ts += 40, 0x100000 + 16 * i, ADD, -1);
	effort__begin(0);
	for (uint32_t i = 0; i < calls; i++) {
		op(b, ts += 40, 0x10000000 + 16ULL * i, MM, -1);
		builder__rf_end(b, ts += 40, 0x10000000 + 16ULL * i);
		builder__rf_end(b, ts += 40, 0x90000000 + 16ULL * i); /* never begun */
	}
	builder__rf_end(b, ts += 40, 0x100000 + 16 * (depth / 2)); /* deep, and noted */
	builder__rf_end(b, ts += 40, 0x100000 + 16 * 10);          /* among the lowest */
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->totals.stopped, EFFORT_GOES_ON);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, calls);
	CU_ASSERT_EQUAL(log->cnt, depth + calls);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 0)->flags, 0);
	CU_ASSERT(effort__left > 0);
	effort__end();
	slice_log__done(log, b);
}

static void iteration(struct builder *b, uint64_t ts)
{
	op(b, ts + 100, 0xb0, MM, -1);
	builder__rf_end(b, ts + 200, 0xb0);
	text(b, ts + 300, 0xa0, USER, "Optimizer.step#SGD.step");
	op(b, ts + 400, 0xb0, ADD, -1);
	builder__rf_end(b, ts + 500, 0xb0);
	builder__rf_end(b, ts + 600, 0xa0);
}

static void steps(void)
{
	struct session_opts on_add = { .step_on = "aten::add.Tensor" };
	struct builder *b = new_builder();
	struct slice_log *log;

	iteration(b, 2000000);
	iteration(b, 2001000);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->totals.steps, 2);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 1)->parent,
			slice_log__must(log, "ProfilerStep#0", 0)->id);
	CU_ASSERT_EQUAL(slice_log__must(log, "partial step", 0)->end_ns, 2000603);
	slice_log__free(log);
	log = slice_log__run(builder__session(b, &on_add));
	CU_ASSERT_TRUE(slice_log__valid(log));
	CU_ASSERT_EQUAL(log->totals.steps, 2);
	slice_log__done(log, b);
}

/* What memory does is charged to the operators that the agent reports. */
static void memory(void)
{
	struct builder *b = new_builder();
	struct slice_log *log;

	builder__meta(b, "profile_memory", "true");
	text(b, 2000000, 0xa0, USER, "train");
	op(b, 2000100, 0xb0, ADD, -1);
	builder__mem_alloc(b, 2000150, 0x7000, 0xf000, 64);
	builder__rf_end(b, 2000200, 0xb0);
	builder__rf_end(b, 2000300, 0xa0);
	log = slice_log__of(b, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(slice_log__must(log, "aten::add", 0)->mem);
	CU_ASSERT_EQUAL(log->totals.live_blocks, 1);
	slice_log__done(log, b);
}

/* One process by probes, the other by the agent; and hostile: both on the same thread. */
static void random_records(void)
{
	static const char *const names[] = { "x", "y", "autograd::engine::evaluate_function: Z" };

	for (uint32_t round = 0; round < 40; round++) {
		struct builder *b = new_builder();
		uint32_t f = builder__op(b, "aten::f");
		uint64_t ts = 2000000;
		struct slice_log *log;

		srandom(round);
		if (round % 2)
			builder__lost(b, 2000500, 2000900, 5);
		for (uint32_t k = 0; k < 3000; k++) {
			uint64_t rf = 0x100 + (uint64_t)(random() % 8) * 0x10, sp = 0x7000 - 0x10 * rf;

			ts += (uint64_t)random() % 40;
			builder__thread(b, 10, 10 + (uint32_t)random() % 2);
			switch (random() % (round % 4 == 3 ? 8 : 5)) {
			case 0:
				op(b, ts, rf, random() % 2 ? MM : ADD, (int64_t)(k / 4));
				break;
			case 1:
				text(b, ts, rf, (uint32_t)random() % 9, names[random() % 3]);
				break;
			case 2:
			case 3:
			case 4:
				builder__rf_end(b, ts, rf);
				break;
			case 5:
				builder__enter(b, f, ts, sp);
				break;
			case 6:
				builder__exit(b, f, ts, sp);
				break;
			case 7:
				builder__annotate(b, ts, sp, rf, "p");
				break;
			}
		}
		log = slice_log__of(b, NULL);
		CU_ASSERT_TRUE(log->cnt > 300);
		slice_log__done(log, b);
	}
}

static const CU_TestInfo tests[] = {
	{ "names and kinds", names_and_kinds },
	{ "values", values },
	{ "autograd", autograd },
	{ "autograd, threads learnt", autograd_learnt },
	{ "other threads", other_threads },
	{ "annotations that cross", crossing },
	{ "edges of the window and of threads", edges },
	{ "open at the window's begin", open_at_begin },
	{ "lost ends", lost_ends },
	{ "agent gave up", agent_gave_up },
	{ "deep stack", deep_stack },
	{ "steps", steps },
	{ "memory", memory },
	{ "random records", random_records },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("rf_slices", tests);
}
