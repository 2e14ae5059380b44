/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One x86-64 instruction: its length, what it does to the flow of control, and whether the kernel
 * emulates it under a uprobe (everything else is single-stepped, at ten times the cost). Lengths come
 * from capstone, the rest from the bytes. Knows no functions and no files.
 */
#ifndef CODE_INSN_H
#define CODE_INSN_H

#include <stdbool.h>
#include <stdint.h>

enum insn_class {
	INSN_OTHER,
	INSN_JCC,      /* conditional, target known */
	INSN_JMP,      /* direct */
	INSN_JMP_IND,  /* through a register or memory */
	INSN_CALL,     /* direct */
	INSN_CALL_IND, /* through a register or memory */
	INSN_RET,
	INSN_STOP, /* ud2, hlt, int3: nothing follows */
};

struct insn {
	uint64_t addr;
	uint64_t target; /* JCC, JMP, CALL */
	uint8_t len;
	uint8_t cls;
	uint8_t op; /* first opcode byte after prefixes; 0x90 for every no-op, 0x70 for every jcc */
	bool emulated;
};

struct insn_decoder;

struct insn_decoder *insn_decoder__new(void); /* NULL: no memory or no x86 in this capstone */
void insn_decoder__free(struct insn_decoder *d);
/* Decodes the instruction at bytes[0..avail). false: these bytes are none. */
bool insn_decoder__decode(struct insn_decoder *d, const uint8_t *bytes, uint64_t avail,
			  uint64_t addr, struct insn *out);

/*
 * Does the kernel emulate it? Up to 6.12: eb, e9, e8, 70-7f, 0f 80-8f, 90, 50-57 and 41 50-57, all
 * without another prefix; later kernels also the five-byte no-op 0f 1f 44 00 00
 * (arch/x86/kernel/uprobes.c, branch_setup_xol_ops, push_setup_xol_ops).
 */
bool insn__is_emulated(const uint8_t *bytes, uint64_t len);
bool insn__is_endbr64(const uint8_t *bytes, uint64_t len);
const char *insn__op_name(uint8_t op); /* "push", "jcc", ... by insn.op */

/* Registers by their number in the encoding. */
enum {
	REG_RAX,
	REG_RCX,
	REG_RDX,
	REG_RBX,
	REG_RSP,
	REG_RBP,
	REG_RSI,
	REG_RDI,
	REG_R8,
	REG_R9,
	REG_CNT = 16,
	REG_NONE = 16,
	REG_RIP
};

/* Operands of an instruction with a ModRM byte, or of a move of an immediate to a register. */
struct insn_ops {
	uint8_t map; /* 0: one-byte opcodes, 1: 0f xx; 2: other maps and VEX, EVEX */
	uint8_t opcode;
	uint8_t reg;                /* ModRM.reg with REX.R */
	uint8_t rm;                 /* register of ModRM.rm, REG_NONE when it is memory */
	uint8_t base, index, scale; /* memory: registers or REG_NONE; base REG_RIP: rip-relative */
	bool has_modrm, mem, rex_w, opsize; /* opsize: 66 prefix */
	int64_t disp;                       /* memory: displacement; rip-relative: the address */
	int64_t imm; /* last immediate, sign-extended; valid for imm_sz > 0 */
	uint8_t imm_sz;
};

/* Reads the operands of a decoded instruction. false: a form that is not understood. */
bool insn__ops(const uint8_t *bytes, const struct insn *in, struct insn_ops *ops);

/* The common forms: dst = register, for the tracking of values. */
bool insn_ops__is_lea(const struct insn_ops *ops);   /* lea mem, reg */
bool insn_ops__is_load(const struct insn_ops *ops);  /* mov mem, reg (32 or 64 bits) */
bool insn_ops__is_store(const struct insn_ops *ops); /* mov reg, mem */
bool insn_ops__mov_rr(const struct insn_ops *ops, uint8_t *dst, uint8_t *src); /* mov reg, reg */
/* Sets a register to a constant: mov $imm, reg; xor reg, reg. */
bool insn_ops__is_const(const struct insn_ops *ops, uint8_t *dst, int64_t *value);
/* May the instruction write this general register? Errs on the side of true. */
bool insn__may_write(const struct insn *in, const struct insn_ops *ops, bool ops_known, uint8_t reg);

#endif /* CODE_INSN_H */
