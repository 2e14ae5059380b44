/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The process's CUDA driver and its CUPTI: found, never guessed; nothing is called that would start
 * CUDA in a process that does not use it, and no CUPTI is loaded into such a process.
 */
#ifndef CUPTI_LIB_H
#define CUPTI_LIB_H

#include "agent.h"
#include "cupti_api.h"

/* Did cuda__check_in_use() (cupti.h) find a driver whose cuInit() was called? Then CUPTI may be
 * called; that of 13.2 calls itself forever without a driver. */
bool cuda__in_use(void);
/* One GPU_DEVICE record each, names before them; asks the driver. */
void cuda__report_devices(void);

/* 0: api is filled and *version is what it says; else enum ptb_agent_why. Remembers what it has
 * opened. */
int cupti_lib__open(struct cupti_api *api, uint32_t *version);

/*
 * Where this CUPTI keeps the pair of functions that get activity buffers: two words in its own
 * writable data, beside each other in all versions inspected. That is how the agent knows whose
 * they are.
 */
struct cupti_pair {
	cupti_request_fn request;
	cupti_complete_fn complete;
};
struct cupti_slot {
	const struct cupti_pair *at; /* NULL: not found */
	struct cupti_pair before;    /* what was there before */
};
/* Registers the pair, and finds its address and what was there. Returns CUPTI's result. */
int cupti_slot__register(struct cupti_slot *slot, const struct cupti_api *api,
			 const struct cupti_pair *pair);

#endif /* CUPTI_LIB_H */
