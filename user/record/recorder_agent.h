/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Converts what agents send to records of the capture: checks and unpacks chunks, converts ticks to
 * CLOCK_MONOTONIC, finds the OperatorDef of operators, adds names to the capture. Trusts no byte of
 * a chunk: anything that can write into the target can forge one.
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
	bool tsc;           /* its ticks are those of the time stamp counter */
	int64_t schema_off; /* offset of the FunctionSchema in OperatorDef; negative: unknown */
	bool old_string_abi;
};

/* Accepts chunks from the process from now on. */
void recorder__agent(struct recorder *r, const struct agent_facts *facts);
struct agent_reported {    /* an agent's reports about itself; 0: none */
	uint32_t state;    /* PTB_AGENT_*, of its last STATE record */
	uint32_t ever;     /* PTB_AGENT_* of all its STATE records */
	uint32_t ops_why;  /* enum ptb_agent_why */
	uint32_t restarts; /* how often recording stopped and began again within the window */
};
struct agent_reported recorder__agent_reported(const struct recorder *r, pid_t pid);
/* Ends the agent's records. Those that wait for a clock pair are written with estimated times.
 * Returns the agent's last report: if its state has a bit of PTB_AGENT_SENDS, unsent records are
 * lost. */
struct agent_reported recorder__agent_end(struct recorder *r, pid_t pid);
/* Has the agent reported that it records nothing any more? It sends everything before that. */
bool recorder__agent_idle(const struct recorder *r, pid_t pid);
/* Keeps the Python stack of an operator until the agent's record of the operator comes. */
void recorder__agent_stack(struct recorder *r, const struct ptb_agent_stack *s);
/* Takes a chunk from a ring. */
void recorder__agent_data(struct recorder *r, const struct ptb_agent_data *d);
/* Writes chunks that were sent before drained_ns, when the reading of the rings began. Called
 * before a round ends. */
void recorder__agent_round(struct recorder *r, uint64_t drained_ns);
/* Writes the operators that began before since_ns and are still open, when what is
 * held is written. arg: struct recorder. */
void recorder__agents_open(void *arg, uint64_t since_ns);
/* id: PTB_CNT_AGENT_*, PTB_CNT_GPU_DROPPED. */
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
 * Converts an agent's ticks to CLOCK_MONOTONIC, linearly between the pairs that it sent. The
 * kernel's clock is a line of the time stamp counter, too, adjusted slightly at each tick.
 */
struct agent_clock {
	bool ns; /* ticks are ns of CLOCK_MONOTONIC */
	struct agent_clock_pair {
		uint64_t ticks, mono_ns;
	} * pairs; /* both fields rise */
	uint32_t cnt, cap;
	uint32_t at; /* the pair of the last conversion, likely also of the next */
};

struct agent_gpu {            /* of one process; zeroed: nothing yet */
	struct hashmap names; /* the agent's name ids -> the capture's */
	struct cupti_decoder decoder;
	uint64_t unknown;
};

struct agent_proc {
	uint32_t tgid;
	bool same_ns, old_string_abi;
	int64_t schema_off;
	struct agent_clock clock;
	uint32_t flushes; /* clock pairs in the window */
	struct agent_reported reported;
	uint64_t queued; /* bytes of its chunks in recorder.agent_queue */
	uint64_t now_ns; /* latest sending time of the chunks unpacked so far */
	/* tid in its pid namespace -> tid in ptbpf's; a thread that has ended keeps its own */
	struct hashmap tids;
	uint64_t tids_ns; /* when its threads were last read */
	/* time spent on reading them, less the share of the time since */
	uint64_t tids_debt_ns;
	/* (stream, 0): last number; (stream, 1): dropped; (stream, 2): missing; (stream, 3): least
	 * number of a Python stack */
	struct hashmap streams;
	/* an operator's number -> id of its Python stack, until its record comes */
	struct hashmap stacks;
	uint64_t facts_ns; /* begin of the second that `facts` counts */
	uint32_t facts;    /* records of clocks, devices and state in that second */
	struct agent_gpu gpu;
	char *held; /* chunks of operators that wait for a clock pair, from held_pos on */
	uint32_t held_pos, held_len, held_cap;
	bool clocked;            /* a clock pair has come since held chunks were last written */
	struct agent_opens open; /* open when the window begins */
	/* Open now, while records are held: the begin of an operator may be dropped before its end
	 * comes. */
	struct agent_opens now_open;
	/* the object that began last and ends with the next record, which is not in now_open */
	uint64_t ends_next;
};

void agent__count(struct recorder *r, uint32_t id, uint64_t n);
/* Counts a record beyond a limit. */
void agent__over(struct recorder *r);
/* May the agent send another record of clocks, devices or state in this second? Counts a
 * refusal. */
bool agent__fact_allowed(struct recorder *r, struct agent_proc *p);
/* Does the time lie after the sending of its chunk? */
bool agent__is_ahead(const struct agent_proc *p, uint64_t mono_ns);
uint32_t agent__tid(struct recorder *r, struct agent_proc *p, uint32_t tid);

/* ---- agent_ops.c ---- */
void agent_ops__record(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
		       const struct ptb_arec *a);
/* Writes what was open in the stream when the window began; stream 0: in all streams. */
void agent_ops__record_open(struct recorder *r, struct agent_proc *p, uint32_t stream);
/* Writes what began before since_ns, the window's begin, and is still open. */
void agent_ops__record_held(struct recorder *r, struct agent_proc *p, uint64_t since_ns);

void agent_open__clear(struct agent_opens *o);

/* 0; -EINVAL: the pair is not later than the last one and is ignored. */
int agent_clock__add(struct agent_clock *c, uint64_t ticks, uint64_t mono_ns);
/* Does a time lie between two pairs? */
bool agent_clock__covers(const struct agent_clock *c, uint64_t ticks);
/* Times outside all pairs are on the nearest line. 0: fewer than two pairs are known. */
uint64_t agent_clock__mono(struct agent_clock *c, uint64_t ticks);
void agent_clock__free(struct agent_clock *c);

/* ---- agent_gpu.c: GPU activity as records of the capture, in CUPTI's time ---- */
void agent_gpu__record(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
		       const struct ptb_arec *a);
void agent_gpu__clock(struct recorder *r, struct agent_proc *p, const struct ptb_arec_gpu_clock *k);
/* Counts in the capture what could not be recorded, after the agent's last record. */
void agent_gpu__end(struct recorder *r, struct agent_proc *p);
void agent_gpu__free(struct agent_gpu *g);

#endif /* RECORD_RECORDER_AGENT_H */
