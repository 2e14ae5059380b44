/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A library with the agent's sites, semaphores and control block, that sends on command. */
#ifndef TESTS_FAKE_AGENT_H
#define TESTS_FAKE_AGENT_H

#include <stddef.h>
#include <stdint.h>

void fake_agent__send(const void *chunk, size_t len); /* the site "chunk" */
uint32_t fake_agent__semaphores(void); /* bits 1 << enum ptb_agent_site: those above 0 */

#endif /* TESTS_FAKE_AGENT_H */
