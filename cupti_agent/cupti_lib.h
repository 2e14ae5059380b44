/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The process's CUDA driver and its CUPTI: found, never guessed; nothing is called that would start CUDA in a
 * process that does not use it, and no CUPTI is loaded into such a process.
 */
#ifndef CUPTI_LIB_H
#define CUPTI_LIB_H

#include "agent.h"
#include "cupti_layout.h"

struct stream;

/* libcuda is here and its cuInit() was called: CUPTI may be called. 13.2's calls itself forever without a driver. */
bool cuda__in_use(void);
/* One GPU_DEVICE record each, names before them. */
void cuda__tell_devices(void);

/* 0: api is filled and *version is what it says; else enum ptb_agent_why. Remembers what it has opened. */
int cupti_lib__open(struct cupti_api *api, uint32_t *version);

/*
 * Where this CUPTI keeps the pair of functions that get activity buffers: two words in its own writable data,
 * beside each other in all versions looked at. That is how the agent knows whose they are.
 */
struct cupti_slot {
	const uintptr_t *words; /* NULL: not found */
	uintptr_t before[2];    /* what was in them before */
};
/* The writable data before the pair is registered; NULL: no memory. */
void *cupti_slot__snapshot(const struct cupti_api *api, size_t *bytes);
/* After it: finds the pair, and what was there. Gives the snapshot back. */
void cupti_slot__find(struct cupti_slot *slot, const struct cupti_api *api, const uintptr_t pair[2],
		      void *snapshot, size_t bytes);

#endif /* CUPTI_LIB_H */
