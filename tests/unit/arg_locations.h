/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where a program finds its arguments, as a text to be compared: "rdi rsi+rdx [8] xmm0 ?". */
#ifndef TESTS_ARG_LOCATIONS_H
#define TESTS_ARG_LOCATIONS_H

#include <stdint.h>
#include <stdio.h>

#include "ptb_args.h"

static inline int put_loc(uint8_t loc, char *buf, size_t cap)
{
	static const char *const regs[] = { "rdi", "rsi", "rdx", "rcx", "r8", "r9" };

	if (loc < PTB_LOC_STACK)
		return snprintf(buf, cap, "%s", regs[loc]);
	return snprintf(buf, cap, "[%u]", 8u + 8u * (loc - PTB_LOC_STACK));
}

static inline int put_op(const struct ptb_arg_op *op, char *buf, size_t cap)
{
	size_t n = 0;

	if (op->op == PTB_ARG_UNKNOWN)
		return snprintf(buf, cap, "?");
	if (op->op == PTB_ARG_LATE)
		n += (size_t)snprintf(buf, cap, "xmm%u", op->aux);
	for (uint32_t k = 0; k < 3 && n < cap; k++)
		if (op->loc[k] != PTB_LOC_NONE) {
			if (n)
				n += (size_t)snprintf(buf + n, cap - n, "+");
			if (n < cap)
				n += (size_t)put_loc(op->loc[k], buf + n, cap - n);
		}
	return n ? (int)n : snprintf(buf, cap, "-");
}

static inline void arg_locations(const struct ptb_arg_prog *prog, char *buf, size_t cap)
{
	size_t n = 0;

	buf[0] = 0;
	for (uint32_t i = 0; i < prog->in_cnt && n + 1 < cap; i++) {
		if (i)
			buf[n++] = ' ';
		n += (size_t)put_op(&prog->ops[i], buf + n, cap - n);
	}
}

#endif /* TESTS_ARG_LOCATIONS_H */
