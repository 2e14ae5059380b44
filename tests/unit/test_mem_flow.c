/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * model/mem_flow: identity of blocks, versions, and rows. What of it pytorch's own tests assert
 * (test/profiler/test_memory_profiler.py, TestDataFlow) is here on graphs made by hand.
 */
#include <string.h>

#include "flow_builder.h"
#include "suite.h"

static void expect(const char *want)
{
	const char *got = flow__rows();

	if (strcmp(got, want) != 0)
		fprintf(stderr, "\n  got  %s\n  want %s\n", got, want);
	CU_ASSERT_STRING_EQUAL(got, want);
}

/* A result belongs to its operator; a block that no operator takes is not in the graph, but has rows. */
static void test_simple(void)
{
	uint64_t mul;

	flow__begin();
	mul = flow__op(0, "aten::mul", FLOW_MUL, "x y");
	flow__alloc(mul, 'z');
	flow__op(0, "aten::view_as", "aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)", "z z");
	flow__alloc(0, 'a');
	flow__free(0, 'a');
	expect("pre x ?; pre y ?; new z ?; new a ?; end a ?");
}

/* What is changed in place gets a version; what an operator allocates for itself is temporary. */
static void test_in_place(void)
{
	uint64_t mul;

	flow__begin();
	mul = flow__op(0, "aten::mul_", FLOW_MUL_, "x y");
	flow__alloc(mul, 'b');
	flow__op(mul, "aten::copy_", "aten::copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)", "b x");
	flow__free(mul, 'b');
	flow__op(0, "aten::mul_", FLOW_MUL_, "x y");
	expect("pre x ?; pre y ?; inc x ?>?; new b TEMPORARY; end b TEMPORARY; inc x ?>?");
}

/* Annotations are no nodes: the operators within them are; of an operator those within it are part. */
static void test_annotations(void)
{
	uint64_t outer, inner, zero;

	flow__begin();
	outer = flow__annotation(0, "Namespaced::Annotation", 0);
	inner = flow__annotation(outer, "My Annotation", 0);
	zero = flow__op(inner, "aten::zero_", "aten::zero_(Tensor(a!) self) -> Tensor(a!)", "x");
	flow__op(zero, "aten::fill_",
		 "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", "x -");
	flow__op(inner, "aten::zero_", "aten::zero_(Tensor(a!) self) -> Tensor(a!)", "x");
	expect("pre x ?; inc x ?>?; inc x ?>?");
}

/* Without a schema all arguments count as changed; a schema is believed. */
static void test_no_schema(void)
{
	uint64_t node;

	flow__begin();
	node = flow__backward(0, "MulBackward0", "g x");
	flow__op(node, "aten::mul", FLOW_MUL, "g x");
	flow__op(node, "mine", "", "y");
	node = flow__backward(0, "SumBackward0", "h");
	/* an operator of unknown schema that is not below a node is none itself */
	flow__op(0, "my::op", "", "k");
	expect("pre g ?; pre h ?; pre x ?; pre y ?; inc y ?>?; inc h ?>?");
	CU_ASSERT_EQUAL(flow__account().tensors, 7);
}

/* An address that comes back is another tensor. */
static void test_same_address(void)
{
	uint64_t op;

	flow__begin();
	op = flow__op(0, "aten::mul", FLOW_MUL, "x x");
	flow__alloc(op, 'a');
	flow__op(0, "aten::sum", FLOW_SUM, "a");
	flow__free(0, 'a');
	op = flow__op(0, "aten::mul_", FLOW_MUL_, "x x");
	flow__alloc(0, 'a');
	flow__op(0, "aten::mul_", FLOW_MUL_, "a x");
	flow__free(0, 'a');
	expect("pre x ?; new a ?; end a ?; inc x ?>?; new a ?; inc a ?>?; end a ?");
}

/* A free that was not seen: an allocation at the same address proves it. */
static void test_lost_free(void)
{
	flow__begin();
	flow__alloc(0, 'a');
	flow__op(0, "aten::sum", FLOW_SUM, "a");
	flow__alloc(0, 'a');
	flow__op(0, "aten::sum", FLOW_SUM, "a");
	expect("new a ?; new a ?; end a ?");
}

/* Blocks from before the window: their end is reported with or without a size. */
static void test_preexisting(void)
{
	flow__begin();
	flow__op(0, "aten::sum", FLOW_SUM, "a");
	flow__op(0, "aten::sum", FLOW_SUM, "b");
	flow__op(0, "aten::sum", FLOW_SUM, "c");
	flow__free(0, 'b');
	flow__free_unknown('c');
	flow__free_unknown('d'); /* of unknown size */
	flow__free(0, 'e');
	expect("pre a ?; pre b ?; pre c ?; pre e ?; end b ?; end c ?; end e ?");
}

/* A tensor that gets other memory is the same tensor: it is a gradient with both. */
static void test_resized(void)
{
	const char *rows;
	uint64_t node;

	flow__begin();
	flow__resize('a', 'b');
	node = flow__backward(0, "torch::autograd::AccumulateGrad", "b");
	flow__op(node, "aten::detach", FLOW_DETACH, "b");
	rows = flow__rows();
	CU_ASSERT_STRING_EQUAL(flow__category(rows, "pre", 'a'), "GRADIENT");
	CU_ASSERT_STRING_EQUAL(flow__category(rows, "new", 'b'), "GRADIENT");

	/* the same address of a TensorImpl is no proof: every tensor here has one of its own */
	flow__begin();
	flow__op(0, "aten::sum", FLOW_SUM, "a");
	node = flow__backward(0, "torch::autograd::AccumulateGrad", "b");
	flow__op(node, "aten::detach", FLOW_DETACH, "b");
	CU_ASSERT_STRING_EQUAL(flow__category(flow__rows(), "pre", 'a'), "?");
}

/* Lists of tensors count one by one; their schema applies to all of them. */
static void test_lists(void)
{
	flow__begin();
	flow__op(0, "aten::_foreach_add_",
		 "aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other) -> ()", "[ab] [cd]");
	expect("pre a ?; pre b ?; pre c ?; pre d ?; inc a ?>?; inc b ?>?");
}

/* Nothing at all, and nothing of tensors. */
static void test_nothing(void)
{
	flow__begin();
	expect("");
	flow__begin();
	flow__op(0, "aten::sum", FLOW_SUM, "");
	expect("");
	flow__begin();
	flow__alloc(77, 'a'); /* within what was not reported */
	expect("new a ?");
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "simple", test_simple },
		{ "in place", test_in_place },
		{ "annotations", test_annotations },
		{ "no schema", test_no_schema },
		{ "same address", test_same_address },
		{ "lost free", test_lost_free },
		{ "preexisting", test_preexisting },
		{ "resized", test_resized },
		{ "lists", test_lists },
		{ "nothing", test_nothing },
		CU_TEST_INFO_NULL,
	};

	return run_suite("mem_flow", tests);
}
