/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of a join share: the captures, their machines, and what is known of their clocks. */
#ifndef RANKS_JOIN_PRIV_H
#define RANKS_JOIN_PRIV_H

#include "base/hashmap.h"
#include "base/job_vars.h"
#include "capture/capture.h"
#include "ranks/collectives.h"
#include "ranks/match.h"
#include "ranks/join.h"
#include "ranks/remap.h"

#define JOIN_TEXT_MAX 256

/* Clock pairs: CLOCK_MONOTONIC against Unix time. */
struct join_clock {
	uint32_t pairs;
	int64_t unix_ns;        /* to be added, by the pair that was read most narrowly */
	uint64_t err_ns;        /* half the width of that reading */
	int64_t min_ns, max_ns; /* what all of them say */
};

/* How far a time may be from the machine's Unix time: the reading, and how far other pairs are from it. How far that is from
 * the Unix time of other machines no pair says. */
uint64_t join_clock__bound(const struct join_clock *c);
/* A pair, in file order. */
void join_clock__add(struct join_clock *c, uint64_t mono_ns, uint64_t unix_ns, uint64_t err_ns);
/* The pairs of another capture of the same boot. */
void join_clock__join(struct join_clock *c, const struct join_clock *other);

struct join_process {
	uint32_t tgid;
	bool has_rank;
	struct job_rank rank;
};

/* A machine since its boot. */
struct join_machine {
	struct join_clock clock;
	uint32_t first; /* input */
	/* what collectives with processes of the first machine that has some allow to be added to its times */
	int64_t lo_ns, hi_ns;
	uint32_t pairs, bounds;
	bool contradicts; /* its clock, by more than the bounds of both */
	int64_t correction_ns;
};

struct join_input {
	const char *path;
	struct capture_reader *cr;
	char host[JOIN_TEXT_MAX], boot[64], pid_ns[32];
	uint64_t begin_ns, end_ns; /* its window, in its time */
	bool sealed;
	uint32_t stop_reason;
	struct join_clock clock;
	struct join_process *procs;
	uint32_t proc_cnt, proc_cap;
	struct hashmap proc_ids; /* tgid -> index in procs */
	uint32_t machine;
	uint32_t host_name; /* its id in the whole */
	uint64_t counters[256];
	bool has_counter[256];
	struct remap map;
};

struct join {
	const struct join_opts *opts; /* while it is opened */
	bool by_collectives;
	struct join_input *inputs;
	uint32_t cnt;
	struct join_machine *machines;
	uint32_t machine_cnt, machine_cap;
	struct collectives calls;
	uint32_t matched, unmatched; /* pairs of processes that share collectives, and that share none */
	uint64_t collectives;        /* that were matched */
	struct remap_space space;
	struct capture_join parts;
	struct capture_reader **readers; /* of parts */
	struct capture_reader *whole;
	/* while control records are emitted */
	rec_fn emit;
	void *emit_arg;
	uint64_t bad_records;
	uint64_t buf[8192]; /* a record: its length has 16 bits */
};

/* join_input.c: reads what is decided by. 0 or negative errno, logged. */
int join__read_inputs(struct join *j);
/* join_align.c: what is added to the times of each, and to its numbers. */
int join__align(struct join *j);
/* join_control.c: the control records of the whole; see struct capture_join. */
int join__control(void *arg, rec_fn fn, void *fn_arg, uint64_t *bad_records);

#endif /* RANKS_JOIN_PRIV_H */
