/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The registers of a process's threads, read without stopping them. */
#ifndef PROBE_THREAD_REGS_H
#define PROBE_THREAD_REGS_H

#include <stdint.h>
#include <sys/types.h>

#include "ptb_probe.h"

struct thread_regs; /* a loaded program, for one process */

/* 0 or negative errno (the kernel's: before Linux 6.1 there is no iterator over one process). */
int thread_regs__open(pid_t pid, struct thread_regs **out);
/* Of all threads as they are now. 0 and *rows (the caller's to free), *cnt; or negative errno. */
int thread_regs__read(const struct thread_regs *tr, struct ptb_thread_regs **rows, uint32_t *cnt);
void thread_regs__close(struct thread_regs *tr); /* NULL is fine */

#endif /* PROBE_THREAD_REGS_H */
