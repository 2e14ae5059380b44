/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One instruction per argument, then one per result. Layouts of what a pointer leads to:
 * - std::optional<T>: T, then the flag; c10::optional<T> (up to 2.1): the flag, then T at its
 *   alignment;
 * - c10::Scalar: 32 bytes, aligned to 16 (c10/core/Scalar.h);
 * - std::tuple of libstdc++: the last element first, each element aligned, no padding behind the
 *   last.
 */
#include "plan/args_priv.h"

#include <string.h>

/* ---- arguments ---- */

static struct ptb_arg_op new_op(uint8_t opcode, uint8_t as)
{
	struct ptb_arg_op op = { .op = opcode, .as = as, .has_off = PTB_LOC_NONE };

	memset(op.loc, PTB_LOC_NONE, sizeof(op.loc));
	return op;
}

/* Sets the offsets of value and flag behind a pointer, for a value of so many bytes. */
static void set_optional(struct ptb_arg_op *op, uint8_t abi, uint8_t size, uint8_t align)
{
	if (abi == OPTIONAL_STD) {
		op->has_off = size;
	} else if (abi == OPTIONAL_C10) {
		op->has_off = 0;
		op->val_off = align;
	}
}

static struct ptb_arg_op pointer(uint8_t opcode, const struct arg_type *t,
				 const struct arg_location *pl, uint8_t size, uint8_t align)
{
	struct ptb_arg_op op = new_op(opcode, PTB_VAL_UNKNOWN);

	op.loc[0] = pl->loc[0];
	set_optional(&op, t->optional, size, align);
	return op;
}

static struct ptb_arg_op opaque(uint8_t what, const struct arg_type *t, uint8_t loc, uint8_t size)
{
	struct ptb_arg_op op = new_op(PTB_ARG_OPAQUE, PTB_VAL_OPAQUE);

	op.aux = what;
	op.loc[0] = t->optional == OPTIONAL_NONE ? PTB_LOC_NONE : loc;
	set_optional(&op, t->optional, size, size);
	return op;
}

/* int and float: one word, or the word and its flag. */
static struct ptb_arg_op word(uint8_t as, const struct arg_type *t, const struct arg_location *pl)
{
	struct ptb_arg_op op = new_op(t->optional ? PTB_ARG_OPT_WORD : PTB_ARG_WORD, as);

	if (pl->xmm != PTB_LOC_NONE) {
		op.op = PTB_ARG_LATE;
		op.loc[0] = pl->loc[1];
		return op;
	}
	op.loc[0] = t->optional == OPTIONAL_C10 ? pl->loc[1] : pl->loc[0];
	if (t->optional)
		op.loc[1] = t->optional == OPTIONAL_C10 ? pl->loc[0] : pl->loc[1];
	return op;
}

/* A value that shares a word with its flag. */
static struct ptb_arg_op small(uint8_t as, const struct arg_type *t, const struct arg_location *pl,
			       uint8_t size)
{
	struct ptb_arg_op op = new_op(PTB_ARG_OPT_BYTES, as);

	op.loc[0] = pl->loc[0];
	set_optional(&op, t->optional, size, 1);
	if (!t->optional)
		op.op = t->kind == ARG_ENUM ? PTB_ARG_BYTE : PTB_ARG_WORD;
	return op;
}

/* ArrayRef: {pointer, count}, and a flag if it is a std::optional. */
static struct ptb_arg_op array(uint8_t opcode, uint8_t as, const struct arg_type *t,
			       const struct arg_location *pl)
{
	struct ptb_arg_op op = new_op(opcode, as);

	memcpy(op.loc, pl->loc, sizeof(op.loc));
	if (t->optional == OPTIONAL_C10)
		op.flags |= PTB_ARG_F_NULL_NONE;
	if (as == PTB_VAL_DOUBLES)
		op.flags |= PTB_ARG_F_DOUBLE;
	/* only lists of numbers are ever optional; the instructions of other lists have no flag */
	if (opcode != PTB_ARG_WORDS && t->optional)
		return new_op(PTB_ARG_UNKNOWN, PTB_VAL_UNKNOWN);
	return op;
}

static struct ptb_arg_op string(const struct arg_type *t, const struct arg_location *pl)
{
	struct ptb_arg_op op = new_op(PTB_ARG_STRING, PTB_VAL_STRING);

	if (t->optional == OPTIONAL_C10) {
		op.op = PTB_ARG_PTR_STRING;
		op.loc[0] = pl->loc[0];
		set_optional(&op, t->optional, 16, 8);
		return op;
	}
	op.loc[0] = pl->loc[t->std_view ? 1 : 0];
	op.loc[1] = pl->loc[t->std_view ? 0 : 1];
	op.loc[2] = pl->loc[2];
	return op;
}

static struct ptb_arg_op compile_arg(const struct arg_type *t, const struct arg_location *pl)
{
	struct ptb_arg_op op = new_op(PTB_ARG_UNKNOWN, PTB_VAL_UNKNOWN);

	if (!pl->known)
		return op;
	switch (t->kind) {
	case ARG_TENSOR:
		return pointer(PTB_ARG_PTR_TENSOR, t, pl, 8, 8);
	case ARG_SCALAR:
		return pointer(PTB_ARG_PTR_SCALAR, t, pl, 32, 16);
	case ARG_SYMINT:
		return pointer(PTB_ARG_PTR_SYMINT, t, pl, 8, 8);
	case ARG_ILIST:
		return pointer(PTB_ARG_ILIST, t, pl, 0, 0);
	case ARG_OPT_TENSORS:
		return pointer(PTB_ARG_PTR_OPT_TENSORS, t, pl, 0, 0);
	case ARG_INT:
		return word(PTB_VAL_INT, t, pl);
	case ARG_DOUBLE:
		return word(PTB_VAL_DOUBLE, t, pl);
	case ARG_BOOL:
		return small(PTB_VAL_BOOL, t, pl, 1);
	case ARG_ENUM:
		return small(PTB_VAL_INT, t, pl, 1);
	case ARG_DEVICE:
		return small(PTB_VAL_DEVICE, t, pl, 2);
	case ARG_GENERATOR:
		return opaque(PTB_OPAQUE_Generator, t, pl->loc[0], 8);
	case ARG_STORAGE:
		return opaque(PTB_OPAQUE_Storage, t, pl->loc[0], 8);
	case ARG_STREAM:
		return t->optional ? op : opaque(PTB_OPAQUE_Stream, t, pl->loc[0], 16);
	case ARG_STRING:
		return string(t, pl);
	case ARG_BOOLS:
		op = new_op(PTB_ARG_BOOL_ARRAY, PTB_VAL_BOOLS);
		op.loc[0] = pl->loc[0];
		op.aux = t->cnt;
		return op;
	case ARG_INTS:
	case ARG_SYMINTS:
		return array(PTB_ARG_WORDS, PTB_VAL_INTS, t, pl);
	case ARG_DOUBLES:
		return array(PTB_ARG_WORDS, PTB_VAL_DOUBLES, t, pl);
	case ARG_TENSORS:
		return array(PTB_ARG_TENSORS, PTB_VAL_TENSORS, t, pl);
	case ARG_SCALARS:
		return array(PTB_ARG_SCALARS, PTB_VAL_LIST, t, pl);
	default: /* torch reads these through tables, or they are one byte of unknown sign */
		return op;
	}
}

/* ---- results ---- */

/* How a value is returned. */
struct returned {
	uint8_t opcode, as, flags;
	uint8_t size, align; /* in a tuple; 0: unknown */
	uint8_t reg;         /* enum arg_result, if it is the only result and in a register */
	bool in_memory;      /* through the hidden pointer, if it is the only result */
	bool known;
};

static struct returned returned_as(const struct schema_arg *r)
{
	static const struct {
		const char *base;
		struct returned how;
	} rows[] = {
		{ "Tensor", { PTB_ARG_PTR_TENSOR, PTB_VAL_TENSOR, 0, 8, 8, 0, true, true } },
		{ "Scalar", { PTB_ARG_PTR_SCALAR, PTB_VAL_UNKNOWN, 0, 32, 16, 0, true, true } },
		{ "SymInt", { PTB_ARG_PTR_SYMINT, PTB_VAL_UNKNOWN, 0, 8, 8, 0, true, true } },
		{ "SymBool", { PTB_ARG_UNKNOWN, 0, 0, 16, 8, 0, true, true } },
		{ "SymFloat", { PTB_ARG_UNKNOWN, 0, 0, 16, 8, 0, true, true } },
		{ "int", { PTB_ARG_PTR_INT, PTB_VAL_INT, 0, 8, 8, ARG_RESULT_WORD, false, true } },
		{ "float",
		  { PTB_ARG_PTR_INT, PTB_VAL_DOUBLE, 0, 8, 8, ARG_RESULT_XMM, false, true } },
		{ "bool",
		  { PTB_ARG_PTR_INT, PTB_VAL_BOOL, 0, 1, 1, ARG_RESULT_BYTE, false, true } },
		{ "ScalarType",
		  { PTB_ARG_BYTE, PTB_VAL_INT, 0, 0, 0, ARG_RESULT_BYTE, false, true } },
		{ "QScheme", { PTB_ARG_BYTE, PTB_VAL_INT, 0, 0, 0, ARG_RESULT_BYTE, false, true } },
	};

	if (r->opt || r->elem_opt)
		return (struct returned){ .opcode = PTB_ARG_UNKNOWN };
	if (r->lists) /* a std::vector */
		return (struct returned){ .opcode = r->lists == 1 && !strcmp(r->base, "Tensor") ?
							    PTB_ARG_VECTOR :
							    PTB_ARG_UNKNOWN,
					  .as = PTB_VAL_TENSORS,
					  .size = 24,
					  .align = 8,
					  .in_memory = true,
					  .known = true };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(r->base, rows[i].base)) {
			struct returned how = rows[i].how;

			if (r->written && how.opcode == PTB_ARG_PTR_TENSOR) {
				how.flags = PTB_ARG_F_DEREF;
				how.in_memory = false;
			}
			return how;
		}
	return (struct returned){ .opcode = PTB_ARG_UNKNOWN };
}

/* Is the result written through rdi? *known: is that certain? */
static bool hidden_pointer(const struct schema *s, bool *known)
{
	struct returned r;

	*known = true;
	if (s->ret_cnt != 1)
		return s->ret_cnt > 1; /* a std::tuple is never trivial to copy in libstdc++ */
	r = returned_as(&s->rets[0]);
	*known = r.known;
	return r.in_memory;
}

/* The location of the argument with the result's alias set. */
static uint8_t alias_loc(const struct schema *s, const struct ptb_arg_op *ops)
{
	for (uint32_t i = 0; i < s->arg_cnt; i++)
		if (s->args[i].written && !strcmp(s->args[i].set, s->rets[0].set) &&
		    ops[i].op == PTB_ARG_PTR_TENSOR && ops[i].has_off == PTB_LOC_NONE)
			return ops[i].loc[0];
	return PTB_LOC_NONE;
}

static struct ptb_arg_op result_at(const struct returned *r, uint16_t off)
{
	struct ptb_arg_op op = new_op(r->opcode, r->as);

	if (r->opcode == PTB_ARG_UNKNOWN)
		return op;
	op.flags = r->flags;
	op.loc[0] = 0;
	op.val_off = off;
	return op;
}

static void compile_tuple(const struct schema *s, struct ptb_arg_op *ops)
{
	uint32_t off = 0;
	bool lost = false;

	for (uint32_t i = s->ret_cnt; i; i--) {
		struct returned r = returned_as(&s->rets[i - 1]);

		lost |= !r.known || !r.size;
		if (lost) {
			ops[i - 1] = new_op(PTB_ARG_UNKNOWN, PTB_VAL_UNKNOWN);
			continue;
		}
		off = (off + r.align - 1) / r.align * r.align;
		ops[i - 1] = result_at(&r, (uint16_t)off);
		off += r.size;
	}
}

static void compile_result(const struct schema *s, struct arg_compiled *c, bool hidden)
{
	struct ptb_arg_op *ops = c->prog.ops + c->prog.in_cnt, *op = ops;
	struct returned r = returned_as(&s->rets[0]);

	if (hidden)
		c->prog.result_loc = 0;
	if (s->ret_cnt > 1) {
		compile_tuple(s, ops);
		return;
	}
	if (hidden || !r.known) {
		*op = result_at(&r, 0);
	} else if (r.flags & PTB_ARG_F_DEREF) { /* Tensor&: the argument itself */
		c->prog.result_loc = alias_loc(s, c->prog.ops);
		r.flags = 0;
		*op = result_at(&r, 0);
		if (c->prog.result_loc == PTB_LOC_NONE)
			*op = new_op(PTB_ARG_UNKNOWN, PTB_VAL_UNKNOWN);
	} else {
		*op = new_op(r.opcode == PTB_ARG_BYTE ? PTB_ARG_BYTE : PTB_ARG_WORD, r.as);
		op->loc[0] = 1;
		c->result = r.reg;
	}
}

/* ---- the whole program ---- */

static bool is_symint(uint8_t kind)
{
	return kind == ARG_SYMINT || kind == ARG_SYMINTS;
}

static bool is_list(uint8_t kind)
{
	return kind >= ARG_INTS || kind == ARG_BOOLS || kind == ARG_ILIST ||
	       kind == ARG_OPT_TENSORS;
}

int arg_prog__fits(const struct schema *s, const struct arg_type *types, uint32_t cnt)
{
	int differ = 0;

	if (s->arg_cnt != cnt || s->vararg || s->varret)
		return -1;
	for (uint32_t i = 0; i < cnt; i++) {
		const struct arg_type *t = &types[i];
		const struct schema_arg *a = &s->args[i];

		if (t->kind == ARG_UNKNOWN || t->kind == ARG_REFERENCE)
			continue;
		if (is_symint(t->kind) != !strcmp(a->base, "SymInt") ||
		    (t->optional != OPTIONAL_NONE) != a->opt || is_list(t->kind) != (a->lists > 0))
			return -1;
		differ += t->kind == ARG_ENUM && !strcmp(a->base, "int");
		differ += t->kind == ARG_TENSOR && t->written && !a->written;
	}
	return differ;
}

static void count_stack(struct ptb_arg_prog *p)
{
	uint32_t loc, words = 0;

	for (uint32_t i = 0; i < p->in_cnt; i++)
		for (uint32_t k = 0; k < 3; k++) {
			loc = p->ops[i].loc[k];
			if (loc != PTB_LOC_NONE && loc >= PTB_LOC_STACK + words)
				words = loc - PTB_LOC_STACK + 1;
		}
	p->stack_words = (uint8_t)words; /* result_loc is rdi or an argument's */
}

static void count_unplaced(struct arg_compiled *c)
{
	c->unplaced = 0;
	for (uint32_t i = 0; i < (uint32_t)c->prog.in_cnt + c->prog.out_cnt; i++)
		if (c->prog.ops[i].op == PTB_ARG_UNKNOWN)
			c->unplaced++;
}

bool arg_prog__compile(const struct schema *s, const struct arg_type *types, uint32_t cnt,
		       struct arg_compiled *out)
{
	struct arg_location locations[ARG_TYPES_MAX];
	bool hidden, known;

	memset(out, 0, sizeof(*out));
	out->prog.result_loc = PTB_LOC_NONE;
	out->unplaced = (uint16_t)(cnt + (s ? s->ret_cnt : 0));
	if (!s || cnt > ARG_TYPES_MAX || cnt + s->ret_cnt > PTB_ARG_OPS_MAX)
		return false;
	hidden = hidden_pointer(s, &known);
	arg_types__locate(types, cnt, hidden, locations);
	for (uint32_t i = 0; i < cnt; i++) {
		locations[i].known &= known;
		out->prog.ops[i] = compile_arg(&types[i], &locations[i]);
		if (out->prog.ops[i].op == PTB_ARG_LATE) {
			out->prog.ops[i].aux = (uint8_t)out->late_cnt;
			out->late_op[out->late_cnt++] = (uint8_t)i;
		}
	}
	out->prog.in_cnt = (uint8_t)cnt;
	out->prog.out_cnt = (uint8_t)s->ret_cnt;
	if (s->ret_cnt)
		compile_result(s, out, hidden);
	count_stack(&out->prog);
	count_unplaced(out);
	return true;
}

void arg_prog__late(struct arg_compiled *c, const struct arg_late_location *locations,
		    struct ptb_arg_prog *late)
{
	uint32_t n = 0;

	memset(late, 0, sizeof(*late));
	late->result_loc = PTB_LOC_NONE;
	for (uint32_t i = 0; i < c->late_cnt; i++) {
		struct ptb_arg_op *op = &c->prog.ops[c->late_op[i]];

		if (!locations[i].found) {
			*op = new_op(PTB_ARG_UNKNOWN, PTB_VAL_UNKNOWN);
			continue;
		}
		op->aux = (uint8_t)n;
		late->ops[n] = new_op(locations[i].in_memory ? PTB_ARG_SLOT : PTB_ARG_SLOT_REG,
				      PTB_VAL_DOUBLE);
		late->ops[n].aux = (uint8_t)n;
		late->ops[n].loc[0] = locations[i].reg;
		late->ops[n++].disp = locations[i].disp;
	}
	late->in_cnt = (uint8_t)n;
	count_stack(&c->prog);
	count_unplaced(c);
}

void arg_prog__result_slot(struct arg_compiled *c, uint16_t disp)
{
	struct ptb_arg_op *op = &c->prog.ops[c->prog.in_cnt];
	uint8_t as = op->as;

	/* no instruction reads a one-byte number from memory */
	if (op->op == PTB_ARG_BYTE) {
		arg_prog__no_result(c);
		return;
	}
	*op = new_op(PTB_ARG_PTR_INT, as);
	op->loc[0] = PTB_LOC_KEPT + PTB_REG_RSP;
	op->val_off = disp;
}

void arg_prog__no_result(struct arg_compiled *c)
{
	c->prog.ops[c->prog.in_cnt] = new_op(PTB_ARG_UNKNOWN, PTB_VAL_UNKNOWN);
	c->result = ARG_RESULT_NONE;
	count_unplaced(c);
}
