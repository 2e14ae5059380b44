/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Several captures as one, on one time axis. Times become Unix time, as each machine's clock pairs say; captures of one boot of one
 * machine share CLOCK_MONOTONIC and need no pairs among themselves. Collectives that several processes called check that, since
 * none ends before all have called.
 */
#ifndef RANKS_MERGE_H
#define RANKS_MERGE_H

#include <stdbool.h>
#include <stdint.h>

struct merge_opts {
	const char *const *paths;
	uint32_t path_cnt;
	const char *output;
	bool by_collectives; /* where collectives contradict a machine's clock, its times are moved */
};

/* 0, or negative errno, logged: nothing is written then. *left_out: records that have no place in the new capture. */
int merge__run(const struct merge_opts *opts, uint64_t *left_out);

#endif /* RANKS_MERGE_H */
