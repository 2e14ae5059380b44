/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What agents send, made into the records of a capture: chunks are checked and unpacked, ticks
 * become CLOCK_MONOTONIC, operators get their OperatorDef, names become name ids of the capture.
 * Trusts no byte of a chunk: anything that can write into the target can forge one.
 */
#ifndef RECORD_RECORDER_AGENT_H
#define RECORD_RECORDER_AGENT_H

#include "base/containers.h"
#include "cupti/cupti_decode.h"
#include "ptb_agent.h"
#include "record/recorder.h"
#include "record/recorder_priv.h"

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
/* Ends the agent's records: those that wait for a clock are written with the times that are known.
 * Returns what the agent reported last: with one of PTB_AGENT_SENDS in it, records that it had not
 * sent are lost. */
struct agent_reported recorder__agent_end(struct recorder *r, pid_t pid);
/* Has the agent reported that it records nothing any more? It sends all that it has before that. */
bool recorder__agent_idle(const struct recorder *r, pid_t pid);
/* Keeps the Python stack of an operator until the agent's record of the operator comes. */
void recorder__agent_stack(struct recorder *r, const struct ptb_agent_stack *s);
/* Takes a chunk from a ring. */
void recorder__agent_data(struct recorder *r, const struct ptb_agent_data *d);
/* Writes, before a round ends, what agents sent before drained_ns, when the reading of the rings
 * began. */
void recorder__agent_round(struct recorder *r, uint64_t drained_ns);
/* The capture is no longer held: writes the operators that began before since_ns and are still
 * open. arg: struct recorder. */
void recorder__agents_open(void *arg, uint64_t since_ns);
/* enum ptb_counter_id AGENT_*, GPU_DROPPED. */
uint64_t recorder__agent_counter(const struct recorder *r, uint32_t id);
bool recorder__agent_gpu(const struct recorder *r); /* Has an agent sent activity of a GPU? */
void recorder__agents_free(struct recorder *r);

/* Shared by recorder_agent.c and agent_*.c only. */

/* Rings of the capture for agents' records; the kernel's rings have lower numbers. */
#define AGENT_RING_OPS 1024
#define AGENT_RING_GPU 1025

struct agent_open { /* an operator or annotation that has begun and not ended */
	struct agent_open *prev[2], *next[2];
	uint32_t stream;
	struct ptb_rf_begin rec; /* followed by its text and values */
};

struct agent_opens { /* a zeroed struct is an empty one */
	struct hashmap ids;
	uint32_t cnt;
	uint64_t bytes;
};

/*
 * An agent's ticks as CLOCK_MONOTONIC: straight lines between the pairs that it sent. The kernel's
 * clock is itself such a line of the time stamp counter, bent a little at each of its ticks.
 */
struct agent_clock {
	bool ns; /* ticks are ns of CLOCK_MONOTONIC */
	struct agent_clock_pair {
		uint64_t ticks, mono_ns;
	} * pairs; /* rising in both */
	uint32_t cnt, cap;
	uint32_t at; /* pair of the last conversion; the next one is probably there, too */
};

struct agent_gpu {            /* of a process; a zeroed struct is a new one */
	struct hashmap names; /* the agent's name ids -> the capture's */
	struct cupti_decoder decoder;
	uint64_t unknown; /* records */
};

struct agent_proc {
	uint32_t tgid;
	bool same_ns, old_string_abi;
	int64_t schema_off;
	struct agent_clock clock;
	uint32_t flushes; /* pairs of clocks in the window */
	struct agent_reported reported;
	uint64_t queued; /* bytes of its chunks in recorder.agent_queue */
	uint64_t now_ns; /* when the last chunk was sent that has been taken */
	/* tid in its pid namespace -> our tid; the same for a thread that had ended */
	struct hashmap tids;
	uint64_t tids_ns; /* when its threads were last read */
	/* time that reading them has cost, less the share that has passed since */
	uint64_t tids_debt_ns;
	/* (stream, 0): last number; 1: dropped; 2: missing; 3: least number of a Python stack */
	struct hashmap streams;
	/* operator's number -> id of its Python stack, until its record comes */
	struct hashmap stacks;
	uint64_t facts_ns; /* when the second began in which so many ... */
	uint32_t facts;    /* ... records of clocks, devices and state came */
	struct agent_gpu gpu;
	char *held; /* chunks of operators that wait for a clock, from held_pos on */
	uint32_t held_pos, held_len, held_cap;
	bool clocked;            /* a pair of clocks has come since they were last written */
	struct agent_opens open; /* open when the window begins */
	/* Open now, while records are held: the begin of one may be dropped before its end
	 * comes. */
	struct agent_opens now_open;
	/* object that began last and ends with the next record: not in now_open */
	uint64_t ends_next;
};

void agent__count(struct recorder *r, uint32_t id, uint64_t n);
/* Counts what an agent sent beyond a limit. */
void agent__over(struct recorder *r);
/* May the agent send another record of clocks, devices or state in this second? If not, counts
 * it. */
bool agent__fact_allowed(struct recorder *r, struct agent_proc *p);
/* Does the time lie after the chunk that it came in was sent? */
bool agent__is_ahead(const struct agent_proc *p, uint64_t mono_ns);
uint32_t agent__tid(struct recorder *r, struct agent_proc *p, uint32_t tid);

/* ---- agent_ops.c ---- */
void agent_ops__record(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
		       const struct ptb_arec *a);
/* Writes what was open in the stream when the window began; stream 0: in all. */
void agent_ops__record_open(struct recorder *r, struct agent_proc *p, uint32_t stream);
/* Writes what began before since_ns, when the window begins, and is still open. */
void agent_ops__record_held(struct recorder *r, struct agent_proc *p, uint64_t since_ns);

/* ---- agent_open.c ---- */
/* Keeps a copy of rec; replaces that of the same object. 0; -E2BIG: beyond a limit. */
int agent_open__add(struct agent_opens *o, uint32_t stream, const struct ptb_rf_begin *rec);
struct agent_open *agent_open__find(const struct agent_opens *o, uint64_t rf); /* NULL: none */
/* The one that began first in the stream; stream 0: in any. NULL: none. */
struct agent_open *agent_open__first(const struct agent_opens *o, uint32_t stream);
void agent_open__remove(struct agent_opens *o, struct agent_open *e);
void agent_open__clear(struct agent_opens *o);

/* ---- agent_clock.c ---- */
/* 0; -EINVAL: the pair is not later than the last one, and is ignored. */
int agent_clock__add(struct agent_clock *c, uint64_t ticks, uint64_t mono_ns);
/* Does a time lie between two pairs? */
bool agent_clock__covers(const struct agent_clock *c, uint64_t ticks);
/* Times outside of all pairs are on the nearest line. 0: fewer than two pairs are known. */
uint64_t agent_clock__mono(struct agent_clock *c, uint64_t ticks);
void agent_clock__free(struct agent_clock *c);

/* ---- agent_gpu.c: GPU activity as records of the capture, in CUPTI's time ---- */
void agent_gpu__record(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
		       const struct ptb_arec *a);
void agent_gpu__clock(struct recorder *r, struct agent_proc *p, const struct ptb_arec_gpu_clock *k);
/* The agent's records have ended: counts in the capture what could not be recorded. */
void agent_gpu__end(struct recorder *r, struct agent_proc *p);
void agent_gpu__free(struct agent_gpu *g);

#endif /* RECORD_RECORDER_AGENT_H */
