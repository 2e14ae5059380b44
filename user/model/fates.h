/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Hindsight about frames: which of them never exit, and what frames that do exit call. Learnt in a pass
 * of its own before slices are told; see fates.c.
 */
#ifndef MODEL_FATES_H
#define MODEL_FATES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hashmap.h"

/* A call not seen before, until its caller's fate is known. */
struct fate_call {
	uint64_t frame_nr; /* of the caller */
	uint64_t who, delta;
};

struct fate_bits { /* of one thread: a bit per frame in order of entry, set: it never exits */
	uint64_t *words;
	uint32_t cnt, cap;
};

struct fates {
	struct fate_bits *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap by_thread; /* (tgid, tid) -> index */
	struct hashmap calls;     /* (caller and callee, distance on the stack): made by frames that exit */
	uint64_t doomed;          /* frames that never exit */
};

void fates__clear(struct fates *f);

/* Learning; 0 or -ENOMEM. */
int fates__doom(struct fates *f, uint32_t tgid, uint32_t tid, uint64_t frame_nr);
int fates__learn_call(struct fates *f, const struct fate_call *call);

/* Asking. */
bool fates__is_doomed(const struct fates *f, uint32_t tgid, uint32_t tid, uint64_t frame_nr);
bool fates__knows_call(const struct fates *f, uint64_t who, uint64_t delta);

/* One word for who calls whom. */
static inline uint64_t fates__who(uint32_t caller, uint32_t callee)
{
	return (uint64_t)caller << 32 | callee;
}

#endif /* MODEL_FATES_H */
