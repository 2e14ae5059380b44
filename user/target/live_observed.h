/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which operators torch's profiler never records. Private to target. */
#ifndef TARGET_LIVE_OBSERVED_H
#define TARGET_LIVE_OBSERVED_H

#include "target/live_ops.h"

/* Sets `unobserved` of the operators, `observed_known` and `observed_off`; names must be there already. */
void live_observed__find(pid_t pid, struct live_ops *lo);
/* The same at an offset that is known, 0: none. */
void live_observed__read(pid_t pid, struct live_ops *lo, uint32_t off);

#endif /* TARGET_LIVE_OBSERVED_H */
