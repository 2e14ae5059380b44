/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Libraries whose analysis took long and failed: for an hour they are not analysed again, so that one of them costs its minutes once,
 * not for each process that maps it and in each window. Remembered in this process, and in those that it forks.
 */
#ifndef PLAN_PLAN_FAILURES_H
#define PLAN_PLAN_FAILURES_H

#include <stdint.h>

#include "plan/plan_key.h"

struct plan_failure {
	uint8_t digest[FILE_HASH_SZ];
	int32_t err;
	uint64_t until_ns; /* CLOCK_MONOTONIC */
};

/* The error; 0: none is known. */
int plan_failures__find(const struct plan_key *key, uint64_t now_ns);
/* The analysis failed after took_ns. */
void plan_failures__note(const struct plan_key *key, int err, uint64_t took_ns, uint64_t now_ns);
/* Those that were noted in this process, the last ones: for another one, which adds them. Returns how many. */
uint32_t plan_failures__own(struct plan_failure *out, uint32_t cap);
void plan_failures__add(const struct plan_failure *f);

#endif /* PLAN_PLAN_FAILURES_H */
