/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Frames: nesting, exceptions, losses, what was open at either end of the window, threads. */
#include <errno.h>

#include "base/mem_limit.h"
#include "capture_builder.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 9000000

static void nesting(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t linear = builder__op(b, "aten::linear"), add = builder__op(b, "aten::add.Tensor");
	const struct slice *p, *c;
	struct slice_log *log;

	builder__thread(b, 10, 11);
	builder__enter(b, linear, 2000000, 0x7000);
	builder__enter(b, add, 2000100, 0x6000);
	builder__exit(b, add, 2000900, 0x5f00);
	builder__exit(b, linear, 2002000, 0x6f00);
	log = slice_log__of(b, NULL);
	p = slice_log__get(log, "aten::linear");
	c = slice_log__get(log, "aten::add");
	CU_ASSERT_EQUAL_FATAL(log->cnt, 2);
	CU_ASSERT_EQUAL(p->begin_ns, 2000000);
	CU_ASSERT_EQUAL(p->end_ns, 2002000);
	CU_ASSERT_EQUAL(c->begin_ns, 2000100);
	CU_ASSERT_EQUAL(c->end_ns, 2000900);
	CU_ASSERT_EQUAL(c->parent, p->id);
	CU_ASSERT_EQUAL(c->depth, 1);
	CU_ASSERT_STRING_EQUAL(c->overload, "Tensor");
	CU_ASSERT_STRING_EQUAL(p->overload, "");
	CU_ASSERT_EQUAL(p->id, 2); /* 1: of a step that may begin with the thread */
	CU_ASSERT_EQUAL(slice_log__child_cnt(log, p), 1);
	CU_ASSERT_EQUAL(p->flags | c->flags, 0);
	CU_ASSERT_EQUAL(p->tgid, 10);
	CU_ASSERT_EQUAL(p->tid, 11);
	CU_ASSERT_EQUAL(p->seq, -1);
	CU_ASSERT_EQUAL(log->threads, 1);
	CU_ASSERT_EQUAL(log->totals.ops, 2);
	CU_ASSERT_EQUAL(log->slices[0].id, c->id); /* children are reported first */
	slice_log__done(log, b);
}

/* Records of one instant still make slices of strict nesting. */
static void equal_times(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	struct slice_log *log;

	builder__enter(b, f, 2000000, 0x7000);
	builder__enter(b, g, 2000000, 0x6000);
	builder__exit(b, g, 2000000, 0x5f00);
	builder__enter(b, g, 2000000, 0x6000);
	builder__exit(b, g, 2000000, 0x5f00);
	builder__exit(b, f, 2000000, 0x6f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 3);
	slice_log__done(log, b);
}

/* B throws, A catches and goes on; then A throws too and the thread's next record is higher up. That A
 * calls B and C from there is known from an A that returned. */
static void exceptions(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t fa = builder__op(b, "aten::a"), fb = builder__op(b, "aten::b"),
		 fc = builder__op(b, "aten::c");
	const struct slice *sa, *sb, *sc;
	struct slice_log *log;

	builder__enter(b, fa, 1900000, 0x9000);
	builder__enter(b, fb, 1900100, 0x7000);
	builder__exit(b, fb, 1900200, 0x6f00);
	builder__enter(b, fc, 1900300, 0x7000);
	builder__exit(b, fc, 1900400, 0x6f00);
	builder__exit(b, fa, 1900500, 0x8f00);

	builder__enter(b, fa, 2000000, 0x9000);
	builder__enter(b, fb, 2000100, 0x7000);
	builder__enter(b, fc, 2000300, 0x7000); /* same address: b has ended */
	builder__exit(b, fc, 2000400, 0x6f00);
	builder__enter(b, fc, 2000900, 0x9000); /* same address as a */
	builder__exit(b, fc, 2001000, 0x8f00);
	log = slice_log__of(b, NULL);
	sa = slice_log__nth(log, "aten::a", 1);
	sb = slice_log__nth(log, "aten::b", 1);
	sc = slice_log__nth(log, "aten::c", 1);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 7);
	CU_ASSERT_EQUAL(sb->flags, SLICE_UNWOUND);
	CU_ASSERT_EQUAL(sb->end_ns, 2000300);
	CU_ASSERT_EQUAL(sb->parent, sa->id);
	CU_ASSERT_EQUAL(sc->parent, sa->id);
	CU_ASSERT_EQUAL(sa->flags, SLICE_UNWOUND);
	CU_ASSERT_EQUAL(sa->end_ns, 2000900);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::c", 2)->parent, 0);
	CU_ASSERT_EQUAL(log->totals.unwound, 2);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 0);
	slice_log__done(log, b);
}

/*
 * mm throws in an annotation and Python goes on with deeper calls: mm ends where the exception is caught
 * and adopts nothing, and the annotation that encloses it is not cut. What catches inside an operator
 * ends only what lies below it.
 */
static void goes_on_deeper(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t mm = builder__op(b, "aten::mm"), copy = builder__op(b, "aten::copy_"),
		 sum = builder__op(b, "aten::sum");
	const struct slice *bad, *iter, *outer;
	struct slice_log *log;

	builder__annotate(b, 1999000, 0xc000, 0x1, "iter");
	builder__enter(b, mm, 2001000, 0x9000);
	builder__enter(b, copy, 2001100, 0x8800);
	builder__exit(b, copy, 2001200, 0x8700);
	builder__enter(b, copy, 2001250, 0x8800); /* throws through mm */
	builder__catch(b, 2001300, 0xa000);
	builder__enter(b, sum, 2001500, 0x8000);
	builder__exit(b, sum, 2001600, 0x7f00);
	builder__enter(b, sum, 2002000, 0x9000); /* catches what its mm throws */
	builder__enter(b, mm, 2002100, 0x8e00);
	builder__catch(b, 2002200, 0x8f00);
	builder__enter(b, copy, 2002300, 0x8000);
	builder__exit(b, copy, 2002400, 0x7f00);
	builder__exit(b, sum, 2002450, 0x8f80);
	builder__scope_end(b, 2002500, 0x8000, 0x1);
	log = slice_log__of(b, NULL);
	bad = slice_log__nth(log, "aten::mm", 0);
	outer = slice_log__nth(log, "aten::sum", 1);
	iter = slice_log__get(log, "iter");
	CU_ASSERT_EQUAL(bad->flags, SLICE_UNWOUND);
	CU_ASSERT_EQUAL(bad->end_ns, 2001300);
	CU_ASSERT_EQUAL(slice_log__child_cnt(log, bad), 2);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::copy_", 1)->flags, SLICE_UNWOUND);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::sum", 0)->parent, iter->id);
	CU_ASSERT_EQUAL(outer->flags, 0);
	CU_ASSERT_EQUAL(slice_log__child_cnt(log, outer), 2);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::mm", 1)->end_ns, 2002200);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::copy_", 2)->parent, outer->id);
	CU_ASSERT_EQUAL(iter->flags, 0);
	CU_ASSERT_EQUAL(log->totals.unwound, 3);
	CU_ASSERT_EQUAL(log->totals.truncated_annotations, 0);
	slice_log__done(log, b);
}

/* An exit proves that deeper frames have ended, even where its stack pointer alone does not. */
static void exit_closes_inner(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t fa = builder__op(b, "aten::a"), fb = builder__op(b, "aten::b");
	struct slice_log *log;

	builder__enter(b, fa, 2000000, 0x9000);
	builder__enter(b, fb, 2000100, 0x8f80);
	builder__exit(b, fa, 2000400, 0x8f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::b")->flags, SLICE_UNWOUND);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::a")->flags, 0);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::a")->end_ns, 2000400);
	slice_log__done(log, b);
}

static void lost_exit(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t fa = builder__op(b, "aten::a"), fb = builder__op(b, "aten::b");
	struct slice_log *log;

	builder__lost(b, 5000000, 5000001, 1); /* losses come ring by ring, not by time */
	builder__lost(b, 2000050, 2000070, 7);
	builder__enter(b, fa, 2000000, 0x9000);
	builder__enter(b, fa, 2000100, 0x9000); /* the first one's exit was lost */
	builder__enter(b, fb, 2000200, 0x9000); /* nothing was lost here: an exception */
	builder__exit(b, fb, 2000300, 0x8f00);
	builder__exit(b, fa, 2000400, 0xa000); /* its entry may be lost: not open at begin */
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::a", 0)->flags, SLICE_END_LOST);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::a", 1)->flags, SLICE_UNWOUND);
	CU_ASSERT_EQUAL(log->totals.end_lost, 1);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 1);
	CU_ASSERT_EQUAL(log->totals.open_at_begin, 0);
	CU_ASSERT_EQUAL(session__info(builder__session(b, NULL))->lost_cnt, 2);
	CU_ASSERT_EQUAL(session__info(builder__session(b, NULL))->lost[1].begin_ns, 5000000);
	slice_log__done(log, b);
}

/* Only its entry would have identified the node: torch has no row "Engine::evaluate_function". */
static void open_unnamed(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t node = builder__func(b, "Engine::evaluate_function", PTB_FUNC_NODE, true),
		 leaf = builder__op(b, "aten::leaf");
	struct slice_log *log;

	builder__enter(b, leaf, BEGIN + 5, 0x5000);
	builder__exit(b, leaf, BEGIN + 700, 0x4f00);
	builder__exit(b, node, BEGIN + 1000, 0x5500);
	log = slice_log__of(b, NULL);
	CU_ASSERT_PTR_NOT_NULL(slice_log__get(log, "aten::leaf"));
	CU_ASSERT_EQUAL(log->totals.slices, 1);
	CU_ASSERT_EQUAL(log->totals.open_unnamed, 1);
	slice_log__done(log, b);
}

/* Two nested frames were open when the window began; each turns up with its exit. */
static void open_at_begin(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t outer = builder__op(b, "aten::outer"), inner = builder__op(b, "aten::inner"),
		 leaf = builder__op(b, "aten::leaf");
	const struct slice *o, *i;
	struct slice_log *log;

	builder__enter(b, leaf, BEGIN + 5, 0x5000);
	builder__exit(b, leaf, BEGIN + 700, 0x4f00);
	builder__exit(b, inner, BEGIN + 1000, 0x5500);
	builder__enter(b, leaf, BEGIN + 1200, 0x6000);
	builder__exit(b, leaf, BEGIN + 1300, 0x5f00);
	builder__exit(b, outer, BEGIN + 2000, 0x6500);
	builder__enter(b, leaf, BEGIN + 3000, 0x7000);
	builder__exit(b, leaf, BEGIN + 3300, 0x6f00);
	builder__exit(b, outer, BEGIN + 4000, 0x6500); /* the thread was above it since */
	log = slice_log__of(b, NULL);
	o = slice_log__must(log, "aten::outer", 0);
	i = slice_log__must(log, "aten::inner", 0);
	CU_ASSERT_EQUAL(o->flags, SLICE_OPEN_AT_BEGIN);
	CU_ASSERT_EQUAL(i->flags, SLICE_OPEN_AT_BEGIN);
	CU_ASSERT_TRUE(o->begin_ns >= BEGIN && o->begin_ns < BEGIN + 64);
	CU_ASSERT_TRUE(i->begin_ns > o->begin_ns);
	CU_ASSERT_EQUAL(i->end_ns, BEGIN + 1000);
	CU_ASSERT_EQUAL(o->end_ns, BEGIN + 2000);
	CU_ASSERT_EQUAL(slice_log__child_cnt(log, i), 1);
	CU_ASSERT_EQUAL(slice_log__child_cnt(log, o), 2);
	CU_ASSERT_EQUAL(log->totals.open_at_begin, 2);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 1);
	slice_log__done(log, b);
}

/* A thread that began inside the window has nothing open from before. */
static void new_thread_has_no_past(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *log;

	builder__thread(b, 10, 10);
	builder__task(b, PTB_REC_THREAD_NEW, 2000000, 10, 12, false, "pt_autograd_0");
	builder__thread(b, 10, 12);
	builder__exit(b, f, 2000500, 0x5500);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 0);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 1);
	CU_ASSERT_STRING_EQUAL(session__thread_comm(builder__session(b, NULL), 10, 99), "");
	slice_log__done(log, b);
}

static void unfinished(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t fa = builder__op(b, "aten::a"), fb = builder__op(b, "aten::b");
	struct slice_log *log;

	builder__enter(b, fa, 2000000, 0x9000);
	builder__enter(b, fb, 2000100, 0x8000);
	builder__exit(b, fb, END + 5, 0x7f00); /* after the window */
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::a")->flags, SLICE_UNFINISHED);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::b")->flags, SLICE_UNFINISHED);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::a")->end_ns, END);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::b")->end_ns, END - 3); /* a gap for readers that round */
	CU_ASSERT_EQUAL(log->totals.unfinished, 2);
	slice_log__done(log, b);
}

static void threads(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *log;

	for (uint64_t ts = 2000000; ts < 2001000; ts += 100) {
		builder__thread(b, 10, 10);
		builder__ring(b, 0);
		builder__enter(b, f, ts, 0x9000);
		builder__thread(b, 10, 11);
		builder__ring(b, 1);
		builder__enter(b, f, ts + 10, 0x9000); /* the same stack pointer: another stack */
		builder__exit(b, f, ts + 80, 0x8f00);
		builder__thread(b, 10, 10);
		builder__ring(b, 0);
		builder__exit(b, f, ts + 50, 0x8f00);
	}
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 20);
	CU_ASSERT_EQUAL(log->threads, 2);
	CU_ASSERT_EQUAL(log->totals.unwound, 0);
	slice_log__done(log, b);
}

/* A thread, then a whole process ends with operators open; a number is used again. */
static void thread_exit(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	struct session *s;
	struct slice_log *log;

	builder__thread(b, 10, 10);
	builder__enter(b, f, 2000000, 0x9000);
	builder__thread(b, 10, 11);
	builder__enter(b, f, 2000000, 0x9000);
	builder__enter(b, g, 2000100, 0x8000);
	builder__task(b, PTB_REC_EXIT, 2000500, 0, 0, false, "worker");
	builder__thread(b, 10, 10);
	builder__task(b, PTB_REC_THREAD_NEW, 2000600, 10, 11, false, "python");
	builder__thread(b, 10, 11);
	builder__enter(b, g, 2000700, 0x8800);
	builder__exit(b, g, 2000800, 0x8700);
	builder__enter(b, g, 2000900, 0x8800);
	builder__thread(b, 10, 10);
	builder__task(b, PTB_REC_EXIT, 2001000, 0, 0, true, "python");
	s = builder__session(b, NULL);
	log = slice_log__run(s);
	CU_ASSERT_TRUE(slice_log__valid(log));
	CU_ASSERT_EQUAL(log->cnt, 5);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::g", 0)->flags, SLICE_THREAD_EXIT);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::g", 1)->flags, 0);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::g", 1)->parent, 0);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::g", 2)->flags, SLICE_THREAD_EXIT);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::g", 2)->end_ns, 2001000);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::f")->flags, SLICE_THREAD_EXIT);
	CU_ASSERT_EQUAL(log->totals.unfinished, 0);
	CU_ASSERT_STRING_EQUAL(session__thread_comm(s, 10, 11), "worker");
	slice_log__done(log, b);
}

static void exec_closes_process(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *log;

	builder__enter(b, f, 2000000, 0x9000);
	builder__task(b, PTB_REC_EXEC, 2000100, 0, 0, false, "sh");
	builder__exit(b, f, 2000200, 0xa000); /* of the new program: nothing was open before it */
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 1);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 1);
	CU_ASSERT_EQUAL(log->slices[0].end_ns, 2000100);
	CU_ASSERT_EQUAL(log->slices[0].flags, SLICE_THREAD_EXIT);
	slice_log__done(log, b);
}

static void deep_recursion(void)
{
	enum { DEPTH = 10000 };
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	uint64_t ts = 2000000, sp = 0x7fff0000;
	struct slice_log *log;

	for (int i = 0; i < DEPTH; i++)
		builder__enter(b, f, ts++, sp -= 64);
	for (int i = 0; i < DEPTH; i++, sp += 64)
		builder__exit(b, f, ts++, sp - 32);
	for (int i = 0; i < DEPTH; i++) /* and once more, left by one exception */
		builder__enter(b, f, ts++, sp -= 64);
	builder__enter(b, g, ts + 500000, 0x7fff0000);
	builder__exit(b, g, ts + 600000, 0x7ffe0000);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 2 * DEPTH + 1);
	CU_ASSERT_EQUAL(log->totals.unwound, DEPTH);
	CU_ASSERT_EQUAL(log->slices[0].depth, DEPTH - 1);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::g")->parent, 0);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::g")->end_ns, ts + 600000);
	slice_log__done(log, b);
}

static void second_exit_site(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *log;

	builder__enter(b, f, 2000000, 0x9000);
	builder__enter(b, f, 2000100, 0x8000);
	builder__exit(b, f, 2000200, 0x7f00);
	builder__exit(b, f, 2000210, 0x7f00); /* again on the same exit path: not the outer one's */
	builder__exit(b, f, 2000300, 0x8f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 2);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::f", 0)->end_ns, 2000300);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::f", 1)->end_ns, 2000200);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 0);
	slice_log__done(log, b);
}

/* Boxed calls: names by address, torch's own helpers and what they run, operators never observed. */
static void boxed(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t box = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true);
	uint32_t zeros = builder__op(b, "aten::zeros"), size = builder__op(b, "aten::size.int"),
		 mul = builder__op(b, "aten::mul.Tensor");
	struct slice_log *log;

	builder__opdef(b, 1, 0x1000, "mylib::foo.out", false);
	builder__opdef(b, 1, 0x2000, "profiler::_record_function_enter", false);
	builder__opdef(b, 1, 0x3000, "aten::size.int", true);
	builder__boxed(b, box, 2000000, 0x9000, 0x2000);
	builder__enter(b, zeros, 2000100, 0x8000);
	builder__exit(b, zeros, 2000200, 0x7f00);
	builder__exit(b, box, 2000300, 0x8f00);
	builder__boxed(b, box, 2001000, 0x9000, 0x1000);
	builder__boxed(b, box, 2001100, 0x8000, 0x3000);
	builder__enter(b, mul, 2001200, 0x7000);
	builder__exit(b, mul, 2001300, 0x6f00);
	builder__exit(b, box, 2001400, 0x7f00);
	builder__enter(b, size, 2001500, 0x8000);
	builder__exit(b, size, 2001600, 0x7f00);
	builder__exit(b, box, 2001700, 0x8f00);
	builder__boxed(b, box, 2002000, 0x9000, 0xabc);
	builder__exit(b, box, 2002100, 0x8f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 3);
	CU_ASSERT_STRING_EQUAL(slice_log__get(log, "mylib::foo")->overload, "out");
	CU_ASSERT_EQUAL(slice_log__child_cnt(log, slice_log__get(log, "mylib::foo")), 1);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::mul")->parent, slice_log__get(log, "mylib::foo")->id);
	CU_ASSERT_PTR_NOT_NULL(slice_log__get(log, "operator 0xabc"));
	CU_ASSERT_EQUAL(log->totals.unresolved_names, 1);
	slice_log__done(log, b);
}

/* No exit probe: the end is inferred and marked. */
static void script_functions(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t script = builder__func(b, "GraphFunction::call", PTB_FUNC_SCRIPT, false);
	uint32_t py = builder__func(b, "THPFunction_apply", PTB_FUNC_PYFUNC, true);
	struct slice_log *log;

	builder__named(b, script, 2000000, 0x9000, "forward");
	builder__named(b, py, 2000100, 0x8000, "MyFn");
	builder__exit(b, py, 2000200, 0x7f00);
	builder__named(b, script, 2000900, 0x9000, "backward");
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 3);
	CU_ASSERT_EQUAL(slice_log__get(log, "forward")->flags, SLICE_END_INFERRED);
	CU_ASSERT_EQUAL(slice_log__get(log, "forward")->scope, 2);
	CU_ASSERT_EQUAL(slice_log__get(log, "MyFn")->flags, 0);
	CU_ASSERT_EQUAL(slice_log__get(log, "backward")->flags, SLICE_UNFINISHED);
	CU_ASSERT_EQUAL(log->totals.unwound, 0);
	slice_log__done(log, b);
}

/* The same capture gives the same result twice, and a sink's error stops it. */
static int refuse(void *arg, const struct slice *sl)
{
	int *left = arg;

	(void)sl;
	return --*left ? 0 : 42;
}

static void runs_again(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *one, *two;
	struct session_totals totals;
	int left = 3;
	struct session_sink sink = { .arg = &left, .slice = refuse };
	struct session *s;

	for (int i = 0; i < 10; i++) {
		builder__enter(b, f, (uint64_t)(2000000 + i * 100), 0x9000);
		builder__exit(b, f, (uint64_t)(2000050 + i * 100), 0x8f00);
	}
	s = builder__session(b, NULL);
	one = slice_log__run(s);
	two = slice_log__run(s);
	CU_ASSERT_EQUAL_FATAL(one->cnt, 10);
	CU_ASSERT_EQUAL(one->cnt, two->cnt);
	for (int i = 0; i < 10; i++) {
		CU_ASSERT_EQUAL(one->slices[i].id, two->slices[i].id);
		CU_ASSERT_EQUAL(one->slices[i].begin_ns, two->slices[i].begin_ns);
		CU_ASSERT_EQUAL(one->slices[i].end_ns, two->slices[i].end_ns);
	}
	CU_ASSERT_EQUAL(session__run(s, &sink, 1, &totals), 42);
	CU_ASSERT_EQUAL(totals.slices, 3);
	slice_log__free(one);
	slice_log__free(two);
	builder__free(b);
}

static int take_memory(void *arg, const struct slice *sl)
{
	(void)arg;
	(void)sl;
	return mem_limit__set(1);
}

/* A name for which there is no memory: the pass fails, no slice goes without its name. */
static void no_memory_for_a_name(void)
{
	struct builder *b = builder__new(BEGIN, END);
	struct session_sink sink = { .slice = take_memory };
	struct session_totals totals;
	struct session *s;

	builder__annotate(b, 2000000, 0x9000, 0xaa, "first");
	builder__scope_end(b, 2000100, 0x9000, 0xaa);
	builder__annotate(b, 2000200, 0x9000, 0xaa, "second");
	builder__scope_end(b, 2000300, 0x9000, 0xaa);
	s = builder__session(b, NULL);
	CU_ASSERT_EQUAL(session__run(s, &sink, 1, &totals), -ENOMEM);
	CU_ASSERT_EQUAL(mem_limit__set(0), 0);
	builder__free(b);
}

static void facts(void)
{
	struct builder *b = builder__new(BEGIN, END);
	const struct session_info *i;
	struct session *s;

	builder__op(b, "aten::f");
	builder__refused(b, "aten::tril_", PTB_FUNC_OP, PTB_REFUSE_COMPUTED_JUMP);
	builder__process(b, 10, "python", "python3.11", 900000);
	builder__thread_name(b, 10, 12, "pt_autograd_0");
	builder__meta(b, "version", "\"0.1\"");
	builder__clock(b, 1000, 5000, 90);
	builder__clock(b, 2000, 6001, 20);
	builder__counter(b, PTB_CNT_HITS, 5);
	builder__counter(b, PTB_CNT_HITS, 77);
	s = builder__session(b, NULL);
	i = session__info(s);
	CU_ASSERT_EQUAL(i->begin_ns, BEGIN);
	CU_ASSERT_EQUAL(i->end_ns, END);
	CU_ASSERT_EQUAL(i->mono_to_unix_ns, 4001);
	CU_ASSERT_EQUAL(i->clock_err_ns, 20);
	CU_ASSERT_EQUAL(i->stop_reason, PTB_STOP_DURATION);
	CU_ASSERT_TRUE(i->sealed);
	CU_ASSERT_EQUAL_FATAL(i->process_cnt, 1);
	CU_ASSERT_EQUAL(i->processes[0].tgid, 10);
	CU_ASSERT_STRING_EQUAL(i->processes[0].exe, "python3.11");
	CU_ASSERT_EQUAL_FATAL(i->refusal_cnt, 1);
	CU_ASSERT_STRING_EQUAL(i->refusals[0].name, "aten::tril_");
	CU_ASSERT_EQUAL(i->refusals[0].reason, PTB_REFUSE_COMPUTED_JUMP);
	CU_ASSERT_EQUAL(i->func_cnt, 1);
	CU_ASSERT_EQUAL(i->site_cnt, 2);
	CU_ASSERT_EQUAL(i->counters[PTB_CNT_HITS], 77);
	CU_ASSERT_STRING_EQUAL(session__meta(s, "version"), "\"0.1\"");
	CU_ASSERT_PTR_NULL(session__meta(s, "host"));
	CU_ASSERT_STRING_EQUAL(session__thread_comm(s, 10, 12), "pt_autograd_0");
	builder__free(b);
}

static const CU_TestInfo tests[] = {
	{ "nesting", nesting },
	{ "records of one instant", equal_times },
	{ "exceptions", exceptions },
	{ "deeper calls after an exception", goes_on_deeper },
	{ "an exit closes what is inside", exit_closes_inner },
	{ "a lost exit", lost_exit },
	{ "open at the window's begin", open_at_begin },
	{ "open at the window's begin, without a name", open_unnamed },
	{ "a new thread has no past", new_thread_has_no_past },
	{ "open at the window's end", unfinished },
	{ "threads", threads },
	{ "thread and process exit", thread_exit },
	{ "exec", exec_closes_process },
	{ "deep recursion", deep_recursion },
	{ "a second exit site", second_exit_site },
	{ "boxed calls", boxed },
	{ "functions without an exit probe", script_functions },
	{ "no memory for a name", no_memory_for_a_name },
	{ "a second pass", runs_again },
	{ "facts", facts },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("thread_stack", tests);
}
