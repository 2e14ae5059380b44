/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Annotations: names, objects, other threads, generators, exceptions; nesting that is always strict. */
#include <stdlib.h>

#include "capture_builder.h"
#include "slice_log.h"
#include "suite.h"
#include "value_words.h"

#define BEGIN 1000000
#define END 9000000

/* What a `with record_function("train"):` leaves, boxed helpers included. */
static void with_block(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t box = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true),
		 f = builder__op(b, "aten::f");
	const struct slice *a;
	struct slice_log *log;

	builder__opdef(b, 1, 0x1000, "profiler::_record_function_enter_new", false);
	builder__opdef(b, 1, 0x2000, "profiler::_record_function_exit._RecordFunction", false);
	builder__boxed(b, box, 2000000, 0x9000, 0x1000);
	builder__scope_name(b, 2000010, 0x8800, "train");
	builder__scope_begin(b, 2000020, 0x8700, 0xaa, 7, NULL);
	builder__exit(b, box, 2000030, 0x8f00);
	builder__enter(b, f, 2000100, 0x9000);
	builder__exit(b, f, 2000200, 0x8f00);
	builder__boxed(b, box, 2000300, 0x9000, 0x2000);
	builder__scope_end(b, 2000310, 0x8700, 0xaa);
	builder__exit(b, box, 2000330, 0x8f00);
	builder__scope_end(b, 2000400, 0x8700, 0xaa); /* the destructor */
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 2);
	a = slice_log__must(log, "train", 0);
	CU_ASSERT_EQUAL(a->begin_ns, 2000020);
	CU_ASSERT_EQUAL(a->end_ns, 2000310);
	CU_ASSERT_EQUAL(a->cat, SLICE_USER_ANNOTATION);
	CU_ASSERT_EQUAL(a->scope, 7);
	CU_ASSERT_EQUAL(a->flags, 0);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::f")->parent, a->id);
	CU_ASSERT_EQUAL(log->totals.annotations, 1);
	CU_ASSERT_EQUAL(log->totals.truncated_annotations, 0);
	slice_log__done(log, b);
}

/* The same when the operators' names could not be read: what they do gives them away. */
static void unknown_helpers(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t box = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true);
	struct slice_log *log;

	builder__boxed(b, box, 2000000, 0x9000, 0x1000);
	builder__annotate(b, 2000020, 0x8700, 0xaa, "train");
	builder__exit(b, box, 2000030, 0x8f00);
	builder__boxed(b, box, 2000300, 0x9000, 0x2000);
	builder__scope_end(b, 2000310, 0x8700, 0xaa);
	builder__exit(b, box, 2000330, 0x8f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 1);
	CU_ASSERT_EQUAL(log->slices[0].end_ns, 2000310);
	CU_ASSERT_EQUAL(log->slices[0].flags, 0);
	CU_ASSERT_EQUAL(log->totals.unresolved_names, 0);
	slice_log__done(log, b);
}

/* Objects without a name do not get another object's. */
static void name_belongs_to_one(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *log;

	builder__scope_begin(b, 2000000, 0x8000, 0x1, 0, NULL); /* without an announced name */
	builder__scope_end(b, 2000010, 0x8000, 0x1);
	builder__scope_name(b, 2000100, 0x8000, "lost");
	builder__enter(b, f, 2000200, 0x9000); /* higher up: who announced it has returned */
	builder__scope_begin(b, 2000210, 0x7000, 0x2, 0, NULL);
	builder__scope_end(b, 2000220, 0x7000, 0x2);
	builder__exit(b, f, 2000300, 0x8f00);
	builder__scope_name(b, 2000350, 0x8000, "replaced");
	builder__scope_begin(b, 2000360, 0x8000, 0x5, 0, NULL); /* not below who announced it */
	builder__scope_name(b, 2000400, 0x8000, "taken");
	builder__scope_begin(b, 2000410, 0x7000, 0x3, 7, NULL);
	builder__scope_begin(b, 2000420, 0x7000, 0x4, 7, NULL);
	builder__scope_end(b, 2000430, 0x7000, 0x4);
	builder__scope_end(b, 2000440, 0x7000, 0x3);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 2);
	CU_ASSERT_EQUAL(slice_log__get(log, "taken")->end_ns, 2000440);
	slice_log__done(log, b);
}

/* before(): regions of compiled code; what repeats a known name is left out. */
static void regions(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t py = builder__func(b, "apply", PTB_FUNC_PYFUNC, true);
	const struct slice *r;
	struct slice_log *log;

	builder__scope_begin(b, 2000000, 0x8000, 0x1, 0, NULL);
	builder__scope_begin(b, 2000010, 0x7f00, 0x1, 99, "Torch-Compiled Region: 0/0");
	builder__scope_end(b, 2000500, 0x8000, 0x1);
	builder__annotate(b, 2001000, 0x8000, 0x2, "mine");
	builder__scope_begin(b, 2001010, 0x7f00, 0x2, 7, "mine"); /* torch's profiler is on */
	builder__scope_end(b, 2001500, 0x8000, 0x2);
	builder__annotate(b, 2001600, 0x8000, 0x2, "");
	builder__scope_begin(b, 2001610, 0x7f00, 0x2, 7, "");
	builder__scope_end(b, 2001700, 0x8000, 0x2);
	builder__named(b, py, 2002000, 0x9000, "MyFn");
	builder__scope_begin(b, 2002010, 0x8000, 0x3, 0, "MyFn");
	builder__scope_end(b, 2002020, 0x8000, 0x3);
	builder__exit(b, py, 2002100, 0x8f00);
	builder__scope_begin(b, 2003000, 0x8000, 0x4, 0,
			     "autograd::engine::evaluate_function: AddBackward0");
	builder__scope_end(b, 2003020, 0x8000, 0x4);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 4);
	CU_ASSERT_EQUAL(slice_log__get(log, "")->end_ns, 2001700);
	r = slice_log__must(log, "Torch-Compiled Region: 0/0", 0);
	CU_ASSERT_EQUAL(r->cat, SLICE_CPU_OP);
	CU_ASSERT_EQUAL(r->scope, 0); /* the constructor's, not what before() could read */
	CU_ASSERT_EQUAL(r->kind, PTB_FUNC_REGION);
	CU_ASSERT_EQUAL(slice_log__count(log, "mine"), 1);
	CU_ASSERT_EQUAL(slice_log__count(log, "MyFn"), 1);
	slice_log__done(log, b);
}

/* RECORD_FUNCTION in torch's own code: the literal is known by the address of the caller. */
static void macros(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t node = builder__func(b, "Engine::evaluate_function", PTB_FUNC_NODE, true);
	struct slice_log *log;

	builder__caller(b, 1, 0x400, "DistributedDataParallel.forward");
	builder__caller(b, 1, 0x500, "autograd::engine::evaluate_function: ");
	builder__macro(b, 2000000, 0x8000, 0x1, 0x400);
	builder__scope_end(b, 2000500, 0x8000, 0x1);
	builder__macro(b, 2000600, 0x8000, 0x1, 0x401);
	builder__scope_end(b, 2000700, 0x8000, 0x1);
	builder__node(b, node, 2001000, 0x9000, 0x70, 5, 1, "MyFnBackward");
	builder__macro(b, 2001100, 0x8000, 0x1, 0x500); /* the node's own slice is reported */
	builder__scope_end(b, 2001200, 0x8000, 0x1);
	builder__exit(b, node, 2001300, 0x8f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->cnt, 3);
	CU_ASSERT_EQUAL(slice_log__get(log, "DistributedDataParallel.forward")->end_ns, 2000500);
	CU_ASSERT_EQUAL(slice_log__get(log, "DistributedDataParallel.forward")->cat, SLICE_CPU_OP);
	CU_ASSERT_PTR_NOT_NULL(slice_log__get(log, "MyFnBackward"));
	slice_log__done(log, b);
}

/* RECORD_FUNCTION("detach", {self}): the list is made only for observers, the tensor is the operator's own. */
static void detach(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t op = builder__op(b, "aten::detach"), other = builder__op(b, "aten::other");
	struct value_words w = { .cnt = 0 };
	struct slice_log *log;

	vw__int(&w, 5);
	builder__caller(b, 1, 0x400, "detach");
	builder__values(b, &w);
	builder__enter(b, op, 2000000, 0x9000);
	builder__macro(b, 2000100, 0x8000, 0x1, 0x400);
	builder__scope_end(b, 2000200, 0x8000, 0x1);
	builder__exit(b, op, 2000300, 0x8f00);
	builder__values(b, &w);
	builder__enter(b, other, 2001000, 0x9000);
	builder__macro(b, 2001100, 0x8000, 0x1, 0x400);
	builder__scope_end(b, 2001200, 0x8000, 0x1);
	builder__exit(b, other, 2001300, 0x8f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL_FATAL(slice_log__count(log, "detach"), 2);
	CU_ASSERT_EQUAL(slice_log__nth(log, "detach", 0)->in.word_cnt, 2);
	CU_ASSERT_EQUAL(slice_log__nth(log, "detach", 0)->in.flags, VALUES_PRESENT);
	CU_ASSERT_EQUAL(slice_log__nth(log, "detach", 1)->in.flags, 0);
	slice_log__done(log, b);
}

static void ends_on_another_thread(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *log;

	builder__thread(b, 10, 10);
	builder__annotate(b, 2000000, 0x8000, 0x1, "async");
	builder__enter(b, f, 2000100, 0x8000);
	builder__exit(b, f, 2000200, 0x7f00);
	builder__thread(b, 10, 11);
	builder__ring(b, 3);
	builder__scope_end(b, 2000900, 0x8000, 0x1);
	builder__thread(b, 11, 12);
	builder__scope_end(b, 2000900, 0x8000, 0x1); /* the same address in another process */
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 2);
	CU_ASSERT_EQUAL(slice_log__get(log, "async")->flags, SLICE_OTHER_THREAD_END);
	CU_ASSERT_EQUAL(slice_log__get(log, "async")->end_ns, 2000900);
	CU_ASSERT_EQUAL(slice_log__get(log, "async")->tid, 10);
	slice_log__done(log, b);
}

/* Generators: annotations that cross each other, and operators in which one begins or ends. */
static void generators(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	const struct slice *sl;
	struct slice_log *log;

	builder__annotate(b, 2000000, 0x8000, 0x1, "outer");
	builder__annotate(b, 2000100, 0x8000, 0x2, "inner");
	builder__enter(b, f, 2000200, 0x8000);
	builder__exit(b, f, 2000300, 0x7f00);
	builder__scope_end(b, 2000400, 0x8000, 0x1); /* outer is reported unchanged, inner is cut */
	builder__enter(b, f, 2000410, 0x8000);
	builder__exit(b, f, 2000420, 0x7f00);
	builder__scope_end(b, 2000500, 0x8000, 0x2);
	builder__annotate(b, 2001000, 0x8000, 0x1, "ends inside");
	builder__enter(b, g, 2001300, 0x9000);
	builder__scope_end(b, 2001400, 0x8000, 0x1);
	builder__enter(b, f, 2001410, 0x8000);
	builder__exit(b, f, 2001420, 0x7f00);
	builder__exit(b, g, 2001500, 0x8f00);
	builder__enter(b, g, 2002000, 0x9000);
	builder__annotate(b, 2002100, 0x8000, 0x1, "goes on");
	builder__enter(b, f, 2002200, 0x7000);
	builder__exit(b, f, 2002300, 0x6f00);
	builder__exit(b, g, 2002500, 0x8f00);
	builder__scope_end(b, 2002900, 0x8000, 0x1);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__get(log, "outer")->flags, 0);
	CU_ASSERT_EQUAL(slice_log__get(log, "outer")->end_ns, 2000400);
	CU_ASSERT_EQUAL(slice_log__get(log, "inner")->flags, SLICE_TRUNCATED);
	CU_ASSERT_EQUAL(slice_log__get(log, "inner")->end_ns, 2000397);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::f", 1)->parent, 0);
	sl = slice_log__get(log, "ends inside");
	CU_ASSERT_EQUAL(sl->flags, 0);
	CU_ASSERT_EQUAL(sl->end_ns, 2001400);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::g", 0)->parent, sl->id);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::g", 0)->flags, SLICE_TRUNCATED);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::g", 0)->end_ns, 2001397);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::f", 2)->parent, 0);
	sl = slice_log__get(log, "goes on");
	CU_ASSERT_EQUAL(sl->flags, 0);
	CU_ASSERT_EQUAL(sl->begin_ns, 2002100);
	CU_ASSERT_EQUAL(sl->end_ns, 2002900);
	CU_ASSERT_EQUAL(sl->parent, 0);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::f", 3)->parent, sl->id);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::g", 1)->flags, SLICE_TRUNCATED);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::g", 1)->end_ns, 2002097);
	CU_ASSERT_EQUAL(log->totals.truncated_annotations, 1);
	CU_ASSERT_EQUAL(log->totals.truncated_ops, 2);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 0);
	slice_log__done(log, b);
}

static void dispatched(struct builder *b, uint32_t box, uint64_t ts, uint64_t opdef)
{
	builder__macro(b, ts, 0x9000, 0x10, 0x400);
	builder__boxed(b, box, ts + 10, 0x8800, opdef);
	if (opdef == 0x1000)
		builder__annotate(b, ts + 20, 0x8000, 0x1, "inner");
	else
		builder__scope_end(b, ts + 20, 0x8000, 0x1);
	builder__exit(b, box, ts + 30, 0x8700);
	builder__scope_end(b, ts + 40, 0x9000, 0x10);
}

/* Annotations in a dispatch mode: torch opens a scope of its own around the calls that begin and end one. */
static void dispatch_mode(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"),
		 box = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true);
	const struct slice *outer, *inner, *mode;
	struct slice_log *log;

	builder__caller(b, 1, 0x400, "PythonDispatchMode");
	builder__opdef(b, 1, 0x1000, "profiler::_record_function_enter_new", false);
	builder__opdef(b, 1, 0x2000, "profiler::_record_function_exit._RecordFunction", false);
	builder__annotate(b, 2000000, 0x8000, 0x2, "outer");
	dispatched(b, box, 2001000, 0x1000);
	builder__enter(b, f, 2002000, 0x9000);
	builder__exit(b, f, 2003000, 0x8f00);
	dispatched(b, box, 2004000, 0x2000);
	builder__scope_end(b, 2005000, 0x8000, 0x2);
	log = slice_log__of(b, NULL);
	outer = slice_log__must(log, "outer", 0);
	inner = slice_log__must(log, "inner", 0);
	CU_ASSERT_EQUAL(outer->end_ns - outer->begin_ns, 5000);
	CU_ASSERT_EQUAL(inner->begin_ns, 2001020);
	CU_ASSERT_EQUAL(inner->end_ns, 2004020);
	CU_ASSERT_EQUAL(inner->parent, outer->id);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::f", 0)->parent, inner->id);
	mode = slice_log__must(log, "PythonDispatchMode", 0);
	CU_ASSERT_EQUAL(mode->flags, SLICE_TRUNCATED);
	CU_ASSERT_EQUAL(mode->begin_ns, 2001000);
	CU_ASSERT_TRUE(mode->end_ns < 2001020);
	mode = slice_log__must(log, "PythonDispatchMode", 1);
	CU_ASSERT_EQUAL(mode->flags, SLICE_TRUNCATED);
	CU_ASSERT_EQUAL(mode->parent, inner->id);
	CU_ASSERT_EQUAL(mode->end_ns, 2004017);
	CU_ASSERT_EQUAL(log->cnt, 5);
	CU_ASSERT_EQUAL(log->totals.truncated_annotations, 0);
	CU_ASSERT_EQUAL(log->totals.truncated_ops, 2);
	CU_ASSERT_EQUAL(log->totals.unmatched_exits, 0);
	slice_log__done(log, b);
}

/* An operator throws; the annotation begun afterwards is not its child, even where it might be: an f that
 * returned began one at that address. */
static void begun_after_an_exception(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	const struct slice *a;
	struct slice_log *log;

	builder__enter(b, f, 1900000, 0x9000);
	builder__enter(b, g, 1900100, 0x8800);
	builder__annotate(b, 1900200, 0x8000, 0x1, "inside");
	builder__scope_end(b, 1900300, 0x8000, 0x1);
	builder__exit(b, g, 1900400, 0x8700);
	builder__exit(b, f, 1900500, 0x8f00);

	builder__enter(b, f, 2000000, 0x9000);
	builder__enter(b, g, 2000100, 0x8800);
	builder__annotate(b, 2000500, 0x8000, 0x1, "handler");
	builder__enter(b, g, 2000600, 0x9000); /* f and the first g are gone, and were before */
	builder__exit(b, g, 2000700, 0x8f00);
	builder__scope_end(b, 2000800, 0x8000, 0x1);
	log = slice_log__of(b, NULL);
	a = slice_log__get(log, "handler");
	CU_ASSERT_EQUAL(a->flags, 0);
	CU_ASSERT_EQUAL(a->parent, 0);
	CU_ASSERT_EQUAL(a->depth, 0);
	CU_ASSERT_EQUAL(a->end_ns, 2000800);
	CU_ASSERT_EQUAL(slice_log__get(log, "inside")->depth, 2);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::f", 1)->flags, SLICE_UNWOUND);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::f", 1)->end_ns, 2000497);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::g", 1)->end_ns, 2000494);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::g", 2)->parent, a->id);
	slice_log__done(log, b);
}

static void address_used_again(void)
{
	struct builder *b = builder__new(BEGIN, END);
	struct slice_log *log;

	builder__annotate(b, 2000000, 0x8000, 0x1, "first");
	builder__annotate(b, 2000500, 0x8000, 0x1, "second");
	builder__scope_end(b, 2000700, 0x8000, 0x1);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__get(log, "first")->flags, SLICE_UNWOUND);
	CU_ASSERT_EQUAL(slice_log__get(log, "first")->end_ns, 2000500);
	CU_ASSERT_EQUAL(slice_log__get(log, "second")->parent, 0);
	slice_log__done(log, b);
}

/* The end of a loop's annotation was lost: the next round's is not its child. */
static void lost_end(void)
{
	struct builder *b = builder__new(BEGIN, END);
	struct slice_log *log;

	builder__lost(b, 2000100, 2000200, 1);
	builder__annotate(b, 2000000, 0x8000, 0x1, "step");
	builder__annotate(b, 2000500, 0x8000, 0x2, "step");
	builder__scope_end(b, 2000700, 0x8000, 0x2);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__nth(log, "step", 0)->flags, SLICE_END_LOST);
	CU_ASSERT_EQUAL(slice_log__nth(log, "step", 1)->flags, 0);
	CU_ASSERT_EQUAL(slice_log__nth(log, "step", 1)->parent, 0);
	slice_log__done(log, b);
}

/* Random programs: the session always reports valid slices. */
static void random_records(void)
{
	for (unsigned int seed = 1; seed <= 60; seed++) {
		struct builder *b = builder__new(BEGIN, END);
		uint32_t f[3], box;
		uint64_t ts = 2000000;
		struct slice_log *log;

		srandom(seed);
		for (int i = 0; i < 3; i++)
			f[i] = builder__op(b, i == 0 ? "aten::a" : i == 1 ? "aten::b" : "aten::c");
		box = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true);
		builder__caller(b, 1, 0x400, "macro");
		builder__opdef(b, 1, 0x1000, "profiler::_record_function_enter_new", false);
		if (seed % 3 == 0)
			builder__lost(b, 2050000, 2050100, 1);
		for (int i = 0; i < 2000; i++) {
			uint64_t sp = 0x8000 + (uint64_t)(random() % 32) * 16;
			uint64_t h = 1 + (uint64_t)(random() % 4);

			ts += (uint64_t)(random() % 40);
			builder__thread(b, 1, 1 + (uint32_t)(random() % 2));
			switch (random() % 10) {
			case 0:
			case 1:
				builder__enter(b, f[random() % 3], ts, sp);
				break;
			case 2:
			case 3:
				builder__exit(b, f[random() % 3], ts, sp);
				break;
			case 4:
				builder__annotate(b, ts, sp, h, "x");
				break;
			case 5:
				builder__scope_end(b, ts, sp, h);
				break;
			case 6:
				builder__boxed(b, box, ts, sp, random() % 2 ? 0x1000 : 0x2000);
				break;
			case 7:
				builder__exit(b, box, ts, sp);
				break;
			case 8:
				builder__catch(b, ts, sp);
				break;
			case 9:
				builder__macro(b, ts, sp, h + 2, 0x400);
				break;
			}
		}
		log = slice_log__of(b, NULL);
		CU_ASSERT_TRUE(log->cnt > 500);
		slice_log__free(log);
		builder__free(b);
	}
}

/* What was open lasts until then, and not until the window's end; another process goes on. */
static void lost_probes(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	struct slice_log *log;

	builder__process(b, 10, "python", "python3", 0);
	builder__process(b, 20, "python", "python3", 0);
	builder__thread(b, 10, 11);
	builder__enter(b, f, 2000000, 0x7000);
	builder__thread(b, 20, 21);
	builder__enter(b, g, 3000000, 0x7000);
	builder__unprobed(b, 10, 5000000);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::f")->end_ns, 5000000);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::f")->flags, SLICE_UNFINISHED);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::g")->end_ns, END);
	slice_log__done(log, b);
}

static const CU_TestInfo tests[] = {
	{ "a process that lost its probes", lost_probes },
	{ "a with block", with_block },
	{ "helpers of unknown name", unknown_helpers },
	{ "a name belongs to one object", name_belongs_to_one },
	{ "regions", regions },
	{ "macros", macros },
	{ "detach within aten::detach", detach },
	{ "end on another thread", ends_on_another_thread },
	{ "generators", generators },
	{ "annotations in a dispatch mode", dispatch_mode },
	{ "begun after an exception", begun_after_an_exception },
	{ "an address is used again", address_used_again },
	{ "a lost end", lost_end },
	{ "random records", random_records },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("scopes", tests);
}
