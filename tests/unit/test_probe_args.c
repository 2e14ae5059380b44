/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Arguments and results read by the kernel's programs from a program that calls as PyTorch calls, with
 * tensors whose every byte is known.
 */
#include <errno.h>

#include "probe_args_fix.h"

#define OP(code, ...)                                                                              \
	{                                                                                          \
		.op = PTB_ARG_##code, .has_off = PTB_LOC_NONE, __VA_ARGS__                         \
	}

/* Argument programs of the target's functions, numbered from 1. */
enum { P_ADD = 1, P_NEST, P_WIDE, P_LATE_ENTER, P_LATE };
static const struct ptb_arg_prog progs[] = {
	{ .in_cnt = 3,
	  .out_cnt = 1,
	  .result_loc = 0,
	  .ops = { OP(PTR_TENSOR, .loc = { 1 }), OP(PTR_TENSOR, .loc = { 2 }),
		   OP(PTR_SCALAR, .loc = { 3 }), OP(PTR_TENSOR, .loc = { 0 }) } },
	{ .in_cnt = 2,
	  .out_cnt = 2,
	  .result_loc = 0,
	  .ops = { OP(PTR_TENSOR, .loc = { 1 }), OP(WORD, .as = PTB_VAL_INT, .loc = { 2 }),
		   OP(PTR_TENSOR, .loc = { 0 }), OP(WORD, .as = PTB_VAL_INT, .loc = { 1 }) } },
	{ .in_cnt = 3,
	  .stack_words = 4,
	  .result_loc = PTB_LOC_NONE,
	  .ops = { OP(WORD, .as = PTB_VAL_INT, .loc = { 0 }),
		   OP(WORD, .as = PTB_VAL_INT, .loc = { PTB_LOC_STACK }),
		   OP(WORD, .as = PTB_VAL_INT, .loc = { PTB_LOC_STACK + 3 }) } },
	{ .in_cnt = 2,
	  .result_loc = PTB_LOC_NONE,
	  .ops = { OP(LATE, .aux = 0, .loc = { PTB_LOC_NONE }),
		   OP(LATE, .aux = 1, .loc = { PTB_LOC_NONE }) } },
	{ .in_cnt = 2,
	  .result_loc = PTB_LOC_NONE,
	  .ops = { OP(SLOT, .aux = 0, .loc = { PTB_REG_RBP }, .disp = -16),
		   OP(SLOT_REG, .aux = 1, .loc = { PTB_REG_R12 }) } },
};

static const struct named_site add_sites[] = {
	{ "site_add_enter", PTB_PROG_OP_ENTER, P_ADD },
	{ "site_add_exit", PTB_PROG_OP_EXIT, P_ADD },
	{ "site_nest_enter", PTB_PROG_OP_ENTER, P_NEST },
	{ "site_nest_exit", PTB_PROG_OP_EXIT, P_NEST },
};

/* ---- tests ---- */

static void start(struct fix *f, enum links links, enum probe_args args)
{
	uint32_t base = 0;

	fix__start(f, links, args);
	if (args != PROBE_ARGS_NONE) {
		CU_ASSERT_EQUAL(probe_set__add_arg_progs(f->ps, progs, 5, &base), 0);
		CU_ASSERT_EQUAL(base, 1);
	}
}

static struct value_survey state_after(struct fix *f, const char *command)
{
	struct slice_values sv = {};

	fix__run(f, command);
	fix__run(f, "add 1");
	CU_ASSERT_FATAL(values_of(records__find(&f->r, PTB_REC_OP_ENTER, 0),
				  sizeof(struct ptb_op_enter), &sv));
	return values__survey(sv.words, sv.word_cnt);
}

static void check_grad_modes(struct fix *f)
{
	struct value_survey s = state_after(f, "grad 0"); /* not made yet: as it will be made */

	CU_ASSERT(s.grad_mode);
	CU_ASSERT(s.grad_unmade);
	s = state_after(f, "grad 12");
	CU_ASSERT(!s.grad_mode);
	CU_ASSERT(!s.grad_unmade);
	CU_ASSERT_EQUAL(s.next_seq, ~0ull); /* not needed, so not read */
}

/* Inputs in both modes, results and state in one; none where only names are recorded. */
static void run_add(enum links links, enum probe_args args)
{
	bool full = args == PROBE_ARGS_FULL;
	struct value_survey s;
	struct slice_values sv = {};
	struct value_iter it;
	struct fix f;
	uint64_t a, b;

	start(&f, links, args);
	a = full ? target__value(&f.t, "impl_a") : 0;
	b = full ? target__value(&f.t, "impl_b") : 0;
	fix__attach(&f, add_sites, 2);
	CU_ASSERT_EQUAL(fix__run(&f, "add 1000"), 7000);
	CU_ASSERT_EQUAL(records__count(&f.r, PTB_REC_OP_ENTER, 1), 1000);
	CU_ASSERT_EQUAL(records__count(&f.r, PTB_REC_OP_EXIT, 2), 1000);
	for (uint32_t i = 0; i < 1000; i++) {
		const void *enter = records__find(&f.r, PTB_REC_OP_ENTER, i);
		const struct ptb_op_exit *e = records__find(&f.r, PTB_REC_OP_EXIT, i);
		struct value v;

		if (args == PROBE_ARGS_NONE) {
			CU_ASSERT_EQUAL(e->h.flags | ((const struct ptb_rec_hdr *)enter)->flags, 0);
			continue;
		}
		it = iter_of(enter);
		check_matrix(next(&it), 3, 5, a, 0);
		check_matrix(next(&it), 1, 5, b, 2);
		v = next(&it);
		CU_ASSERT_EQUAL(v.kind, PTB_VAL_INT);
		CU_ASSERT_EQUAL(v.i, 7);
		check_end(&it);
		CU_ASSERT_FATAL(values_of(enter, sizeof(struct ptb_op_enter), &sv));
		s = values__survey(sv.words, sv.word_cnt);
		CU_ASSERT_EQUAL(s.has_state, full);
		CU_ASSERT_EQUAL(s.flags & PTB_VAL_F_FAULT, 0);
		if (!full) {
			CU_ASSERT_EQUAL(e->h.flags, 0);
			continue;
		}
		CU_ASSERT_EQUAL(s.next_seq, 41);
		CU_ASSERT(s.grad_mode);
		CU_ASSERT_EQUAL(s.included, 0x11);
		CU_ASSERT_EQUAL(s.excluded, 0x22);
		it = iter_of(e);
		check_matrix(next(&it), 3, 5, a, 0);
		check_end(&it);
	}
	CU_ASSERT_EQUAL(probe_set__counter(f.ps, PTB_CNT_ARGS_FAULT), 0);
	CU_ASSERT_EQUAL(probe_set__counter(f.ps, PTB_CNT_RESULTS_NO_FRAME), 0);
	CU_ASSERT_EQUAL(probe_set__counter(f.ps, PTB_CNT_READ_FAULT), 0);
	if (full)
		check_grad_modes(&f);
	fix__stop(&f);
}

TEST("names only")
{
	run_add(LINKS_MULTI, PROBE_ARGS_NONE);
}

TEST("shapes (uprobe_multi)")
{
	run_add(LINKS_MULTI, PROBE_ARGS_SHAPES);
}

TEST("inputs, results, state (uprobe_multi)")
{
	run_add(LINKS_MULTI, PROBE_ARGS_FULL);
}

TEST("inputs, results, state (tracefs)")
{
	run_add(LINKS_TRACE, PROBE_ARGS_FULL);
}

/* Every exit of site_nest among the records: the result is that of its own depth. Returns their number. */
static uint32_t check_nest_exits(struct fix *f)
{
	uint64_t base = target__value(&f->t, "results"), size = target__value(&f->t, "result_bytes");
	struct {
		uint64_t sp;
		int64_t depth;
		uint32_t tid;
	} open[16][64];
	uint32_t cnt[16] = {}, exits = 0;

	for (uint32_t i = 0; i < f->r.cnt; i++) {
		const struct ptb_op_enter *e = (const void *)f->r.items[i];
		uint32_t k = e->h.tid % 16;
		struct value_iter it;
		int64_t depth;

		while (cnt[k] && open[k][cnt[k] - 1].sp <= e->sp)
			cnt[k]--;
		if (e->h.kind == PTB_REC_OP_ENTER && e->h.site == 3) {
			it = iter_of(e);
			next(&it);
			CU_ASSERT_FATAL(cnt[k] < 64);
			open[k][cnt[k]].sp = e->sp;
			open[k][cnt[k]].tid = e->h.tid;
			open[k][cnt[k]++].depth = next(&it).i;
		} else if (e->h.kind == PTB_REC_OP_EXIT && e->h.site == 4) {
			CU_ASSERT_FATAL(cnt[k] > 0);
			depth = open[k][--cnt[k]].depth;
			CU_ASSERT_EQUAL(open[k][cnt[k]].tid, e->h.tid);
			exits++;
			if (!(e->h.flags & PTB_F_ARGS))
				continue;
			it = iter_of(e);
			check_matrix(next(&it), 1, 1, base + (uint64_t)depth * size, depth);
			CU_ASSERT_EQUAL(next(&it).kind, PTB_VAL_INT);
			check_end(&it);
		}
	}
	return exits;
}

TEST("results of recursive calls")
{
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_FULL);
	fix__attach(&f, add_sites, 4);
	fix__run(&f, "nest 20 -1");
	records__sort_by_time(&f.r);
	CU_ASSERT_EQUAL(check_nest_exits(&f), 22);
	CU_ASSERT_EQUAL(probe_set__counter(f.ps, PTB_CNT_RESULTS_NO_FRAME), 0);
	/* deeper than the ring: the outermost have no results, and none has another's */
	fix__run(&f, "nest 50 -1");
	records__sort_by_time(&f.r);
	CU_ASSERT_EQUAL(check_nest_exits(&f), 52);
	CU_ASSERT_EQUAL(probe_set__counter(f.ps, PTB_CNT_RESULTS_NO_FRAME), 51 - 32);
	fix__stop(&f);
}

/* Calls left without an exit; a window that ends in the middle. */
TEST("calls left without an exit, threads")
{
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_FULL);
	fix__attach(&f, add_sites, 4);
	for (int i = 0; i < 20; i++) {
		fix__run(&f, "nest 9 3");
		records__sort_by_time(&f.r);
		CU_ASSERT_EQUAL(check_nest_exits(&f), 1);
	}
	CU_ASSERT_EQUAL(probe_set__counter(f.ps, PTB_CNT_RESULTS_NO_FRAME), 0);
	fix__run(&f, "threads 6 8");
	records__sort_by_time(&f.r);
	/* of a thread's 200 runs those not left are 9 calls deep; each ends with a call of its own */
	CU_ASSERT_EQUAL(check_nest_exits(&f), 6 * (200 + 133 * 9));
	CU_ASSERT_EQUAL(probe_set__counter(f.ps, PTB_CNT_RESULTS_NO_FRAME), 0);
	fix__stop(&f);
}

TEST("words on the stack")
{
	static const struct named_site site = { "site_wide_enter", PTB_PROG_OP_ENTER, P_WIDE };
	struct value_iter it;
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_SHAPES);
	fix__attach(&f, &site, 1);
	fix__run(&f, "wide");
	it = iter_of(records__find(&f.r, PTB_REC_OP_ENTER, 0));
	CU_ASSERT_EQUAL(next(&it).i, 1);
	CU_ASSERT_EQUAL(next(&it).i, 107);
	CU_ASSERT_EQUAL(next(&it).i, 110);
	check_end(&it);
	fix__stop(&f);
}

TEST("doubles at the late site")
{
	static const struct named_site sites[] = {
		{ "site_late_enter", PTB_PROG_OP_ENTER, P_LATE_ENTER },
		{ "site_late_at", PTB_PROG_OP_LATE, P_LATE },
	};
	const struct ptb_op_enter *enter, *more;
	struct value_iter it;
	struct value v;
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_SHAPES);
	fix__attach(&f, sites, 2);
	fix__run(&f, "late 1.5");
	enter = records__find(&f.r, PTB_REC_OP_ENTER, 0);
	more = records__find(&f.r, PTB_REC_ARGS_MORE, 0);
	it = iter_of(enter);
	CU_ASSERT(next(&it).flags & PTB_VAL_F_PENDING);
	CU_ASSERT(next(&it).flags & PTB_VAL_F_PENDING);
	check_end(&it);
	it = iter_of(more);
	CU_ASSERT(more && enter && more->sp < enter->sp);
	v = next(&it);
	CU_ASSERT_EQUAL(v.kind, PTB_VAL_DOUBLE);
	CU_ASSERT_EQUAL(v.d, 1.5);
	CU_ASSERT_EQUAL(next(&it).d, 1.5);
	check_end(&it);
	fix__stop(&f);
	/* where only names are recorded it is not attached, and that is no refusal */
	start(&f, LINKS_MULTI, PROBE_ARGS_NONE);
	CU_ASSERT_EQUAL(attach_sites_to(f.ps, &f.t, &f.facts, sites, 2, &f.proc), 1);
	fix__stop(&f);
}

TEST("odd tensors")
{
	struct value_iter it;
	struct value v;
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_FULL);
	fix__attach(&f, add_sites, 2);
	fix__run(&f, "odd");
	it = iter_of(records__find(&f.r, PTB_REC_OP_ENTER, 0));
	v = next(&it);
	CU_ASSERT_EQUAL(v.kind, PTB_VAL_UNDEFINED);
	CU_ASSERT_EQUAL(v.tensor | (uint64_t)v.storage_id << 32, f.facts.tensor.undefined_impl);
	v = next(&it);
	CU_ASSERT_EQUAL_FATAL(v.ndim, 7);
	CU_ASSERT_EQUAL(v.sizes[6], 7);
	CU_ASSERT_EQUAL(v.strides[6], 1);
	CU_ASSERT_EQUAL(next(&it).d, 1.5);
	for (uint32_t i = 1; i < 3; i++) { /* no object; no pointer to one */
		it = iter_of(records__find(&f.r, PTB_REC_OP_ENTER, i));
		next(&it);
		v = next(&it);
		CU_ASSERT_EQUAL(v.kind, PTB_VAL_UNKNOWN);
		CU_ASSERT_EQUAL(v.flags, PTB_VAL_F_FAULT);
		CU_ASSERT_EQUAL(next(&it).kind, PTB_VAL_DOUBLE);
		check_end(&it);
	}
	CU_ASSERT_EQUAL(probe_set__counter(f.ps, PTB_CNT_ARGS_FAULT), 2);
	fix__stop(&f);
}

/* Offsets of another build: values are wrong or unknown; the target is not affected. */
TEST("a wrong layout")
{
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_FULL);
	f.facts.tensor.sizes_off = 60000;
	f.facts.tensor.key_set_off = 65000;
	f.facts.tensor.storage_off = 8;
	fix__attach(&f, add_sites, 2);
	CU_ASSERT_EQUAL(fix__run(&f, "add 10"), 70);
	CU_ASSERT_EQUAL(f.r.cnt, 20);
	CU_ASSERT(probe_set__counter(f.ps, PTB_CNT_ARGS_FAULT) >= 30);
	fix__stop(&f);
}

/* From one moment on a process's arguments are not read any more. */
TEST("arguments are stopped")
{
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_FULL);
	fix__attach(&f, add_sites, 2);
	fix__run(&f, "add 5");
	CU_ASSERT_EQUAL(f.r.items[0]->flags, PTB_F_ARGS);
	probe_set__stop_args(f.ps, f.proc);
	fix__run(&f, "add 5");
	CU_ASSERT_EQUAL(f.r.cnt, 10);
	for (uint32_t i = 0; i < f.r.cnt; i++) {
		CU_ASSERT_EQUAL(f.r.items[i]->flags, 0);
		CU_ASSERT_EQUAL(f.r.items[i]->len, sizeof(struct ptb_op_enter));
	}
	fix__stop(&f);
}

TEST("too many programs")
{
	struct fix f;
	uint32_t base = 0, n = 0;

	start(&f, LINKS_MULTI, PROBE_ARGS_SHAPES);
	while (n < 1u << 20 && !probe_set__add_arg_progs(f.ps, progs, 5, &base))
		n += 5;
	CU_ASSERT(n > 8000);
	CU_ASSERT_EQUAL(probe_set__add_arg_progs(f.ps, progs, 5, &base), -ENOSPC);
	fix__stop(&f);
}

PROBE_SUITE("probe_args")
