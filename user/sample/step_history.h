/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The last steps of one thread, and whether another one took unusually long. Times in ns; knows no clock and no process. */
#ifndef SAMPLE_STEP_HISTORY_H
#define SAMPLE_STEP_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#define STEP_HISTORY_MAX 50 /* steps that are kept */
#define STEP_HISTORY_MIN 10 /* of them, before a step can be slow */
#define STEP_SLOW_NS                                                                               \
	100000000ULL /* that a slow step takes more than the median: less is what any machine's scheduler does */

struct step_history { /* zeroed: empty */
	uint64_t ns[STEP_HISTORY_MAX];
	uint32_t cnt, next;
};

/* Of what is kept, the mean of the two in the middle of an even number; 0: nothing is. */
uint64_t step_history__median(const struct step_history *h);
/*
 * Did this step, which is not in the history yet, take more than `factor` times the median, STEP_SLOW_NS more than that, and longer than each step
 * that is kept? The last, because steps of many jobs differ by more than that as a rule: some evaluate, some write a checkpoint.
 */
bool step_history__is_slow(const struct step_history *h, uint64_t ns, double factor);
void step_history__add(struct step_history *h, uint64_t ns);

#endif /* SAMPLE_STEP_HISTORY_H */
