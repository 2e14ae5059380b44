/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Arguments and results read by the kernel's programs from a program that calls as PyTorch calls, with
 * tensors whose every byte is known.
 */
#include <errno.h>
#include <string.h>

#include "model/values.h"
#include "probe_target.h"
#include "suite.h"

#define OP(code, ...) {.op = PTB_ARG_##code, .has_off = PTB_LOC_NONE, __VA_ARGS__}

/* Argument programs of the target's functions, numbered from 1. */
enum { P_ADD = 1, P_NEST, P_WIDE, P_LATE_ENTER, P_LATE };
static const struct ptb_arg_prog progs[] = {
	{.in_cnt = 3, .out_cnt = 1, .result_loc = 0,
	 .ops = {OP(PTR_TENSOR, .loc = {1}), OP(PTR_TENSOR, .loc = {2}), OP(PTR_SCALAR, .loc = {3}),
		 OP(PTR_TENSOR, .loc = {0})}},
	{.in_cnt = 2, .out_cnt = 2, .result_loc = 0,
	 .ops = {OP(PTR_TENSOR, .loc = {1}), OP(WORD, .as = PTB_VAL_INT, .loc = {2}),
		 OP(PTR_TENSOR, .loc = {0}), OP(WORD, .as = PTB_VAL_INT, .loc = {1})}},
	{.in_cnt = 3, .stack_words = 4, .result_loc = PTB_LOC_NONE,
	 .ops = {OP(WORD, .as = PTB_VAL_INT, .loc = {0}),
		 OP(WORD, .as = PTB_VAL_INT, .loc = {PTB_LOC_STACK}),
		 OP(WORD, .as = PTB_VAL_INT, .loc = {PTB_LOC_STACK + 3})}},
	{.in_cnt = 2, .result_loc = PTB_LOC_NONE,
	 .ops = {OP(LATE, .aux = 0, .loc = {PTB_LOC_NONE}), OP(LATE, .aux = 1, .loc = {PTB_LOC_NONE})}},
	{.in_cnt = 2, .result_loc = PTB_LOC_NONE,
	 .ops = {OP(SLOT, .aux = 0, .loc = {PTB_REG_RBP}, .disp = -16),
		 OP(SLOT_REG, .aux = 1, .loc = {PTB_REG_R12})}},
};

static const struct named_site add_sites[] = {
	{"site_add_enter", PTB_PROG_OP_ENTER, P_ADD},
	{"site_add_exit", PTB_PROG_OP_EXIT, P_ADD},
	{"site_nest_enter", PTB_PROG_OP_ENTER, P_NEST},
	{"site_nest_exit", PTB_PROG_OP_EXIT, P_NEST},
};

/* ---- set-up ---- */

struct fix {
	struct probe_set *ps;
	struct target t;
	struct ptb_proc_cfg facts;
	struct records r;
	uint32_t proc;
};

static void fill_facts(struct ptb_proc_cfg *cfg, struct target *t)
{
	struct ptb_tensor_cfg *c = &cfg->tensor;

	c->shapes_on = 1;
	c->object_header = 16;
	c->scalar_int = 1;
	c->scalar_complex = 3;
	c->scalar_bool = 4;
	c->storage_off = 16;
	c->extra_meta_off = 32;
	c->sizes_off = 56;
	c->storage_offset_off = 144;
	c->numel_off = 152;
	c->dtype_off = 160;
	c->device_off = 162;
	c->key_set_off = 168;
	c->storage_data_off = 16;
	c->schema_args_off = 0;
	c->schema_returns_off = 24;
	c->argument_size = 112;
	c->undefined_impl = target__value(t, "undefined");
	c->ivalue_kind[1] = PTB_VAL_TENSOR;
	c->ivalue_kind[0] = PTB_VAL_NONE;
	c->ivalue_kind[5] = PTB_VAL_INT;
	c->ivalue_kind[10] = PTB_VAL_BOOL;
	cfg->seq_tls_module = c->grad_tls_module = c->keys_tls_module =
		target__value(t, "tls_module");
	cfg->seq_tls_offset = target__value(t, "tls_offset");
	c->keys_tls_off = cfg->seq_tls_offset + 8;
	c->grad_tls_off = cfg->seq_tls_offset + 24;
	c->grad_mask = 1;
	c->grad_made_late = 1;
	c->keys_default_included = 0x1;
	c->keys_default_excluded = 0x2;
	cfg->script_name_off = 16;
}

static void start(struct fix *f, enum links links, enum probe_args args)
{
	uint32_t base = 0;

	memset(f, 0, sizeof(*f));
	f->ps = open_args_set(links, args);
	if (args != PROBE_ARGS_NONE) {
		CU_ASSERT_EQUAL(probe_set__add_arg_progs(f->ps, progs, 5, &base), 0);
		CU_ASSERT_EQUAL(base, 1);
	}
	target__start(&f->t, TARGET_TENSORS);
	fill_facts(&f->facts, &f->t);
}

static void attach(struct fix *f, const struct named_site *sites, uint32_t cnt)
{
	CU_ASSERT_EQUAL(attach_sites_to(f->ps, &f->t, &f->facts, sites, cnt, &f->proc), (int)cnt);
	probe_set__activate(f->ps);
}

static uint64_t run(struct fix *f, const char *command)
{
	uint64_t answer = target__run(&f->t, command);

	records__clear(&f->r);
	records__collect(&f->r, f->ps);
	return answer;
}

static void stop(struct fix *f)
{
	records__clear(&f->r);
	probe_set__free(f->ps);
	CU_ASSERT_EQUAL(target__stop(&f->t), 0);
}

/* The values of a record with `fixed` bytes before them; false: it has none. */
static bool values_of(const void *rec, size_t fixed, struct slice_values *sv)
{
	const struct ptb_rec_hdr *h = rec;

	if (!h || !(h->flags & PTB_F_ARGS) || h->len < fixed)
		return false;
	sv->words = (const uint64_t *)rec + fixed / 8;
	sv->word_cnt = (h->len - (uint32_t)fixed) / 8;
	sv->flags = 0;
	return values__sound_words(sv->words, sv->word_cnt) == sv->word_cnt;
}

static struct value_iter iter_of(const void *rec)
{
	static const struct slice_values none;
	struct slice_values sv = {};

	if (values_of(rec, sizeof(struct ptb_op_enter), &sv))
		return values__begin(&sv);
	CU_FAIL("no values");
	return values__begin(&none);
}

static struct value next(struct value_iter *it)
{
	struct value v = {.kind = 255};

	CU_ASSERT(values__next(it, &v));
	return v;
}

static void check_end(struct value_iter *it)
{
	struct value v;

	CU_ASSERT(!values__next(it, &v));
}

static void check_matrix(struct value v, int64_t rows, int64_t cols, uint64_t impl, int64_t offset)
{
	CU_ASSERT_EQUAL_FATAL(v.kind, PTB_VAL_TENSOR);
	CU_ASSERT_EQUAL_FATAL(v.ndim, 2);
	CU_ASSERT_EQUAL(v.sizes[0], rows);
	CU_ASSERT_EQUAL(v.sizes[1], cols);
	CU_ASSERT_EQUAL(v.strides[0], cols);
	CU_ASSERT_EQUAL(v.strides[1], 1);
	CU_ASSERT_EQUAL(v.numel, rows * cols);
	CU_ASSERT_EQUAL(v.dtype, 6);
	CU_ASSERT_EQUAL(v.device_type, 0);
	CU_ASSERT_EQUAL(v.device_index, -1);
	CU_ASSERT_EQUAL(v.keys, 0x8001);
	if (impl) {
		CU_ASSERT(v.flags & PTB_VAL_F_IDS);
		CU_ASSERT_EQUAL(v.impl, impl);
		CU_ASSERT_EQUAL(v.storage, 0x700000);
		CU_ASSERT_EQUAL(v.offset, offset);
	} else {
		CU_ASSERT(!(v.flags & PTB_VAL_F_IDS));
	}
}

/* ---- tests ---- */

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
	attach(&f, add_sites, 2);
	CU_ASSERT_EQUAL(run(&f, "add 1000"), 7000);
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
	if (full) {
		run(&f, "grad 0"); /* not made yet: as it will be made */
		run(&f, "add 1");
		CU_ASSERT_FATAL(values_of(records__find(&f.r, PTB_REC_OP_ENTER, 0),
					  sizeof(struct ptb_op_enter), &sv));
		CU_ASSERT(values__survey(sv.words, sv.word_cnt).grad_mode);
		run(&f, "grad 12");
		run(&f, "add 1");
		CU_ASSERT_FATAL(values_of(records__find(&f.r, PTB_REC_OP_ENTER, 0),
					  sizeof(struct ptb_op_enter), &sv));
		s = values__survey(sv.words, sv.word_cnt);
		CU_ASSERT(!s.grad_mode);
		CU_ASSERT_EQUAL(s.next_seq, ~0ull); /* nobody needs it: not read */
	}
	stop(&f);
}

static void test_names(void)
{
	run_add(LINKS_MULTI, PROBE_ARGS_NONE);
}

static void test_shapes(void)
{
	run_add(LINKS_MULTI, PROBE_ARGS_SHAPES);
}

static void test_full(void)
{
	run_add(LINKS_MULTI, PROBE_ARGS_FULL);
}

static void test_full_trace(void)
{
	run_add(LINKS_TRACE, PROBE_ARGS_FULL);
}

static void test_full_single(void)
{
	run_add(LINKS_SINGLE, PROBE_ARGS_FULL);
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

static void sort_by_time(struct records *r)
{
	for (uint32_t i = 1; i < r->cnt; i++) {
		struct ptb_rec_hdr *x = r->items[i];
		uint32_t k = i;

		for (; k && r->items[k - 1]->ts_ns > x->ts_ns; k--)
			r->items[k] = r->items[k - 1];
		r->items[k] = x;
	}
}

static void test_recursion(void)
{
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_FULL);
	attach(&f, add_sites, 4);
	run(&f, "nest 20 -1");
	sort_by_time(&f.r);
	CU_ASSERT_EQUAL(check_nest_exits(&f), 22);
	CU_ASSERT_EQUAL(probe_set__counter(f.ps, PTB_CNT_RESULTS_NO_FRAME), 0);
	/* deeper than the ring: the outermost have no results, and none has another's */
	run(&f, "nest 50 -1");
	sort_by_time(&f.r);
	CU_ASSERT_EQUAL(check_nest_exits(&f), 52);
	CU_ASSERT_EQUAL(probe_set__counter(f.ps, PTB_CNT_RESULTS_NO_FRAME), 51 - 32);
	stop(&f);
}

/* Calls left without an exit; a window that ends in the middle. */
static void test_unwound(void)
{
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_FULL);
	attach(&f, add_sites, 4);
	for (int i = 0; i < 20; i++) {
		run(&f, "nest 9 3");
		sort_by_time(&f.r);
		CU_ASSERT_EQUAL(check_nest_exits(&f), 1);
	}
	CU_ASSERT_EQUAL(probe_set__counter(f.ps, PTB_CNT_RESULTS_NO_FRAME), 0);
	run(&f, "threads 6 8");
	sort_by_time(&f.r);
	/* of a thread's 200 runs those not left are 9 calls deep; each ends with a call of its own */
	CU_ASSERT_EQUAL(check_nest_exits(&f), 6 * (200 + 133 * 9));
	CU_ASSERT_EQUAL(probe_set__counter(f.ps, PTB_CNT_RESULTS_NO_FRAME), 0);
	stop(&f);
}

static void test_stack_words(void)
{
	static const struct named_site site = {"site_wide_enter", PTB_PROG_OP_ENTER, P_WIDE};
	struct value_iter it;
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_SHAPES);
	attach(&f, &site, 1);
	run(&f, "wide");
	it = iter_of(records__find(&f.r, PTB_REC_OP_ENTER, 0));
	CU_ASSERT_EQUAL(next(&it).i, 1);
	CU_ASSERT_EQUAL(next(&it).i, 107);
	CU_ASSERT_EQUAL(next(&it).i, 110);
	check_end(&it);
	stop(&f);
}

static void test_late(void)
{
	static const struct named_site sites[] = {
		{"site_late_enter", PTB_PROG_OP_ENTER, P_LATE_ENTER},
		{"site_late_at", PTB_PROG_OP_LATE, P_LATE},
	};
	const struct ptb_op_enter *enter, *more;
	struct value_iter it;
	struct value v;
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_SHAPES);
	attach(&f, sites, 2);
	run(&f, "late 1.5");
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
	stop(&f);
	/* where only names are recorded it is not attached, and that is no refusal */
	start(&f, LINKS_MULTI, PROBE_ARGS_NONE);
	CU_ASSERT_EQUAL(attach_sites_to(f.ps, &f.t, &f.facts, sites, 2, &f.proc), 1);
	stop(&f);
}

static void test_odd(void)
{
	struct value_iter it;
	struct value v;
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_FULL);
	attach(&f, add_sites, 2);
	run(&f, "odd");
	it = iter_of(records__find(&f.r, PTB_REC_OP_ENTER, 0));
	v = next(&it);
	CU_ASSERT_EQUAL(v.kind, PTB_VAL_UNDEFINED);
	CU_ASSERT_EQUAL(v.impl, f.facts.tensor.undefined_impl);
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
	stop(&f);
}

/* Offsets of another build: what is read is wrong or unknown, the target does not care. */
static void test_wrong_layout(void)
{
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_FULL);
	f.facts.tensor.sizes_off = 60000;
	f.facts.tensor.key_set_off = 65000;
	f.facts.tensor.storage_off = 8;
	attach(&f, add_sites, 2);
	CU_ASSERT_EQUAL(run(&f, "add 10"), 70);
	CU_ASSERT_EQUAL(f.r.cnt, 20);
	CU_ASSERT(probe_set__counter(f.ps, PTB_CNT_ARGS_FAULT) >= 30);
	stop(&f);
}

/* From one moment on a process's arguments are not read any more. */
static void test_stop_args(void)
{
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_FULL);
	attach(&f, add_sites, 2);
	run(&f, "add 5");
	CU_ASSERT_EQUAL(f.r.items[0]->flags, PTB_F_ARGS);
	probe_set__stop_args(f.ps, f.proc);
	run(&f, "add 5");
	CU_ASSERT_EQUAL(f.r.cnt, 10);
	for (uint32_t i = 0; i < f.r.cnt; i++) {
		CU_ASSERT_EQUAL(f.r.items[i]->flags, 0);
		CU_ASSERT_EQUAL(f.r.items[i]->len, sizeof(struct ptb_op_enter));
	}
	stop(&f);
}

static void test_too_many_progs(void)
{
	struct fix f;
	uint32_t base = 0, n = 0;

	start(&f, LINKS_MULTI, PROBE_ARGS_SHAPES);
	while (n < 1u << 20 && !probe_set__add_arg_progs(f.ps, progs, 5, &base))
		n += 5;
	CU_ASSERT(n > 8000);
	CU_ASSERT_EQUAL(probe_set__add_arg_progs(f.ps, progs, 5, &base), -ENOSPC);
	stop(&f);
}

/* ---- calls without a program ---- */

static void test_boxed(void)
{
	static const struct named_site sites[] = {
		{"site_boxed_enter", PTB_PROG_BOXED_ENTER, 0},
		{"site_boxed_exit", PTB_PROG_BOXED_EXIT_RESULTS, 0},
	};
	const struct ptb_boxed_enter *b;
	struct slice_values sv = {};
	struct value_iter it;
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_FULL);
	attach(&f, sites, 2);
	run(&f, "boxed");
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
	stop(&f);
}

static void test_other(void)
{
	static const struct named_site sites[] = {
		{"site_node_enter", PTB_PROG_NODE_CALL, 0},
		{"site_script_enter", PTB_PROG_SCRIPT_ENTER, 0},
		{"site_scope_enter", PTB_PROG_SCOPE_STRING, 0},
	};
	const struct ptb_named_enter *n;
	const struct ptb_node_enter *node;
	struct slice_values sv = {};
	struct value_iter it;
	struct value v;
	struct fix f;

	start(&f, LINKS_MULTI, PROBE_ARGS_SHAPES);
	f.facts.node_seq_off = f.facts.node_thread_off = f.facts.pynode_obj_off = PTB_OFF_UNKNOWN;
	attach(&f, sites, 3);
	run(&f, "other");
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
	stop(&f);
}

/* A node's inputs are read at the engine's function only where nothing else has them. */
static void test_node_buffer(void)
{
	static const struct named_site site = {"site_node_enter", PTB_PROG_NODE_ENTER, 0};
	const struct ptb_node_enter *node;
	struct slice_values sv = {};
	struct value_iter it;
	struct fix f;

	for (int i = 0; i < 2; i++) {
		start(&f, LINKS_MULTI, PROBE_ARGS_SHAPES);
		f.facts.node_seq_off = f.facts.node_thread_off = PTB_OFF_UNKNOWN;
		f.facts.tensor.node_inputs_from_buffer = i == 1;
		attach(&f, &site, 1);
		run(&f, "other");
		node = records__find(&f.r, PTB_REC_NODE_ENTER, 0);
		CU_ASSERT_EQUAL(values_of(node, sizeof(*node), &sv), i == 1);
		if (i) {
			it = values__begin(&sv);
			check_matrix(next(&it), 3, 5, 0, 0);
			check_end(&it);
		}
		stop(&f);
	}
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{"names only", test_names},
		{"shapes (uprobe_multi)", test_shapes},
		{"inputs, results, state (uprobe_multi)", test_full},
		{"inputs, results, state (tracefs)", test_full_trace},
		{"inputs, results, state (single events)", test_full_single},
		{"results of recursive calls", test_recursion},
		{"calls left without an exit, threads", test_unwound},
		{"words on the stack", test_stack_words},
		{"doubles at the late site", test_late},
		{"odd tensors", test_odd},
		{"a wrong layout", test_wrong_layout},
		{"arguments are stopped", test_stop_args},
		{"too many programs", test_too_many_progs},
		{"boxed calls", test_boxed},
		{"nodes, TorchScript, annotations", test_other},
		{"a node's input buffer", test_node_buffer},
		CU_TEST_INFO_NULL,
	};

	if (must_skip())
		return 77;
	return run_suite("probe_args", tests);
}
