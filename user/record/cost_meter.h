/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Counts the hits of probes by process: a limit on their cost protects each process, and not their average. */
#ifndef RECORD_COST_METER_H
#define RECORD_COST_METER_H

#include <stdint.h>

#include "base/hashmap.h"

struct cost_meter {          /* zeroed: no hits */
	struct hashmap hits; /* by process */
	uint64_t cnt;        /* all */
	uint64_t nobodys;    /* of these, whose is not known */
	uint32_t tgid;       /* whose hits `run` are, not in the map yet */
	uint64_t run;
};

void cost_meter__clear(struct cost_meter *m);
/* The hits of a thread come one after the other, mostly: one comparison for most of them. */
static inline void cost_meter__hit(struct cost_meter *m, uint32_t tgid);
/* Brings cnt up to date. */
void cost_meter__settle(struct cost_meter *m);
/* The hits of one process. */
uint64_t cost_meter__of(struct cost_meter *m, uint32_t tgid);

static inline void cost_meter__hit(struct cost_meter *m, uint32_t tgid)
{
	if (tgid != m->tgid) {
		cost_meter__settle(m);
		m->tgid = tgid;
	}
	m->run++;
}

#endif /* RECORD_COST_METER_H */
