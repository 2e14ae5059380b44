/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Activities of GPUs, by CUPTI, for the agent's rounds; one thread at a time, a fork handler
 * excepted. Writes the control block's gpu_why, cupti_error, cupti_version and the state bits
 * CUPTI, GPU_ON, SYNC_ON and GRAPHS_ON.
 */
#ifndef CUPTI_AGENT_H
#define CUPTI_AGENT_H

#include <stdbool.h>
#include <stdint.h>

/* Is CUDA in use by now? Asks the driver, which may have to wait for a cuInit() under way: not
 * within a round. */
void cuda__check_in_use(void);

/*
 * requests: AGENT_REQUEST(GPU), with it SYNC and GRAPHS, which may differ from those of the last
 * call: enables what is requested. 0, or enum ptb_agent_why: then nothing is enabled, and it is
 * tried again with the next change (NO_CUDA, NO_CUPTI: with every tick). in_init: the caller is the
 * driver itself, within its cuInit(): it is in use, but not to be called; if that is too early, the
 * answer is NO_CUDA.
 */
int cupti__start(uint32_t requests, bool in_init);
/* Disables, flushes, gives back; all records are in streams when it returns, within half a
 * second. */
void cupti__stop(void);
/* Every PTB_AGENT_FLUSH_NS while started: flushes what is complete, a GPU_CLOCK pair. */
void cupti__tick(void);
/* In a forked child, from the fork handler: what is registered must do nothing from now on. */
void cupti__forked(void);

#endif /* CUPTI_AGENT_H */
