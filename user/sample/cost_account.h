/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What windows have cost each process, as long as it lives (--max-overhead): so the one that costs
 * much has shorter windows, or none, and no other has. A process is known by its pid and start.
 */
#ifndef SAMPLE_COST_ACCOUNT_H
#define SAMPLE_COST_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define COST_ACCOUNT_MAX 4096 /* processes; the one that was charged least recently is forgotten */

struct cost_account { /* zeroed: empty */
	struct cost_row {
		pid_t pid;
		uint64_t start; /* clock ticks since boot; 0: not known */
		double spent_ns;
		bool over;     /* it has ended a window, or its part in one, before its time */
		uint64_t used; /* charges of all when it was charged last */
	} * rows;
	uint32_t cnt, cap;
	uint64_t charges;
};

/* Zeroes: nothing has been charged yet. Valid until the next charge. */
struct cost_row cost_account__of(const struct cost_account *a, pid_t pid, uint64_t start);
void cost_account__charge(struct cost_account *a, pid_t pid, uint64_t start, double ns, bool over);
double cost_account__max_ns(const struct cost_account *a); /* of one process */
void cost_account__clear(struct cost_account *a);

#endif /* SAMPLE_COST_ACCOUNT_H */
