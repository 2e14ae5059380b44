/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Backward nodes: names, sequence numbers, and which forward operator made them. */
#include "capture_builder.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 9000000
#define VPTR 0x7700
#define NONE UINT64_MAX

struct funcs {
	uint32_t op, node, call;
};

static struct builder *new_builder(struct funcs *f, bool node_call)
{
	struct builder *b = builder__new(BEGIN, END);

	f->op = builder__op(b, "aten::mm");
	f->node = builder__func(b, "Engine::evaluate_function", PTB_FUNC_NODE, true);
	f->call = node_call ? builder__func(b, "Node::operator()", PTB_FUNC_NODE_CALL, true) : 0;
	builder__node_type(b, 1, VPTR, "torch::autograd::generated::MmBackward0");
	builder__node_type(b, 1, VPTR + 8, "torch::autograd::AccumulateGrad");
	return b;
}

static void forward(struct builder *b, const struct funcs *f, uint64_t ts, uint64_t seq)
{
	builder__enter(b, f->op, ts, 0x9000);
	builder__seq(b, ts + 10, 0x8000, seq);
	builder__exit(b, f->op, ts + 50, 0x8f00);
}

static void backward(struct builder *b, const struct funcs *f, uint64_t ts, uint64_t vptr,
		     uint64_t seq, uint64_t fwd_thread)
{
	builder__node(b, f->node, ts, 0x9000, vptr, seq, fwd_thread, NULL);
	if (f->call)
		builder__enter(b, f->call, ts + 10, 0x8000);
	builder__enter(b, f->op, ts + 20, 0x7000);
	builder__exit(b, f->op, ts + 30, 0x6f00);
	if (f->call)
		builder__exit(b, f->call, ts + 40, 0x7f00);
	builder__exit(b, f->node, ts + 50, 0x8f00);
}

static void check_node(bool node_call)
{
	struct funcs f;
	struct builder *b = new_builder(&f, node_call);
	const struct slice *outer, *inner, *fwd;
	struct slice_log *log;

	forward(b, &f, 2000000, 5);
	builder__thread(b, 1, 2);
	backward(b, &f, 2001000, VPTR, 5, 1);
	backward(b, &f, 2002000, VPTR + 8, NONE, 0);
	log = slice_log__of(b, NULL);
	outer = slice_log__must(log, "autograd::engine::evaluate_function: MmBackward0", 0);
	inner = slice_log__must(log, "MmBackward0", 0);
	fwd = slice_log__get(log, "aten::mm");
	CU_ASSERT_EQUAL(log->cnt, 7);
	CU_ASSERT_EQUAL(inner->parent, outer->id);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::mm", 1)->parent, inner->id);
	CU_ASSERT_EQUAL(inner->scope, 1);
	CU_ASSERT_EQUAL(outer->scope, 0);
	CU_ASSERT_EQUAL(inner->flags, node_call ? 0 : SLICE_END_INFERRED);
	CU_ASSERT_EQUAL(outer->flags, 0);
	CU_ASSERT_EQUAL(inner->seq, 5);
	CU_ASSERT_EQUAL(outer->seq, 5);
	CU_ASSERT_EQUAL(inner->fwd_thread, 1);
	CU_ASSERT_EQUAL(fwd->seq, 5);
	CU_ASSERT_EQUAL(fwd->fwd_thread, 0);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::mm", 1)->seq, -1);
	CU_ASSERT_PTR_NOT_NULL(slice_log__get(log, "torch::autograd::AccumulateGrad"));
	CU_ASSERT_EQUAL(slice_log__get(log, "torch::autograd::AccumulateGrad")->seq, -1);
	CU_ASSERT_EQUAL_FATAL(log->flow_cnt, 1);
	CU_ASSERT_EQUAL(log->flows[0].id, 1);
	CU_ASSERT_EQUAL(log->flows[0].fwd_begin_ns, fwd->begin_ns);
	CU_ASSERT_EQUAL(log->flows[0].bwd_begin_ns, inner->begin_ns);
	CU_ASSERT_EQUAL(log->flows[0].fwd_tid, 1);
	CU_ASSERT_EQUAL(log->flows[0].bwd_tid, 2);
	slice_log__done(log, b);
}

static void node(void)
{
	check_node(true);
}

static void node_without_call(void)
{
	check_node(false);
}

/* A node throws: both its slices end with the next record. */
static void node_throws(void)
{
	struct funcs f;
	struct builder *b = new_builder(&f, true);
	struct slice_log *log;

	builder__node(b, f.node, 2000000, 0x9000, VPTR, 5, 1, NULL);
	builder__enter(b, f.call, 2000100, 0x8000);
	forward(b, &f, 2000500, 9);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__get(log, "MmBackward0")->flags, SLICE_UNWOUND);
	CU_ASSERT_EQUAL(log->totals.unwound, 2);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::mm")->parent, 0);
	slice_log__done(log, b);
}

/* CopySlices runs the node that it wraps: the record of each call identifies its node. */
static void node_in_node(void)
{
	struct funcs f;
	struct builder *b = new_builder(&f, true);
	const struct slice *copy, *mm;
	struct slice_log *log;

	builder__node_type(b, 1, 0x90, "torch::autograd::CopySlices");
	forward(b, &f, 1900000, 7);
	builder__node(b, f.node, 2000000, 0xa000, 0x90, 8, 1, NULL);
	builder__node(b, f.call, 2000100, 0x9000, 0x90, 8, 1, NULL);
	builder__node(b, f.call, 2000200, 0x8000, VPTR, 7, 1, NULL);
	builder__exit(b, f.call, 2000300, 0x7f00);
	builder__exit(b, f.call, 2000400, 0x8f00);
	builder__exit(b, f.node, 2000500, 0x9f00);
	log = slice_log__of(b, NULL);
	copy = slice_log__must(log, "torch::autograd::CopySlices", 0);
	mm = slice_log__must(log, "MmBackward0", 0);
	CU_ASSERT_EQUAL(log->cnt, 4);
	CU_ASSERT_EQUAL(mm->parent, copy->id);
	CU_ASSERT_EQUAL(mm->seq, 7);
	CU_ASSERT_EQUAL(mm->scope, 1);
	CU_ASSERT_EQUAL(mm->flags | copy->flags, 0);
	CU_ASSERT_EQUAL(slice_log__count(log, "autograd::engine::evaluate_function: "
					      "torch::autograd::CopySlices"),
			1);
	CU_ASSERT_EQUAL_FATAL(log->flow_cnt, 1);
	CU_ASSERT_EQUAL(log->flows[0].bwd_begin_ns, mm->begin_ns);
	slice_log__done(log, b);
}

static void python_function(void)
{
	struct funcs f;
	struct builder *b = new_builder(&f, true);
	uint32_t py = builder__func(b, "THPFunction_apply", PTB_FUNC_PYFUNC, true);
	struct slice_log *log;

	builder__named(b, py, 2000000, 0x9000, "MyFn");
	builder__seq(b, 2000010, 0x8000, 3);
	builder__exit(b, py, 2000100, 0x8f00);
	builder__node(b, f.node, 2001000, 0x9000, 0x1, 3, 1, "MyFnBackward");
	builder__enter(b, f.call, 2001010, 0x8000);
	builder__exit(b, f.call, 2001050, 0x7f00);
	builder__exit(b, f.node, 2001100, 0x8f00);
	builder__node(b, f.node, 2002000, 0x9000, 0x2, 4, 1, NULL); /* an unknown class */
	builder__exit(b, f.node, 2002100, 0x8f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__get(log, "MyFn")->seq, 3);
	CU_ASSERT_PTR_NOT_NULL(slice_log__get(log, "MyFnBackward"));
	CU_ASSERT_EQUAL(log->flow_cnt, 1);
	CU_ASSERT_PTR_NOT_NULL(slice_log__get(log, "autograd::engine::evaluate_function: node 0x2"));
	CU_ASSERT_EQUAL(log->totals.unresolved_names, 1);
	slice_log__done(log, b);
}

/* aten::linear calls t and addmm, which make nodes 7 and 8; torch shows 7 on linear as well. */
static void composite(void)
{
	struct funcs f;
	struct builder *b = new_builder(&f, true);
	uint32_t linear = builder__op(b, "aten::linear"), t = builder__op(b, "aten::t");
	struct slice_log *log;

	builder__annotate(b, 1999000, 0xb000, 0x1, "forward");
	builder__enter(b, linear, 2000000, 0xa000);
	builder__enter(b, t, 2000100, 0x9000);
	builder__seq(b, 2000110, 0x8000, 7);
	builder__seq(b, 2000120, 0x8000, 8); /* a second node of one operator: the first counts */
	builder__exit(b, t, 2000200, 0x8f00);
	forward(b, &f, 2000300, 9);
	builder__exit(b, linear, 2000500, 0x9f00);
	builder__scope_end(b, 2000600, 0xb000, 0x1);
	backward(b, &f, 2001000, VPTR, 9, 1);
	backward(b, &f, 2002000, VPTR, 7, 1);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::linear")->seq, 7);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::t")->seq, 7);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::mm")->seq, 9);
	CU_ASSERT_EQUAL(slice_log__get(log, "forward")->seq, -1);
	CU_ASSERT_EQUAL_FATAL(log->flow_cnt, 2);
	CU_ASSERT_EQUAL(log->flows[0].fwd_begin_ns, slice_log__get(log, "aten::mm")->begin_ns);
	CU_ASSERT_EQUAL(log->flows[1].fwd_begin_ns, slice_log__get(log, "aten::t")->begin_ns);
	slice_log__done(log, b);
}

/* Forward before the window, a node visited twice: nothing is made up. */
static void only_true_pairs(void)
{
	struct funcs f;
	struct builder *b = new_builder(&f, true);
	struct slice_log *log;

	forward(b, &f, 2000000, 5);
	backward(b, &f, 2001000, VPTR, 4, 1);
	backward(b, &f, 2002000, VPTR, 5, 1);
	backward(b, &f, 2003000, VPTR, 5, 1);
	backward(b, &f, 2004000, VPTR, 6, 1);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->flow_cnt, 1);
	slice_log__done(log, b);
}

/*
 * Two threads use the same numbers (logical ids 1 and 2, backward of both on thread 9). Numbers that
 * only one has teach which is which; then the common ones are paired as well.
 */
static void learns_threads(void)
{
	struct funcs f;
	struct builder *b = new_builder(&f, true);
	struct slice_log *log;

	for (uint64_t i = 0; i < 10; i++) {
		builder__thread(b, 1, 2);
		forward(b, &f, 2000000 + i * 100, i);
		builder__thread(b, 1, 3);
		forward(b, &f, 2005000 + i * 100, i + 2);
	}
	builder__thread(b, 1, 9);
	backward(b, &f, 3000000, VPTR, 5, 1); /* both have 5: paired when 1 is known */
	backward(b, &f, 3000100, VPTR, 0, 1); /* only thread 2 has 0 */
	backward(b, &f, 3000200, VPTR, 11, 2);
	for (uint64_t i = 6; i < 10; i++) {
		backward(b, &f, 3001000 + i * 200, VPTR, i, 1);
		backward(b, &f, 3001100 + i * 200, VPTR, i, 2);
	}
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL_FATAL(log->flow_cnt, 11);
	CU_ASSERT_EQUAL(log->flows[0].fwd_tid, 2);
	CU_ASSERT_EQUAL(log->flows[0].bwd_begin_ns, 3000010);
	CU_ASSERT_EQUAL(log->flows[1].fwd_tid, 2);
	CU_ASSERT_EQUAL(log->flows[2].fwd_tid, 3);
	for (uint32_t k = 3; k < 11; k++)
		CU_ASSERT_EQUAL(log->flows[k].fwd_tid, k % 2 ? 2 : 3);
	slice_log__done(log, b);
}

/* Replicas: each thread runs its own backward and all use the same numbers. */
static void replicas(void)
{
	struct funcs f;
	struct builder *b = new_builder(&f, true);
	struct slice_log *log;

	for (uint32_t tid = 1; tid <= 3; tid++) {
		builder__thread(b, 1, tid);
		for (uint64_t i = 0; i < 10; i++)
			forward(b, &f, 2000000 + tid * 10000 + i * 100, i);
	}
	for (uint64_t i = 10; i--;) {
		for (uint32_t tid = 1; tid <= 3; tid++) {
			builder__thread(b, 1, tid);
			backward(b, &f, 3000000 + (10 - i) * 1000 + tid * 100, VPTR, i, tid);
		}
	}
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL_FATAL(log->flow_cnt, 3 * 10);
	for (uint32_t k = 0; k < log->flow_cnt; k++)
		CU_ASSERT_EQUAL(log->flows[k].fwd_tid, log->flows[k].bwd_tid);
	slice_log__done(log, b);
}

/* Inference with gradients on: the number of operators that wait for a backward node is bounded; others are counted. */
static void never_backward(void)
{
	struct funcs f;
	struct builder *b = builder__new(BEGIN, 1ULL << 40);
	struct slice_log *log;

	f.op = builder__op(b, "aten::mm");
	for (uint64_t i = 0; i < (1 << 18) + 1000; i++)
		forward(b, &f, 2000000 + i * 100, i);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->flow_cnt, 0);
	CU_ASSERT_EQUAL(log->totals.forgotten_forwards, 1000);
	slice_log__done(log, b);
}

static const CU_TestInfo tests[] = {
	{ "a backward node", node },
	{ "without the node's own function", node_without_call },
	{ "a node throws", node_throws },
	{ "a node in a node", node_in_node },
	{ "python functions", python_function },
	{ "composite operators", composite },
	{ "only true pairs", only_true_pairs },
	{ "learns the threads", learns_threads },
	{ "replicas", replicas },
	{ "never a backward", never_backward },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("autograd_link", tests);
}
