/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What agents send, made into the records of a capture: chunks are checked and unpacked, ticks become
 * CLOCK_MONOTONIC, operators get their OperatorDef, names become name ids of the capture. Trusts no byte of
 * a chunk: anything that can write into the target can forge one.
 */
#ifndef RECORD_RECORDER_AGENT_H
#define RECORD_RECORDER_AGENT_H

#include "record/recorder.h"
#include "ptb_agent.h"

struct agent_facts {
	pid_t pid;
	bool tsc;           /* its ticks are of the time stamp counter */
	int64_t schema_off; /* FunctionSchema in OperatorDef, negative: not known */
	bool old_string_abi;
};

/* From now on the process may send chunks. */
void recorder__agent(struct recorder *r, const struct agent_facts *facts);
struct agent_reported {    /* by an agent about itself; 0: nothing */
	uint32_t state;    /* PTB_AGENT_*, of its last STATE record */
	uint32_t ever;     /* PTB_AGENT_* of all its STATE records */
	uint32_t ops_why;  /* enum ptb_agent_why */
	uint32_t restarts; /* operators were switched off and on again within the window */
};
struct agent_reported recorder__agent_reported(const struct recorder *r, pid_t pid);
/* Ends the agent's records: those that wait for a clock are written with the times that are known. Returns
 * what the agent reported last: with one of PTB_AGENT_SENDS in it, records that it had not sent are lost. */
struct agent_reported recorder__agent_end(struct recorder *r, pid_t pid);
/* Has the agent reported that it records nothing any more? It sends all that it has before that. */
bool recorder__agent_idle(const struct recorder *r, pid_t pid);
/* Keeps the Python stack of an operator until the agent's record of the operator comes. */
void recorder__agent_stack(struct recorder *r, const struct ptb_agent_stack *s);
/* Takes a chunk from a ring. */
void recorder__agent_data(struct recorder *r, const struct ptb_agent_data *d);
/* Writes, before a round ends, what agents sent before drained_ns, when the reading of the rings began. */
void recorder__agent_round(struct recorder *r, uint64_t drained_ns);
/* The capture is no longer held: writes the operators that began before since_ns and are still open.
 * arg: struct recorder. */
void recorder__agents_open(void *arg, uint64_t since_ns);
/* enum ptb_counter_id AGENT_*, GPU_DROPPED. */
uint64_t recorder__agent_counter(const struct recorder *r, uint32_t id);
bool recorder__agent_gpu(const struct recorder *r); /* Has an agent sent activity of a GPU? */
void recorder__agents_free(struct recorder *r);

#endif /* RECORD_RECORDER_AGENT_H */
