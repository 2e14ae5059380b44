/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Samples that say which operator was open: only where the process's agent keeps that. */
#ifndef RECORD_TARGET_OPEN_H
#define RECORD_TARGET_OPEN_H

#include "record/targets.h"

/* Requests it of the agent, if it has one and torch; else target_open__follow() does when there is. */
void target_open__begin(struct targets *ts, struct target *t, const struct torch_proc *tp);
/* For sampled processes, in each round. */
void target_open__follow(struct targets *ts, struct target *t);

#endif /* RECORD_TARGET_OPEN_H */
