/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What is probed of CUDA's libraries in one target: any number of them, whenever they are loaded, as long as its
 * agent does not record its GPUs. Knows neither what the calls mean nor when to poll; never reads the target.
 */
#ifndef RECORD_TARGET_CUDA_H
#define RECORD_TARGET_CUDA_H

#include <stdbool.h>
#include <stdint.h>

#include "target/torch_proc.h"

struct probe_set;
struct target;
struct targets;

struct cuda_lib {
	struct torch_lib lib; /* a copy */
	enum torch_lib_role role;
	uint32_t plan; /* index into targets.plans */
};

enum cuda_purpose { CUDA_MEMORY, CUDA_CALLS, CUDA_PURPOSES };

struct cuda_probes {   /* of one purpose, so that they come and go by themselves */
	uint32_t idx;  /* in the probe set, if on */
	uint32_t done; /* of the libraries, so many have been dealt with */
	bool on;
};

struct target_cuda {
	struct cuda_lib *libs;
	uint32_t cnt, cap;
	struct cuda_probes probes[CUDA_PURPOSES];
	bool over;           /* it has more of them than are probed: counted once */
	bool called;         /* there were probes on calls */
	bool warned;         /* that the agent does not record GPUs */
	uint64_t code_bytes; /* how much code the process had mapped when last polled, ... */
	uint64_t digest;     /* and which files that may be CUDA's */
	uint64_t polled_ns;
};

/* Before torch is planned for: makes the plans of the libraries that are mapped, so that they are in the cache. */
void target_cuda__plan(struct targets *ts, const struct torch_proc *tp, bool no_cache);
/* The libraries that tp has. What cannot be probed is reported and left out. */
void target_cuda__attach(struct targets *ts, struct target *t, const struct torch_proc *tp);
/* Polls, at a bounded pace, for libraries that were loaded later, and whether the agent still records GPUs. */
void target_cuda__follow(struct targets *ts, struct target *t);
/* The program is no more: its probes go. */
void target_cuda__clear(struct target_cuda *tc, struct probe_set *ps);
void target_cuda__free(struct target_cuda *tc);

#endif /* RECORD_TARGET_CUDA_H */
