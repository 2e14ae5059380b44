/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Stops one thread, checks whether it is at a safe point, and if so starts its detour. The
 * thread is let go before this returns, whatever happened, and stands still for about a millisecond.
 *
 * When ptbpf is killed in the middle: before the registers are set (by one system call), the thread goes on as
 * if it had not been stopped; after that, it makes its detour alone. There is no state in between, with one
 * exception: threads that wait in epoll_wait() and other calls that the kernel never restarts are not stopped,
 * but one may enter such a call in the very moment of the stop. It has the call made again; if ptbpf is killed just
 * then, the call fails with EINTR.
 */
#ifndef INJECT_DIVERT_H
#define INJECT_DIVERT_H

#include <stdbool.h>
#include <sys/types.h>

#include "inject/target_code.h"

struct remote_mem;

enum divert_end {
	DIVERT_DONE,    /* its detour has begun */
	DIVERT_NOT_NOW, /* why: a sentence about the thread */
	DIVERT_GONE,    /* no such thread any more */
	DIVERT_REFUSED, /* never: err and why */
};

struct divert_req {
	pid_t pid, tid;
	int pidfd;                    /* of the job */
	const struct remote_mem *mem; /* likewise */
	const struct target_code *cp;
	const char *path;
	bool asleep_too; /* also out of a system call in which it waits: see ptrace_load.c */
	bool only_filters; /* no detour: DIVERT_DONE means that its seccomp filters would let the library be loaded */
	/* results */
	enum divert_end end;
	int err;
	const char *why;
	char text[192];      /* for why */
	uint64_t own_mask;   /* DIVERT_DONE */
	uint64_t stopped_ns; /* how long it was stopped, at most */
};

/* Fills the results. Runs in a thread of its own, so that even one that does not stop is let go. */
void divert__try(struct divert_req *req);

/* Has that thread returned from its detour, or ended? */
bool divert__is_over(pid_t pid, pid_t tid, uint64_t own_mask);

#endif /* INJECT_DIVERT_H */
