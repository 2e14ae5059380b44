/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Replays of CUDA graphs, joined with what was open when their nodes were captured. */
#include <stdlib.h>
#include <string.h>

#include "capture_builder.h"
#include "gpu_log.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 9000000
#define OFF 5000000000ULL /* CUPTI's time is ahead by so much */

static struct builder *b;
static struct gpu_log *was;

static void start(void)
{
	struct ptb_gpu_clock r = { .gpu_ns = OFF + BEGIN, .mono_ns = BEGIN, .err_ns = 20 };

	b = builder__new(BEGIN, END);
	builder__meta(b, "gpu", "true");
	for (uint32_t tgid = 20; tgid >= 10; tgid -= 10) {
		builder__thread(b, tgid, tgid);
		builder__ring_rec(b, &r.h, PTB_REC_GPU_CLOCK, sizeof(r), BEGIN);
	}
}

static void done(void)
{
	gpu_log__free(was);
	builder__free(b);
}

/* On the builder's thread; records come long after. original 0: it is no copy. */
static void put_node(uint64_t at, uint64_t node, uint64_t original)
{
	struct ptb_gpu_graph_node r = { .at_ns = at, .node = node, .original = original };

	builder__ring_rec(b, &r.h, PTB_REC_GPU_GRAPH_NODE, sizeof(r), END);
}

static void replay(uint64_t begin, uint64_t node)
{
	struct ptb_gpu_kernel k = { .begin = OFF + begin,
				    .end = OFF + begin + 100,
				    .correlation = 77,
				    .stream = 7,
				    .graph = (uint32_t)(node >> 32),
				    .graph_node = node,
				    .name = builder__name(b, "k") };

	builder__ring_rec(b, &k.h, PTB_REC_GPU_KERNEL, sizeof(k), END);
}

static const struct gpu_slice *kernel(uint32_t nr)
{
	const struct gpu_slice *g = gpu_log__nth(was, GPU_KERNEL, nr);

	CU_ASSERT_PTR_NOT_NULL_FATAL(g);
	return g;
}

static void expect(uint32_t nr, const char *op, const char *stack)
{
	const struct gpu_origin *c = kernel(nr)->origin;

	CU_ASSERT_PTR_NOT_NULL_FATAL(c);
	CU_ASSERT_STRING_EQUAL(c->op, op);
	CU_ASSERT_STRING_EQUAL(c->within, stack);
	CU_ASSERT_EQUAL(c->op_slice != 0, *op != 0);
}

/* Nodes 1 and 2 in an operator, 3 between operators, 4 after all; their copies 11 to 14 run, much later. */
static void replayed(void)
{
	uint32_t outer, inner;

	start();
	outer = builder__op(b, "aten::linear");
	inner = builder__op(b, "aten::addmm");
	for (uint64_t i = 1; i <= 4; i++)
		put_node(5000000, 10 + i, i); /* cudaGraphInstantiate() */
	put_node(2000400, 3, 0);
	put_node(2000300, 2, 0);
	put_node(2000250, 1, 0);
	put_node(2000800, 4, 0);
	for (uint64_t i = 1; i <= 4; i++)
		replay(6000000 + 1000 * i, 10 + i);
	replay(6010000, 0); /* of no graph */
	builder__annotate(b, 2000000, 0xa000, 0x1, "forward");
	builder__enter(b, outer, 2000100, 0x9000);
	builder__enter(b, inner, 2000200, 0x8000);
	builder__exit(b, inner, 2000350, 0x7f00);
	builder__exit(b, outer, 2000600, 0x8f00);
	builder__scope_end(b, 2000700, 0xa000, 0x1);
	was = gpu_log__run(builder__session(b, NULL));
	expect(0, "aten::addmm", "forward > aten::linear > aten::addmm");
	CU_ASSERT_PTR_EQUAL(kernel(0)->origin, kernel(1)->origin);
	expect(2, "aten::linear", "forward > aten::linear");
	expect(3, "", "");
	CU_ASSERT_EQUAL(kernel(0)->graph_node, 11);
	CU_ASSERT_EQUAL(kernel(4)->graph_node, 0);
	CU_ASSERT_PTR_NULL(kernel(4)->origin);
	CU_ASSERT_EQUAL(was->totals.gpu_work, 5);
	CU_ASSERT_EQUAL(was->totals.gpu_graph_work, 4);
	CU_ASSERT_EQUAL(was->totals.gpu_graph_unknown, 0);
	done();
}

/* The id is that of the operator's slice, in each pass. */
static void ids(void)
{
	struct slice_log *slices;
	uint32_t op, other;

	start();
	other = builder__op(b, "aten::relu");
	op = builder__op(b, "aten::mm");
	put_node(2000150, 1, 0);
	replay(6000000, 1);
	builder__enter(b, other, 2000000, 0x9000);
	builder__exit(b, other, 2000050, 0x8f00);
	builder__enter(b, op, 2000100, 0x9000);
	builder__exit(b, op, 2000200, 0x8f00);
	for (int pass = 0; pass < 2; pass++) {
		was = gpu_log__run(builder__session(b, NULL));
		slices = slice_log__run(builder__session(b, NULL));
		expect(0, "aten::mm", "aten::mm");
		CU_ASSERT_EQUAL(kernel(0)->origin->op_slice, slice_log__get(slices, "aten::mm")->id);
		slice_log__free(slices);
		if (!pass)
			gpu_log__free(was);
	}
	done();
}

/* Where operators have Python stacks: the origin has its operator's, which names the line. */
static void python(void)
{
	static const struct ptb_py_frame frame = { .code = 0x1000, .at = 4, .check = 1 };
	struct session *s;
	uint32_t op, stack;

	start();
	op = builder__op(b, "aten::mm");
	builder__py_line(b, &frame, "step", "/home/me/train.py", 12, 10);
	builder__py_stack_def(b, BEGIN + 100, 5, 0, &frame, 1);
	put_node(2000150, 1, 0);
	put_node(2001150, 2, 0);
	replay(6000000, 1);
	replay(6001000, 2);
	builder__py_stack(b, 2000100, 5);
	builder__enter(b, op, 2000100, 0x9000);
	builder__exit(b, op, 2000200, 0x8f00);
	builder__enter(b, op, 2001100, 0x9000); /* without one */
	builder__exit(b, op, 2001200, 0x8f00);
	s = builder__session(b, NULL);
	was = gpu_log__run(s);
	expect(0, "aten::mm", "aten::mm");
	stack = kernel(0)->origin->stack;
	CU_ASSERT_EQUAL_FATAL(session__py_stack(s, stack).frame_cnt, 1);
	CU_ASSERT_EQUAL(session__py_frame(s, session__py_stack(s, stack).frames[0]).line, 12);
	CU_ASSERT_EQUAL(kernel(1)->origin->stack, 0);
	done();
}

/* Backward operators run on a thread of their own; a node belongs to what its own thread ran. */
static void threads(void)
{
	uint32_t forward, backward;

	start();
	forward = builder__op(b, "aten::mul");
	backward = builder__op(b, "aten::sum");
	builder__thread(b, 10, 10);
	put_node(2000100, 1, 0);
	builder__enter(b, forward, 2000000, 0x9000);
	builder__exit(b, forward, 2000500, 0x8f00);
	builder__thread(b, 10, 11);
	put_node(2000120, 2, 0);
	builder__enter(b, backward, 2000050, 0x9000);
	builder__exit(b, backward, 2000500, 0x8f00);
	builder__thread(b, 10, 12); /* runs no operator */
	put_node(2000130, 3, 0);
	builder__thread(b, 20, 20); /* another process with the same ids */
	put_node(2000150, 1, 0);
	replay(7000000, 1);
	builder__thread(b, 10, 0);
	for (uint64_t i = 1; i <= 3; i++)
		replay(6000000 + i * 1000, i);
	was = gpu_log__run(builder__session(b, NULL));
	expect(0, "aten::mul", "aten::mul");
	expect(1, "aten::sum", "aten::sum");
	expect(2, "", "");
	expect(3, "", "");
	CU_ASSERT_EQUAL(was->totals.gpu_graph_unknown, 0);
	done();
}

/* Captured before the window or never reported: nothing is made up. */
static void not_recorded(void)
{
	uint32_t op;

	start();
	op = builder__op(b, "aten::mm");
	put_node(BEGIN - 1, 1, 0);
	put_node(END + 1, 2, 0);
	put_node(5000000, 13, 3); /* a copy of one that was not reported */
	for (uint64_t i = 0; i < 4; i++)
		replay(6000000 + i * 1000, (uint64_t[]){ 1, 2, 13, 99 }[i]);
	builder__enter(b, op, 1500000, 0x9000);
	builder__exit(b, op, 8000000, 0x8f00);
	was = gpu_log__run(builder__session(b, NULL));
	for (uint32_t i = 0; i < 4; i++)
		CU_ASSERT_PTR_NULL(kernel(i)->origin);
	CU_ASSERT_EQUAL(was->totals.gpu_graph_work, 4);
	CU_ASSERT_EQUAL(was->totals.gpu_graph_unknown, 4);
	done();
}

/* Copies of copies; an id that is reported as made and as a copy is a copy; circles end. */
static void copies(void)
{
	uint32_t op, instantiate;

	start();
	op = builder__op(b, "aten::mm");
	instantiate = builder__op(b, "graph::instantiate");
	put_node(2000050, 1, 0);
	put_node(2000150, 5, 0);
	put_node(2000150, 5, 1);
	put_node(2000160, 6, 5);
	put_node(2000170, 8, 9);
	put_node(2000170, 9, 8);
	put_node(2000170, 4, 4);
	for (uint64_t i = 0; i < 4; i++)
		replay(6000000 + i * 1000, (uint64_t[]){ 5, 6, 8, 4 }[i]);
	builder__enter(b, op, 2000000, 0x9000);
	builder__exit(b, op, 2000090, 0x8f00);
	builder__enter(b, instantiate, 2000100, 0x9000);
	builder__exit(b, instantiate, 2000200, 0x8f00);
	was = gpu_log__run(builder__session(b, NULL));
	expect(0, "aten::mm", "aten::mm");
	expect(1, "aten::mm", "aten::mm");
	CU_ASSERT_PTR_NULL(kernel(2)->origin);
	CU_ASSERT_PTR_NULL(kernel(3)->origin);
	done();
}

/* Of a stack that is too long for a line the innermost part is kept. */
static void deep(void)
{
	const char *stack;
	uint32_t op[100];
	char name[64];

	start();
	for (uint32_t i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "aten::operator_number_%u", i);
		op[i] = builder__op(b, name);
	}
	put_node(2500000, 1, 0);
	replay(6000000, 1);
	for (uint32_t i = 0; i < 100; i++)
		builder__enter(b, op[i], 2000000 + i, 0x90000 - i * 0x100);
	for (uint32_t i = 100; i--;)
		builder__exit(b, op[i], 3000000 + 100 - i, 0x90000 - i * 0x100 - 0x10);
	was = gpu_log__run(builder__session(b, NULL));
	CU_ASSERT_STRING_EQUAL(kernel(0)->origin->op, "aten::operator_number_99");
	stack = kernel(0)->origin->within;
	CU_ASSERT(strlen(stack) > 900 && strlen(stack) < 1024);
	CU_ASSERT_EQUAL(strncmp(stack, "... > aten::operator_number_", 28), 0);
	CU_ASSERT_STRING_EQUAL(stack + strlen(stack) - 54,
			       " > aten::operator_number_98 > aten::operator_number_99");
	done();
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "replays", replayed },
		{ "ids", ids },
		{ "lines of Python", python },
		{ "threads and processes", threads },
		{ "captures that were not recorded", not_recorded },
		{ "copies", copies },
		{ "deep stacks", deep },
		CU_TEST_INFO_NULL,
	};

	return run_suite("gpu_graphs", tests);
}
