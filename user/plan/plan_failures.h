/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Libraries whose analysis took long and failed: for an hour they are not analysed again, so that one of them costs its minutes once,
 * not for each process that maps it. Remembered in this process.
 */
#ifndef PLAN_PLAN_FAILURES_H
#define PLAN_PLAN_FAILURES_H

#include <stdint.h>

#include "plan/plan_key.h"

/* The error; 0: none is known. */
int plan_failures__find(const struct plan_key *key, uint64_t now_ns);
/* The analysis failed after took_ns. */
void plan_failures__note(const struct plan_key *key, int err, uint64_t took_ns, uint64_t now_ns);

#endif /* PLAN_PLAN_FAILURES_H */
