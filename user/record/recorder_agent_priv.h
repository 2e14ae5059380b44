/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What recorder_agent.c, agent_ops.c and agent_gpu.c share; for them only. */
#ifndef RECORD_RECORDER_AGENT_PRIV_H
#define RECORD_RECORDER_AGENT_PRIV_H

#include "base/hashmap.h"
#include "record/agent_clock.h"
#include "record/agent_gpu.h"
#include "record/recorder_agent.h"
#include "record/recorder_priv.h"

/* Rings of the capture that hold what agents sent: beyond those of the kernel. */
#define AGENT_RING_OPS 1024
#define AGENT_RING_GPU 1025

struct agent_open { /* began before the window and has not ended */
	uint32_t stream;
	uint64_t rf;
	struct ptb_rf_begin *rec;
};

struct agent_proc {
	uint32_t tgid;
	bool same_ns, old_string_abi;
	int64_t schema_off;
	struct agent_clock clock;
	uint32_t flushes; /* pairs of clocks of the window */
	struct agent_reported reported;
	uint64_t now_ns;     /* when the chunk in hand was sent */
	struct hashmap tids; /* number in its own pid namespace -> ours */
	struct hashmap streams; /* (stream, 0): last number; (stream, 1): dropped; (stream, 2): missing */
	uint64_t facts_ns; /* when the second began in which so many ... */
	uint32_t facts;    /* ... records of clocks, devices and state came */
	struct agent_gpu gpu;
	char *held; /* chunks of operators that wait for a clock */
	uint32_t held_len, held_cap;
	struct agent_open *open;
	uint32_t open_cnt, open_cap;
};

void agent__count(struct recorder *r, uint32_t id, uint64_t n);
/* Something of an agent that is beyond its limit. */
void agent__over(struct recorder *r);
/* May another record of its clocks, devices or state be taken now? No: counted. */
bool agent__fact_allowed(struct recorder *r, struct agent_proc *p);
uint32_t agent__tid(struct agent_proc *p, uint32_t tid);

/* ---- agent_ops.c ---- */
void agent_ops__record(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
		       const struct ptb_arec *a);
/* Writes what was open when the window began; of one stream, 0: of all. */
void agent_ops__record_open(struct recorder *r, struct agent_proc *p, uint32_t stream);

#endif /* RECORD_RECORDER_AGENT_PRIV_H */
