/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The argument interpreter (bpf/arg_interp.h) on the host: every instruction, tensors of all kinds, wrong
 * layouts. Expected payloads are written out word by word.
 */
#include <string.h>

#include "arg_expect.h"
#include "args/values.h"
#include "suite.h"

/* ---- words ---- */

TEST("words and bytes")
{
	begin(false);
	add_op(PTB_ARG_WORD);
	add_op(PTB_ARG_WORD)->as = PTB_VAL_BOOL;
	add_op(PTB_ARG_WORD)->as = PTB_VAL_DEVICE;
	add_op(PTB_ARG_BYTE);
	add_op(PTB_ARG_OPT_WORD)->loc[1] = 2;
	add_op(PTB_ARG_OPT_WORD)->loc[1] = 1;
	*add_op(PTB_ARG_OPT_BYTES) = (struct ptb_arg_op){
		.op = PTB_ARG_OPT_BYTES, .as = PTB_VAL_INT, .loc = { 3 }, .has_off = 1
	};
	*add_op(PTB_ARG_OPT_BYTES) = (struct ptb_arg_op){
		.op = PTB_ARG_OPT_BYTES, .as = PTB_VAL_BOOL, .loc = { 3 }, .has_off = 2
	};
	*add_op(PTB_ARG_OPT_BYTES) = (struct ptb_arg_op){
		.op = PTB_ARG_OPT_BYTES, .as = PTB_VAL_DEVICE, .loc = { 4 }, .has_off = 2
	};
	*add_op(PTB_ARG_OPT_BYTES) = (struct ptb_arg_op){
		.op = PTB_ARG_OPT_BYTES, .as = PTB_VAL_DEVICE, .loc = { 5 }, .has_off = 0, .val_off = 1
	};
	w[0] = 0xffffffffffff0301;
	w[1] = 0x500; /* a flag is a byte */
	w[2] = 0x1;
	w[3] = 0x000106; /* value, has, no */
	w[4] = 0x01ff00; /* cpu, no index, has */
	w[5] = 0x020101; /* has, cuda, index 2 */
	run(false);
	expect_int(w[0]);
	expect_val(PTB_VAL_BOOL, 0, 1);
	expect_val(PTB_VAL_DEVICE, 1, 3);
	expect_int(1);
	expect_int(w[0]);
	expect_val(PTB_VAL_NONE, 0, 0);
	expect_int(6);
	expect_val(PTB_VAL_NONE, 0, 0);
	expect_val(PTB_VAL_DEVICE, 0, ~0u);
	expect_val(PTB_VAL_DEVICE, 1, 2);
	expect_end();
	CU_ASSERT_EQUAL(arena.reads, 0);
}

/* The upper half of a C int in a register may be anything. */
TEST("a C int")
{
	begin(false);
	add_op(PTB_ARG_WORD)->flags = PTB_ARG_F_INT32;
	w[0] = 0x7fffffff00000000 | (uint32_t)-2;
	run(false);
	expect_int((uint64_t)-2);
	expect_end();
}

TEST("arrays of bool, late doubles, unknown")
{
	begin(false);
	add_op(PTB_ARG_BOOL_ARRAY)->aux = 3;
	*add_op(PTB_ARG_LATE) =
		(struct ptb_arg_op){ .op = PTB_ARG_LATE, .aux = 1, .loc = { PTB_LOC_NONE } };
	*add_op(PTB_ARG_LATE) = (struct ptb_arg_op){ .op = PTB_ARG_LATE, .aux = 2, .loc = { 1 } };
	add_op(PTB_ARG_UNKNOWN);
	add_op(200);
	add_op(PTB_ARG_BOOL_ARRAY)->aux = 0;
	*add_op(PTB_ARG_OPAQUE) = (struct ptb_arg_op){ .op = PTB_ARG_OPAQUE,
						       .aux = PTB_OPAQUE_Generator,
						       .loc = { PTB_LOC_NONE },
						       .has_off = PTB_LOC_NONE };
	w[0] = 0x55010001;
	run(false);
	expect_val(PTB_VAL_BOOLS, 3, 3);
	expect(0x010001);
	expect(head(PTB_VAL_DOUBLE, PTB_VAL_F_PENDING, 0, 1));
	expect(0);
	expect_val(PTB_VAL_NONE, 0, 0);
	expect_val(PTB_VAL_UNKNOWN, 0, 0);
	expect_val(PTB_VAL_UNKNOWN, 0, 0);
	expect_val(PTB_VAL_BOOLS, 0, 0);
	expect_val(PTB_VAL_OPAQUE, 0, PTB_OPAQUE_Generator);
	expect_end();
	CU_ASSERT_EQUAL(arena.counters[PTB_CNT_ARGS_FAULT], 0);
}

TEST("doubles at the late site")
{
	uint64_t frame[4] = { 0x3ff0000000000000, 2, 3, 4 };

	begin(false);
	*add_op(PTB_ARG_SLOT) =
		(struct ptb_arg_op){ .op = PTB_ARG_SLOT, .aux = 0, .loc = { PTB_REG_RBP }, .disp = -32 };
	*add_op(PTB_ARG_SLOT) =
		(struct ptb_arg_op){ .op = PTB_ARG_SLOT, .aux = 1, .loc = { PTB_REG_RSP }, .disp = 24 };
	*add_op(PTB_ARG_SLOT_REG) =
		(struct ptb_arg_op){ .op = PTB_ARG_SLOT_REG, .aux = 2, .loc = { PTB_REG_R13 } };
	*add_op(PTB_ARG_SLOT) =
		(struct ptb_arg_op){ .op = PTB_ARG_SLOT, .aux = 3, .loc = { PTB_REG_R14 } };
	w[PTB_REG_RSP] = arena__put(frame, sizeof(frame));
	w[PTB_REG_RBP] = w[PTB_REG_RSP] + 32;
	w[PTB_REG_R13] = 77;
	run(false);
	expect(head(PTB_VAL_DOUBLE, 0, 0, 0));
	expect(frame[0]);
	expect(head(PTB_VAL_DOUBLE, 0, 0, 1));
	expect(4);
	expect(head(PTB_VAL_DOUBLE, 0, 0, 2));
	expect(77);
	expect(head(PTB_VAL_UNKNOWN, PTB_VAL_F_FAULT, 0, 3)); /* r14 is 0 */
	expect_end();
}

/* ---- memory ---- */

TEST("values behind pointers")
{
	uint64_t opt_last[2] = { 42, 1 }, opt_first[2] = { 1, 43 }, none[2] = { 42, 0x100 };
	uint64_t tuple[3] = { 10, 20, 0xff01 };

	begin(false);
	w[0] = put_word(5);
	w[1] = put_word((uint64_t)INT64_MIN + 5); /* a heap node */
	w[2] = arena__put(opt_last, sizeof(opt_last));
	w[3] = arena__put(opt_first, sizeof(opt_first));
	w[4] = arena__put(none, sizeof(none));
	w[5] = arena__put(tuple, sizeof(tuple));
	add_op(PTB_ARG_PTR_SYMINT);
	add_op(PTB_ARG_PTR_SYMINT)->loc[0] = 1;
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_PTR_SYMINT, .loc = { 2 }, .has_off = 8 };
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_PTR_SYMINT, .loc = { 3 }, .val_off = 8 };
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_PTR_SYMINT, .loc = { 4 }, .has_off = 8 };
	*add_op(0) = (struct ptb_arg_op){
		.op = PTB_ARG_PTR_INT, .as = PTB_VAL_INT, .loc = { 5 }, .has_off = PTB_LOC_NONE, .val_off = 8
	};
	*add_op(0) = (struct ptb_arg_op){
		.op = PTB_ARG_PTR_INT, .as = PTB_VAL_DOUBLE, .loc = { 5 }, .has_off = PTB_LOC_NONE
	};
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_PTR_INT,
					  .as = PTB_VAL_BOOL,
					  .loc = { 5 },
					  .has_off = PTB_LOC_NONE,
					  .val_off = 16 };
	*add_op(0) = (struct ptb_arg_op){
		.op = PTB_ARG_OPAQUE, .aux = PTB_OPAQUE_Generator, .loc = { 2 }, .has_off = 8
	};
	*add_op(0) = (struct ptb_arg_op){
		.op = PTB_ARG_OPAQUE, .aux = PTB_OPAQUE_Generator, .loc = { 4 }, .has_off = 8
	};
	run(false);
	expect_int(5);
	expect_val(PTB_VAL_OPAQUE, 0, PTB_OPAQUE_SymInt);
	expect_int(42);
	expect_int(43);
	expect_val(PTB_VAL_NONE, 0, 0);
	expect_int(20);
	expect_val(PTB_VAL_DOUBLE, 0, 0);
	expect(10);
	expect_val(PTB_VAL_BOOL, 0, 1);
	expect_val(PTB_VAL_OPAQUE, 0, PTB_OPAQUE_Generator);
	expect_val(PTB_VAL_NONE, 0, 0);
	expect_end();
}

TEST("SymInt at its limit")
{
	begin(false);
	w[0] = put_word((uint64_t) - (1ll << 62));
	w[1] = put_word((uint64_t)(-(1ll << 62) - 1));
	add_op(PTB_ARG_PTR_SYMINT);
	add_op(PTB_ARG_PTR_SYMINT)->loc[0] = 1;
	run(false);
	expect_int((uint64_t) - (1ll << 62));
	expect_val(PTB_VAL_OPAQUE, 0, PTB_OPAQUE_SymInt);
	expect_end();
}

TEST("scalars")
{
	static const struct {
		uint64_t tag;
		uint8_t kind;
		uint32_t n;
	} rows[] = { { 0, PTB_VAL_DOUBLE, 0 },
		     { 1, PTB_VAL_INT, 0 },
		     { 2, PTB_VAL_OPAQUE, PTB_OPAQUE_UInt },
		     { 3, PTB_VAL_COMPLEX, 0 },
		     { 4, PTB_VAL_BOOL, 1 },
		     { 5, PTB_VAL_OPAQUE, PTB_OPAQUE_SymFloat },
		     { 6, PTB_VAL_OPAQUE, PTB_OPAQUE_SymInt },
		     { 7, PTB_VAL_OPAQUE, PTB_OPAQUE_SymBool } };
	uint64_t list[8][4], wrong[4] = { 99 }, opt[6] = { 1, 0, 8, 0, 1 }, none[6] = { 0, 0, 1, 0, 8 };

	begin(false);
	for (uint32_t i = 0; i < 8; i++) {
		list[i][0] = rows[i].tag | 0xabcd00000000; /* the rest is padding */
		list[i][2] = 0x3ff8000000000001;
		list[i][3] = 9;
	}
	w[0] = arena__put(list, sizeof(list));
	w[1] = 8;
	w[2] = arena__put(wrong, sizeof(wrong));
	w[3] = arena__put(opt, sizeof(opt));
	w[4] = arena__put(none, sizeof(none));
	add_op(PTB_ARG_SCALARS);
	add_op(PTB_ARG_PTR_SCALAR)->loc[0] = 2;
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_PTR_SCALAR, .loc = { 3 }, .has_off = 32 };
	*add_op(0) =
		(struct ptb_arg_op){ .op = PTB_ARG_PTR_SCALAR, .loc = { 4 }, .has_off = 0, .val_off = 16 };
	run(false);
	expect_val(PTB_VAL_LIST, 8, 8);
	for (uint32_t i = 0; i < 8; i++) {
		expect_val(rows[i].kind, 0, rows[i].n);
		if (rows[i].kind == PTB_VAL_COMPLEX || rows[i].kind == PTB_VAL_INT ||
		    rows[i].kind == PTB_VAL_DOUBLE)
			expect(0x3ff8000000000001);
		if (rows[i].kind == PTB_VAL_COMPLEX)
			expect(9);
	}
	expect(head(PTB_VAL_UNKNOWN, PTB_VAL_F_FAULT, 0, 0));
	expect_int(8);
	expect_val(PTB_VAL_NONE, 0, 0);
	expect_end();
}

TEST("lists of numbers")
{
	uint64_t nums[600];
	struct ptb_arg_op *o;

	begin(false);
	for (uint64_t i = 0; i < 600; i++)
		nums[i] = i * i;
	w[0] = arena__put(nums, sizeof(nums));
	w[1] = 3;
	w[2] = 0;
	w[3] = 600;
	w[4] = 1;
	add_op(PTB_ARG_WORDS);
	add_op(PTB_ARG_WORDS)->flags = PTB_ARG_F_DOUBLE;
	add_op(PTB_ARG_WORDS)->loc[1] = 2; /* empty */
	o = add_op(PTB_ARG_WORDS);
	o->loc[0] = 2; /* NULL with a count */
	o->loc[1] = 4;
	o->flags = PTB_ARG_F_NULL_NONE;
	o = add_op(PTB_ARG_WORDS);
	o->loc[0] = o->loc[1] = 2; /* NULL without: an empty list */
	o->flags = PTB_ARG_F_NULL_NONE;
	add_op(PTB_ARG_WORDS)->loc[2] = 2; /* flag not set */
	add_op(PTB_ARG_WORDS)->loc[1] = 3; /* too long */
	run(false);
	expect_val(PTB_VAL_INTS, 3, 3);
	expect(0), expect(1), expect(4);
	expect_val(PTB_VAL_DOUBLES, 3, 3);
	expect(0), expect(1), expect(4);
	expect_val(PTB_VAL_INTS, 0, 0);
	expect_val(PTB_VAL_NONE, 0, 0);
	expect_val(PTB_VAL_INTS, 0, 0);
	expect_val(PTB_VAL_NONE, 0, 0);
	expect(head(PTB_VAL_INTS, PTB_VAL_F_CUT, PTB_LIST_SHAPES_MAX, 600));
	for (uint64_t i = 0; i < PTB_LIST_SHAPES_MAX; i++)
		expect(i * i);
	expect_end();
	CU_ASSERT_EQUAL(arena.counters[PTB_CNT_ARGS_CUT], 0); /* it is not printed */
	run(true);
	CU_ASSERT_EQUAL(arena.counters[PTB_CNT_ARGS_CUT], 1);
	at = 12;
	expect(head(PTB_VAL_INTS, PTB_VAL_F_CUT, PTB_LIST_FULL_MAX, 600));
	CU_ASSERT_EQUAL(out.cnt, 13 + PTB_LIST_FULL_MAX);
	CU_ASSERT_EQUAL(out.words[out.cnt - 1], (PTB_LIST_FULL_MAX - 1) * (PTB_LIST_FULL_MAX - 1));
}

TEST("texts")
{
	char text[PTB_STRING_MAX + 100];
	uint64_t view[3];

	memset(text, 'x', sizeof(text));
	for (uint64_t len = 0; len < 18; len++) {
		uint64_t word = 0;

		begin(false);
		w[0] = arena__put("0123456789abcdefghijklmn", 24);
		w[1] = len;
		add_op(PTB_ARG_STRING);
		run(false);
		expect_val(PTB_VAL_STRING, (uint16_t)len, (uint32_t)len);
		for (uint64_t i = 0; i < len; i += 8) {
			word = 0;
			memcpy(&word, "0123456789abcdefgh" + i, len - i < 8 ? len - i : 8);
			expect(word);
		}
		expect_end();
	}
	begin(false);
	view[0] = 1;
	view[1] = arena__put(text, sizeof(text));
	view[2] = sizeof(text);
	w[0] = arena__put(view, sizeof(view));
	w[1] = 0;
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_PTR_STRING, .has_off = 0, .val_off = 8 };
	add_op(PTB_ARG_STRING)->loc[2] = 1;
	run(false);
	expect(head(PTB_VAL_STRING, PTB_VAL_F_CUT, PTB_STRING_MAX, sizeof(text)));
	CU_ASSERT(!memcmp(out.words + 1, text, PTB_STRING_MAX));
	at += PTB_STRING_MAX / 8;
	expect_val(PTB_VAL_NONE, 0, 0);
	expect_end();
}

/* ---- tensors ---- */

static void check_tensor(bool old, bool full)
{
	static const struct shape shapes[] = {
		{ 0, {}, {}, 0, 1, 4, 0, 0xff },
		{ 1, { 9 }, { 1 }, 1, 9, 11, 1, 0 },
		{ 2, { 3, 5 }, { 5, 1 }, 7, 15, 6, 1, 3 },
		{ 5, { 1, 2, 3, 4, 5 }, { 120, 60, 20, 5, 1 }, 0, 120, 15, 13, 0 },
		{ 6, { 1, 2, 3, 4, 5, 6 }, { 6, 5, 4, 3, 2, 1 }, -1, 720, 7, 0, 0xff },
		{ 16, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 16 }, { 16 }, 0, 16, 0, 0, 0xff },
	};
	uint64_t impl[6];

	begin(old);
	for (uint32_t i = 0; i < 6; i++) {
		impl[i] = put_impl(&shapes[i]);
		w[i] = put_word(impl[i]);
		add_op(PTB_ARG_PTR_TENSOR)->loc[0] = (uint8_t)i;
	}
	run(full);
	for (uint32_t i = 0; i < 6; i++)
		expect_tensor(&shapes[i], impl[i], full);
	expect_end();
	CU_ASSERT(!arena.wild);
	/* pointer and object; those of more than five dimensions and storages once more */
	CU_ASSERT_EQUAL(arena.reads, 6 * 2 + 2 + (full ? 6 : 0));
}

TEST("tensors")
{
	check_tensor(false, false);
	check_tensor(false, true);
	check_tensor(true, false);
	check_tensor(true, true);
}

TEST("optional tensors and references")
{
	uint64_t impl, opt[2], ref;

	begin(false);
	impl = put_impl(&matrix);
	opt[0] = impl;
	opt[1] = 0xff01;
	w[0] = arena__put(opt, sizeof(opt));
	opt[1] = 0;
	w[1] = arena__put(opt, sizeof(opt));
	opt[0] = 1;
	opt[1] = impl;
	w[2] = arena__put(opt, sizeof(opt));
	ref = put_word(put_word(impl));
	w[3] = ref - 24; /* third element of a tuple of references */
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_PTR_TENSOR, .loc = { 0 }, .has_off = 8 };
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_PTR_TENSOR, .loc = { 1 }, .has_off = 8 };
	*add_op(0) =
		(struct ptb_arg_op){ .op = PTB_ARG_PTR_TENSOR, .loc = { 2 }, .has_off = 0, .val_off = 8 };
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_PTR_TENSOR,
					  .loc = { 3 },
					  .val_off = 24,
					  .has_off = PTB_LOC_NONE,
					  .flags = PTB_ARG_F_DEREF };
	run(true);
	expect_tensor(&matrix, impl, true);
	expect_val(PTB_VAL_NONE, 0, 0);
	expect_tensor(&matrix, impl, true);
	expect_tensor(&matrix, impl, true);
	expect_end();
}

TEST("undefined, symbolic, absurd tensors")
{
	struct shape many = { 17, { 1 }, { 1 }, 0, 1, 6, 0, 0xff }, absurd = matrix, none = matrix;
	uint64_t impl[6], extra, zero = 0;

	begin(false);
	impl[0] = put_impl(&matrix);
	cfg.tensor.undefined_impl = impl[0];
	impl[1] = put_impl(&many);
	absurd.ndim = 0;
	impl[2] = put_impl(&absurd);
	*(uint64_t *)((uint8_t *)arena__at(impl[2]) + cfg.tensor.sizes_off) = 1ull << 60;
	impl[3] = put_impl(&matrix);
	extra = put_word(0x1234);
	memcpy((uint8_t *)arena__at(impl[3]) + cfg.tensor.extra_meta_off, &extra, 8);
	impl[4] = put_impl(&matrix); /* extra_meta_ without symbolic sizes; no storage */
	extra = put_word(0);
	memcpy((uint8_t *)arena__at(impl[4]) + cfg.tensor.extra_meta_off, &extra, 8);
	memcpy((uint8_t *)arena__at(impl[4]) + cfg.tensor.storage_off, &zero, 8);
	none.index = 5;
	impl[5] = put_impl(&none); /* no device */
	memset((uint8_t *)arena__at(impl[5]) + cfg.tensor.device_off + 2, 0, 1);
	for (uint32_t i = 0; i < 6; i++) {
		w[i] = put_word(impl[i]);
		add_op(PTB_ARG_PTR_TENSOR)->loc[0] = (uint8_t)i;
	}
	run(true);
	expect(head(PTB_VAL_UNDEFINED, PTB_VAL_F_IDS, 0, 0));
	expect(impl[0]);
	expect(head(PTB_VAL_TENSOR, PTB_VAL_F_IDS | PTB_VAL_F_STORAGE | PTB_VAL_F_DIMS_CUT, 6,
		    17 | 0xff00));
	at += 5;
	expect(head(PTB_VAL_UNKNOWN, PTB_VAL_F_FAULT, 0, 0));
	expect(head(PTB_VAL_TENSOR, PTB_VAL_F_IDS | PTB_VAL_F_STORAGE | PTB_VAL_F_SYMBOLIC, 6,
		    2 | 0x1ff00));
	at += 9;
	expect(head(PTB_VAL_TENSOR, PTB_VAL_F_IDS, 6, 2 | 0x1ff00));
	at += 2;
	expect(impl[4]);
	expect(0);
	at += 5;
	expect_tensor(&matrix, impl[5], true);
	expect_end();
	run(false);
	expect_val(PTB_VAL_UNDEFINED, 0, 0);
}

/* Arguments on the caller's stack come with one read, and are the same as those that come one by one. */
TEST("arguments on the caller's stack")
{
	static struct payload single;
	uint64_t stack[128 + 8] = {}, impl, sp;

	begin(false);
	impl = put_impl(&matrix);
	stack[3] = impl;
	stack[4] = 1;                /* optional<Tensor> */
	stack[6] = 1, stack[8] = 42; /* Scalar */
	stack[120] = 77;             /* the last that is near enough */
	stack[121] = 78;
	sp = arena__put(stack, sizeof(stack));
	w[0] = sp + 24;
	w[1] = sp + 48;
	w[2] = sp + 120 * 8;
	w[3] = sp + 121 * 8;
	w[4] = put_word(79); /* not near */
	add_op(PTB_ARG_PTR_TENSOR);
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_PTR_TENSOR, .has_off = 8 };
	add_op(PTB_ARG_PTR_SCALAR)->loc[0] = 1;
	for (uint8_t i = 2; i < 5; i++)
		add_op(PTB_ARG_PTR_SYMINT)->loc[0] = i;
	run(true);
	expect_tensor(&matrix, impl, true);
	expect_tensor(&matrix, impl, true);
	expect_int(42), expect_int(77), expect_int(78), expect_int(79);
	expect_end();
	CU_ASSERT_EQUAL(arena.reads, 6 + 4); /* and two for each tensor */
	single = out;
	arena.near = sp;
	arena.reads = 0;
	run(true);
	CU_ASSERT_EQUAL(out.cnt, single.cnt);
	CU_ASSERT(!memcmp(out.words, single.words, 8 * out.cnt));
	CU_ASSERT_EQUAL(arena.reads, 1 + 2 + 4);
	/* the stack ends before the window does */
	arena.reads = 0;
	arena.fail_at = 0;
	run(true);
	CU_ASSERT(!memcmp(out.words, single.words, 8 * out.cnt));
	CU_ASSERT_EQUAL(arena.reads, 1 + 6 + 4);
	CU_ASSERT_EQUAL(arena.counters[PTB_CNT_ARGS_FAULT], 0);
}

/* A layout that does not fit reads no more than its bound, and marks what it could not read. */
TEST("wrong layouts")
{
	begin(false);
	w[0] = put_word(put_impl(&matrix));
	add_op(PTB_ARG_PTR_TENSOR);
	for (uint32_t off = 0; off < 0x10000; off += 7) {
		struct ptb_tensor_cfg *t = &cfg.tensor;

		arena__facts(&cfg, false);
		switch (off % 5) {
		case 0:
			t->storage_off = (uint16_t)off;
			break;
		case 1:
			t->key_set_off = (uint16_t)off;
			break;
		case 2:
			t->sizes_off = (uint16_t)off;
			break;
		case 3:
			t->dtype_off = t->device_off = (uint16_t)off;
			break;
		default:
			t->numel_off = t->extra_meta_off = t->storage_offset_off = (uint16_t)off;
		}
		run(true);
		CU_ASSERT_EQUAL(values__survey(out.words, out.cnt).words, out.cnt);
		CU_ASSERT(out.cnt > 0);
	}
}

TEST("lists of tensors")
{
	uint64_t impl = 0, ptrs[4], refs[2], vec[2], ilist[3], list[4] = {}, ivalues[6] = {};

	begin(false);
	impl = put_impl(&matrix);
	ptrs[0] = ptrs[1] = impl;
	refs[0] = refs[1] = put_word(impl);
	w[0] = arena__put(ptrs, 16);
	w[1] = 2;
	vec[0] = w[0];
	vec[1] = w[0] + 16;
	w[2] = arena__put(vec, sizeof(vec)); /* vector<Tensor> */
	ilist[0] = w[0];
	ilist[1] = 1;
	ilist[2] = 0xabcd00000000; /* the tag is 4 bytes */
	w[3] = arena__put(ilist, sizeof(ilist));
	vec[0] = arena__put(refs, sizeof(refs));
	vec[1] = vec[0] + 16;
	ilist[0] = arena__put(vec, sizeof(vec));
	ilist[2] = 2;
	w[4] = arena__put(ilist, sizeof(ilist));
	ivalues[0] = impl;
	ivalues[1] = 1;
	ivalues[3] = 0; /* None */
	ivalues[4] = impl;
	ivalues[5] = 1;
	list[2] = arena__put(ivalues, sizeof(ivalues));
	list[3] = list[2] + sizeof(ivalues);
	w[5] = put_word(arena__put(list, sizeof(list)));
	ilist[0] = w[5];
	ilist[2] = 1;
	w[6] = arena__put(ilist, sizeof(ilist));
	add_op(PTB_ARG_TENSORS);
	add_op(PTB_ARG_VECTOR)->loc[0] = 2;
	add_op(PTB_ARG_ILIST)->loc[0] = 3;
	add_op(PTB_ARG_ILIST)->loc[0] = 4;
	add_op(PTB_ARG_PTR_OPT_TENSORS)->loc[0] = 5;
	add_op(PTB_ARG_ILIST)->loc[0] = 6;
	run(true);
	for (uint32_t i = 0; i < 2; i++) {
		expect_val(PTB_VAL_TENSORS, 2, 2);
		expect_tensor(&matrix, impl, true);
		expect_tensor(&matrix, impl, true);
	}
	expect_val(PTB_VAL_TENSORS, 1, 1);
	expect_tensor(&matrix, impl, true);
	expect_val(PTB_VAL_TENSORS, 2, 2);
	expect_tensor(&matrix, impl, true);
	expect_tensor(&matrix, impl, true);
	for (uint32_t i = 0; i < 2; i++) {
		expect_val(PTB_VAL_OPT_TENSORS, 3, 3);
		expect_tensor(&matrix, impl, true);
		expect_val(PTB_VAL_NONE, 0, 0);
		expect_tensor(&matrix, impl, true);
	}
	expect_end();
}

SUITE("arg_interp")
