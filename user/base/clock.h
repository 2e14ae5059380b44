/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Clock readings, all in ns. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t clock__mono_ns(void);              /* CLOCK_MONOTONIC, what bpf_ktime_get_ns() reads */
uint64_t clock__cpu_ns(void);               /* processor time of this process */
uint64_t clock__cpu_ns_with_children(void); /* and of those of its children that have ended */

struct clock_pair {
	uint64_t mono_ns, real_ns;
	uint64_t err_ns; /* half the distance of the two monotonic readings around the other */
};
/* Best of a few two-sided readings. */
struct clock_pair clock__pair(void);

#endif /* BASE_CLOCK_H */
