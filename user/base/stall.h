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

/* ---- in a process that has others record ---- */

/* Before it forks them: what they find is known here, too. 0 or -ENOMEM. */
int stall__share(void);
/* When a read of the memory of pid was given up (CLOCK_MONOTONIC), the last time; 0: never. */
uint64_t stall__given_up(pid_t pid);
/* The process a read of whose memory this child has given up, so that it may never end; -1: not known which, 0: it has not. */
pid_t stall__stuck_on(pid_t child);
/* "a read of the memory of pid 4242 is not answered", for a pid of stall__stuck_on(). Returns buf. */
const char *stall__text(pid_t pid, char *buf, size_t cap);
/* waitpid(). -EAGAIN: it is stuck, and is left alone. */
int stall__wait(pid_t child, int *status);

#endif /* BASE_STALL_H */
