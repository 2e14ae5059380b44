/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A library with one function, which Python programs call and tests probe: its arguments are those of an allocator's New(). */
__asm__(".text\n"
	".globl py_point\n"
	".type py_point, @function\n"
	"py_point:\n"
	"	nop\n"
	"	ret\n"
	".size py_point, . - py_point\n"
	".section .note.GNU-stack,\"\",@progbits\n");
