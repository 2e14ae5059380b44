/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The agent of one target: finds it (or, on request, loads it), sends requests, waits for answers, withdraws them.
 * Knows what may be requested and why it was not; knows neither chunks nor records.
 */
#ifndef RECORD_TARGET_AGENT_H
#define RECORD_TARGET_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "plan/proc_ops.h"
#include "probe/probe_set.h"
#include "record/record_opts.h"
#include "ptb_python.h"
#include "target/agent_lib.h"

struct remote_mem;

struct recorder;

enum agent_answer {
	AGENT_PENDING, /* it has not answered yet */
	AGENT_DONE,    /* it does what it can: ta->ops, ta->gpu */
	AGENT_SILENT,  /* it does nothing, or is gone: ta->why */
};

struct target_agent {
	struct agent_lib lib;
	struct probe_agent sites;
	uint32_t proc_idx; /* of its sites in the probe set */
	uint32_t requests;
	uint64_t requested_ns, gpu_polled_ns;
	enum agent_answer answer;
	bool ops, gpu;                 /* what comes from it; of samples, ops: which are open */
	bool graphs_requested, graphs; /* the nodes of CUDA graphs */
	bool injected;
	bool late; /* it began after the requests: GPUs only, and probes record CUDA calls until it does */
	bool patient;   /* the process is just being loaded: the answer may take long */
	bool no_values; /* it stopped recording inputs and outputs */
	uint32_t ops_why, gpu_why, cupti_version;
	char why[256]; /* it is not used, or not for all that was requested: a sentence */
};

/*
 * Finds the agent of pid; loads it if opts request that, into the program whose memory is `mem` (inject.h). NULL: there is none,
 * or it may not be used: *why (of cap bytes) has a sentence where the user should know, else "". To be freed by target_agent__free().
 */
struct target_agent *target_agent__find(pid_t pid, struct remote_mem *mem,
					const struct record_opts *opts, char *why, size_t cap);
void target_agent__free(struct target_agent *ta); /* NULL is fine */
bool target_agent__is_there(pid_t pid);           /* one that answers, or one that does not */
/* Is there one that would answer? */
bool target_agent__is_awake(pid_t pid);

/* Listens and requests. stacks: operators with Python stacks, or none. 0 or negative errno (ta->why). */
int target_agent__request(struct target_agent *ta, pid_t pid, const struct record_opts *opts,
			  bool stacks, struct proc_ops *po, struct probe_set *ps, struct recorder *rec);
/* What it has answered by now. */
enum agent_answer target_agent__poll(struct target_agent *ta, pid_t pid);
/* Where samples find which operators are open, once it keeps that. 0 or negative errno. */
int target_agent__open_ops(const struct target_agent *ta, pid_t pid, struct ptb_py_layout *layout);
/* It recorded operators and does not any more (ta->why); that it records no values any more is noted (ta->no_values). */
bool target_agent__gave_up(struct target_agent *ta, const struct recorder *rec, pid_t pid);
/* GPUs may come to it later, and it may give them up: keeps what is known of them while the process lives. */
void target_agent__note_gpu(struct target_agent *ta, pid_t pid);
/* Do operators come from it, or may they yet? NULL: no. */
bool target_agent__has_ops(const struct target_agent *ta);
/* Does it record GPUs, so that CUDA calls need no probes? Also where it waits for the process to use CUDA.
 * NULL: no. */
bool target_agent__has_gpu(const struct target_agent *ta);
/* It cannot record the GPUs, for good. False for a process that does not use CUDA. */
bool target_agent__gpu_refused(const struct target_agent *ta);
/* No more requests. */
void target_agent__dismiss(struct target_agent *ta, struct probe_set *ps);
/* Has it sent all it had? Also true when the process is gone. */
bool target_agent__is_quiet(const struct target_agent *ta, pid_t pid);

/* The agent's file beside this program; 0 or -ENOENT. */
int target_agent__file(char *buf, size_t cap);

#endif /* RECORD_TARGET_AGENT_H */
