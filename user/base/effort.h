/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What reading one foreign file may cost, in proportion to its size (LIMIT_READ_*): steps of work, and memory.
 * Code whose work or memory a file controls beyond its own length adds what it does; a pass that can end
 * early without harm checks, ends, and reports that. A thread reads one file at a time, and has its own account;
 * without effort__begin() nothing is limited.
 */
#ifndef BASE_EFFORT_H
#define BASE_EFFORT_H

#include <stdbool.h>
#include <stdint.h>

enum effort_end {
	EFFORT_GOES_ON,
	EFFORT_STEPS, /* more work than a file of this size may take */
	EFFORT_MEMORY, /* three quarters of the memory are taken: the rest is for what is there already */
};

/* From here on for a file of so many bytes. Memory beyond the whole limit is refused by the kernel (RLIMIT_DATA),
 * so that the process ends (base/mem.h); an existing lower limit stays. */
void effort__begin(uint64_t file_bytes);
void effort__end(void); /* no limits any more */

extern _Thread_local int64_t effort__left;       /* steps */
extern _Thread_local int64_t effort__unmeasured; /* bytes allocated since the memory was measured last */

/* A step is a few ns: one turn of a loop. */
static inline void effort__spend(uint64_t steps)
{
	effort__left -= (int64_t)steps;
}

static inline void effort__allocated(uint64_t bytes)
{
	effort__unmeasured += (int64_t)bytes;
}

/* May it go on? Cheap enough for each record, not for each step. */
enum effort_end effort__check(void);
/* Percent of the memory that are taken, 0 without a limit. As cheap. */
unsigned int effort__memory_share(void);

#endif /* BASE_EFFORT_H */
