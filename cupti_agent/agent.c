/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The agent's life in its host process: the control block, the thread that looks at the semaphores, forks.
 * Never blocks, prints, exits or throws; does nothing until a tracer wishes something.
 */
#include "ptb_agent.h"

__attribute__((visibility("default"))) struct ptb_agent_ctl ptbpf_agent_ctl = {
	.magic = "PTBAGEN", /* and the last letter by the constructor: only a live agent has it whole */
	.abi = PTB_AGENT_ABI,
	.size = sizeof(struct ptb_agent_ctl),
};
