/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process that is meant, and no later one with its pid. While the pidfd says that its process lives, everything
 * that was read and attached by pid since the pidfd was opened was that process's: so a hold is opened first and
 * checked last, before what was read is believed.
 */
#ifndef TARGET_PID_HOLD_H
#define TARGET_PID_HOLD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

int pid_hold__open(pid_t pid); /* a pidfd, to be closed, or negative errno */
bool pid_hold__alive(int fd);  /* its process has not ended; false for a negative fd */
/* For a pid that an event named some time ago; to be asked after pid_hold__open(), which may have come too late.
 * Was the process that has it started by then (CLOCK_MONOTONIC)? */
bool pid_hold__began_by(pid_t pid, uint64_t ns);
uint64_t pid_hold__began_ns(uint64_t start); /* CLOCK_MONOTONIC, of a start in clock ticks since boot */
bool pid_hold__ended(pid_t pid, uint64_t ns); /* has the one that had it then? */
bool pid_hold__has_parent(pid_t pid, pid_t parent);

#endif /* TARGET_PID_HOLD_H */
