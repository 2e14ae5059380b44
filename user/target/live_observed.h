/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which operators torch's profiler never records. Private to target. */
#ifndef TARGET_LIVE_OBSERVED_H
#define TARGET_LIVE_OBSERVED_H

#include "target/torch_proc.h"

/* Sets `unobserved` of the operators and `observed_known`; names must be there already. */
void live_observed__find(pid_t pid, struct live_ops *lo);

#endif /* TARGET_LIVE_OBSERVED_H */
