/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * While the kernel sets or removes a probe, every fork of the machine waits, and it takes the lock of the memory of each process that maps the file
 * (kernel/events/uprobes.c, register_for_each_vma()). A process of any user can hold its own as long as it likes: it reads a page of a FUSE file through
 * /proc/self/mem, and its server does not answer. So a process that exists before the first probe, and that a SIGKILL of ptbpf does not end, watches these system
 * calls. Where one does not get on, it aborts the connections of FUSE that users other than root have made and whose requests wait for an answer.
 */
#ifndef BASE_LINK_GUARD_H
#define BASE_LINK_GUARD_H

#include <stdbool.h>
#include <stdint.h>

/* Before this process has probes: it is watched, by the process that watches the one which has forked it, or by a new one. Failures are reported. */
void link_guard__start(void);
/* Around a system call that sets or removes probes, on the thread that makes it. They take no lock. */
int link_guard__begin(void);
void link_guard__end(int slot);
/* The connection of FUSE of this number is of a user other than root, and its requests wait for an answer. */
bool link_guard__waits(uint32_t connection);
/* Now, for another reason. */
void link_guard__abort(void);

#endif /* BASE_LINK_GUARD_H */
