/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Streams: one sender's buffer, which leaves the process chunk by chunk through the USDT site
 * "chunk". A stream has one owner at a time, which reserves and commits records and never waits;
 * the agent's thread sends the records of partly filled buffers. Buffers are mapped, never freed,
 * and used again: nothing here calls malloc, waits for a lock or fails later than at stream__new().
 */
#ifndef CHUNK_H
#define CHUNK_H

#include "agent.h"

struct stream;

/* A stream with a number of its own; tid: of an OPS stream's thread, else 0. NULL: no memory. */
struct stream *stream__new(enum ptb_chunk_kind kind, uint32_t tid);
/* The owner's end: what it has is sent, its memory serves the next one. */
void stream__release(struct stream *s);
/* The same owner with a new number, for another tracer; what was not sent is lost. False: not
 * now. */
bool stream__renew(struct stream *s);
/* All of a kind, while no owner is inside; the agent's thread. */
void streams__renew(enum ptb_chunk_kind kind);

/*
 * Room for one record of about len bytes, 8-aligned; what would not fit into one chunk with it is
 * sent first. *room (unless NULL): bytes that it may have, len at least, STREAM_RECORD_MAX at most.
 * It is not sent before stream__commit(), which takes the bytes used, a multiple of 8. NULL: the
 * agent's thread is just sending and there is no room beside it: the record is counted as dropped.
 */
#define STREAM_RECORD_MAX ((uint32_t)(PTB_CHUNK_MAX - PTB_CHUNK_FULL))
void *stream__reserve(struct stream *s, uint32_t len, uint32_t *room);
void stream__commit(struct stream *s, uint32_t len);
/* Reserve, copy, commit: r->len bytes. */
void stream__put(struct stream *s, const struct ptb_arec *r);
/* A record that the owner could not keep. */
void stream__drop(struct stream *s);
/* Sends at once what is there; the owner's. */
void stream__send(struct stream *s);

/* Call it after streams have been closed to new entries: waits until no owner is inside one. False:
 * one still is. */
bool streams__quiet(uint64_t wait_ns);

/* An operator ends that did not begin on this thread: it is open no more. */
void streams__end_elsewhere(uint64_t rf);

/* The agent's thread: sends what streams have. Not all: of those only whose owners have sent
 * nothing since the last time, so that what a stream has is sent after two rounds at most. */
void streams__flush(bool all);

#endif /* CHUNK_H */
