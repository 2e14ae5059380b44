/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* General registers of x86-64 by their number in the encoding. Private to x86_64*.c and their
 * tests. */
#ifndef CODE_X86_64_H
#define CODE_X86_64_H

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
	REG_R10,
	REG_R11,
	REG_R12,
	REG_R13,
	REG_R14,
	REG_R15,
};

#endif /* CODE_X86_64_H */
