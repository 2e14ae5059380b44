/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One instruction of a function that runs on paper (leaf_run.h): what compilers use for general
 * registers. Vector registers are not kept: what comes from them is unknown.
 */
#include <string.h>

#include "code/leaf_run.h"

/* A place: a general register (size 1: perhaps its second byte), or memory. */
struct place {
	bool mem, high;
	bool nowhere; /* at an address that is not known */
	uint8_t reg;
	uint32_t size;
	uint64_t addr;
};

struct value {
	uint64_t v;
	bool known;
};

struct step {
	struct leaf_run *r;
	struct insn_ops o;
	uint8_t imm; /* last byte */
	bool rex, fs, rep, repne;
	uint32_t size; /* of operands that are not bytes */
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

static void scan(struct step *s, const uint8_t *b, uint8_t len)
{
	uint8_t i;

	for (i = 0; i < len; i++) {
		if (b[i] == 0x64 || b[i] == 0x65)
			s->fs = true;
		else if (b[i] == 0xf3)
			s->rep = true;
		else if (b[i] == 0xf2)
			s->repne = true;
		else if (b[i] != 0x66 && b[i] != 0x2e && b[i] != 0x36 && b[i] != 0x3e &&
			 b[i] != 0x26 && b[i] != 0x67)
			break;
	}
	s->rex = i < len && b[i] >= 0x40 && b[i] <= 0x4f;
}

bool leaf_insn__addr(const struct leaf_run *r, const struct insn_ops *o, uint64_t *addr)
{
	uint64_t a = (uint64_t)o->disp;

	if (o->base < REG_CNT) {
		if (r->unknown[o->base])
			return false;
		a += r->reg[o->base];
	}
	if (o->index < REG_CNT) {
		if (r->unknown[o->index])
			return false;
		a += r->reg[o->index] * o->scale;
	}
	*addr = a;
	return true;
}

/* Which bytes of a register a place is. */
static uint8_t bytes_of(const struct place *p)
{
	return p->size >= 4 ? 0xff : p->high ? 2 : p->size == 2 ? 3 : 1;
}

static struct place reg_place(const struct step *s, uint8_t reg, uint32_t size)
{
	struct place p = { .reg = reg, .size = size };

	if (size == 1 && !s->rex && reg >= 4 && reg <= 7) {
		p.high = true;
		p.reg = (uint8_t)(reg - 4);
	}
	return p;
}

static bool rm_place(const struct step *s, uint32_t size, struct place *p)
{
	if (!s->o.mem) {
		*p = reg_place(s, s->o.rm, size);
		return s->o.rm < REG_CNT;
	}
	*p = (struct place){ .mem = true, .size = size };
	p->nowhere = !leaf_insn__addr(s->r, &s->o, &p->addr);
	return !p->nowhere || s->r->lenient;
}

static bool get(const struct step *s, const struct place *p, struct value *v)
{
	*v = (struct value){ 0 };
	if (p->mem && s->fs) { /* the stack protector's canary: any number, the same each time */
		v->known = true;
		return true;
	}
	if (p->nowhere)
		return true;
	if (p->mem)
		return leaf_run__load(s->r, p->addr, p->size, &v->v, &v->known);
	v->known = !(s->r->unknown[p->reg] & (p->size == 4 ? 0xf : bytes_of(p)));
	v->v = (s->r->reg[p->reg] >> (p->high ? 8 : 0)) & mask(p->size);
	return true;
}

static bool put(struct step *s, const struct place *p, struct value v)
{
	uint64_t *reg = &s->r->reg[p->reg], m;
	uint32_t shift = p->high ? 8 : 0;

	if (p->nowhere)
		return true;
	if (p->mem)
		return leaf_run__store(s->r, p->addr, p->size, v.v, v.known);
	m = p->size == 4 ? UINT64_MAX : mask(p->size) << shift; /* 32 bits clear the upper half */
	*reg = (*reg & ~m) | ((v.v & mask(p->size)) << shift);
	if (v.known)
		s->r->unknown[p->reg] &= (uint8_t)~bytes_of(p);
	else
		s->r->unknown[p->reg] |= bytes_of(p);
	return true;
}

static bool put_reg(struct step *s, uint8_t reg, uint32_t size, uint64_t v, bool known)
{
	struct place p = reg_place(s, reg, size);

	return put(s, &p, (struct value){ .v = v, .known = known });
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

/* add or adc sbb and sub xor cmp, by their number in the encoding. */
static bool alu(struct step *s, uint8_t op, const struct place *dst, struct value b)
{
	struct leaf_run *r = s->r;
	struct value a, v;

	if (!get(s, dst, &a))
		return false;
	v.known = a.known && b.known;
	switch (op) {
	case 0:
		v.v = do_add(r, a.v, b.v, dst->size, v.known);
		break;
	case 1:
		v.v = a.v | b.v;
		break;
	case 2: /* with carry */
	case 3:
		v.known = v.known && r->flags_known;
		b.v += r->cf;
		v.v = op == 2 ? do_add(r, a.v, b.v, dst->size, v.known) :
				do_sub(r, a.v, b.v, dst->size, v.known);
		r->flags_known = false;
		break;
	case 4:
		v.v = a.v & b.v;
		break;
	case 6:
		v.v = a.v ^ b.v;
		break;
	default:
		v.v = do_sub(r, a.v, b.v, dst->size, v.known);
		break;
	}
	if (op == 1 || op == 4 || op == 6)
		set_logic_flags(r, v.v, dst->size, v.known);
	return op == 7 || put(s, dst, v);
}

static bool alu_forms(struct step *s)
{
	uint8_t op = s->o.opcode >> 3, form = s->o.opcode & 7;
	uint32_t size = form & 1 ? s->size : 1;
	struct place rm, reg = reg_place(s, s->o.reg, size);
	struct value b;

	if (form >= 4) {
		reg = reg_place(s, REG_RAX, size);
		return alu(s, op, &reg,
			   (struct value){ .v = (uint64_t)s->o.imm & mask(size), .known = true });
	}
	if (!rm_place(s, size, &rm))
		return false;
	if (op == 3 && !rm.mem && s->o.rm == s->o.reg) /* sbb with itself spreads the carry */
		return put(s, &rm,
			   (struct value){ .v = s->r->cf ? UINT64_MAX : 0, .known = s->r->flags_known });
	if ((op == 6 || op == 5) && !rm.mem && s->o.rm == s->o.reg) {
		set_logic_flags(s->r, 0, size, true); /* xor or sub with itself */
		return put(s, &rm, (struct value){ .known = true });
	}
	if (form < 2)
		return get(s, &reg, &b) && alu(s, op, &rm, b);
	return get(s, &rm, &b) && alu(s, op, &reg, b);
}

static bool shift(struct step *s, const struct place *p, uint8_t kind, struct value by)
{
	struct value a;
	uint32_t n = (uint32_t)(by.v & (p->size == 8 ? 63 : 31));

	if (!get(s, p, &a))
		return false;
	a.known = a.known && by.known && (kind == 4 || kind == 5 || kind == 7);
	if (a.known && !n)
		return true;
	if (kind == 4)
		a.v <<= n;
	else if (kind == 5)
		a.v >>= n;
	else
		a.v = (uint64_t)((int64_t)sign(a.v, p->size) >> n);
	set_logic_flags(s->r, a.v, p->size, a.known); /* but for the carry, which nobody asks for */
	return put(s, p, a);
}

static bool group3(struct step *s, const struct place *p)
{
	uint8_t kind = s->o.reg & 7;
	struct value a;

	if (!get(s, p, &a))
		return false;
	switch (kind) {
	case 0:
	case 1:
		set_logic_flags(s->r, a.v & (uint64_t)s->o.imm, p->size, a.known);
		return true;
	case 2:
		a.v = ~a.v;
		return put(s, p, a);
	case 3:
		a.v = do_sub(s->r, 0, a.v, p->size, a.known);
		return put(s, p, a);
	default: /* multiplication and division */
		s->r->unknown[REG_RAX] = s->r->unknown[REG_RDX] = 0xff;
		s->r->flags_known = false;
		return true;
	}
}

static bool group5(struct step *s, const struct place *p)
{
	uint8_t kind = s->o.reg & 7;
	bool carry = s->r->cf;
	struct value a;

	if (!get(s, p, &a))
		return false;
	if (kind == 6)
		return leaf_run__push(s->r, a.v, a.known);
	if (kind > 1)
		return false;
	a.v = kind ? do_sub(s->r, a.v, 1, p->size, a.known) : do_add(s->r, a.v, 1, p->size, a.known);
	s->r->cf = carry;
	return put(s, p, a);
}

/* ---- the opcode maps ---- */

static bool no_modrm(struct step *s)
{
	struct leaf_run *r = s->r;
	uint8_t op = s->o.opcode;
	struct place rax = reg_place(s, REG_RAX, s->size);
	struct value v = { .known = true };

	if (op >= 0x50 && op <= 0x57)
		return leaf_run__push(r, r->reg[s->o.rm], !r->unknown[s->o.rm]);
	if (op >= 0x58 && op <= 0x5f)
		return leaf_run__pop(r, &v.v, &v.known) && put_reg(s, s->o.rm, 8, v.v, v.known);
	if (op >= 0xb8 && op <= 0xbf)
		return put_reg(s, s->o.rm, s->size, (uint64_t)s->o.imm, true);
	if (op >= 0xb0 && op <= 0xb7)
		return put_reg(s, s->o.rm, 1, s->imm, true);
	switch (op) {
	case 0x68:
	case 0x6a:
		return leaf_run__push(r, (uint64_t)s->o.imm, true);
	case 0x90:
		return true;
	case 0x98: /* cltq and its smaller forms */
		rax.size = s->size / 2;
		return get(s, &rax, &v) && put_reg(s, REG_RAX, s->size, sign(v.v, rax.size), v.known);
	case 0x99:
		return get(s, &rax, &v) &&
		       put_reg(s, REG_RDX, s->size, sign(v.v, s->size) >> 63 ? UINT64_MAX : 0, v.known);
	case 0xa8:
	case 0xa9:
		rax.size = op == 0xa8 ? 1 : s->size;
		if (!get(s, &rax, &v))
			return false;
		set_logic_flags(r, v.v & (uint64_t)s->o.imm, rax.size, v.known);
		return true;
	case 0xc9:
		if (r->unknown[REG_RBP])
			return false;
		r->reg[REG_RSP] = r->reg[REG_RBP];
		return leaf_run__pop(r, &v.v, &v.known) && put_reg(s, REG_RBP, 8, v.v, v.known);
	default:
		return false;
	}
}

static bool moves(struct step *s, uint8_t op, const struct place *rm, const struct place *reg)
{
	struct value v;
	uint64_t addr;

	switch (op) {
	case 0x88:
	case 0x89:
		return get(s, reg, &v) && put(s, rm, v);
	case 0x8a:
	case 0x8b:
		return get(s, rm, &v) && put(s, reg, v);
	case 0x63:
		return get(s, rm, &v) && put_reg(s, s->o.reg, s->size, sign(v.v, 4), v.known);
	case 0xc6:
	case 0xc7:
		return put(s, rm, (struct value){ .v = (uint64_t)s->o.imm, .known = true });
	default: /* lea */
		if (!s->o.mem)
			return false;
		v.known = leaf_insn__addr(s->r, &s->o, &addr);
		return put_reg(s, s->o.reg, s->size, v.known ? addr : 0, v.known);
	}
}

static bool test(struct step *s, const struct place *rm, const struct place *reg)
{
	struct value a, b;

	if (!get(s, rm, &a) || !get(s, reg, &b))
		return false;
	set_logic_flags(s->r, a.v & b.v, rm->size, a.known && b.known);
	return true;
}

static bool one_byte(struct step *s)
{
	uint8_t op = s->o.opcode;
	bool bytes = !(op & 1) && op != 0x8d && op != 0x6b;
	struct place rm, reg;
	struct value v;
	uint32_t size = bytes ? 1 : s->size;

	if (op < 0x40 && (op & 7) < 6)
		return alu_forms(s);
	if (!s->o.has_modrm)
		return no_modrm(s);
	if (op == 0x63)
		size = 4;
	reg = reg_place(s, s->o.reg, size);
	if (op == 0x8d)
		return moves(s, op, NULL, &reg);
	if (!rm_place(s, size, &rm))
		return false;
	switch (op) {
	case 0x63:
	case 0x88 ... 0x8b:
	case 0xc6:
	case 0xc7:
		return moves(s, op, &rm, &reg);
	case 0x69:
	case 0x6b:
		s->r->flags_known = false;
		return get(s, &rm, &v) &&
		       put_reg(s, s->o.reg, s->size, v.v * (uint64_t)s->o.imm, v.known);
	case 0x80:
	case 0x81:
	case 0x83:
		return alu(s, s->o.reg & 7, &rm,
			   (struct value){ .v = (uint64_t)s->o.imm & mask(size), .known = true });
	case 0x84:
	case 0x85:
		return test(s, &rm, &reg);
	case 0xc0:
	case 0xc1:
	case 0xd0:
	case 0xd1:
		v = (struct value){ .v = op >= 0xd0 ? 1 : (uint64_t)s->o.imm, .known = true };
		return shift(s, &rm, s->o.reg & 7, v);
	case 0xd2:
	case 0xd3:
		v = (struct value){ .v = s->r->reg[REG_RCX] & 0xff,
				    .known = !(s->r->unknown[REG_RCX] & 1) };
		return shift(s, &rm, s->o.reg & 7, v);
	case 0xf6:
	case 0xf7:
		return group3(s, &rm);
	case 0xfe:
	case 0xff:
		return group5(s, &rm);
	default:
		return false;
	}
}

/* Vector instructions: what they read of objects is noted, what they write is unknown. */
static bool vector(struct step *s)
{
	uint8_t op = s->o.opcode;
	bool stores = op == 0x11 || op == 0x13 || op == 0x17 || op == 0x29 || op == 0x2b ||
		      op == 0x7f || op == 0xd6 || op == 0xe7 || (op == 0x7e && !s->rep);
	uint32_t size = s->repne || op == 0x12 || op == 0x13 || op == 0x16 || op == 0x17 ||
					op == 0xd6 || (s->rep && op == 0x7e) ?
				8 :
				16;
	uint64_t addr, v;
	bool known;

	if (op == 0x2a)
		s->r->int_to_double = true;
	if (op == 0x2e || op == 0x2f)
		s->r->flags_known = false;
	if (op == 0x2c || op == 0x2d || op == 0x50 || op == 0xd7) {
		s->r->unknown[s->o.reg] = 0xff;
		return true;
	}
	if (!s->o.mem) {
		if (op == 0x7e && !s->rep && s->o.rm < REG_CNT)
			s->r->unknown[s->o.rm] = 0xff;
		return true;
	}
	if (op == 0x2a || op == 0x6e || (op == 0x7e && !s->rep))
		size = s->o.rex_w ? 8 : 4;
	if (!leaf_insn__addr(s->r, &s->o, &addr))
		return s->r->lenient;
	if (stores)
		return leaf_run__store(s->r, addr, size, 0, false);
	return leaf_run__load(s->r, addr, size, &v, &known);
}

static bool xadd(struct step *s, const struct place *rm, const struct place *reg)
{
	struct value a, b;

	s->r->flags_known = false;
	return get(s, rm, &a) && get(s, reg, &b) && put(s, reg, a) &&
	       put(s, rm, (struct value){ .v = a.v + b.v, .known = a.known && b.known });
}

/* bt */
static bool bit_test(struct step *s, uint8_t op, const struct place *rm, const struct place *reg)
{
	struct value v, b = { .v = s->imm, .known = true };

	if (rm->mem || !get(s, rm, &v) || (op == 0xa3 && !get(s, reg, &b)) ||
	    (op == 0xba && (s->o.reg & 7) != 4))
		return false;
	s->r->cf = v.v >> (b.v & (s->size * 8 - 1)) & 1;
	s->r->flags_known = v.known && b.known;
	return true;
}

static bool two_byte(struct step *s)
{
	uint8_t op = s->o.opcode;
	struct place rm, reg = reg_place(s, s->o.reg, s->size);
	struct value v;
	uint32_t size = op == 0xb6 || op == 0xbe || (op & 0xf0) == 0x90 ? 1 :
			op == 0xb7 || op == 0xbf                        ? 2 :
									  s->size;

	if (op == 0x1e || op == 0x1f || op == 0x18 || op == 0x0d)
		return true;
	if ((op >= 0x10 && op <= 0x17) || (op >= 0x28 && op <= 0x2f) ||
	    (op >= 0x50 && op <= 0x7f) || op == 0xc6 || op >= 0xd0)
		return vector(s);
	if (!s->o.has_modrm || !rm_place(s, size, &rm))
		return false;
	switch (op) {
	case 0xb6:
	case 0xb7:
		return get(s, &rm, &v) && put(s, &reg, v);
	case 0xbe:
	case 0xbf:
		return get(s, &rm, &v) && put_reg(s, s->o.reg, s->size, sign(v.v, size), v.known);
	case 0xaf: {
		struct value b;

		s->r->flags_known = false;
		return get(s, &rm, &v) && get(s, &reg, &b) &&
		       put_reg(s, s->o.reg, s->size, v.v * b.v, v.known && b.known);
	}
	case 0xc1:
		return xadd(s, &rm, &reg);
	case 0xa3:
	case 0xba:
		return bit_test(s, op, &rm, &reg);
	default:
		break;
	}
	if ((op & 0xf0) == 0x90)
		return put(s, &rm,
			   (struct value){ .v = leaf_run__condition(s->r, op & 0xf),
					   .known = s->r->flags_known });
	if ((op & 0xf0) == 0x40) {
		if (!get(s, &rm, &v))
			return false;
		if (s->r->flags_known && !leaf_run__condition(s->r, op & 0xf))
			return get(s, &reg, &v) && put(s, &reg, v); /* 32 bits clear the upper half */
		v.known = v.known && s->r->flags_known;
		return put(s, &reg, v);
	}
	return false;
}

enum leaf_step leaf_insn__step(struct leaf_run *r, const struct insn *in, const uint8_t *bytes)
{
	struct step s = { .r = r };

	if (!insn__ops(bytes, in, &s.o) || s.o.map == 2)
		return STEP_LOST;
	scan(&s, bytes, in->len);
	s.imm = bytes[in->len - 1];
	s.size = s.o.rex_w ? 8 : s.o.opsize ? 2 : 4;
	return (s.o.map ? two_byte(&s) : one_byte(&s)) ? STEP_NEXT : STEP_LOST;
}
