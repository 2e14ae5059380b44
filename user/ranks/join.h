/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Captures that are read as one session, on one time axis. Times become Unix time, as each
 * machine's clock pairs say; captures of one boot of one machine share CLOCK_MONOTONIC and need no
 * pairs among themselves. Collectives that several processes called check that, since none ends
 * before all have called. A single capture is read as it is.
 */
#ifndef RANKS_JOIN_H
#define RANKS_JOIN_H

#include <stdbool.h>
#include <stdint.h>

struct capture_reader;

struct join_opts {
	const char *const *paths;
	uint32_t cnt;
	const int *fds; /* the open files, which are taken */
	/* where collectives contradict a machine's clock, its times are moved */
	bool by_collectives;
};

/* 0 or negative errno, logged. */
struct join;
int join__open(const struct join_opts *opts, struct join **out);
struct capture_reader *join__reader(const struct join *j);
void join__close(struct join *j); /* NULL is fine */

#endif /* RANKS_JOIN_H */
