/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * May a thread with seccomp filters load the agent? Only if they let each system call through that the loader, the
 * agent's constructor and its thread make, or answer it with an error that these cope with. A filter that is
 * not understood, or whose answer hangs on what is not known beforehand, is a no.
 */
#ifndef INJECT_SECCOMP_CHECK_H
#define INJECT_SECCOMP_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "inject/seccomp_eval.h"

/* The filters, the oldest first. rseq: threads register for restartable sequences, and must be able to (glibc from
 * 2.35). 0; -EPERM: no (why: a sentence). */
int seccomp_check__progs(const struct seccomp_prog *progs, uint32_t cnt, bool rseq, char *why,
			 size_t cap);

/* The same for a thread that the caller traces and that is stopped; also other errors, where its filters cannot be
 * read. */
int seccomp_check__thread(pid_t tid, bool rseq, char *why, size_t cap);

/* The idx-th call that an injection, or the agent after it, makes or may make. *spare: any error will do. False:
 * there are no more. */
bool seccomp_check__call(uint32_t idx, struct seccomp_call *out, bool *spare);

#endif /* INJECT_SECCOMP_CHECK_H */
