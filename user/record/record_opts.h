/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What one recording records, and by what means: filled once by a command, read by all of user/record. */
#ifndef RECORD_RECORD_OPTS_H
#define RECORD_RECORD_OPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/probe_set.h"

struct step_hooks;

enum agent_mode { AGENT_AUTO, AGENT_OFF, AGENT_INJECT };

/* Steps are counted while they are recorded (step_count.h). */
struct step_opts {
	const char *name; /* of the annotation or operator that marks their ends; NULL: they are not counted */
	bool ops; /* the user named it: operators of that name count, too, and PTBPF_STEP_ON of processes does not */
	uint32_t warmup; /* ends of steps before the window begins */
	uint32_t active; /* whole steps of the window; 0: there is none, the steps of the warm-up are measured */
	uint64_t timeout_ns; /* in which a step must end */
	bool only;           /* nothing else is probed, and nothing is kept: there is no capture */
	const char *event;   /* annotation whose begin is of interest; NULL: none */
	bool oom; /* with `only`: what allocators report when they are out of memory, too */
	const struct step_hooks *hooks; /* NULL: none */
};

struct record_opts {
	bool ops;             /* operators */
	enum probe_args args; /* of operators: what is read, by agents or by probes */
	bool stacks;          /* Python stacks */
	bool modules;         /* in them, which module each call of one is; implies stacks */
	int sample_hz; /* with stacks: samples of them, so many a second, and nothing else; 0: none */
	bool native_stacks; /* with sample_hz: where all threads stand in C++ when the window begins */
	bool memory;        /* allocations */
	bool kernel_memory;
	bool gpu;    /* what GPUs do; without an agent, CUDA calls */
	bool sync;   /* also what waits for GPUs */
	bool graphs; /* also what captured the nodes of CUDA graphs; by agents only */
	enum agent_mode agent;
	bool children; /* processes that the targets fork are targets, too */
	uint64_t end_ns; /* CLOCK_MONOTONIC: the window ends by then, because another one is due; 0: no limit */
	struct step_opts steps;
	uint64_t flight_ns; /* records are held for so long, in at most flight_bytes, until run__release(); 0: they are written at once */
	uint64_t flight_bytes;
	uint64_t duration_ns; /* 0: until a signal or the end of the targets */
	uint64_t ring_bytes;  /* per ring, 0: by the number of processors */
	uint64_t max_memory;  /* 0: LIMIT_MEMORY */
	bool perf_uprobes;
	bool no_cache; /* of plans */
};

#endif /* RECORD_RECORD_OPTS_H */
