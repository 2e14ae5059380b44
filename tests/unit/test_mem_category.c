/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * model/mem_category: what belongs to what, by torch's rules (pytorch test/profiler/test_memory_profiler.py,
 * TestIdentifyGradients, TestMemoryProfilerE2E), and what is unknown because torch could know better.
 */
#include <string.h>

#include "flow_builder.h"
#include "suite.h"

static const char *rows;

#define is(what, block, want) CU_ASSERT_STRING_EQUAL(flow__category(rows, what, block), want)

/* y = x * w */
static void forward(const char *args, char out)
{
	uint64_t op = flow__op(0, "aten::mul", FLOW_MUL, args);

	flow__alloc(op, out);
}

/* A backward node that makes `grad` from `args`, and AccumulateGrad that takes it. */
static void backward(const char *args, char grad)
{
	char taken[2] = { grad, '\0' };
	uint64_t node;

	node = flow__backward(0, "MulBackward0", args);
	flow__op(node, "aten::mul", FLOW_MUL, args);
	flow__alloc(node, grad);
	node = flow__backward(0, "torch::autograd::AccumulateGrad", taken);
	flow__op(node, "aten::detach", FLOW_DETACH, taken);
}

/* ---- gradients ---- */

static void test_new_gradient(void)
{
	flow__begin();
	backward("s x", 'g');
	rows = flow__rows();
	is("new", 'g', "GRADIENT");
	is("pre", 's', "?");
}

/* The second time it is added to. */
static void test_old_gradient(void)
{
	uint64_t node;

	flow__begin();
	node = flow__backward(0, "torch::autograd::AccumulateGrad", "n");
	flow__op(node, "aten::add_", FLOW_ADD_, "g n -");
	flow__free(node, 'n');
	rows = flow__rows();
	is("pre", 'g', "GRADIENT");
	is("inc", 'g', "GRADIENT");
	is("pre", 'n', "?");
}

/* Only what AccumulateGrad does first, and only these two operators. */
static void test_no_gradient(void)
{
	uint64_t node;

	flow__begin();
	node = flow__backward(0, "torch::autograd::AccumulateGrad", "a");
	flow__op(node, "aten::mul", FLOW_MUL, "a a");
	flow__op(node, "aten::detach", FLOW_DETACH, "a");
	node = flow__backward(0, "OtherBackward0", "b");
	flow__op(node, "aten::detach", FLOW_DETACH, "b");
	flow__op(0, "aten::detach", FLOW_DETACH, "c");
	node = flow__backward(0, "torch::autograd::AccumulateGrad", "d");
	flow__alloc(node, 'e');
	flow__op(node, "aten::detach", FLOW_DETACH, "d");
	flow__op(0, "aten::detach", FLOW_DETACH, "e");
	rows = flow__rows();
	is("pre", 'a', "?");
	is("pre", 'b', "?");
	is("pre", 'c', "?");
	is("pre", 'd', "?");
	/* of what AccumulateGrad makes itself torch may know that it is p.grad */
	is("new", 'e', "?");
}

/* ---- inputs, parameters, activations ---- */

/* Without gradient and without parameter nothing is known. */
static void test_forward_only(void)
{
	flow__begin();
	forward("x w", 'y');
	flow__op(0, "aten::sum", FLOW_SUM, "y");
	rows = flow__rows();
	is("pre", 'x', "?");
	is("pre", 'w', "?");
	is("new", 'y', "?");
	CU_ASSERT(flow__account().no_parameters);
}

/* With one: what it is combined with is input, what comes of both is activation. */
static void test_forward_of_module(void)
{
	flow__begin();
	forward("x w*", 'y');
	forward("y b*", 'z');
	flow__op(0, "aten::sum", FLOW_SUM, "z");
	forward("c d", 'e'); /* has nothing to do with it */
	flow__op(0, "aten::sum", FLOW_SUM, "e");
	rows = flow__rows();
	is("pre", 'x', "INPUT");
	is("pre", 'w', "PARAMETER");
	is("pre", 'b', "PARAMETER");
	is("new", 'y', "ACTIVATION");
	is("new", 'z', "ACTIVATION");
	is("pre", 'c', "?");
	is("new", 'e', "?");
	CU_ASSERT(!flow__account().no_parameters);
}

/* A frozen layer's parameters are parameters, too. */
static void test_forward_backward(void)
{
	flow__begin();
	forward("x f*", 'y');
	forward("y w*", 'z');
	flow__op(0, "aten::sum", FLOW_SUM, "z");
	backward("z y", 'g');
	rows = flow__rows();
	is("pre", 'x', "INPUT");
	is("pre", 'f', "PARAMETER");
	is("new", 'y', "ACTIVATION");
	is("new", 'z', "ACTIVATION");
	is("new", 'g', "GRADIENT");
}

/* Without Python's objects x and w could both be either; torch's Python tracer would know. */
static void test_forward_backward_blind(void)
{
	flow__begin();
	forward("x w", 'y');
	flow__op(0, "aten::sum", FLOW_SUM, "y");
	backward("y x", 'g');
	rows = flow__rows();
	is("pre", 'x', "?");
	is("pre", 'w', "?");
	is("new", 'y', "?");
	is("new", 'g', "GRADIENT");
}

/* With a whole step data flow alone knows the parameter: gradients change it. A batch that comes and goes is
 * an input; the same tensor as in every step could be a parameter that is not trained. */
static void test_step_blind(void)
{
	uint64_t op;

	flow__begin();
	flow__alloc(0, 'x');
	forward("x w", 'y');
	op = flow__op(0, "aten::mul", FLOW_MUL, "y p");
	flow__alloc(op, 'z');
	flow__op(0, "aten::sum", FLOW_SUM, "z");
	backward("z x", 'g');
	flow__op(0, "aten::add_", FLOW_ADD_, "w g -");
	flow__free(0, 'y');
	flow__free(0, 'z');
	flow__free(0, 'x');
	flow__free(0, 'g');
	rows = flow__rows();
	is("new", 'x', "INPUT");
	is("pre", 'w', "PARAMETER");
	is("inc", 'w', "PARAMETER");
	is("new", 'y', "ACTIVATION");
	is("new", 'z', "ACTIVATION");
	is("pre", 'p', "?");
	is("new", 'g', "GRADIENT");
	is("end", 'g', "GRADIENT");
}

/* ---- backward nodes ---- */

static void test_autograd_detail(void)
{
	uint64_t node;

	flow__begin();
	flow__alloc(0, 's');
	flow__op(0, "aten::sum", FLOW_SUM, "s");
	node = flow__backward(0, "SumBackward0", "s");
	flow__alloc(node, 'a');
	flow__backward(0, "OtherBackward0", "k");
	node = flow__backward(0, "ReluBackward0", "a");
	flow__alloc(node, 't');
	flow__op(node, "aten::mul_", FLOW_MUL_, "t t");
	flow__free(node, 't');
	flow__free(0, 'a');
	flow__free(0, 's');
	rows = flow__rows();
	is("new", 'a', "AUTOGRAD_DETAIL");
	is("inc", 'a', "AUTOGRAD_DETAIL");
	is("end", 'a', "AUTOGRAD_DETAIL");
	is("new", 't', "TEMPORARY");
	/* given to a node, which may have changed it */
	is("new", 's', "?");
	CU_ASSERT_PTR_NOT_NULL(strstr(rows, "inc s ?>AUTOGRAD_DETAIL"));
	/* but what was there before may be known to torch */
	CU_ASSERT_PTR_NOT_NULL(strstr(rows, "inc k ?>?"));
}

/* ---- optimizers ---- */

/* A block that a step uses and does not free may be its state or an old gradient. */
static void test_optimizer(void)
{
	uint64_t step;

	flow__begin();
	flow__alloc(0, 'x');
	forward("x w*", 'y');
	flow__op(0, "aten::sum", FLOW_SUM, "y");
	step = flow__annotation(0, "Optimizer.step#SGD.step", 0);
	flow__op(step, "aten::mul_", FLOW_MUL_, "m w*"); /* a momentum that is changed by no gradient */
	flow__op(step, "aten::mul", FLOW_MUL, "l w*");
	flow__alloc(step, 'k'); /* a number, gone with the step */
	flow__op(step, "aten::mul_", FLOW_MUL_, "w* k");
	flow__free(step, 'k');
	rows = flow__rows();
	is("pre", 'w', "PARAMETER");
	is("new", 'x', "INPUT");
	is("new", 'y', "ACTIVATION");
	is("pre", 'm', "?");
	is("pre", 'l', "?");
	is("new", 'k', "INPUT"); /* as in torch */
}

#define STEP "Optimizer.step#SGD.step"
#define FUSED                                                                                      \
	"aten::_fused_sgd_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list) -> ()"

static void train(void)
{
	flow__begin();
	flow__alloc(0, 'x');
	forward("x w*", 'y');
	flow__op(0, "aten::sum", FLOW_SUM, "y");
	backward("y x", 'g');
}

/* Changed by a gradient, and the parameter by it. */
static void step_with(uint64_t step, const char *take, const char *give)
{
	flow__op(step, "aten::add_", FLOW_ADD_, take);
	flow__op(step, "aten::add_", FLOW_ADD_, give);
}

static void test_state(void)
{
	uint64_t step, op;

	train();
	step = flow__annotation(0, STEP, 0);
	flow__op(step, "aten::mul_", FLOW_MUL_, "c c"); /* counts */
	op = flow__op(step, "aten::mul", FLOW_MUL, "g g");
	flow__alloc(op, 'n');
	flow__op(step, "aten::add_", FLOW_ADD_, "m n -");
	flow__op(step, "aten::add_", FLOW_ADD_, "w* m -");
	flow__op(step, "aten::add_", FLOW_ADD_, "w* n -"); /* made here and kept */
	flow__op(step, "aten::add_", FLOW_ADD_, "s w* -"); /* hooks: an average, a sum of gradients, a counter */
	flow__op(step, "aten::add_", FLOW_ADD_, "l g -");
	flow__op(step, "aten::mul_", FLOW_MUL_, "d d");
	rows = flow__rows();
	is("pre", 'w', "PARAMETER");
	is("new", 'g', "GRADIENT");
	is("pre", 'm', "OPTIMIZER_STATE");
	is("new", 'n', "OPTIMIZER_STATE");
	is("pre", 'c', "OPTIMIZER_STATE");
	CU_ASSERT_PTR_NOT_NULL(strstr(rows, "inc m OPTIMIZER_STATE>OPTIMIZER_STATE"));
	is("pre", 's', "?");
	is("pre", 'l', "?");
	is("pre", 'd', "?");
	CU_ASSERT(flow__account().undecided == 3);
}

/* Each as state is, but for one thing. */
static void test_no_state(void)
{
	uint64_t step;

	train();
	flow__op(0, "aten::sum", FLOW_SUM, "o");
	step = flow__annotation(0, STEP, 0);
	step_with(step, "m g -", "w* m -");
	step_with(step, "o g -", "w* o -"); /* an operator outside has it */
	step_with(step, "f g -", "w* f -");
	flow__free(step, 'f');                             /* a step frees it */
	flow__op(step, "aten::add_", FLOW_ADD_, "w* r -"); /* it does not change */
	rows = flow__rows();
	is("pre", 'm', "OPTIMIZER_STATE");
	is("pre", 'o', "?");
	is("pre", 'f', "?");
	is("pre", 'r', "?");
}

/* A step whose gradients are all from before the window proves nothing: h could be one of them. */
static void test_old_gradients(void)
{
	uint64_t step;

	flow__begin();
	flow__alloc(0, 'x');
	forward("x w*", 'y');
	step = flow__annotation(0, STEP, 0);
	flow__op(step, "aten::_fused_sgd_", FUSED, "[w*] [h] [m]");
	rows = flow__rows();
	is("pre", 'h', "?");
	is("pre", 'm', "?");

	train();
	step = flow__annotation(0, STEP, 0);
	flow__op(step, "aten::_fused_sgd_", FUSED, "[w*v*] [gh] [mn]");
	rows = flow__rows();
	is("new", 'g', "GRADIENT");
	is("pre", 'h', "?");
	is("pre", 'm', "OPTIMIZER_STATE");
	is("pre", 'n', "OPTIMIZER_STATE");
}

static void test_closure(void)
{
	uint64_t step;

	train();
	step = flow__annotation(0, STEP, 0);
	flow__backward(step, "MulBackward0", "y");
	step_with(step, "m g -", "w* m -");
	rows = flow__rows();
	is("pre", 'm', "?");

	train(); /* one after it is another thing */
	step = flow__annotation(0, STEP, 0);
	step_with(step, "m g -", "w* m -");
	flow__wait();
	flow__backward(0, "MulBackward0", "y");
	rows = flow__rows();
	is("pre", 'm', "OPTIMIZER_STATE");
}

/* The window ends in the step: a block allocated there may be freed a moment later. */
static void test_cut_step(void)
{
	uint64_t step, op;

	train();
	step = flow__annotation(0, STEP, 0);
	step_with(step, "m g -", "w* m -");
	flow__wait();
	step = flow__annotation(0, STEP, SLICE_UNFINISHED);
	op = flow__op(step, "aten::mul", FLOW_MUL, "g m");
	flow__alloc(op, 'n');
	flow__op(step, "aten::add_", FLOW_ADD_, "w* n -");
	rows = flow__rows();
	is("pre", 'm', "OPTIMIZER_STATE");
	is("new", 'n', "?");
}

/* The window begins in the step: what lies in it has no parent. */
static void test_open_step(void)
{
	uint64_t step;

	flow__begin();
	flow__annotation(0, STEP, SLICE_OPEN_AT_BEGIN);
	step_with(0, "m h -", "w* m -");
	flow__wait();
	flow__alloc(0, 'x');
	forward("x w*", 'y');
	flow__op(0, "aten::sum", FLOW_SUM, "y");
	backward("y x", 'g');
	step = flow__annotation(0, STEP, 0);
	step_with(step, "m g -", "w* m -");
	rows = flow__rows();
	is("pre", 'm', "OPTIMIZER_STATE");
	is("pre", 'h', "?");
}

/* The same without that information: two whole steps distinguish it from forward()'s tensors. */
static void test_hidden_step(void)
{
	uint64_t step;

	for (int whole = 1; whole <= 2; whole++) {
		flow__begin();
		step_with(0, "m h -", "w* m -");
		flow__alloc(0, 'x');
		forward("x w*", 'y');
		flow__op(0, "aten::sum", FLOW_SUM, "y");
		backward("y x", 'g');
		for (int i = 0; i < whole; i++) {
			step = flow__annotation(0, STEP, 0);
			step_with(step, "m g -", "w* m -");
			flow__wait();
		}
		rows = flow__rows();
		is("pre", 'm', whole == 2 ? "OPTIMIZER_STATE" : "?");
	}
}

/* ---- what was there before ---- */

/* s was left by a forward() before the window, or is an input of it; i is an input. */
static void test_leftovers(void)
{
	flow__begin();
	backward("s k", 'h');
	flow__free_unknown('s');
	forward("i w*", 'y');
	flow__op(0, "aten::sum", FLOW_SUM, "y");
	backward("y i", 'g');
	rows = flow__rows();
	is("pre", 's', "?");
	is("pre", 'k', "?"); /* no operator but backward()'s has it */
	is("pre", 'i', "INPUT");
	CU_ASSERT(flow__account().leftovers == 2);

	/* by data flow alone p is a parameter of a node that the window cuts */
	flow__begin();
	flow__alloc(0, 'i');
	forward("i p", 'y');
	forward("y w*", 'z');
	flow__op(0, "aten::sum", FLOW_SUM, "z");
	backward("z y p", 'g');
	flow__op(0, "aten::add_", FLOW_ADD_, "p g -");
	flow__free_unknown('p');
	rows = flow__rows();
	is("new", 'i', "INPUT");
	is("pre", 'p', "?");
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "new gradient", test_new_gradient },
		{ "old gradient", test_old_gradient },
		{ "no gradient", test_no_gradient },
		{ "forward only", test_forward_only },
		{ "forward of a module", test_forward_of_module },
		{ "forward and backward", test_forward_backward },
		{ "forward and backward, blind", test_forward_backward_blind },
		{ "step, blind", test_step_blind },
		{ "autograd detail", test_autograd_detail },
		{ "optimizer", test_optimizer },
		{ "state", test_state },
		{ "no state", test_no_state },
		{ "gradients from before the window", test_old_gradients },
		{ "closure", test_closure },
		{ "window ends in a step", test_cut_step },
		{ "window begins in a step", test_open_step },
		{ "window begins in a step without a begin", test_hidden_step },
		{ "leftovers", test_leftovers },
		CU_TEST_INFO_NULL,
	};

	return run_suite("mem_category", tests);
}
