/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The inside of a stream: for chunk.c, and for the fast path of ops.c. The owner writes at `end`
 * and moves it; what is before it is sent by the thread that holds `sending`, and no thread waits
 * for that: an owner that does not get it goes on behind `end`, in the part of the buffer that is
 * reserved for that.
 */
#ifndef STREAM_H
#define STREAM_H

#include <stdatomic.h>

#include "chunk.h"

#define STREAM_HDR ((uint32_t)sizeof(struct ptb_chunk))
#define STREAM_NAMES 512 /* schemas that a thread remembers to have named */

struct stream {
	atomic_uint inside; /* the owner is in code that uses it */
	atomic_uint end;    /* of what is committed, in buf */
	uint32_t nr, tid, kind;
	_Atomic uint64_t logical, dropped;
	struct stream *next;
	atomic_uint owned, sending, seq;
	uint32_t sent;     /* up to here; written by the holder of `sending` */
	uint32_t seen_seq; /* by the agent's thread at its last poll */
	uint32_t stacks;   /* operators whose Python stack could be read */
	uint64_t named[STREAM_NAMES];
	struct ptb_open_ops open; /* OPS: of its owner */
	/* first, as before each chunk, is room for a header */
	_Alignas(64) unsigned char buf[PTB_CHUNK_MAX];
};

/* Room for a record where the buffer has less; NULL: none. */
void *stream__make_room(struct stream *s, uint32_t len);

static inline uint32_t stream__end(const struct stream *s)
{
	return atomic_load_explicit(&s->end, memory_order_relaxed);
}

static inline void *stream__room(struct stream *s, uint32_t len)
{
	uint32_t end = stream__end(s);

	return __builtin_expect(end + len <= PTB_CHUNK_FULL, 1) ? s->buf + end :
								  stream__make_room(s, len);
}

/* It ends at `at`, 8-aligned. */
static inline void stream__ends(struct stream *s, const unsigned char *at)
{
	atomic_store_explicit(&s->end, (uint32_t)(at - s->buf), memory_order_release);
}

#endif /* STREAM_H */
