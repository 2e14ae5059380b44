/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The agent's library in a live process: where it is mapped, where its USDT sites and its control block
 * are. Reads the process's memory map, the library's file and the control block; writes nothing but
 * the block's settings, which the agent has reserved for that.
 */
#ifndef TARGET_AGENT_LIB_H
#define TARGET_AGENT_LIB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ptb_agent.h"

struct agent_lib {
	char *path;        /* as the target names it */
	int fd;            /* the open file, 0: none */
	char *access_path; /* its name for what takes a path: /proc/self/fd/... */
	uint64_t load_bias;
	uint64_t ctl;                           /* address of ptbpf_agent_ctl in the process */
	uint64_t open;                          /* of ptbpf_agent_open; 0: this agent has none */
	uint64_t site[PTB_AGENT_SITE_CNT];      /* file offsets; 0: this agent has no such site */
	uint64_t semaphore[PTB_AGENT_SITE_CNT]; /* file offsets, as uprobes want them */
};

/* 0; -EAGAIN: it sleeps until CUDA's driver calls it (*out is there, but its control block); -ENOENT: not loaded;
 * -EPROTO: loaded, but of another ABI or not an agent (why: a sentence); other negative errno. *out is owned by the
 * caller in any case: agent_lib__clear(). */
int agent_lib__find(pid_t pid, struct agent_lib *out, char *why, size_t cap);
void agent_lib__clear(struct agent_lib *al);

/* The control block as it is now; 0, -EPROTO (not one of this ABI), or negative errno. */
int agent_lib__read(pid_t pid, const struct agent_lib *al, struct ptb_agent_ctl *out);
/* What the agent says of open operators, checked. 0, -EPROTO, or negative errno. */
int agent_lib__read_open(pid_t pid, const struct agent_lib *al, struct ptb_agent_open *out);
/* Writes the settings, then the word that makes them valid. 0 or negative errno. */
int agent_lib__configure(pid_t pid, const struct agent_lib *al, const struct ptb_agent_cfg *cfg);

/* Sentence of enum ptb_agent_why; "" for NONE and unknown numbers. */
const char *agent__why_text(uint32_t why);

#endif /* TARGET_AGENT_LIB_H */
