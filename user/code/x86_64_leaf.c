/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One instruction of x86-64 in a function that is emulated (code.h): what compilers use for general
 * registers. Vector registers are not kept: what comes from them is unknown.
 */
#include <string.h>

#include <capstone/capstone.h>

#include "code/code.h"
#include "code/x86_64.h"

struct value {
	uint64_t v;
	bool known;
};

static uint64_t mask(uint32_t size)
{
	return size >= 8 ? UINT64_MAX : (1ULL << size * 8) - 1;
}

static uint64_t sign(uint64_t v, uint32_t size)
{
	uint32_t shift = 64 - size * 8;

	return size >= 8 ? v : (uint64_t)((int64_t)(v << shift) >> shift);
}

bool leaf_insn__addr(const struct leaf_run *r, const struct insn_operand *o, uint64_t *addr)
{
	uint64_t a = (uint64_t)o->value;

	if (o->reg < REG_CNT) {
		if (r->unknown[o->reg])
			return false;
		a += r->reg[o->reg];
	}
	if (o->index < REG_CNT) {
		if (r->unknown[o->index])
			return false;
		a += r->reg[o->index] * o->scale;
	}
	*addr = a;
	return true;
}

/* Which bytes of a register are written. */
static uint8_t bytes_of(const struct insn_operand *o)
{
	return o->size >= 4 ? 0xff : o->high ? 2 : o->size == 2 ? 3 : 1;
}

static bool get_operand(struct leaf_run *r, const struct insn_operand *o, struct value *v)
{
	uint64_t addr;

	*v = (struct value){ .v = (uint64_t)o->value & mask(o->size), .known = true };
	switch (o->kind) {
	case OPERAND_IMM:
		v->v = (uint64_t)o->value;
		return true;
	case OPERAND_MEM:
		*v = (struct value){
			.known = o->tls
		}; /* the stack protector's canary: any number, the same each time */
		if (o->tls)
			return true;
		if (!leaf_insn__addr(r, o, &addr))
			return r->lenient;
		return leaf_run__load(r, addr, o->size, &v->v, &v->known);
	case OPERAND_GPR:
		v->known = !(r->unknown[o->reg] & (o->size == 4 ? 0xf : bytes_of(o)));
		v->v = (r->reg[o->reg] >> (o->high ? 8 : 0)) & mask(o->size);
		return true;
	default:
		return false;
	}
}

static bool put_operand(struct leaf_run *r, const struct insn_operand *o, struct value v)
{
	uint64_t m, addr;
	uint32_t shift = o->high ? 8 : 0;

	if (o->kind == OPERAND_MEM)
		return leaf_insn__addr(r, o, &addr) ?
			       leaf_run__store(r, addr, o->size, v.v, v.known) :
			       r->lenient;
	if (o->kind != OPERAND_GPR)
		return false;
	m = o->size == 4 ? UINT64_MAX : mask(o->size) << shift; /* 32 bits clear the upper half */
	r->reg[o->reg] = (r->reg[o->reg] & ~m) | ((v.v & mask(o->size)) << shift);
	if (v.known)
		r->unknown[o->reg] &= (uint8_t)~bytes_of(o);
	else
		r->unknown[o->reg] |= bytes_of(o);
	return true;
}

static struct insn_operand gpr_operand(uint8_t reg, uint32_t size)
{
	return (struct insn_operand){ .kind = OPERAND_GPR, .reg = reg, .size = (uint16_t)size };
}

/* ---- arithmetic ---- */

static void set_logic_flags(struct leaf_run *r, uint64_t v, uint32_t size, bool known)
{
	r->cf = r->of = false;
	r->zf = !(v & mask(size));
	r->sf = v >> (size * 8 - 1) & 1;
	r->flags_known = known;
}

static uint64_t do_add(struct leaf_run *r, uint64_t a, uint64_t b, uint32_t size, bool known)
{
	uint64_t v = (a + b) & mask(size);

	set_logic_flags(r, v, size, known);
	r->cf = v < (a & mask(size));
	r->of = (~(a ^ b) & (a ^ v)) >> (size * 8 - 1) & 1;
	return v;
}

static uint64_t do_sub(struct leaf_run *r, uint64_t a, uint64_t b, uint32_t size, bool known)
{
	uint64_t v = (a - b) & mask(size);

	set_logic_flags(r, v, size, known);
	r->cf = (a & mask(size)) < (b & mask(size));
	r->of = ((a ^ b) & (a ^ v)) >> (size * 8 - 1) & 1;
	return v;
}

bool leaf_run__condition(const struct leaf_run *r, uint8_t cc)
{
	bool t;

	switch (cc >> 1) {
	case 0:
		t = r->of;
		break;
	case 1:
		t = r->cf;
		break;
	case 2:
		t = r->zf;
		break;
	case 3:
		t = r->cf || r->zf;
		break;
	case 4:
		t = r->sf;
		break;
	case 5:
		t = false; /* parity: only after floating point, which leaves the flags unknown */
		break;
	case 6:
		t = r->sf != r->of;
		break;
	default:
		t = r->zf || r->sf != r->of;
		break;
	}
	return t != (cc & 1);
}

/* With itself: xor and sub clear, sbb spreads the carry. */
static bool same_register(const struct insn *in)
{
	const struct insn_operand *a = &in->ops[0], *b = &in->ops[1];

	return a->kind == OPERAND_GPR && b->kind == OPERAND_GPR && a->reg == b->reg &&
	       a->high == b->high;
}

static bool arithmetic(struct leaf_run *r, const struct insn *in)
{
	const struct insn_operand *dst = &in->ops[0];
	struct value a, b, v;

	if (same_register(in) && (in->id == X86_INS_XOR || in->id == X86_INS_SUB)) {
		set_logic_flags(r, 0, dst->size, true);
		return put_operand(r, dst, (struct value){ .known = true });
	}
	if (same_register(in) && in->id == X86_INS_SBB)
		return put_operand(r, dst,
				   (struct value){ r->cf ? UINT64_MAX : 0, r->flags_known });
	if (!get_operand(r, &in->ops[1], &b) || !get_operand(r, dst, &a))
		return false;
	b.v &= mask(dst->size);
	v.known = a.known && b.known;
	switch (in->id) {
	case X86_INS_ADD:
		v.v = do_add(r, a.v, b.v, dst->size, v.known);
		break;
	case X86_INS_ADC:
	case X86_INS_SBB:
		v.known = v.known && r->flags_known;
		b.v += r->cf;
		v.v = in->id == X86_INS_ADC ? do_add(r, a.v, b.v, dst->size, v.known) :
					      do_sub(r, a.v, b.v, dst->size, v.known);
		r->flags_known = false;
		break;
	case X86_INS_SUB:
	case X86_INS_CMP:
		v.v = do_sub(r, a.v, b.v, dst->size, v.known);
		break;
	default:
		v.v = in->id == X86_INS_OR  ? a.v | b.v :
		      in->id == X86_INS_XOR ? a.v ^ b.v :
					      a.v & b.v;
		set_logic_flags(r, v.v, dst->size, v.known);
		break;
	}
	return in->id == X86_INS_CMP || in->id == X86_INS_TEST || put_operand(r, dst, v);
}

static bool shift(struct leaf_run *r, const struct insn *in)
{
	const struct insn_operand *dst = &in->ops[0];
	struct value a, by = { 1, true };
	uint32_t n;

	if (!get_operand(r, dst, &a) || (in->ops[1].kind && !get_operand(r, &in->ops[1], &by)))
		return false;
	n = (uint32_t)(by.v & (dst->size == 8 ? 63 : 31));
	a.known = a.known && by.known &&
		  (in->id == X86_INS_SHL || in->id == X86_INS_SAL || in->id == X86_INS_SHR ||
		   in->id == X86_INS_SAR);
	if (a.known && !n)
		return true;
	if (in->id == X86_INS_SHR)
		a.v >>= n;
	else if (in->id == X86_INS_SAR)
		a.v = (uint64_t)((int64_t)sign(a.v, dst->size) >> n);
	else
		a.v <<= n;
	set_logic_flags(r, a.v, dst->size, a.known); /* but for the carry, which nobody asks for */
	return put_operand(r, dst, a);
}

static bool one_operand(struct leaf_run *r, const struct insn *in)
{
	const struct insn_operand *o = &in->ops[0];
	bool carry = r->cf;
	struct value a;

	if (!get_operand(r, o, &a))
		return false;
	switch (in->id) {
	case X86_INS_NOT:
		a.v = ~a.v;
		break;
	case X86_INS_NEG:
		a.v = do_sub(r, 0, a.v, o->size, a.known);
		break;
	case X86_INS_INC:
		a.v = do_add(r, a.v, 1, o->size, a.known);
		r->cf = carry;
		break;
	default:
		a.v = do_sub(r, a.v, 1, o->size, a.known);
		r->cf = carry;
		break;
	}
	return put_operand(r, o, a);
}

/* imul with two or three operands; those with one, and divisions, have results that are not
 * known. */
static bool multiply(struct leaf_run *r, const struct insn *in)
{
	uint32_t first = in->ops[2].kind ? 1 : 0;
	struct value a, b;

	r->flags_known = false;
	if (!in->ops[1].kind) {
		r->unknown[REG_RAX] = r->unknown[REG_RDX] = 0xff;
		return get_operand(r, &in->ops[0], &a);
	}
	if (!get_operand(r, &in->ops[first], &a) || !get_operand(r, &in->ops[first + 1], &b))
		return false;
	return put_operand(r, &in->ops[0], (struct value){ a.v * b.v, a.known && b.known });
}

static bool exchange_add(struct leaf_run *r, const struct insn *in)
{
	struct value a, b;

	r->flags_known = false;
	return get_operand(r, &in->ops[0], &a) && get_operand(r, &in->ops[1], &b) &&
	       put_operand(r, &in->ops[1], a) &&
	       put_operand(r, &in->ops[0], (struct value){ a.v + b.v, a.known && b.known });
}

static bool bit_test(struct leaf_run *r, const struct insn *in)
{
	struct value v, b;

	if (in->ops[0].kind == OPERAND_MEM || !get_operand(r, &in->ops[0], &v) ||
	    !get_operand(r, &in->ops[1], &b))
		return false;
	r->cf = v.v >> (b.v & (in->ops[0].size * 8u - 1)) & 1;
	r->flags_known = v.known && b.known;
	return true;
}

/* ---- moves ---- */

static bool move(struct leaf_run *r, const struct insn *in, bool extend)
{
	struct value v;

	if (!get_operand(r, &in->ops[1], &v))
		return false;
	if (extend)
		v.v = sign(v.v, in->ops[1].size);
	return put_operand(r, &in->ops[0], v);
}

/* The sign of rax, into a larger part of it or into rdx. */
static bool extend_rax(struct leaf_run *r, uint32_t size, uint8_t to, uint32_t to_size)
{
	struct insn_operand from = gpr_operand(REG_RAX, size), dst = gpr_operand(to, to_size);
	struct value v;

	if (!get_operand(r, &from, &v))
		return false;
	v.v = sign(v.v, size);
	if (to == REG_RDX)
		v.v = v.v >> 63 ? UINT64_MAX : 0;
	return put_operand(r, &dst, v);
}

static bool conditional_move(struct leaf_run *r, const struct insn *in)
{
	struct value v;

	if (!get_operand(r, &in->ops[1], &v))
		return false;
	/* 32 bits clear the upper half all the same */
	if (r->flags_known && !leaf_run__condition(r, in->cond))
		return get_operand(r, &in->ops[0], &v) && put_operand(r, &in->ops[0], v);
	v.known = v.known && r->flags_known;
	return put_operand(r, &in->ops[0], v);
}

static bool push(struct leaf_run *r, const struct insn *in)
{
	struct value v;

	return get_operand(r, &in->ops[0], &v) && leaf_run__push(r, v.v, v.known);
}

static bool pop(struct leaf_run *r, const struct insn_operand *o)
{
	struct value v;

	return leaf_run__pop(r, &v.v, &v.known) && put_operand(r, o, v);
}

static bool leave(struct leaf_run *r)
{
	struct insn_operand rbp = gpr_operand(REG_RBP, 8);

	if (r->unknown[REG_RBP])
		return false;
	r->reg[REG_RSP] = r->reg[REG_RBP];
	return pop(r, &rbp);
}

/* Instructions with vector registers: what they read of objects is noted, what they write is
 * unknown. */
static bool vector(struct leaf_run *r, const struct insn *in)
{
	bool any = in->vectors, known;
	uint64_t addr, v;

	for (uint32_t i = 0; i < INSN_OPS; i++)
		any |= in->ops[i].kind == OPERAND_VECTOR;
	if (!any)
		return false;
	r->int_to_double |= in->id == X86_INS_CVTSI2SD || in->id == X86_INS_CVTSI2SS;
	if (in->id == X86_INS_UCOMISD || in->id == X86_INS_UCOMISS || in->id == X86_INS_COMISD ||
	    in->id == X86_INS_COMISS)
		r->flags_known = false;
	for (uint32_t i = 0; i < REG_CNT; i++)
		if (insn__may_write(in, (uint8_t)i))
			r->unknown[i] = 0xff;
	for (uint32_t i = 0; i < INSN_OPS; i++) {
		const struct insn_operand *o = &in->ops[i];

		if (o->kind != OPERAND_MEM)
			continue;
		if (!leaf_insn__addr(r, o, &addr))
			return r->lenient;
		if (o->writes ? !leaf_run__store(r, addr, o->size, 0, false) :
				!leaf_run__load(r, addr, o->size, &v, &known))
			return false;
	}
	return true;
}

/* ---- one instruction ---- */

static bool rest(struct leaf_run *r, const struct insn *in)
{
	switch (in->id) {
	case X86_INS_CBW:
		return extend_rax(r, 1, REG_RAX, 2);
	case X86_INS_CWDE:
		return extend_rax(r, 2, REG_RAX, 4);
	case X86_INS_CDQE:
		return extend_rax(r, 4, REG_RAX, 8);
	case X86_INS_CWD:
		return extend_rax(r, 2, REG_RDX, 2);
	case X86_INS_CDQ:
		return extend_rax(r, 4, REG_RDX, 4);
	case X86_INS_CQO:
		return extend_rax(r, 8, REG_RDX, 8);
	case X86_INS_XADD:
		return exchange_add(r, in);
	case X86_INS_BT:
		return bit_test(r, in);
	case X86_INS_PREFETCH:
	case X86_INS_PREFETCHW:
	case X86_INS_PREFETCHNTA:
	case X86_INS_PREFETCHT0:
	case X86_INS_PREFETCHT1:
	case X86_INS_PREFETCHT2:
		return true;
	default:
		break;
	}
	if (in->form == FORM_IF_MOVE)
		return conditional_move(r, in);
	if (in->form == FORM_IF_SET)
		return put_operand(r, &in->ops[0],
				   (struct value){ leaf_run__condition(r, in->cond),
						   r->flags_known });
	return vector(r, in);
}

static bool step(struct leaf_run *r, const struct insn *in)
{
	uint64_t addr = 0;
	bool known;

	switch (in->id) {
	case X86_INS_NOP:
	case X86_INS_ENDBR64:
		return true;
	case X86_INS_MOV:
	case X86_INS_MOVABS:
	case X86_INS_MOVZX:
		return move(r, in, false);
	case X86_INS_MOVSX:
	case X86_INS_MOVSXD:
		return move(r, in, true);
	case X86_INS_LEA:
		known = leaf_insn__addr(r, &in->ops[1], &addr);
		return put_operand(r, &in->ops[0], (struct value){ addr, known });
	case X86_INS_ADD:
	case X86_INS_ADC:
	case X86_INS_SUB:
	case X86_INS_SBB:
	case X86_INS_AND:
	case X86_INS_OR:
	case X86_INS_XOR:
	case X86_INS_CMP:
	case X86_INS_TEST:
		return arithmetic(r, in);
	case X86_INS_SHL:
	case X86_INS_SAL:
	case X86_INS_SHR:
	case X86_INS_SAR:
	case X86_INS_ROL:
	case X86_INS_ROR:
		return shift(r, in);
	case X86_INS_INC:
	case X86_INS_DEC:
	case X86_INS_NEG:
	case X86_INS_NOT:
		return one_operand(r, in);
	case X86_INS_IMUL:
	case X86_INS_MUL:
	case X86_INS_DIV:
	case X86_INS_IDIV:
		return multiply(r, in);
	case X86_INS_PUSH:
		return push(r, in);
	case X86_INS_POP:
		return pop(r, &in->ops[0]);
	case X86_INS_LEAVE:
		return leave(r);
	default:
		return rest(r, in);
	}
}

bool leaf_insn__step(struct leaf_run *r, const struct insn *in)
{
	return !in->opaque && step(r, in);
}
