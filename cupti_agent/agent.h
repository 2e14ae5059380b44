/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the agent's files share: the control block and the requests. ptbpf_agent_ctl's state, whys
 * and versions are written by the agent's thread alone (a forked child's fork handler excepted); it
 * sends a STATE record by itself whenever they have changed, after each round of its loop.
 */
#ifndef AGENT_H
#define AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "ptb_agent.h"

#define AGENT_HIDDEN __attribute__((visibility("hidden")))
#define AGENT_REQUEST(site) (1u << PTB_AGENT_SITE_##site)

/* Protected: a second copy of the library must not write into the first one's. */
extern struct ptb_agent_ctl ptbpf_agent_ctl __attribute__((visibility("protected")));

/* 0 while no tracer listens at the chunk site. */
bool agent__listening(void);

/* Of ptbpf_agent_ctl.state. */
static inline void agent__set_state(uint32_t bits, bool on)
{
	ptbpf_agent_ctl.state = (ptbpf_agent_ctl.state & ~bits) | (on ? bits : 0);
}

/* CLOCK_MONOTONIC, ns */
uint64_t agent__mono_ns(void);

/* The stream of kind STATE, for the agent's thread (GPU_CLOCK records); sent after each round. */
struct stream *agent__state_stream(void);

#endif /* AGENT_H */
