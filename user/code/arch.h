/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the analysis asks of a processor architecture: its registers and calling convention, and one
 * decoded instruction. x86_64.c and x86_64_leaf.c answer; another architecture is other files with
 * the same functions. Nothing outside of them knows an opcode or the name of a register.
 */
#ifndef CODE_ARCH_H
#define CODE_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* General registers have numbers from 0. */
enum { REG_CNT = 16, REG_NONE = 16, REG_PC };

#define COND_NONE 0xff /* a branch by something else than flags */

#define ARCH_ARGS 6
#define ARCH_KEPT 6

struct arch {
	uint8_t arg[ARCH_ARGS];  /* integer arguments of a function */
	uint8_t result, result2; /* what it returns */
	uint8_t sp, fp;
	uint8_t kept[ARCH_KEPT];  /* registers that a callee restores, but sp */
	uint16_t lost;            /* mask: registers that a callee may overwrite */
	uint8_t above, not_above; /* conditions of a branch behind an unsigned comparison */
	uint8_t prog_reg[8];      /* by enum ptb_arg_reg: what argument programs call registers */
};
extern const struct arch arch;

/* ---- instructions ---- */

enum insn_class {
	INSN_OTHER,
	INSN_JCC,      /* conditional, target known */
	INSN_JMP,      /* direct */
	INSN_JMP_IND,  /* through a register or memory */
	INSN_CALL,     /* direct */
	INSN_CALL_IND, /* through a register or memory */
	INSN_RET,
	INSN_STOP, /* nothing follows */
};

/* What an instruction of INSN_OTHER does to values, where that is followed. */
enum insn_form {
	FORM_OTHER,
	/* the low `copied` bytes of ops[1] arrive unchanged in ops[0]; the rest is filled */
	FORM_MOVE,
	FORM_ADDRESS, /* ops[0] = address of ops[1] */
	FORM_CONST,   /* ops[0], a register, = `value` */
	FORM_ADD,     /* ops[0] += ops[1] */
	FORM_SUB,
	FORM_COMPARE,
	FORM_TEST,
	FORM_PUSH,
	FORM_POP,
	FORM_LEAVE, /* sp = fp, pop fp */
	FORM_NOP,
	FORM_IF_MOVE, /* by `cond` */
	FORM_IF_SET,
};

enum operand_kind {
	OPERAND_NONE,
	OPERAND_GPR,
	OPERAND_VECTOR,
	OPERAND_MEM,
	OPERAND_IMM,
	OPERAND_OTHER
};

struct insn_operand {
	uint8_t kind; /* enum operand_kind */
	/* GPR, VECTOR: its number; MEM: the base, REG_NONE, or REG_PC with the address in
	 * `value` */
	uint8_t reg;
	uint8_t index, scale; /* MEM; index REG_NONE */
	uint16_t size;        /* bytes */
	bool reads, writes;   /* what the operand names; true where it is not known */
	bool high;            /* GPR: its second byte */
	bool tls;             /* MEM: by a segment of the thread */
	int64_t value;        /* IMM: sign-extended; MEM: displacement */
};

#define INSN_OPS 3

struct insn {
	uint64_t addr;
	uint64_t target; /* JCC, JMP, CALL */
	int64_t value;   /* FORM_CONST */
	uint8_t len;
	uint8_t cls, form;
	uint8_t op;     /* for insn__op_name() */
	uint8_t cond;   /* of JCC and FORM_IF_*, as of struct arch */
	uint8_t copied; /* FORM_MOVE */
	/* by the kernel under a uprobe; everything else is single-stepped, at ten times the cost */
	bool emulated;
	bool opaque;    /* its operands are not relied on: it may do anything but change sp */
	bool low_stays; /* of the vector registers that it writes the low half stays */
	uint16_t id;    /* the architecture's own */
	/* mask: general registers that it may write; a call: that the callee may */
	uint16_t writes;
	uint32_t vectors; /* mask: vector registers that it may write */
	struct insn_operand ops[INSN_OPS];
};

struct insn_decoder;

struct insn_decoder *insn_decoder__new(void);
void insn_decoder__free(struct insn_decoder *d);
/* Decodes the instruction at bytes[0..avail). false: these bytes are none. */
bool insn_decoder__decode(struct insn_decoder *d, const uint8_t *bytes, uint64_t avail,
			  uint64_t addr, struct insn *out);

/* Is it one of those that the kernel emulates under a uprobe? */
bool insn__is_emulated(const uint8_t *bytes, uint64_t len);
const char *insn__op_name(uint8_t op); /* "push", "jcc", ... by insn.op */

static inline bool insn__is_call(const struct insn *in)
{
	return in->cls == INSN_CALL || in->cls == INSN_CALL_IND;
}

static inline bool insn__may_write(const struct insn *in, uint8_t reg)
{
	return in->writes >> reg & 1;
}

/* Moves of 32 or 64 bits from one general register to another, from memory, to memory. */
static inline bool insn__is_plain_move(const struct insn *in, enum operand_kind to,
				       enum operand_kind from)
{
	return in->form == FORM_MOVE && in->ops[0].kind == to && in->ops[1].kind == from &&
	       in->ops[0].size == in->ops[1].size && in->ops[0].size >= 4;
}

static inline bool insn__is_copy(const struct insn *in)
{
	return insn__is_plain_move(in, OPERAND_GPR, OPERAND_GPR);
}

static inline bool insn__is_load(const struct insn *in)
{
	return insn__is_plain_move(in, OPERAND_GPR, OPERAND_MEM);
}

/* An address that the instruction itself names: relative to the place of the code. */
static inline bool operand__is_fixed(const struct insn_operand *o)
{
	return o->kind == OPERAND_MEM && o->reg == REG_PC;
}

/* Memory at a register and a displacement. */
static inline bool operand__is_member(const struct insn_operand *o)
{
	return o->kind == OPERAND_MEM && o->reg < REG_CNT && o->index == REG_NONE;
}

/* ---- code that is searched byte by byte ---- */

/*
 * The next bytes at or behind p that may be a direct call, or an instruction that takes a fixed
 * address (but perhaps are the middle of another one: decode before relying on it). end is that of
 * the code; addr is p's. NULL: none. *at, *next: addresses of the instruction and of what follows
 * it.
 */
struct code_ref {
	uint64_t at, next, target;
};
const uint8_t *arch__next_call(const uint8_t *p, const uint8_t *end, uint64_t addr,
			       struct code_ref *ref);
const uint8_t *arch__next_address(const uint8_t *p, const uint8_t *end, uint64_t addr,
				  struct code_ref *ref);
/* Do the bytes hold one of the usual ends of a function that returns? */
bool arch__has_return(const uint8_t *code, uint64_t len);

#endif /* CODE_ARCH_H */
