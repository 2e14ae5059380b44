/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * May this stopped thread call dlopen() now, as a signal handler would that is allowed to? Decides on what it
 * is shown: registers, the system call that was interrupted, the bytes of its stack. When in doubt: no.
 */
#ifndef INJECT_SAFE_POINT_H
#define INJECT_SAFE_POINT_H

#include <stdbool.h>
#include <sys/user.h>

#include "inject/target_code.h"

/* What becomes of a system call that was interrupted (Linux arch/x86/kernel/signal.c). */
enum call_fate {
	CALL_NONE,  /* not in one, or it is complete: nothing is to be done */
	CALL_AGAIN, /* made again with the same arguments: the same as what the kernel does */
	CALL_KERNEL, /* only the kernel can go on with it (a relative time limit): leave this thread alone */
};

struct blocked_call {
	long nr; /* -1: not in a system call */
	uint64_t args[6];
	bool on_pipe; /* its first argument is a pipe */
};

/* `result`: rax at the stop. */
enum call_fate safe_point__call_fate(const struct blocked_call *call, int64_t result);

/*
 * A thread that sleeps in this call: may it be stopped at all, and be of use? False where a stop would be seen
 * (EINTR from calls that the kernel never restarts) or the call cannot be made again.
 */
bool safe_point__may_stop(const struct blocked_call *call);
/*
 * After a stop that changes nothing else: is the call to be made again by hand? Either the stop made it fail with
 * EINTR; or the kernel would go on with restart_syscall, under which it cannot be seen any more which call it is.
 */
bool safe_point__make_again(const struct blocked_call *call, int64_t result);

struct thread_view {
	struct user_regs_struct regs;
	const uint8_t *code;  /* the two bytes before regs.rip */
	const uint8_t *stack; /* from regs.rsp up to the end of its mapping, or a part */
	size_t stack_sz;
	uint64_t mapped, room; /* bytes below rsp: in its mapping, and that it may grow to */
};

/* NULL: yes. Else why not now (static storage). */
const char *safe_point__refuse(const struct target_code *cp, const struct thread_view *tv);

#define SAFE_POINT_ROOM 131072  /* of stack, for the loader and constructors */
#define SAFE_POINT_MAPPED 24576 /* of it, for what is written there from outside */
#define SAFE_POINT_STACK_MAX (1u << 20)

#endif /* INJECT_SAFE_POINT_H */
