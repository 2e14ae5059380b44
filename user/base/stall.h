/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reads of other processes' memory that nobody answers. A page that is mapped from FUSE is served by a process of whoever mounted the file
 * system. A thread that waits for one which does not answer handles no signal and survives SIGKILL, until the server ends (Linux fs/fuse/dev.c,
 * request_wait_answer()). So another thread watches the reads of its process. Where one takes longer than STALL_S, or longer than a second after a
 * signal that is to end the program, it closes all descriptors, so that no probe stays in any process, and ends its process, of which then nothing but
 * the waiting thread and its memory remains.
 */
#ifndef BASE_STALL_H
#define BASE_STALL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define STALL_S 10 /* longer than to read pages that were swapped out to a slow disk */
#define STALL_TEXT 80

/* Starts the thread, and the process of link_guard.h: once in a process, and again in one that it forks. exit_code: of the process that is ended. Without it nothing is watched (reported). */
void stall__watch(int exit_code);
/* Around a read (proc_read.h), by one thread at a time; pid: of the process whose memory it is, -1: not known. */
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

#endif /* BASE_STALL_H */
