/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which events in a process open a window: the list of --open-on. */
#ifndef SAMPLE_EVENT_RULES_H
#define SAMPLE_EVENT_RULES_H

#include <stdbool.h>
#include <stdint.h>

#define EVENT_NAME_MAX 256

struct event_rules {    /* zeroed: none */
	double slow;    /* a step takes so many times the median; 0: not one of them, as below */
	uint64_t grows; /* resident bytes */
	uint64_t hang_ns;
	char annotation[EVENT_NAME_MAX]; /* its whole name */
	bool oom; /* an allocator of torch reports that it is out of memory */
};

/* "slow=1.5x,grows=1GiB,annotation=NAME,hang=60s,oom", each at most once. 0 or -EINVAL (reported). */
int event_rules__parse(const char *text, struct event_rules *rules);

#endif /* SAMPLE_EVENT_RULES_H */
