/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Processes that `ptbpf sample` leaves out for an hour, because to inspect them takes what others need: by themselves, and by the file that they execute and
 * its user, since whoever wants to be in the way starts another one. A process is known by its pid and start, a file by device and inode, which stay when it is
 * written or touched.
 */
#ifndef SAMPLE_LEFT_OUT_H
#define SAMPLE_LEFT_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define LEFT_OUT_NS 3600000000000ULL
/* What it may take to read and attach to a process: less than what ends an analysis
 * (LIMIT_ELF_SPENT_MS). */
#define LEFT_OUT_CPU_NS 9500000000ULL
#define LEFT_OUT_WALL_NS 19000000000ULL /* a machine that is overloaded may be the reason */
#define LEFT_OUT_MAX 256                /* processes that are remembered; the oldest is forgotten */
#define LEFT_OUT_STRIKES 2              /* of a process */
#define LEFT_OUT_OF_FILE                                                                           \
	2 /* left-out processes of a user that execute one file, then the others that do, too */
#define LEFT_OUT_OF_USER 8 /* likewise, of one that is not root, then all of that user */

struct proc_id {
	pid_t pid;
	uid_t uid;
	uint64_t start;    /* clock ticks since boot; 0: it is held, and known by its pid */
	uint64_t dev, ino; /* of what it executes; ino 0: not known */
};

struct left_out { /* zeroed: empty */
	struct left_out_row {
		struct proc_id id;
		uint32_t strikes;
		uint64_t ns; /* of the last one, CLOCK_MONOTONIC */
	} rows[LEFT_OUT_MAX];
	uint32_t cnt;
};

/* True: it is left out from now on, and was not before. */
bool left_out__add(struct left_out *lo, const struct proc_id *id, uint32_t strikes, uint64_t now_ns);
bool left_out__has(const struct left_out *lo, const struct proc_id *id, uint64_t now_ns);

#endif /* SAMPLE_LEFT_OUT_H */
