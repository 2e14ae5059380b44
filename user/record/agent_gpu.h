/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What agents send of GPUs, made into the capture's records, in CUPTI's time, which the session relates. */
#ifndef RECORD_AGENT_GPU_H
#define RECORD_AGENT_GPU_H

#include "base/hashmap.h"
#include "cupti/cupti_decode.h"
#include "ptb_agent.h"

struct recorder;
struct agent_proc;

struct agent_gpu {            /* of a process; a zeroed struct is a new one */
	struct hashmap names; /* the agent's name ids -> the capture's */
	struct cupti_decoder decoder;
	uint64_t unknown, incomplete; /* records */
};

void agent_gpu__record(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
		       const struct ptb_arec *a);
void agent_gpu__clock(struct recorder *r, struct agent_proc *p, const struct ptb_arec_gpu_clock *k);
/* No more come: what could not be recorded is counted in the capture. */
void agent_gpu__end(struct recorder *r, struct agent_proc *p);
void agent_gpu__free(struct agent_gpu *g);

#endif /* RECORD_AGENT_GPU_H */
