/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The detour of a thread, as bytes for its stack: the frames of two signals that were never sent. The thread
 * calls dlopen(), as if it were a handler; dlopen() returns to libc's own rt_sigreturn, by which the kernel
 * sets the registers for a call that puts errno back, and that returns to rt_sigreturn once more, by which
 * the kernel puts back every register, the floating point and vector state and the signal mask. So there is no
 * code of ours in the process, nothing is patched or mapped, and ptbpf is not needed at the end:
 * once the thread's registers are set, it returns by itself.
 */
#ifndef INJECT_SIG_FRAME_H
#define INJECT_SIG_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#include "inject/target_code.h"

#define SIG_FRAME_XSTATE_MAX 16384
#define SIG_FRAME_MARK_SZ 16
#define SIG_FRAME_MAX (SIG_FRAME_XSTATE_MAX + 4096 + 2048)

struct detour_in {
	struct user_regs_struct regs; /* of the thread as it was stopped */
	bool call_again;              /* its system call was interrupted: it makes it again */
	uint64_t sigmask;             /* the thread's own */
	const uint8_t *xstate;        /* NT_X86_XSTATE */
	size_t xstate_sz;
	uint32_t saved_errno;
	const char *path;                /* of the library, as the target names it */
	uint8_t mark[SIG_FRAME_MARK_SZ]; /* random: by it the block is recognized in the thread's memory */
};

struct detour {
	uint8_t bytes[SIG_FRAME_MAX]; /* for the stack at addr */
	size_t len;
	uint64_t addr;
	struct user_regs_struct regs; /* to start with */
	uint64_t sigmask; /* while it lasts; its last bit differs from the thread's own */
};

/* 0; -E2BIG: path or state too large; -ENOTSUP: a vector state that sigreturn would not take back. */
int sig_frame__build(const struct target_code *cp, const struct detour_in *in, struct detour *out);

#define SIG_FRAME_MARK (1ULL << 63) /* the bit of the mask that shows whether the detour lasts */

#endif /* INJECT_SIG_FRAME_H */
