/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The operators that are open on a thread (struct ptb_open_ops), for a tracer that reads them at
 * any moment: between any two instructions of the thread what it finds is right.
 */
#ifndef OPEN_H
#define OPEN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "ptb_agent.h"

static inline uint64_t open__mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

/* The number of a name. */
static inline uint64_t open__name(const char *text, uint32_t len)
{
	uint64_t hash = len, word = 0;
	uint32_t i;

	for (i = 0; i + 8 <= len; i += 8) {
		memcpy(&word, text + i, 8);
		hash = open__mix(hash, word);
	}
	if (i < len && len >= 8) {
		memcpy(&word, text + len - 8, 8);
	} else {
		for (word = 0; i < len; i++)
			word = word << 8 | (unsigned char)text[i];
	}
	return open__mix(hash, word) | PTB_OPEN_NAME;
}

static inline void open__begin(struct ptb_open_ops *o, uint64_t rf, uint64_t name)
{
	uint32_t cnt = o->h.cnt;

	if (__builtin_expect(cnt >= PTB_OPEN_MAX, 0)) {
		o->h.over = 1;
		return;
	}
	o->ops[cnt].name = name;
	__atomic_store_n(&o->ops[cnt].rf, rf, __ATOMIC_RELAXED);
	__atomic_store_n(&o->h.cnt, cnt + 1, __ATOMIC_RELEASE);
}

/* They end in any order, though nearly always the last one first. False: it did not begin here. */
static inline bool open__end(struct ptb_open_ops *o, uint64_t rf)
{
	uint32_t cnt = o->h.cnt, i = cnt;

	while (i && __atomic_load_n(&o->ops[i - 1].rf, __ATOMIC_RELAXED) != rf)
		i--;
	if (!i)
		return o->h.over; /* then it is one of those without room, as far as is known */
	__atomic_store_n(&o->ops[i - 1].rf, 0, __ATOMIC_RELAXED);
	if (i == cnt)
		o->h.over = 0;
	while (cnt && !__atomic_load_n(&o->ops[cnt - 1].rf, __ATOMIC_RELAXED))
		cnt--;
	__atomic_store_n(&o->h.cnt, cnt, __ATOMIC_RELEASE);
	return true;
}

#endif /* OPEN_H */
