/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Native stacks of threads that do not run, from their registers and copies of their stacks, by the unwind information of the files that the process has
 * mapped (elfutils' libdwfl). Files and stacks are hostile: they are read in a child without privileges.
 */
#ifndef CODE_UNWIND_H
#define CODE_UNWIND_H

#include <stdint.h>
#include <sys/types.h>

#include "ptb_probe.h"

struct unwind_thread {
	struct ptb_thread_regs at;
	uint8_t *stack;     /* copy of the memory from its stack pointer on */
	uint32_t stack_len; /* 0: the thread is left out */
	/*
	 * Out, from malloc: a line for each frame, innermost first: "function (file)", "file+0x1234" where there is no symbol. A last line "..."
	 * stands for frames that are missing. NULL: no frame could be read.
	 */
	char *text;
};

/* 0 or negative errno: then some texts may be missing. */
int unwind__threads(pid_t pid, struct unwind_thread *threads, uint32_t cnt);

#endif /* CODE_UNWIND_H */
