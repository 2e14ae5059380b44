/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writes CAPTURE: a made-up program with Python stacks, memory and page faults, whose sums are known. For
 * tests/unit/test_stack_outputs.py. With "more" its second relu takes longer and an operator is new; with
 * "samples" there are samples of its stacks instead.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture_builder.h"

#define BEGIN 1000000ULL
#define END 90000000ULL
#define PAGE 4096
#define PACKAGES "/usr/lib/python3.11/site-packages/"

enum { LINEAR = 1, RELU, BACKWARD, DEEP, EVIL, CUT };

struct funcs {
	uint32_t linear, addmm, relu, add, node, call, mm, empty;
};

static const struct ptb_py_frame top = { .code = 0x1000, .at = 20, .check = 1 },
				 step_12 = { .code = 0x2000, .at = 8, .check = 2 },
				 step_13 = { .code = 0x2000, .at = 30, .check = 2 },
				 forward = { .code = 0x3000, .at = 6, .check = 3 },
				 engine = { .code = 0x4000, .at = 6, .check = 4 },
				 fib = { .code = 0x5000, .at = 6, .check = 5 },
				 evil = { .code = 0x6000, .at = 6, .check = 6 };

static void define_stacks(struct builder *b)
{
	const struct ptb_py_frame linear[] = { forward, step_12, top }, relu[] = { step_13, top },
				  backward[] = { engine, step_13, top },
				  deep[] = { fib, fib, fib, top }, bad[] = { evil, top },
				  cut[] = { step_13 };

	builder__py_line(b, &top, "<module>", "/home/me/train.py", 30, 1);
	builder__py_line(b, &step_12, "Trainer.step", "/home/me/train.py", 12, 10);
	builder__py_line(b, &step_13, "Trainer.step", "/home/me/train.py", 13, 10);
	builder__py_line(b, &forward, "Linear.forward", PACKAGES "torch/nn/modules/linear.py", 134, 130);
	builder__py_line(b, &engine, "backward", PACKAGES "torch/autograd/__init__.py", 270, 243);
	builder__py_line(b, &fib, "fib.<locals>.<lambda>", "/home/me/lib/fib.py", 5, 4);
	builder__py_line(b, &evil, "a b;c\td\n</script><b>", "/home/me/\xc3\xa4.py", 2, 1);
	builder__py_stack_def(b, BEGIN + 1, LINEAR, 0, linear, 3);
	builder__py_stack_def(b, BEGIN + 1, RELU, 0, relu, 2);
	builder__py_stack_def(b, BEGIN + 1, BACKWARD, 0, backward, 3);
	builder__py_stack_def(b, BEGIN + 1, DEEP, 0, deep, 4);
	builder__py_stack_def(b, BEGIN + 1, EVIL, 0, bad, 2);
	builder__py_stack_def(b, BEGIN + 1, CUT, PTB_PY_CUT, cut, 1);
}

static void enter(struct builder *b, uint32_t func, uint64_t us, uint64_t sp, uint64_t stack)
{
	if (stack)
		builder__py_stack(b, BEGIN + us * 1000, stack);
	builder__enter(b, func, BEGIN + us * 1000, sp);
}

static void leave(struct builder *b, uint32_t func, uint64_t us, uint64_t sp)
{
	builder__exit(b, func, BEGIN + us * 1000, sp - 0x100);
}

static void one_op(struct builder *b, uint32_t func, uint64_t us, uint64_t length, uint64_t stack)
{
	enter(b, func, us, 0x9000, stack);
	leave(b, func, us + length, 0x9000);
}

/* Linear: 1000 us of which addmm has 600; a block that stays and one that goes; 3 page faults. */
static void linear(struct builder *b, const struct funcs *f)
{
	struct ptb_kmem k = { .begin_ns = BEGIN + 250000, .minor = 3, .fault_bytes = 3 * PAGE };

	enter(b, f->linear, 100, 0x9000, LINEAR);
	builder__seq(b, BEGIN + 150000, 0x8000, 5);
	enter(b, f->addmm, 200, 0x8000, LINEAR);
	enter(b, f->empty, 210, 0x7000, LINEAR);
	builder__mem_alloc(b, BEGIN + 220000, 0x6000, 0x10000, 1 << 20);
	builder__mem_alloc(b, BEGIN + 222000, 0x6000, 0x900000, 1 << 16);
	builder__mem_free(b, BEGIN + 225000, 0x6000, 0x900000);
	leave(b, f->empty, 230, 0x7000);
	builder__ring_rec(b, &k.h, PTB_REC_KMEM, sizeof(k), BEGIN + 300000);
	leave(b, f->addmm, 800, 0x8000);
	leave(b, f->linear, 1100, 0x9000);
}

/* aten::add in itself only: torch lists one event. */
static void twice(struct builder *b, const struct funcs *f)
{
	enter(b, f->add, 3000, 0x9000, DEEP);
	enter(b, f->add, 3010, 0x8000, DEEP);
	leave(b, f->add, 3110, 0x8000);
	leave(b, f->add, 3200, 0x9000);
}

/* The node of linear, on a thread without Python: 300 us, of which mm has 200. */
static void backward(struct builder *b, const struct funcs *f)
{
	builder__thread(b, 1, 2);
	builder__node(b, f->node, BEGIN + 5000000, 0x9000, 0x7700, 5, 1, NULL);
	builder__enter(b, f->call, BEGIN + 5010000, 0x8000);
	builder__enter(b, f->mm, BEGIN + 5020000, 0x7000);
	builder__exit(b, f->mm, BEGIN + 5220000, 0x6f00);
	builder__exit(b, f->call, BEGIN + 5310000, 0x7f00);
	builder__exit(b, f->node, BEGIN + 5350000, 0x8f00);
	builder__thread(b, 1, 1);
}

/* Nothing but the program's own code in it. */
static void annotation(struct builder *b)
{
	builder__py_stack(b, BEGIN + 7000000, RELU);
	builder__annotate(b, BEGIN + 7000000, 0x9000, 0xa000, "own code");
	builder__scope_end(b, BEGIN + 7500000, 0x9000, 0xa000);
}

static void sample_in(struct builder *b, uint32_t tid, uint64_t us, uint64_t id, uint32_t flags,
		      uint32_t periods, uint64_t op)
{
	struct ptb_py_sample s = { .id = id, .ns = periods * 10000000ULL, .flags = flags, .op = op };

	builder__thread(b, 1, tid);
	builder__ring_rec(b, &s.h, PTB_REC_PY_SAMPLE, sizeof(s), BEGIN + us * 1000);
}

static void sample(struct builder *b, uint32_t tid, uint64_t us, uint64_t id, uint32_t flags,
		   uint32_t periods)
{
	sample_in(b, tid, us, id, flags, periods, 0);
}

static void sample_threads(struct builder *b)
{
	builder__native_stack(b, 1, 1,
			      "poll (libc.so.6)\nat::_ops::mm::redispatch (libtorch_cpu.so)\nat::_ops::mm::call (libtorch_cpu.so)\n"
			      "at::_ops::linear::call (libtorch_cpu.so)\n\x1b[31m\xff<b>+0x12\n...\n");
	builder__native_stack(b, 1, 2, "");
	sample(b, 1, 10000, LINEAR, PTB_SAMPLE_RAN, 1);
	sample(b, 2, 10100, 0, 0, 1);
	sample(b, 1, 20000, RELU, PTB_SAMPLE_RAN, 1);
	sample(b, 1, 30000, RELU, PTB_SAMPLE_WAITED, 1);
	sample(b, 1, 40000, LINEAR, PTB_SAMPLE_RAN, 1);
	sample(b, 2, 50000, EVIL, 0, 3);
	sample(b, 1, 60000, 0, PTB_SAMPLE_NO_STACK, 1);
	sample(b, 1, 70000, 77, PTB_SAMPLE_RAN, 1); /* not defined */
}

/* Of an agent that knows which operators are open. */
static void sample_operators(struct builder *b)
{
	const uint32_t ran = PTB_SAMPLE_RAN | PTB_SAMPLE_OPS;

	builder__meta(b, "native_stacks_missing", "\"Operation not permitted\"");
	builder__opdef(b, 1, 0x8000000000000011, "aten::mm", false);
	builder__opdef(b, 1, 0x8000000000000022, "autograd::engine::evaluate_function: A.b", false);
	sample_in(b, 1, 10000, LINEAR, ran, 1, 0x8000000000000011);
	sample_in(b, 1, 20000, LINEAR, ran, 1, 0x8000000000000011);
	sample_in(b, 1, 30000, LINEAR, ran, 1, 0);
	sample_in(b, 1, 40000, RELU, PTB_SAMPLE_OPS, 2, 0x8000000000000011);
	sample_in(b, 2, 50000, 0, PTB_SAMPLE_OPS, 3, 0x8000000000000022);
	sample_in(b, 2, 60000, 0, PTB_SAMPLE_OPS, 1, 0x8000000000000033); /* its name did not come */
	sample_in(b, 2, 70000, 0, 0, 1, 0x8000000000000011); /* not known: whatever it says */
}

/* 100 samples a second, of two threads. */
static int samples(const char *path, bool operators)
{
	struct builder *b = builder__new(BEGIN, END);
	char cmd[512];
	int rc;

	builder__meta(b, "sample_hz", "100");
	builder__process(b, 1, "python", "/usr/bin/python3", 0);
	builder__thread(b, 1, 1);
	define_stacks(b);
	if (operators)
		sample_operators(b);
	else
		sample_threads(b);
	snprintf(cmd, sizeof(cmd), "cp '%s' '%s'", builder__path(b), path);
	rc = system(cmd);
	builder__free(b);
	return rc ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct builder *b = builder__new(BEGIN, END);
	const struct funcs f = { .linear = builder__op(b, "aten::linear"),
				 .addmm = builder__op(b, "aten::addmm"),
				 .relu = builder__op(b, "aten::relu"),
				 .add = builder__op(b, "aten::add.Tensor"),
				 .mm = builder__op(b, "aten::mm"),
				 .empty = builder__op(b, "aten::empty.memory_format"),
				 .node = builder__func(b, "Engine::evaluate_function", PTB_FUNC_NODE, true),
				 .call = builder__func(b, "Node::operator()", PTB_FUNC_NODE_CALL, true) };
	char cmd[512];
	int rc;

	if (argc < 2)
		return 2;
	if (argc > 2 && (!strcmp(argv[2], "samples") || !strcmp(argv[2], "operators"))) {
		builder__free(b);
		return samples(argv[1], *argv[2] == 'o');
	}
	builder__meta(b, "with_stack", "true");
	builder__meta(b, "profile_memory", "true");
	builder__meta(b, "kernel_memory", "true");
	builder__process(b, 1, "python", "/usr/bin/python3", 0);
	builder__node_type(b, 1, 0x7700, "torch::autograd::generated::AddmmBackward0");
	builder__thread(b, 1, 1);
	define_stacks(b);
	linear(b, &f);
	one_op(b, f.relu, 1200, 300, RELU);
	one_op(b, f.relu, 1600, argc > 2 ? 900 : 400, RELU);
	twice(b, &f);
	one_op(b, f.mm, 4000, 50, BACKWARD);
	backward(b, &f);
	one_op(b, f.mm, 6000, 70, EVIL);
	annotation(b);
	one_op(b, f.mm, 6100, 80, CUT);
	one_op(b, f.mm, 6200, 90, 0);
	if (argc > 2)
		one_op(b, f.addmm, 6300, 500, LINEAR);
	snprintf(cmd, sizeof(cmd), "cp '%s' '%s'", builder__path(b), argv[1]);
	rc = system(cmd);
	builder__free(b);
	return rc ? 1 : 0;
}
