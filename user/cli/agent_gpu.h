/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The agent's records of GPUs, into the capture as they come: in CUPTI's time, which the session relates. */
#ifndef CLI_AGENT_GPU_H
#define CLI_AGENT_GPU_H

#include "ptb_agent.h"

struct recorder;
struct agent_proc;

void agent_gpu__record(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
		       const struct ptb_arec *a);
void agent_gpu__clock(struct recorder *r, struct agent_proc *p, const struct ptb_arec_gpu_clock *k);

#endif /* CLI_AGENT_GPU_H */
