/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of the merge share: the captures, their machines, and what is known of their clocks. */
#ifndef RANKS_MERGE_PRIV_H
#define RANKS_MERGE_PRIV_H

#include "base/hashmap.h"
#include "base/job_vars.h"
#include "capture/capture.h"
#include "ranks/collectives.h"
#include "ranks/match.h"
#include "ranks/merge.h"
#include "ranks/remap.h"

#define MERGE_TEXT_MAX 256

/* Clock pairs: CLOCK_MONOTONIC against Unix time. */
struct merge_clock {
	uint32_t pairs;
	int64_t unix_ns;        /* to be added, by the pair that was read most narrowly */
	uint64_t err_ns;        /* half the width of that reading */
	int64_t min_ns, max_ns; /* what all of them say */
};

/* How far a time may be from the machine's Unix time: the reading, and how far other pairs are from it. How far that is from
 * the Unix time of other machines no pair says. */
uint64_t merge_clock__bound(const struct merge_clock *c);
/* A pair, in file order. */
void merge_clock__add(struct merge_clock *c, uint64_t mono_ns, uint64_t unix_ns, uint64_t err_ns);
/* The pairs of another capture of the same boot. */
void merge_clock__join(struct merge_clock *c, const struct merge_clock *other);

struct merge_process {
	uint32_t tgid;
	bool has_rank;
	struct job_rank rank;
};

/* A machine since its boot. */
struct merge_machine {
	struct merge_clock clock;
	uint32_t first; /* input */
	/* what collectives with processes of the first machine that has some allow to be added to its times */
	int64_t lo_ns, hi_ns;
	uint32_t pairs, bounds;
	bool contradicts; /* its clock, by more than the bounds of both */
	int64_t correction_ns;
};

struct merge_input {
	const char *path;
	struct capture_reader *cr;
	char host[MERGE_TEXT_MAX], boot[64], pid_ns[32];
	uint64_t begin_ns, end_ns; /* its window, in its time */
	bool sealed;
	uint32_t stop_reason;
	struct merge_clock clock;
	struct merge_process *procs;
	uint32_t proc_cnt, proc_cap;
	struct hashmap proc_ids; /* tgid -> index in procs */
	uint32_t machine;
	uint64_t counters[256];
	bool has_counter[256];
	struct remap map;
	/* while it is written */
	uint64_t pos, passed_ns; /* all records before that time of the new capture are in */
	bool done;
};

struct merge {
	const struct merge_opts *opts;
	struct merge_input *inputs;
	uint32_t cnt;
	struct merge_machine *machines;
	uint32_t machine_cnt, machine_cap;
	struct collectives calls;
	uint32_t matched, unmatched; /* pairs of processes that share collectives, and that share none */
	uint64_t collectives;        /* that were matched */
	struct remap_space space;
	struct capture_writer *cw;
	uint64_t buf[8192]; /* a record: its length has 16 bits */
};

/* merge_input.c: opens all, and reads what is decided by. 0 or negative errno, logged. */
int merge__open_inputs(struct merge *m);
/* merge_align.c: what is added to the times of each, and to its numbers. */
int merge__align(struct merge *m);
/* merge_write.c: the new capture. */
int merge__write(struct merge *m);

#endif /* RANKS_MERGE_PRIV_H */
