/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which frames never exit; see fates.h. Owns what was learnt and what follows from it; the stack acts.
 *
 * An operator that throws leaves a frame which the stack pointer proves dead only when the thread comes
 * back to that height. A caller that catches the exception and goes on with deeper calls keeps it alive
 * for long (a whole training iteration, if nothing else is called from the same place), and all of that
 * would be told as its children. The capture is complete when it is read, so a first pass finds out
 * which frames never exit and who calls whom: C++ frames have fixed sizes, so a call is known again by
 * caller, callee and the distance between them on the stack. Such a frame, when something is called
 *  - is alive if it calls what a frame of the same function that exits has called from there;
 *  - is dead if the frame around it is known to make just this call;
 *  - else, as nothing is known: is alive if the call is as far down as the nearest operator that this
 *    function has ever called, or CALL_MIN. What is nearer was called beside it, not by it.
 * A frame that is open at the end of the window may be at work and is dead only by the second rule.
 *
 *	enter mm  sp=900       shapes do not match: throws, Python catches
 *	enter sum sp=860       called beside mm: 40 bytes hold no call of an operator's kernel
 */
#include "model/fates.h"

#include <errno.h>
#include <stdlib.h>

#include "base/vec.h"

#define CALLS_MAX (1u << 20) /* distinct; a program has some ten thousand */

/* Of 138,000 operator calls inside operators of torch 2.15, 99 % are at least this far from their caller;
 * of the calls beside each other from Python, 7 % are further down than this. */
#define CALL_MIN 448

void fates__clear(struct fates *f)
{
	uint32_t i;

	for (i = 0; i < f->thread_cnt; i++)
		free(f->threads[i].words);
	free(f->threads);
	hashmap__clear(&f->by_thread);
	hashmap__clear(&f->calls);
	hashmap__clear(&f->roots);
	hashmap__clear(&f->nearest);
	*f = (struct fates){ 0 };
}

/* ---- fates ---- */

int fates__set(struct fates *f, uint32_t tgid, uint32_t tid, uint64_t frame_nr, enum fate fate)
{
	const uint64_t *known = hashmap__get(&f->by_thread, tgid, tid);
	uint64_t i = known ? *known : f->thread_cnt, word = frame_nr / 32;
	struct fate_bits *b;

	if (!known) {
		if (vec_reserve((void **)&f->threads, &f->thread_cap, i + 1, sizeof(*f->threads)) ||
		    hashmap__put(&f->by_thread, tgid, tid, i))
			return -ENOMEM;
		f->threads[f->thread_cnt++] = (struct fate_bits){ 0 };
	}
	b = &f->threads[i];
	if (vec_reserve((void **)&b->words, &b->cap, word + 1, sizeof(*b->words)))
		return -ENOMEM;
	if (word >= b->cnt)
		b->cnt = (uint32_t)word + 1;
	b->words[word] |= (uint64_t)fate << frame_nr % 32 * 2;
	f->cnt++;
	return 0;
}

enum fate fates__get(const struct fates *f, uint32_t tgid, uint32_t tid, uint64_t frame_nr)
{
	const uint64_t *i = f->cnt ? hashmap__get(&f->by_thread, tgid, tid) : NULL;
	const struct fate_bits *b = i ? &f->threads[*i] : NULL;

	if (!b || frame_nr / 32 >= b->cnt)
		return FATE_EXITS;
	return (enum fate)(b->words[frame_nr / 32] >> frame_nr % 32 * 2 & 3);
}

/* ---- calls ---- */

static uint64_t call_key(const struct fate_call *c)
{
	return (uint64_t)c->caller << 32 | c->callee;
}

/* One word for callee and stack pointer: addresses have 47 bits, ids are mixed into all. */
static uint64_t root_key(const struct fate_call *c)
{
	return c->delta ^ (uint64_t)c->callee * 0x9e3779b97f4a7c15ULL;
}

bool fates__knows_call(const struct fates *f, const struct fate_call *call)
{
	return hashmap__get(&f->calls, call_key(call), call->delta) != NULL;
}

int fates__learn_call(struct fates *f, const struct fate_call *call)
{
	const uint64_t *nearest;

	if (f->calls.live >= CALLS_MAX)
		return 0;
	if (CALLEE_IS_FRAME(call->callee)) {
		nearest = hashmap__get(&f->nearest, call->caller, 0);
		if ((!nearest || *nearest > call->delta) &&
		    hashmap__put(&f->nearest, call->caller, 0, call->delta))
			return -ENOMEM;
	}
	return hashmap__put(&f->calls, call_key(call), call->delta, 1);
}

int fates__learn_root(struct fates *f, uint32_t tgid, uint32_t tid, const struct fate_call *call)
{
	if (f->roots.live >= CALLS_MAX)
		return 0;
	return hashmap__put(&f->roots, (uint64_t)tgid << 32 | tid, root_key(call), 1);
}

bool fates__alive(const struct fates *f, enum fate fate, uint32_t tgid, uint32_t tid,
		  const struct fate_call *inner, const struct fate_call *outer)
{
	const uint64_t *nearest;

	if (fates__knows_call(f, inner))
		return true;
	if (outer->caller ? fates__knows_call(f, outer)
			  : hashmap__get(&f->roots, (uint64_t)tgid << 32 | tid, root_key(outer)) != NULL)
		return false;
	nearest = hashmap__get(&f->nearest, inner->caller, 0);
	return fate == FATE_OPEN || inner->delta >= (nearest ? *nearest : CALL_MIN);
}
