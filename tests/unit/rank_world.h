/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Made-up captures of the ranks of one job: steps of a loader, an addition, a reduction for which all wait, and an optimizer. Each
 * machine has its own CLOCK_MONOTONIC, and a Unix time that may be wrong.
 */
#ifndef TESTS_RANK_WORLD_H
#define TESTS_RANK_WORLD_H

#include "capture_builder.h"

#define RW_MS 1000000ULL
#define RW_UNIX 1790000000000000000ULL /* when the job begins */
#define RW_STEPS 40
#define RW_STEP_NS (10 * RW_MS) /* of a rank that nothing delays, about */

struct rank_job {
	uint32_t ranks, steps;
	/* one of them is slow, from a step on: in its loader, in an operator, or in nothing that has a name */
	uint32_t slow, since;
	uint64_t loading_ns, op_ns, other_ns;
	bool no_optimizer; /* hence no steps */
};

struct rank_machine {
	const char *host, *boot;
	uint64_t mono_ns; /* when the job begins */
	int64_t wrong_ns; /* added to its Unix time */
	uint32_t pid;
};

/* Of a number another one, as if by chance. */
static inline uint32_t rank_world__mix(uint32_t x)
{
	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

/* The capture of the rank on that machine; its window leaves out the first `late` steps of the job. */
struct builder *rank_world__capture(const struct rank_job *job, const struct rank_machine *m,
				    uint32_t rank, uint32_t late);

#endif /* TESTS_RANK_WORLD_H */
