/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Moves of the general and of the SSE2 instruction set, by opcode and mandatory prefix (Intel SDM,
 * volume 2). Everything else overwrites its destination.
 */
#include "code/value_moves.h"

#include <string.h>

enum mandatory { PREFIX_NONE, PREFIX_66, PREFIX_F3, PREFIX_F2 };

struct shape {
	enum mandatory prefix;
	bool rex;
};

static struct shape shape_of(const struct flow_node *n)
{
	struct shape s = { 0 };
	uint32_t i;

	for (i = 0; i < n->in.len; i++) {
		uint8_t b = n->bytes[i];

		if (b == 0xf2)
			s.prefix = PREFIX_F2;
		else if (b == 0xf3)
			s.prefix = PREFIX_F3;
		else if (b == 0x66 && s.prefix == PREFIX_NONE)
			s.prefix = PREFIX_66;
		else if (b >= 0x40 && b <= 0x4f)
			s.rex = true;
		else if (b != 0x66)
			break;
	}
	return s;
}

static struct value_operand reg_operand(uint8_t kind, uint8_t reg)
{
	return (struct value_operand){ .kind = kind, .reg = reg };
}

/* ModRM.rm as a register of this kind, or as memory. */
static struct value_operand rm_operand(uint8_t kind, const struct insn_ops *o)
{
	if (!o->mem)
		return reg_operand(kind, o->rm);
	return (struct value_operand){
		.kind = OPERAND_MEM,
		.mem = { .base = o->base, .disp = o->disp, .indexed = o->index != REG_NONE }
	};
}

static void copy(struct value_move *mv, struct value_operand dst, struct value_operand src,
		 uint32_t size, uint32_t stored)
{
	*mv = (struct value_move){
		.kind = MOVE_COPY, .src = src, .dst = dst, .size = size, .store_size = stored
	};
}

/* ---- vector registers ---- */

static void load(struct value_move *mv, const struct insn_ops *o, uint32_t size)
{
	copy(mv, reg_operand(OPERAND_XMM, o->reg), rm_operand(OPERAND_XMM, o), size, 0);
}

static void store(struct value_move *mv, const struct insn_ops *o, uint32_t size, uint32_t stored)
{
	copy(mv, rm_operand(OPERAND_XMM, o), reg_operand(OPERAND_XMM, o->reg), size, stored);
}

/* Only memory is written; no value arrives there. */
static void store_other(struct value_move *mv, const struct insn_ops *o, uint32_t stored)
{
	if (!o->mem)
		return;
	mv->dst = rm_operand(OPERAND_GPR, o);
	mv->store_size = stored;
}

/* 66 0f 6e, 66 0f 7e: between a vector and a general register or memory. */
static void move_gpr(struct value_move *mv, const struct insn_ops *o, bool to_xmm)
{
	uint32_t size = o->rex_w ? 8 : 4;
	struct value_operand x = reg_operand(OPERAND_XMM, o->reg), g = rm_operand(OPERAND_GPR, o);

	if (to_xmm)
		copy(mv, x, g, size, 0);
	else
		copy(mv, g, x, size, size);
}

/* true: the instruction was one of these. */
static bool vector_move(const struct insn_ops *o, enum mandatory prefix, struct value_move *mv)
{
	uint32_t wide = prefix == PREFIX_F2 ? 8 : prefix == PREFIX_F3 ? 4 : 16;

	switch (o->opcode) {
	case 0x10: /* movups, movupd, movss, movsd */
		load(mv, o, wide);
		return true;
	case 0x11:
		store(mv, o, wide, wide);
		return true;
	case 0x28: /* movaps, movapd */
		load(mv, o, 16);
		return true;
	case 0x29:
		store(mv, o, 16, 16);
		return true;
	case 0x12: /* movlps, movlpd; movddup; register form: movhlps */
		if (prefix == PREFIX_F3 || (prefix == PREFIX_NONE && !o->mem))
			return false;
		load(mv, o, 8);
		return true;
	case 0x13:
		store(mv, o, 8, 8);
		return true;
	case 0x6f: /* movdqa, movdqu */
		load(mv, o, 16);
		return prefix != PREFIX_NONE;
	case 0x7f:
		store(mv, o, 16, 16);
		return prefix != PREFIX_NONE;
	case 0xd6: /* movq */
		store(mv, o, 8, 8);
		return prefix == PREFIX_66;
	case 0x7e:
		if (prefix == PREFIX_F3)
			load(mv, o, 8);
		else if (prefix == PREFIX_66)
			move_gpr(mv, o, false);
		return prefix != PREFIX_NONE;
	case 0x6e:
		move_gpr(mv, o, true);
		return prefix == PREFIX_66;
	default:
		return false;
	}
}

/* What other instructions of the map 0f do. */
static void other_0f(const struct insn_ops *o, enum mandatory prefix, struct value_move *mv)
{
	uint8_t op = o->opcode;

	switch (op) {
	case 0x17: /* movhps, movhpd to memory */
		store_other(mv, o, 8);
		return;
	case 0x2b: /* movntps, movntdq */
	case 0xe7:
		store_other(mv, o, 16);
		return;
	case 0xc3: /* movnti */
	case 0xa3: /* bt, bts, shld, ... */
	case 0xa4:
	case 0xa5:
	case 0xab:
	case 0xac:
	case 0xad:
	case 0xb0:
	case 0xb1:
	case 0xb3:
	case 0xba:
	case 0xbb:
	case 0xc0:
	case 0xc1:
		store_other(mv, o, 8);
		return;
	case 0xc7:
		store_other(mv, o, 16);
		return;
	case 0x2e: /* ucomisd, comisd */
	case 0x2f:
		return;
	case 0x14: /* unpcklpd, movhps, movhpd, punpcklqdq: the low half stays */
	case 0x6c:
		if (prefix == PREFIX_66)
			return;
		break;
	case 0x16:
		if (prefix != PREFIX_F3)
			return;
		break;
	case 0x71: /* shifts by an immediate: the register is ModRM.rm */
	case 0x72:
	case 0x73:
		if (!o->mem)
			mv->xmm_dead = (uint16_t)(1u << (o->rm & 15));
		return;
	default:
		break;
	}
	if (op >= 0x90 && op <= 0x9f)
		store_other(mv, o, 1);
	else if (o->has_modrm && o->reg < 16 &&
		 ((op >= 0x10 && op <= 0x17) || (op >= 0x28 && op <= 0x2f) ||
		  (op >= 0x51 && op <= 0x7f) || op == 0xc2 || op == 0xc4 || op == 0xc6 || op >= 0xd0))
		mv->xmm_dead = (uint16_t)(1u << o->reg);
}

/* ---- general registers ---- */

static uint32_t operand_size(const struct insn_ops *o)
{
	if (!(o->opcode & 1))
		return 1;
	return o->rex_w ? 8 : o->opsize ? 2 : 4;
}

/* ah, ch, dh, bh: not the low byte of the register with that number. */
static bool high_byte(const struct insn_ops *o, bool rex)
{
	return !rex && ((o->reg >= 4 && o->reg <= 7) || (!o->mem && o->rm >= 4 && o->rm <= 7));
}

static bool general_move(const struct insn_ops *o, bool rex, struct value_move *mv)
{
	struct value_operand r = reg_operand(OPERAND_GPR, o->reg), m = rm_operand(OPERAND_GPR, o);
	uint32_t size = operand_size(o);

	if (!o->has_modrm)
		return false;
	if (o->map == 1 && (o->opcode == 0xb6 || o->opcode == 0xbe || o->opcode == 0xb7 ||
			    o->opcode == 0xbf)) { /* movzx, movsx */
		if (!(o->opcode & 1) && high_byte(o, rex) && !o->mem)
			return false;
		copy(mv, r, m, o->opcode & 1 ? 2 : 1, 0);
		return true;
	}
	if (o->map)
		return false;
	switch (o->opcode) {
	case 0x88:
	case 0x89:
	case 0x8a:
	case 0x8b:
		if (size == 1 && high_byte(o, rex))
			return false;
		if (o->opcode & 2)
			copy(mv, r, m, size, 0);
		else
			copy(mv, m, r, size, size);
		return true;
	case 0x63: /* movslq */
		copy(mv, r, m, 4, 0);
		return true;
	default:
		return false;
	}
}

/* Does an instruction of the one-byte map write its memory operand? */
static bool stores(const struct insn_ops *o)
{
	uint8_t op = o->opcode, ext = o->reg & 7;

	if (op < 0x40)
		return (op & 7) < 2 && (op & 0x38) != 0x38;
	switch (op) {
	case 0x80:
	case 0x81:
	case 0x83:
		return ext != 7;
	case 0x86:
	case 0x87:
	case 0x88:
	case 0x89:
	case 0x8f:
	case 0xc0:
	case 0xc1:
	case 0xc6:
	case 0xc7:
	case 0xd0:
	case 0xd1:
	case 0xd2:
	case 0xd3:
		return true;
	case 0xf6:
	case 0xf7:
		return ext == 2 || ext == 3;
	case 0xfe:
	case 0xff:
		return ext < 2;
	case 0xd9: /* x87: some store, up to 28 bytes */
	case 0xdb:
	case 0xdd:
	case 0xdf:
		return true;
	default:
		return false;
	}
}

void value_moves__decode(const struct flow_node *n, const struct insn_ops *o, struct value_move *mv)
{
	struct shape s = shape_of(n);

	memset(mv, 0, sizeof(*mv));
	if (general_move(o, s.rex, mv))
		return;
	memset(mv, 0, sizeof(*mv));
	if (o->map == 1) {
		if (o->has_modrm && vector_move(o, s.prefix, mv))
			return;
		memset(mv, 0, sizeof(*mv));
		other_0f(o, s.prefix, mv);
		return;
	}
	if (o->has_modrm && o->mem && stores(o))
		store_other(mv, o, o->opcode >= 0xd9 && o->opcode <= 0xdf ? 32 : operand_size(o));
}

/* ---- the frame ---- */

static void add_imm(const struct insn_ops *o, int32_t *reg)
{
	uint8_t ext = o->reg & 7;

	if (*reg == VALUE_NO_FRAME)
		return;
	if ((ext != 0 && ext != 5) || o->imm < -(1 << 24) || o->imm > 1 << 24)
		*reg = VALUE_NO_FRAME;
	else
		*reg += ext ? -(int32_t)o->imm : (int32_t)o->imm;
}

static int32_t shifted(int32_t reg, int64_t by)
{
	return reg == VALUE_NO_FRAME || by < -(1 << 24) || by > 1 << 24 ? VALUE_NO_FRAME :
									  reg + (int32_t)by;
}

/* lea and mov between rsp and rbp. */
static bool frame_move(const struct insn_ops *o, int32_t *sp, int32_t *bp)
{
	uint8_t dst, src;
	int32_t value;

	if (insn_ops__is_lea(o)) {
		dst = o->reg;
		value = o->index != REG_NONE ? VALUE_NO_FRAME :
			o->base == REG_RSP   ? shifted(*sp, o->disp) :
			o->base == REG_RBP   ? shifted(*bp, o->disp) :
					       VALUE_NO_FRAME;
	} else if (insn_ops__mov_rr(o, &dst, &src)) {
		value = !o->rex_w      ? VALUE_NO_FRAME :
			src == REG_RSP ? *sp :
			src == REG_RBP ? *bp :
					 VALUE_NO_FRAME;
	} else {
		return false;
	}
	if (dst == REG_RSP)
		*sp = value;
	else if (dst == REG_RBP)
		*bp = value;
	return true;
}

void value_moves__frame(const struct flow_node *n, const struct insn_ops *o, int32_t *sp, int32_t *bp)
{
	uint8_t op = o->opcode;
	int32_t was = *bp;

	if (frame_move(o, sp, bp))
		return;
	if (!o->map && (op == 0x81 || op == 0x83) && !o->mem &&
	    (o->rm == REG_RSP || o->rm == REG_RBP) && (o->reg & 7) != 7) {
		add_imm(o, o->rm == REG_RSP ? sp : bp);
		return;
	}
	if (insn__may_write(&n->in, o, true, REG_RBP))
		*bp = VALUE_NO_FRAME;
	if (!insn__may_write(&n->in, o, true, REG_RSP))
		return;
	if (o->map)
		*sp = VALUE_NO_FRAME;
	else if ((op >= 0x50 && op <= 0x57) || op == 0x68 || op == 0x6a || op == 0xff)
		*sp = shifted(*sp, -8);
	else if (op >= 0x58 && op <= 0x5f)
		*sp = op == 0x5c ? VALUE_NO_FRAME : shifted(*sp, 8);
	else if (op == 0xc9)
		*sp = shifted(was, 8);
	else
		*sp = VALUE_NO_FRAME;
}
