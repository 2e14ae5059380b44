/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What one instruction does to values that are kept in registers and in the frame. */
#ifndef CODE_VALUE_MOVES_H
#define CODE_VALUE_MOVES_H

#include "code/flow.h"

#define VALUE_NO_FRAME INT32_MIN

enum operand_kind { OPERAND_NONE, OPERAND_XMM, OPERAND_GPR, OPERAND_MEM };

struct value_mem {
	uint8_t base; /* REG_* */
	bool indexed;
	int64_t disp;
};

struct value_operand {
	uint8_t kind; /* enum operand_kind */
	uint8_t reg;
	struct value_mem mem;
};

struct value_move {
	enum { MOVE_OTHER, MOVE_COPY } kind;
	struct value_operand src, dst; /* COPY; OTHER: dst.mem is what is stored to, if store_size */
	uint32_t size;                 /* COPY: low bytes that arrive unchanged */
	uint32_t store_size;           /* bytes of memory that are written */
	uint16_t xmm_dead;             /* OTHER: vector registers whose low half is overwritten */
};

/* The operands must be known and not of map 2. */
void value_moves__decode(const struct flow_node *n, const struct insn_ops *ops, struct value_move *mv);
/* Follows rsp and rbp, as distances from rsp at the entry. */
void value_moves__frame(const struct flow_node *n, const struct insn_ops *ops, int32_t *sp, int32_t *bp);

#endif /* CODE_VALUE_MOVES_H */
