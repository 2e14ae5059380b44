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

/* Chunks of this process are expected from now on. */
void recorder__agent(struct recorder *r, const struct agent_facts *facts);
struct agent_reported {    /* by an agent of itself; 0: nothing */
	uint32_t state;    /* PTB_AGENT_*, as its last STATE record says */
	uint32_t ever;     /* bits that any of them had */
	uint32_t ops_why;  /* enum ptb_agent_why */
	uint32_t restarts; /* operators were switched off and on again within the window */
};
struct agent_reported recorder__agent_reported(const struct recorder *r, pid_t pid);
/* No more come: what is held back is written as well as it can be. Returns what it reported last: while it has one of
 * PTB_AGENT_SENDS, what it had not sent yet is missing. */
struct agent_reported recorder__agent_end(struct recorder *r, pid_t pid);
/* Has it reported that it records nothing any more? What it had was sent before that. */
bool recorder__agent_idle(const struct recorder *r, pid_t pid);
/* An AGENT_DATA record from a ring. */
/* A Python stack of an operator that an agent records; kept until the operator's record comes. */
void recorder__agent_stack(struct recorder *r, const struct ptb_agent_stack *s);
void recorder__agent_data(struct recorder *r, const struct ptb_agent_data *d);
/* Before a round ends: takes what was sent before drained_ns, when the draining of the rings began. */
void recorder__agent_round(struct recorder *r, uint64_t drained_ns);
/* Records are not held any more but written, from since_ns on; before them what was begun earlier and is open still. arg: struct recorder. */
void recorder__agents_open(void *arg, uint64_t since_ns);
/* enum ptb_counter_id AGENT_*, GPU_DROPPED. */
uint64_t recorder__agent_counter(const struct recorder *r, uint32_t id);
bool recorder__agent_gpu(const struct recorder *r); /* some activity of a GPU came */
void recorder__agents_free(struct recorder *r);

#endif /* RECORD_RECORDER_AGENT_H */
