/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Python stacks in the session model: what they are, and which slices, memory events and calls have them. */
#include <CUnit/CUnit.h>
#include <string.h>

#include "gpu_log.h"
#include "mem_log.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 9000000
#define OUTER 1 /* ids of stacks */
#define INNER 2

static const struct ptb_py_frame module = { .code = 0x1000, .at = 20, .check = 7 };
static const struct ptb_py_frame step = { .code = 0x2000, .at = 8, .check = 8 };

static struct ptb_py_frame native(struct ptb_py_frame f)
{
	f.code |= PTB_PY_NATIVE;
	return f;
}

/* <module> calls step(); of thread 1/1. */
static void define(struct builder *b)
{
	const struct ptb_py_frame inner[] = { native(step), module };

	builder__py_line(b, &module, "<module>", "/home/me/train.py", 30, 1);
	builder__py_line(b, &step, "Trainer.step", "/home/me/train.py", 12, 10);
	builder__py_stack_def(b, BEGIN + 100, OUTER, 0, &module, 1);
	builder__py_stack_def(b, BEGIN + 100, INNER, PTB_PY_CUT, inner, 2);
}

static void enter_with(struct builder *b, uint32_t op, uint64_t ts, uint64_t sp, uint64_t stack)
{
	builder__py_stack(b, ts, stack);
	builder__enter(b, op, ts, sp);
}

static void one_op(struct builder *b, uint32_t op, uint64_t ts, uint64_t stack)
{
	enter_with(b, op, ts, 0x9000, stack);
	builder__exit(b, op, ts + 500, 0x8f00);
}

static struct py_frame frame_at(struct session *s, uint32_t stack, uint32_t i)
{
	return session__py_frame(s, session__py_stack(s, stack).frames[i] & ~PY_FRAME_NATIVE);
}

/* ---- what there is ---- */

static void frames_and_stacks(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t op = builder__op(b, "aten::mm");
	struct slice_log *log;
	struct py_stack ps;
	struct py_frame pf;
	struct session *s;
	const struct slice *sl;

	define(b);
	one_op(b, op, 2000000, OUTER);
	one_op(b, op, 2001000, INNER);
	one_op(b, op, 2002000, OUTER);
	builder__enter(b, op, 2003000, 0x9000);
	builder__exit(b, op, 2003500, 0x8f00);
	s = builder__session(b, NULL);
	log = slice_log__run(s);
	CU_ASSERT_TRUE(session__info(s)->has_py_stacks);
	CU_ASSERT_EQUAL(log->totals.stacks, 3);
	CU_ASSERT_EQUAL(log->totals.stacks_unknown, 0);
	sl = slice_log__must(log, "aten::mm", 0);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 2)->stack, sl->stack);
	CU_ASSERT_EQUAL(sl->fwd_stack, 0);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 3)->stack, 0);
	CU_ASSERT_EQUAL_FATAL(session__py_stack(s, sl->stack).frame_cnt, 1);

	sl = slice_log__must(log, "aten::mm", 1);
	ps = session__py_stack(s, sl->stack);
	CU_ASSERT_EQUAL_FATAL(ps.frame_cnt, 2);
	CU_ASSERT_EQUAL(ps.flags, PTB_PY_CUT);
	CU_ASSERT_NOT_EQUAL(ps.frames[0] & PY_FRAME_NATIVE, 0);
	CU_ASSERT_EQUAL(ps.frames[1] & PY_FRAME_NATIVE, 0);
	pf = frame_at(s, sl->stack, 0);
	CU_ASSERT_STRING_EQUAL(pf.func, "Trainer.step");
	CU_ASSERT_STRING_EQUAL(pf.file, "/home/me/train.py");
	CU_ASSERT_EQUAL(pf.line, 12);
	CU_ASSERT_EQUAL(pf.first, 10);
	CU_ASSERT_EQUAL(pf.code, 0x2000);
	CU_ASSERT_EQUAL(pf.at, 8);
	CU_ASSERT_STRING_EQUAL(frame_at(s, sl->stack, 1).func, "<module>");
	CU_ASSERT_EQUAL(session__py_stack(s, 0).frame_cnt, 0);
	CU_ASSERT_EQUAL(session__py_stack(s, 1000).frame_cnt, 0);
	CU_ASSERT_STRING_EQUAL(session__py_frame(s, 1000).func, PY_UNKNOWN);
	slice_log__done(log, b);
}

static struct ptb_py_frame class(uint64_t addr, int32_t self)
{
	return (struct ptb_py_frame){ .code = addr | PTB_PY_CLASS, .at = self, .check = (uint32_t)addr };
}

static void expect_module(struct session *s, uint32_t stack, uint32_t i, const char *name, uint32_t nr)
{
	struct py_frame f = frame_at(s, stack, i);

	CU_ASSERT_PTR_NOT_NULL_FATAL(f.module);
	CU_ASSERT_STRING_EQUAL(f.module, name);
	CU_ASSERT_EQUAL(f.module_nr, nr);
	CU_ASSERT_STRING_EQUAL(f.func, "Module._wrapped_call_impl");
}

/* Modules are numbered for each class, in the order of time and outer ones first, whatever the order of the records. */
static void modules(void)
{
	const struct ptb_py_frame call = { .code = 0x3000, .at = 4, .check = 3 },
				  linear = class(0x8000, 1), linear2 = class(0x8000, 2),
				  other = class(0x9000, 1), none = class(0, 0);
	/* the class of a call is before it */
	const struct ptb_py_frame both[] = { linear2, native(call), linear, call, module },
				  second[] = { other, call, module }, unknown[] = { none, call },
				  damaged[] = { linear };
	struct builder *b = builder__new(BEGIN, END);
	uint32_t op = builder__op(b, "aten::mm"), stack;
	struct slice_log *log;
	struct py_frame f;
	struct session *s;

	define(b);
	builder__py_line(b, &call, "Module._wrapped_call_impl", "/x/torch/nn/modules/module.py", 12, 10);
	builder__py_line(b, &linear, "Linear", "", 0, 0);
	builder__py_line(b, &linear2, "Linear", "", 0, 0);
	builder__py_line(b, &other, "Linear", "", 0, 0); /* another class of that name */
	builder__py_stack_def(b, BEGIN + 300, 3, 0, second, 3);
	builder__py_stack_def(b, BEGIN + 200, 4, 0, both, 5);
	builder__py_stack_def(b, BEGIN + 400, 5, 0, unknown, 2);
	builder__py_stack_def(b, BEGIN + 400, 6, 0, damaged, 1);
	for (uint32_t id = 3; id < 7; id++)
		one_op(b, op, 2000000 + 1000 * id, id);
	s = builder__session(b, NULL);
	log = slice_log__run(s);
	stack = slice_log__must(log, "aten::mm", 1)->stack;
	CU_ASSERT_EQUAL_FATAL(session__py_stack(s, stack).frame_cnt, 3);
	expect_module(s, stack, 0, "Linear", 1);
	expect_module(s, stack, 1, "Linear", 0);
	CU_ASSERT_NOT_EQUAL(session__py_stack(s, stack).frames[0] & PY_FRAME_NATIVE, 0);
	CU_ASSERT_NOT_EQUAL(frame_at(s, stack, 0).module_id, frame_at(s, stack, 1).module_id);
	CU_ASSERT_PTR_NULL(frame_at(s, stack, 2).module);
	stack = slice_log__must(log, "aten::mm", 0)->stack;
	CU_ASSERT_EQUAL_FATAL(session__py_stack(s, stack).frame_cnt, 2);
	expect_module(s, stack, 0, "Linear", 0);
	f = frame_at(s, slice_log__must(log, "aten::mm", 2)->stack, 0);
	CU_ASSERT_PTR_NULL(f.module);
	CU_ASSERT_EQUAL(f.module_id, 0);
	CU_ASSERT_STRING_EQUAL(f.func, "Module._wrapped_call_impl");
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 3)->stack, 0);
	slice_log__done(log, b);
}

/* Without a name, with two, with only that it was gone; another process's is another frame. */
static void names(void)
{
	const struct ptb_py_frame two = { .code = 0x3000 }, gone = { .code = 0x4000 },
				  none = { .code = 0x5000 };
	const struct ptb_py_frame again = { .code = 0x6000 };
	const struct ptb_py_frame frames[] = { two, gone, none, again };
	struct builder *b = builder__new(BEGIN, END);
	uint32_t op = builder__op(b, "aten::mm"), stack;
	struct slice_log *log;
	struct session *s;

	builder__py_line(b, &two, "f", "a.py", 2, 1);
	builder__py_line(b, &two, "g", "a.py", 2, 1);
	builder__py_line(b, &two, "f", "a.py", 2, 1);
	builder__py_line(b, &gone, NULL, NULL, 0, 0);
	builder__py_line(b, &again, "h", "b.py", 5, 4);
	builder__py_line(b, &again, NULL, NULL, 0, 0);
	builder__py_stack_def(b, BEGIN + 1, 9, 0, frames, 4);
	one_op(b, op, 2000000, 9);
	builder__thread(b, 2, 2);
	builder__py_line(b, &again, "other", "b.py", 5, 4);
	builder__py_stack_def(b, BEGIN + 1, 9, 0, &again, 1);
	one_op(b, op, 3000000, 9);
	s = builder__session(b, NULL);
	log = slice_log__run(s);
	stack = slice_log__must(log, "aten::mm", 0)->stack;
	for (uint32_t i = 0; i < 3; i++) {
		CU_ASSERT_STRING_EQUAL(frame_at(s, stack, i).func, PY_UNKNOWN);
		CU_ASSERT_STRING_EQUAL(frame_at(s, stack, i).file, PY_UNKNOWN);
		CU_ASSERT_EQUAL(frame_at(s, stack, i).line, 0);
	}
	CU_ASSERT_STRING_EQUAL(frame_at(s, stack, 3).func, "h");
	stack = slice_log__must(log, "aten::mm", 1)->stack;
	CU_ASSERT_STRING_EQUAL(frame_at(s, stack, 0).func, "other");
	CU_ASSERT_EQUAL(log->totals.bad_records, 0);
	slice_log__done(log, b);
}

/* Ids that mean two stacks, none, or what could not be read; definitions that are no definitions. */
static void unknown_stacks(void)
{
	struct ptb_py_stack_def bad = {
		.h = { .kind = PTB_REC_PY_STACK_DEF, .len = sizeof(bad), .ts_ns = BEGIN + 50 },
		.id = 5,
		.frame_cnt = 1
	};
	struct builder *b = builder__new(BEGIN, END);
	uint32_t op = builder__op(b, "aten::mm");
	struct slice_log *log;

	builder__py_stack_def(b, BEGIN + 10, 3, 0, &module, 1);
	builder__py_stack_def(b, BEGIN + 20, 3, 0, &step, 1);
	builder__py_stack_def(b, BEGIN + 30, 3, 0, &module, 1);
	builder__py_stack_def(b, BEGIN + 40, 0, 0, &module, 1);
	builder__raw(b, &bad.h);
	bad.id = 6;
	bad.frame_cnt = 0;
	builder__raw(b, &bad.h);
	bad.frame_cnt = UINT32_MAX;
	builder__raw(b, &bad.h);
	builder__py_stack_def(b, BEGIN + 50, 7, PTB_PY_FAULT, &module, 0);
	for (uint64_t id = 0; id < 10; id++)
		one_op(b, op, 2000000 + id * 1000, id);
	log = slice_log__of(b, NULL);
	for (uint32_t i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", i)->stack, 0);
	CU_ASSERT_EQUAL(log->totals.stacks, 10);
	CU_ASSERT_EQUAL(log->totals.stacks_unread, 2);
	CU_ASSERT_EQUAL(log->totals.stacks_unknown, 8);
	CU_ASSERT_EQUAL(log->totals.bad_records, 4);
	slice_log__done(log, b);
}

/* ---- whose they are ---- */

/* A stack is that of the record with its time on its thread, and of no other. */
static void only_the_next(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t op = builder__op(b, "aten::mm"), add = builder__op(b, "aten::add");
	struct slice_log *log;

	define(b);
	builder__py_stack(b, 2000000, OUTER); /* its record was lost */
	builder__enter(b, op, 2000100, 0x9000);
	enter_with(b, add, 2000200, 0x8000, INNER);
	builder__exit(b, add, 2000300, 0x7f00);
	builder__exit(b, op, 2000400, 0x8f00);
	builder__py_stack(b, 2001000, OUTER);
	builder__thread(b, 1, 2);
	builder__enter(b, op, 2001000, 0x9000);
	builder__exit(b, op, 2001500, 0x8f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 0)->stack, 0);
	CU_ASSERT_NOT_EQUAL(slice_log__must(log, "aten::add", 0)->stack, 0);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 1)->stack, 0);
	slice_log__done(log, b);
}

/* Of annotations by either of their records, of what the agent recorded, of a boxed call. */
static void kinds_of_slices(void)
{
	const struct ptb_rf_begin rf = { .rf = 0x77, .seq = -1, .scope = 0 };
	struct builder *b = builder__new(BEGIN, END);
	uint32_t boxed = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true), outer;
	struct slice_log *log;

	define(b);
	builder__opdef(b, 1, 0xdef, "aten::mul", false);
	builder__py_stack(b, 2000000, OUTER);
	builder__scope_name(b, 2000000, 0x9000, "by name");
	builder__scope_begin(b, 2000010, 0x8000, 0x1, 7, NULL);
	builder__scope_end(b, 2000500, 0x9000, 0x1);
	builder__scope_name(b, 2001000, 0x9000, "by begin");
	builder__py_stack(b, 2001010, INNER);
	builder__scope_begin(b, 2001010, 0x8000, 0x1, 7, NULL);
	builder__scope_end(b, 2001500, 0x9000, 0x1);
	builder__py_stack(b, 2002000, OUTER);
	builder__boxed(b, boxed, 2002000, 0x9000, 0xdef);
	builder__exit(b, boxed, 2002500, 0x8f00);
	builder__py_stack(b, 2003000, OUTER);
	builder__rf_begin(b, 2003000, &rf, "aten::agent");
	builder__rf_end(b, 2003500, 0x77);
	log = slice_log__of(b, NULL);
	outer = slice_log__must(log, "by name", 0)->stack;
	CU_ASSERT_NOT_EQUAL(outer, 0);
	CU_ASSERT_NOT_EQUAL(slice_log__must(log, "by begin", 0)->stack, 0);
	CU_ASSERT_NOT_EQUAL(slice_log__must(log, "by begin", 0)->stack, outer);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mul", 0)->stack, outer);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::agent", 0)->stack, outer);
	slice_log__done(log, b);
}

static void memory_events(void)
{
	struct builder *b = mem_log__recorded();
	uint32_t op = builder__op(b, "aten::empty");
	struct session *s;
	struct mem_log *log;
	struct live_log live;

	builder__py_stack_def(b, 1100, OUTER, 0, &module, 1);
	builder__py_stack_def(b, 1100, INNER, 0, &step, 1);
	enter_with(b, op, 2000, 0x7000, OUTER);
	builder__mem_alloc(b, 2100, 0x6000, 0xa000, 64); /* the operator's */
	builder__py_stack(b, 2200, INNER);
	builder__mem_alloc(b, 2200, 0x6000, 0xb000, 64);
	builder__exit(b, op, 2300, 0x6f00);
	builder__mem_free(b, 2400, 0x7000, 0xb000);
	s = builder__session(b, NULL);
	log = mem_log__run(s);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 3);
	CU_ASSERT_EQUAL(frame_at(s, log->v[0].ev.at.stack, 0).code, module.code);
	CU_ASSERT_EQUAL(frame_at(s, log->v[1].ev.at.stack, 0).code, step.code);
	CU_ASSERT_EQUAL(log->v[1].block.stack, log->v[1].ev.at.stack);
	CU_ASSERT_EQUAL(log->v[2].ev.at.stack, 0);
	CU_ASSERT_EQUAL(log->v[2].block.stack, log->v[1].ev.at.stack);
	live = mem_log__live(s);
	CU_ASSERT_EQUAL(live.v[0].stack, log->v[0].ev.at.stack);
	mem_log__free(log);
	builder__free(b);
}

static void put_call(struct builder *b, uint32_t func, uint64_t begin, uint64_t end)
{
	struct ptb_cuda_call r = { .h.site = 2 * func, .begin_ns = begin };

	builder__ring_rec(b, &r.h, PTB_REC_CUDA_CALL, sizeof(r), end);
}

static void cuda_calls(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t op = builder__op(b, "aten::mm");
	uint32_t launch = builder__func(b, "cudaLaunchKernel", PTB_FUNC_CUDA_CALL, true);
	struct session *s;
	struct gpu_log *log;

	builder__meta(b, "cuda_calls", "true");
	define(b);
	enter_with(b, op, 2000000, 0x9000, OUTER);
	put_call(b, launch, 2000100, 2000200);
	builder__py_stack(b, 2000400, INNER);
	put_call(b, launch, 2000300, 2000400);
	builder__exit(b, op, 2000500, 0x8f00);
	put_call(b, launch, 2000600, 2000700);
	s = builder__session(b, NULL);
	log = gpu_log__run(s);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 3);
	CU_ASSERT_EQUAL(session__py_stack(s, log->v[0].at.stack).frame_cnt, 1);
	CU_ASSERT_EQUAL(session__py_stack(s, log->v[1].at.stack).frame_cnt, 2);
	CU_ASSERT_EQUAL(log->v[2].at.stack, 0);
	gpu_log__free(log);
	builder__free(b);
}

/* ---- backward ---- */

struct funcs {
	uint32_t op, node, call;
};

static void backward(struct builder *b, const struct funcs *f, uint64_t ts, uint64_t seq, uint64_t stack)
{
	if (stack)
		builder__py_stack(b, ts, stack);
	builder__node(b, f->node, ts, 0x9000, 0x7700, seq, 1, NULL);
	if (stack)
		builder__py_stack(b, ts + 10, stack);
	builder__enter(b, f->call, ts + 10, 0x8000);
	if (stack)
		builder__py_stack(b, ts + 20, stack);
	builder__enter(b, f->op, ts + 20, 0x7000);
	builder__exit(b, f->op, ts + 30, 0x6f00);
	builder__exit(b, f->call, ts + 40, 0x7f00);
	builder__exit(b, f->node, ts + 50, 0x8f00);
}

/* As torch's set_backward_stacktraces (pytorch torch/autograd/profiler_util.py): the node's function and all inside it. */
static void of_the_forward(void)
{
	struct builder *b = builder__new(BEGIN, END);
	struct funcs f = { .op = builder__op(b, "aten::mm") };
	struct slice_log *log;
	uint32_t inner, outer;

	f.node = builder__func(b, "Engine::evaluate_function", PTB_FUNC_NODE, true);
	f.call = builder__func(b, "Node::operator()", PTB_FUNC_NODE_CALL, true);
	builder__node_type(b, 1, 0x7700, "torch::autograd::generated::MmBackward0");
	define(b);
	for (uint64_t i = 0; i < 2; i++) {
		enter_with(b, f.op, 2000000 + i * 1000, 0x9000, INNER);
		builder__seq(b, 2000010 + i * 1000, 0x8000, 5 + i);
		builder__exit(b, f.op, 2000050 + i * 1000, 0x8f00);
	}
	builder__thread(b, 1, 2);
	backward(b, &f, 3000000, 6, 0);
	backward(b, &f, 3001000, 5, OUTER); /* a thread with Python frames */
	backward(b, &f, 3002000, 99, 0);    /* its operator is not in the capture */
	log = slice_log__of(b, NULL);
	inner = slice_log__must(log, "aten::mm", 0)->stack;
	CU_ASSERT_EQUAL(slice_log__must(log, "MmBackward0", 0)->stack, inner);
	CU_ASSERT_EQUAL(slice_log__must(log, "MmBackward0", 0)->fwd_stack, inner);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 2)->stack, inner);
	CU_ASSERT_EQUAL(slice_log__must(log, "autograd::engine::evaluate_function: MmBackward0", 0)->stack,
			0);
	outer = slice_log__must(log, "MmBackward0", 1)->stack;
	CU_ASSERT_NOT_EQUAL(outer, 0);
	CU_ASSERT_NOT_EQUAL(outer, inner);
	CU_ASSERT_EQUAL(slice_log__must(log, "MmBackward0", 1)->fwd_stack, inner);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 3)->stack, outer);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 3)->fwd_stack, inner);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::mm", 4)->stack, 0);
	slice_log__done(log, b);
}

/* The same of the agent's records. */
static void of_the_forward_by_agent(void)
{
	struct builder *b = builder__new(BEGIN, END);
	struct ptb_rf_begin fwd = { .rf = 0x10, .seq = 5, .logical = 1 };
	struct ptb_rf_begin bwd = {
		.rf = 0x20, .seq = 5, .fwd_thread = 1, .scope = SCOPE_BACKWARD, .logical = 2
	};
	struct slice_log *log;

	define(b);
	builder__py_stack(b, 2000000, INNER);
	builder__rf_begin(b, 2000000, &fwd, "aten::mm");
	builder__rf_end(b, 2000100, 0x10);
	builder__thread(b, 1, 2);
	builder__rf_begin(b, 3000000, &bwd, "MmBackward0");
	builder__rf_end(b, 3000100, 0x20);
	log = slice_log__of(b, NULL);
	CU_ASSERT_NOT_EQUAL(slice_log__must(log, "aten::mm", 0)->stack, 0);
	CU_ASSERT_EQUAL(slice_log__must(log, "MmBackward0", 0)->stack,
			slice_log__must(log, "aten::mm", 0)->stack);
	slice_log__done(log, b);
}

static const CU_TestInfo tests[] = {
	{ "frames and stacks", frames_and_stacks },
	{ "names of frames", names },
	{ "modules", modules },
	{ "unknown stacks", unknown_stacks },
	{ "only the next record's", only_the_next },
	{ "kinds of slices", kinds_of_slices },
	{ "memory", memory_events },
	{ "CUDA calls", cuda_calls },
	{ "backward nodes have the forward operator's", of_the_forward },
	{ "by the agent", of_the_forward_by_agent },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("py_stacks", tests);
}
