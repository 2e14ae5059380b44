/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Slices from the agent's records of RecordFunction objects: names, kinds, numbers, threads,
 * losses. What small captures are read as is in tests/cases/rf_slices.
 */
#include <stdlib.h>
#include <string.h>

#include "base/effort.h"
#include "capture_builder.h"
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
	{ "deep stack", deep_stack },
	{ "random records", random_records },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("rf_slices", tests);
}
