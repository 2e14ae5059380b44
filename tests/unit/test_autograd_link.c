/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Backward nodes: names, sequence numbers, and which forward operator made them.
 * What small captures are read as is in tests/cases/autograd_link.
 */
#include "capture_builder.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000

struct funcs {
	uint32_t op, node, call;
};

static void forward(struct builder *b, const struct funcs *f, uint64_t ts, uint64_t seq)
{
	builder__enter(b, f->op, ts, 0x9000);
	builder__seq(b, ts + 10, 0x8000, seq);
	builder__exit(b, f->op, ts + 50, 0x8f00);
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
	{ "never a backward", never_backward },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("autograd_link", tests);
}
