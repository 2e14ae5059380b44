/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which frames never exit; see fates.h. Owns what was learnt; the stack decides by it.
 *
 * An operator that throws leaves a frame which the stack pointer proves dead only when the thread comes
 * back to that height. A caller that catches the exception and goes on with deeper calls keeps it alive
 * for long (a whole training iteration, if nothing else is called from the same place), and all of that
 * would be told as its children. The capture is complete when it is read, so a first pass finds out
 * which frames never exit. Such a frame is believed to be alive only while it calls what frames of the
 * same function call that do exit: the same callee, as far down the stack (C++ frames have fixed sizes).
 * The first record that does not fit ends it. What a function calls that always throws is unknown, so
 * there the next record does.
 *
 *	enter mm  sp=900       shapes do not match: throws, Python catches
 *	enter sum sp=860       no mm that returned has called sum 40 bytes down: mm ended before this
 */
#include "model/fates.h"

#include <errno.h>
#include <stdlib.h>

#include "base/vec.h"

#define CALLS_MAX (1u << 20) /* distinct; a program has some ten thousand */

void fates__clear(struct fates *f)
{
	uint32_t i;

	for (i = 0; i < f->thread_cnt; i++)
		free(f->threads[i].words);
	free(f->threads);
	hashmap__clear(&f->by_thread);
	hashmap__clear(&f->calls);
	*f = (struct fates){ 0 };
}

int fates__doom(struct fates *f, uint32_t tgid, uint32_t tid, uint64_t frame_nr)
{
	const uint64_t *known = hashmap__get(&f->by_thread, tgid, tid);
	uint64_t i = known ? *known : f->thread_cnt, word = frame_nr / 64;
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
	b->words[word] |= 1ULL << frame_nr % 64;
	f->doomed++;
	return 0;
}

int fates__learn_call(struct fates *f, const struct fate_call *call)
{
	if (f->calls.live >= CALLS_MAX)
		return 0;
	return hashmap__put(&f->calls, call->who, call->delta, 1);
}

bool fates__is_doomed(const struct fates *f, uint32_t tgid, uint32_t tid, uint64_t frame_nr)
{
	const uint64_t *i = f->doomed ? hashmap__get(&f->by_thread, tgid, tid) : NULL;
	const struct fate_bits *b = i ? &f->threads[*i] : NULL;

	return b && frame_nr / 64 < b->cnt && b->words[frame_nr / 64] >> frame_nr % 64 & 1;
}

bool fates__knows_call(const struct fates *f, uint64_t who, uint64_t delta)
{
	return hashmap__get(&f->calls, who, delta) != NULL;
}
