/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Drives target_agent, and reads what the kernel does to the agent's semaphores in it. */
#ifndef TESTS_AGENT_TARGET_H
#define TESTS_AGENT_TARGET_H

#include "probe_target.h"
#include "target/torch.h"

struct agent_target {
	struct target t;
	struct agent_lib al;
	struct probe_agent pa;
	uint64_t semaphore[PTB_AGENT_SITE_CNT]; /* addresses */
};

/* Both abort the test program when that fails. */
void agent_target__start(struct agent_target *at, const char *path);
void agent_target__find(struct agent_target *at); /* again, after exec */
int agent_target__stop(struct agent_target *at);  /* wait status */

/* Bits 1 << enum ptb_agent_site of the semaphores above 0 in this process, which may be a fork. */
uint32_t semaphore_bits(const struct agent_target *at, pid_t pid);
/* Waits until they are these; false: they are not within the deadline. */
bool semaphores_become(const struct agent_target *at, pid_t pid, uint32_t bits);
void semaphore_set(const struct agent_target *at, uint32_t site, uint16_t value);

struct probe_set *open_agent_set(uint64_t ring_bytes, enum links links);
uint32_t add_agent_process(struct probe_set *ps, const struct agent_target *at); /* the process index */

/* Is it the chunk `seq` of `stream` as the target makes them? */
bool chunk_is(const struct ptb_agent_data *d, uint32_t stream, uint32_t seq);

#endif /* TESTS_AGENT_TARGET_H */
