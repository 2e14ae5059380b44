/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where a function's own integer arguments go: which registers may hold one, or an address made of it,
 * before each instruction. Errs on the side of "may"; says nothing of what memory holds, but whether an
 * argument was ever put there.
 */
#ifndef CODE_ARG_FLOW_H
#define CODE_ARG_FLOW_H

#include "code/flow.h"

#define ARG_FLOW_ARGS ARCH_ARGS /* bits by number */

struct arg_flow {
	uint8_t (*regs)[REG_CNT]; /* by node, by register: arguments that it may hold before the node */
	uint32_t cap;
	uint8_t spilled; /* arguments that some instruction put into memory, or somewhere not understood */
};

/* Follows the arguments of the graph's function, which is entered at its first node. */
void arg_flow__follow(struct arg_flow *af, const struct flow *f);
void arg_flow__free(struct arg_flow *af);

/*
 * Can the node change what one of the arguments `args` points to: by calling, or jumping to, another function
 * that may get it, or by a store? If one was spilled, every call may get it, and every store outside the
 * function's own frame may go through it.
 */
bool arg_flow__uses(const struct arg_flow *af, const struct flow *f, uint32_t node, uint8_t args);
/* Stores through a register that may hold one. */
bool arg_flow__stores(const struct arg_flow *af, const struct flow *f, uint32_t node, uint8_t args);
/* Does the call or jump pass each of the arguments in its own place? */
bool arg_flow__forwards(const struct arg_flow *af, uint32_t node, uint8_t args);

#endif /* CODE_ARG_FLOW_H */
