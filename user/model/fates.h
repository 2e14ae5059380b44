/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Hindsight about frames: which of them never exit, and who calls whom from where. Learnt in a pass of
 * its own before slices are told; see fates.c.
 */
#ifndef MODEL_FATES_H
#define MODEL_FATES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hashmap.h"

enum fate {
	FATE_EXITS,
	FATE_GONE, /* left by an exception, or its exit was lost */
	FATE_OPEN, /* at the end of the window: perhaps gone, perhaps at work */
};

/*
 * Who is called: a function id, an operator known by address, or a record that is no frame of its own
 * (CALLEE() of its kind). Who calls is a frame's own.
 */
#define CALLEE_BOXED(opdef) (0x40000000u | ((uint32_t)((opdef) >> 4) & 0x3fffffffu))
#define CALLEE(rec_kind) (0x80000000u | (rec_kind))
#define CALLEE_IS_FRAME(callee) (!((callee) & 0x80000000u))

/* A call as the stack shows it. caller 0: from outside all frames; then `delta` is the stack pointer. */
struct fate_call {
	uint64_t frame_nr; /* of the caller, while its fate is not known */
	uint32_t caller, callee;
	uint64_t delta; /* how far below its caller */
};

struct fate_bits { /* of one thread: two bits per frame in order of entry */
	uint64_t *words;
	uint32_t cnt, cap;
};

struct fates {
	struct fate_bits *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap by_thread; /* (tgid, tid) -> index */
	struct hashmap calls;     /* (caller and callee, delta): made by frames that exit */
	struct hashmap roots;     /* (tgid, tid; callee and sp): called when no frame was open */
	struct hashmap nearest;   /* caller -> smallest delta of a frame it called */
	uint64_t cnt;             /* frames that do not exit */
};

void fates__clear(struct fates *f);

/* Learning; 0 or -ENOMEM. */
int fates__set(struct fates *f, uint32_t tgid, uint32_t tid, uint64_t frame_nr, enum fate fate);
int fates__learn_call(struct fates *f, const struct fate_call *call);
int fates__learn_root(struct fates *f, uint32_t tgid, uint32_t tid, const struct fate_call *call);
bool fates__knows_call(const struct fates *f, const struct fate_call *call);

/* Asking. */
enum fate fates__get(const struct fates *f, uint32_t tgid, uint32_t tid, uint64_t frame_nr);
/* A frame of this fate is the innermost; is it still alive if something is called now? `inner` is the
 * call if it is, `outer` the call if it is not. */
bool fates__alive(const struct fates *f, enum fate fate, uint32_t tgid, uint32_t tid,
		  const struct fate_call *inner, const struct fate_call *outer);

#endif /* MODEL_FATES_H */
