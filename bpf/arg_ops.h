/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The instructions of an argument program (ptb_args.h): each reads its words and, where it must,
 * the target's memory, and leaves one cell. Part of arg_interp.h; writes nothing.
 */
#ifndef PTB_ARG_OPS_H
#define PTB_ARG_OPS_H

#include "arg_objects.h"

ARG_FN __u64 word_of(const struct arg_scratch *s, __u32 loc)
{
	return s->words[loc & (PTB_LOC_CNT - 1)];
}

/* The word of an optional flag; no flag: there is a value. */
ARG_FN bool flag_set(const struct arg_scratch *s, __u8 loc)
{
	return loc == PTB_LOC_NONE || word_of(s, loc) & 0xff;
}

enum arg_read { ARG_GOT, ARG_ABSENT, ARG_FAULTED };

/*
 * The value of `size` bytes (at most 32) at *loc[0] + val_off into tmp[0..], if its flag byte at
 * has_off says so: one read over both.
 */
ARG_FN enum arg_read op_read(struct arg_scratch *s, const struct ptb_arg_op *op, __u32 size)
{
	__u64 addr = word_of(s, op->loc[0]);
	__u32 has = op->has_off, val = op->val_off, lo, len;
	const __u8 *mem = (const __u8 *)(s->tmp + 8);

	if (has == PTB_LOC_NONE)
		return read_small(s, s->tmp, size, addr + val) ? ARG_GOT : ARG_FAULTED;
	lo = has < val ? has : val;
	len = has < val ? val - has + size : (has + 1 > val + size ? has + 1 - val : size);
	if (len > ARG_SMALL_BYTES)
		return ARG_FAULTED;
	ARG_PIN(len);
	if (len > ARG_SMALL_BYTES || !read_small(s, s->tmp + 8, len, addr + lo))
		return ARG_FAULTED;
	if (!mem[(has - lo) & (ARG_SMALL_BYTES - 1)])
		return ARG_ABSENT;
	val = (val - lo) & (ARG_SMALL_BYTES - 1);
	for (__u32 i = 0; i < 4; i++) /* more than `size` does no harm */
		s->tmp[i] = load_word(mem + val + 8 * i);
	return ARG_GOT;
}

/* False, and the cell is there, when there is no value. */
ARG_FN bool op_value(struct arg_scratch *s, const struct ptb_arg_op *op, __u32 size)
{
	switch (op_read(s, op, size)) {
	case ARG_GOT:
		return true;
	case ARG_ABSENT:
		cell_none(s);
		return false;
	default:
		cell_fault(s);
		return false;
	}
}

ARG_FN void op_as(struct arg_scratch *s, const struct ptb_arg_op *op, __u64 word)
{
	switch (op->as) {
	case PTB_VAL_BOOL:
		cell_bool(s, word);
		break;
	case PTB_VAL_DEVICE:
		cell_device(s, word);
		break;
	case PTB_VAL_DOUBLE:
		cell_word(s, PTB_VAL_DOUBLE, 0, word);
		break;
	default:
		cell_word(s, PTB_VAL_INT, 0, word);
	}
}

/* has_off, val_off: bytes of one word */
ARG_FN void op_opt_bytes(struct arg_scratch *s, const struct ptb_arg_op *op)
{
	__u64 word = word_of(s, op->loc[0]), val = word >> (8 * (op->val_off & 7u));

	if (!(word >> (8 * (op->has_off & 7u)) & 0xff))
		cell_none(s);
	else
		op_as(s, op, op->as == PTB_VAL_DEVICE ? val : val & 0xff);
}

ARG_FN void op_tensor(struct arg_scratch *s, const struct ptb_arg_op *op)
{
	if (!op_value(s, op, 8))
		return;
	if (op->flags & PTB_ARG_F_DEREF && !read_small(s, s->tmp, 8, s->tmp[0]))
		cell_fault(s);
	else
		cell_tensor(s, s->tmp[0]);
}

ARG_FN void op_words(struct arg_scratch *s, const struct ptb_arg_op *op)
{
	__u64 addr = word_of(s, op->loc[0]), cnt = word_of(s, op->loc[1]);

	if (!flag_set(s, op->loc[2]) || (op->flags & PTB_ARG_F_NULL_NONE && !addr && cnt))
		cell_none(s);
	else
		cell_mem(s, op->flags & PTB_ARG_F_DOUBLE ? PTB_VAL_DOUBLES : PTB_VAL_INTS, addr,
			 cnt);
}

ARG_FN void op_ptr_opt_tensors(struct arg_scratch *s, const struct ptb_arg_op *op,
			       const struct ptb_tensor_cfg *t)
{
	if (!read_small(s, s->tmp, 8, word_of(s, op->loc[0])))
		cell_fault(s);
	else
		list_cell(s, t, PTB_VAL_OPT_TENSORS, s->tmp[0]);
}

ARG_FN void op_bool_array(struct arg_scratch *s, const struct ptb_arg_op *op)
{
	__u32 n = op->aux > 8 ? 8 : op->aux;
	__u64 word = word_of(s, op->loc[0]);

	if (n < 8)
		word &= (1ull << (8 * n)) - 1;
	cell_word(s, PTB_VAL_BOOLS, op->aux, word);
	s->cell.aux = (__u16)n;
	if (!n)
		s->cell.what = ARG_C_HEAD;
}

ARG_FN void op_opaque(struct arg_scratch *s, const struct ptb_arg_op *op)
{
	s->tmp[0] = 1;
	if (op->loc[0] != PTB_LOC_NONE && op->has_off != PTB_LOC_NONE &&
	    !read_small(s, s->tmp, 1, word_of(s, op->loc[0]) + op->has_off))
		cell_fault(s);
	else if (!(s->tmp[0] & 0xff))
		cell_none(s);
	else
		cell_opaque(s, op->aux);
}

/* A double that the late site reads; here is a placeholder for its value. */
ARG_FN void op_pending(struct arg_scratch *s, const struct ptb_arg_op *op)
{
	if (!flag_set(s, op->loc[0])) {
		cell_none(s);
		return;
	}
	cell_word(s, PTB_VAL_DOUBLE, op->aux, 0);
	s->cell.flags = PTB_VAL_F_PENDING;
}

ARG_FN void op_slot(struct arg_scratch *s, const struct ptb_arg_op *op)
{
	if (ARG_READ(s->tmp, 8, word_of(s, op->loc[0]) + (__u64)(__s64)op->disp))
		cell_fault(s);
	else
		cell_word(s, PTB_VAL_DOUBLE, op->aux, s->tmp[0]);
	s->cell.n = op->aux; /* also of an unknown one */
}

ARG_FN void op_vector(struct arg_scratch *s, const struct ptb_arg_op *op)
{
	if (!read_small(s, s->tmp, 16, word_of(s, op->loc[0]) + op->val_off) ||
	    s->tmp[1] < s->tmp[0])
		cell_fault(s);
	else if (op->as == PTB_VAL_LIST)
		cell_list(s, 0, ARG_E_VECTOR, s->tmp[0],
			  (s->tmp[1] - s->tmp[0]) / ARG_VECTOR_BYTES);
	else if (op->as == PTB_VAL_INTS)
		cell_mem(s, PTB_VAL_INTS, s->tmp[0], (s->tmp[1] - s->tmp[0]) / 8);
	else
		cell_vector(s, PTB_VAL_TENSORS, ARG_E_TENSOR, s->tmp, 3);
}

/* The optional<string_view> of c10 in memory. */
ARG_FN void op_ptr_string(struct arg_scratch *s, const struct ptb_arg_op *op)
{
	if (op_value(s, op, 16))
		cell_text(s, s->tmp[0], s->tmp[1]);
}

ARG_FN void op_memory(struct arg_scratch *s, const struct ptb_arg_op *op,
		      const struct ptb_proc_cfg *cfg)
{
	switch (op->op) {
	case PTB_ARG_PTR_SYMINT:
		if (op_value(s, op, 8))
			cell_symint(s, s->tmp[0]);
		break;
	case PTB_ARG_PTR_SCALAR:
		if (op_value(s, op, ARG_SCALAR_BYTES))
			scalar_cell(s, &cfg->tensor, s->tmp);
		break;
	case PTB_ARG_PTR_TENSOR:
		op_tensor(s, op);
		break;
	case PTB_ARG_PTR_STRING:
		op_ptr_string(s, op);
		break;
	case PTB_ARG_PTR_INT:
		s->tmp[0] = 0;
		if (op_value(s, op, op->as == PTB_VAL_BOOL ? 1 : 8))
			op_as(s, op, s->tmp[0]);
		break;
	case PTB_ARG_ILIST:
		ilist_cell(s, &cfg->tensor, word_of(s, op->loc[0]));
		break;
	case PTB_ARG_PTR_OPT_TENSORS:
		op_ptr_opt_tensors(s, op, &cfg->tensor);
		break;
	case PTB_ARG_VECTOR:
		op_vector(s, op);
		break;
	default:
		cell_head(s, PTB_VAL_UNKNOWN, 0, 0);
	}
}

ARG_FN void op_cell(struct arg_scratch *s, const struct ptb_arg_op *op,
		    const struct ptb_proc_cfg *cfg)
{
	__u64 word = word_of(s, op->loc[0]);

	switch (op->op) {
	case PTB_ARG_WORD:
		op_as(s, op, op->flags & PTB_ARG_F_INT32 ? (__u64)(__s64)(__s32)word : word);
		break;
	case PTB_ARG_BYTE:
		cell_word(s, PTB_VAL_INT, 0, word & 0xff);
		break;
	case PTB_ARG_OPT_WORD:
		if (flag_set(s, op->loc[1]))
			op_as(s, op, word);
		else
			cell_none(s);
		break;
	case PTB_ARG_OPT_BYTES:
		op_opt_bytes(s, op);
		break;
	case PTB_ARG_WORDS:
		op_words(s, op);
		break;
	case PTB_ARG_TENSORS:
		cell_list(s, PTB_VAL_TENSORS, ARG_E_TENSOR, word, word_of(s, op->loc[1]));
		break;
	case PTB_ARG_SCALARS:
		cell_list(s, PTB_VAL_LIST, ARG_E_SCALAR, word, word_of(s, op->loc[1]));
		break;
	case PTB_ARG_STRING:
		if (flag_set(s, op->loc[2]))
			cell_text(s, word, word_of(s, op->loc[1]));
		else
			cell_none(s);
		break;
	case PTB_ARG_BOOL_ARRAY:
		op_bool_array(s, op);
		break;
	case PTB_ARG_OPAQUE:
		op_opaque(s, op);
		break;
	case PTB_ARG_LATE:
		op_pending(s, op);
		break;
	case PTB_ARG_SLOT:
		op_slot(s, op);
		break;
	case PTB_ARG_SLOT_REG:
		cell_word(s, PTB_VAL_DOUBLE, op->aux, word);
		break;
	default:
		op_memory(s, op, cfg);
	}
}

#endif /* PTB_ARG_OPS_H */
