/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What protects the machine where the kernel may keep ptbpf waiting. */
#ifndef BASE_GUARDS_H
#define BASE_GUARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Reads of other processes' memory that nobody answers. A page that is mapped from FUSE is served
 * by a process of whoever mounted the file system. A thread that waits for one which does not
 * answer handles no signal and survives SIGKILL, until the server ends (Linux fs/fuse/dev.c,
 * request_wait_answer()). So another thread watches the reads of its process. Where one takes
 * longer than STALL_S, or longer than a second after a signal that is to end the program, it closes
 * all descriptors, so that no probe stays in any process, and ends its process, of which then
 * nothing but the waiting thread and its memory remains.
 */

#define STALL_S 10 /* longer than to read pages that were swapped out to a slow disk */
#define STALL_TEXT 80

/* Starts the thread, and the process that watches links: once in a process, and again in one that
 * it forks. exit_code: of the process that is ended. Without it nothing is watched (reported). */
void stall__watch(int exit_code);
/* Around a read (proc_read.h), by one thread at a time; pid: of the process whose memory it is, -1:
 * not known. */
void stall__begin(pid_t pid);
void stall__end(void);
/*
 * Before it ends its process, it writes {"event": "stuck", "pid": 4242} to fd; pid -1: not known.
 * The process may remain for as long as nobody answers, so whoever started it is not to wait for
 * it.
 */
void stall__tell(int fd);
/* "a read of the memory of pid 4242 is not answered", or "of a process" where it is not known.
 * Returns buf. */
const char *stall__text(pid_t pid, char *buf, size_t cap);

/*
 * While the kernel sets or removes a probe, every fork of the machine waits, and it takes the lock
 * of the memory of each process that maps the file (kernel/events/uprobes.c,
 * register_for_each_vma()). A process of any user can hold its own as long as it likes: it reads a
 * page of a FUSE file through /proc/self/mem, and its server does not answer. So a process that
 * exists before the first probe, and that a SIGKILL of ptbpf does not end, watches these system
 * calls. Where one does not get on, it aborts the connections of FUSE that users other than root
 * have made and whose requests wait for an answer.
 */

/* Before this process has probes: it is watched, by the process that watches the one which has
 * forked it, or by a new one. Failures are reported. */
void link_guard__start(void);
/* Around a system call that sets or removes probes, on the thread that makes it. They take no
 * lock. */
int link_guard__begin(void);
void link_guard__end(int slot);
/* The connection of FUSE of this number is of a user other than root, and its requests wait for an
 * answer. */
bool link_guard__waits(uint32_t connection);
/* Now, for another reason. */
void link_guard__abort(void);

#endif /* BASE_GUARDS_H */
