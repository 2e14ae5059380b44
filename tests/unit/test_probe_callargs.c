/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Arguments of calls that have no program of their own: boxed operators, nodes, TorchScript, annotations. */
#include <string.h>

#include "probe_args_fix.h"

TEST("boxed calls")
{
	static const struct named_site sites[] = {
		{ "site_boxed_enter", PTB_PROG_BOXED_ENTER, 0 },
		{ "site_boxed_exit", PTB_PROG_BOXED_EXIT, 0 },
	};
	const struct ptb_boxed_enter *b;
	struct slice_values sv = {};
	struct value_iter it;
	struct fix f;

	fix__start(&f, LINKS_MULTI, PROBE_ARGS_FULL);
	fix__attach(&f, sites, 2);
	fix__run(&f, "boxed");
	CU_ASSERT_EQUAL(f.r.cnt, 4);
	b = records__find(&f.r, PTB_REC_BOXED_ENTER, 0);
	CU_ASSERT_EQUAL_FATAL(b && b->opdef == target__value(&f.t, "opdef"), true);
	CU_ASSERT_FATAL(values_of(b, sizeof(*b), &sv));
	it = values__begin(&sv);
	check_matrix(next(&it), 3, 5, target__value(&f.t, "impl_a"), 0);
	CU_ASSERT_EQUAL(next(&it).i, 33);
	check_end(&it);
	it = iter_of(records__find(&f.r, PTB_REC_OP_EXIT, 0));
	check_matrix(next(&it), 1, 1,
		     target__value(&f.t, "results") + 9 * target__value(&f.t, "result_bytes"), 9);
	check_end(&it);
	b = records__find(&f.r, PTB_REC_BOXED_ENTER, 1); /* neither operator nor arguments */
	CU_ASSERT_FATAL(b != NULL);
	CU_ASSERT_EQUAL(b->h.flags, PTB_F_READ_FAULT | PTB_F_ARGS | PTB_F_ARGS_CUT);
	CU_ASSERT_EQUAL(records__count(&f.r, PTB_REC_OP_EXIT, 2), 2);
	CU_ASSERT_EQUAL(probe_set__counter(f.ps, PTB_CNT_RESULTS_NO_FRAME), 1);
	fix__stop(&f);
}

TEST("nodes, TorchScript, annotations")
{
	static const struct named_site sites[] = {
		{ "site_node_enter", PTB_PROG_NODE_CALL, 0 },
		{ "site_script_enter", PTB_PROG_SCRIPT_ENTER, 0 },
		{ "site_scope_enter", PTB_PROG_SCOPE_STRING, 0 },
	};
	const struct ptb_named_enter *n;
	const struct ptb_node_enter *node;
	struct slice_values sv = {};
	struct value_iter it;
	struct value v;
	struct fix f;

	fix__start(&f, LINKS_MULTI, PROBE_ARGS_SHAPES);
	f.facts.node_seq_off = f.facts.node_thread_off = f.facts.pynode_obj_off = PTB_OFF_UNKNOWN;
	fix__attach(&f, sites, 3);
	fix__run(&f, "other");
	CU_ASSERT_EQUAL(f.r.cnt, 4);
	node = records__find(&f.r, PTB_REC_NODE_ENTER, 0);
	CU_ASSERT_FATAL(values_of(node, sizeof(*node), &sv));
	it = values__begin(&sv);
	check_matrix(next(&it), 3, 5, 0, 0);
	CU_ASSERT_EQUAL(next(&it).kind, PTB_VAL_UNDEFINED);
	check_matrix(next(&it), 1, 5, 0, 0);
	check_end(&it);
	n = records__find(&f.r, PTB_REC_NAMED_ENTER, 0);
	CU_ASSERT_FATAL(values_of(n, sizeof(*n) + 8, &sv));
	CU_ASSERT(n->text_len == 7 && !memcmp(n + 1, "forward", 8));
	it = values__begin(&sv);
	check_matrix(next(&it), 1, 5, 0, 0);
	v = next(&it);
	CU_ASSERT(v.kind == PTB_VAL_BOOL && v.i == 1);
	check_end(&it);
	n = records__find(&f.r, PTB_REC_SCOPE_NAME, 0);
	CU_ASSERT_FATAL(values_of(n, sizeof(*n) + 8, &sv));
	it = values__begin(&sv);
	v = next(&it);
	CU_ASSERT(v.kind == PTB_VAL_STRING && v.present == 3 && !memcmp(v.data, "0/0", 3));
	check_end(&it);
	n = records__find(&f.r, PTB_REC_SCOPE_NAME, 1);
	CU_ASSERT_FATAL(values_of(n, sizeof(*n) + 8, &sv));
	CU_ASSERT_EQUAL(sv.word_cnt, 0);
	fix__stop(&f);
}

/* A node's inputs are read at the engine's function only where nothing else has them. */
TEST("a node's input buffer")
{
	static const struct named_site site = { "site_node_enter", PTB_PROG_NODE_ENTER, 0 };
	const struct ptb_node_enter *node;
	struct slice_values sv = {};
	struct value_iter it;
	struct fix f;

	for (int i = 0; i < 2; i++) {
		fix__start(&f, LINKS_MULTI, PROBE_ARGS_SHAPES);
		f.facts.node_seq_off = f.facts.node_thread_off = PTB_OFF_UNKNOWN;
		f.facts.tensor.node_inputs_from_buffer = i == 1;
		fix__attach(&f, &site, 1);
		fix__run(&f, "other");
		node = records__find(&f.r, PTB_REC_NODE_ENTER, 0);
		CU_ASSERT_EQUAL(values_of(node, sizeof(*node), &sv), i == 1);
		if (i) {
			it = values__begin(&sv);
			check_matrix(next(&it), 3, 5, 0, 0);
			check_end(&it);
		}
		fix__stop(&f);
	}
}

PROBE_SUITE("probe_callargs")
