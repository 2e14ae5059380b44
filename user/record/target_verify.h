/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef RECORD_TARGET_VERIFY_H
#define RECORD_TARGET_VERIFY_H

#include "plan/lib_plan.h"
#include "target/torch_proc.h"

/*
 * Is every site of the plan in the process's libraries and in its memory? Before anything of the plan is used for
 * the process: names, offsets in its memory, the agent's configuration. 0; -ESTALE (logged); another negative errno.
 */
int target_verify(const struct torch_proc *tp, const struct torch_plan *plan);

#endif /* RECORD_TARGET_VERIFY_H */
