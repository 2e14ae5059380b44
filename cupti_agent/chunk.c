/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Buffers of records; see chunk.h. The owner writes at `end` and moves it; what is before it is sent by
 * whoever has `sending`, which nobody waits for: an owner who does not get it goes on behind `end`, in the
 * part of the buffer that is there for that.
 */
#include "chunk.h"

#include <linux/membarrier.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "usdt.h"

#define STREAM_BYTES (1u << 17) /* mapped; a chunk and what comes while one is sent */
#define HDR ((uint32_t)sizeof(struct ptb_chunk))

struct stream {
	atomic_uint owned, sending, inside;
	atomic_uint end;   /* of what is committed, in buf */
	uint32_t sent;     /* up to here; whoever has `sending` */
	uint32_t nr, tid, kind;
	atomic_uint seq;
	uint32_t seen_seq; /* by the agent's thread, when it looked last */
	_Atomic uint64_t dropped, logical;
	struct stream *next;
	_Alignas(64) unsigned char own[STREAM_OWN];
	unsigned char buf[]; /* its first HDR bytes are room for a header, as are those before each chunk */
};
#define BUF_END ((uint32_t)(STREAM_BYTES - sizeof(struct stream)))

static _Atomic(struct stream *) streams; /* only grows */
static atomic_uint last_nr;

/* ---- sending ---- */

__attribute__((noinline)) static void fire(const struct ptb_chunk *chunk, uint64_t len)
{
	__asm__ volatile(USDT_SITE(CHUNK, "chunk", "8@%%rdi 8@%%rsi")
			 :
			 : "D"(chunk), "S"(len)
			 : "memory");
}

static bool try_lock(struct stream *s)
{
	return !atomic_exchange_explicit(&s->sending, 1, memory_order_acquire);
}

static void unlock(struct stream *s)
{
	atomic_store_explicit(&s->sending, 0, memory_order_release);
}

/* The end of the chunk that begins at `from`: whole records, one at least. */
static uint32_t piece_end(const struct stream *s, uint32_t from, uint32_t upto)
{
	uint32_t at = from;
	struct ptb_arec r;

	if (upto - from <= PTB_CHUNK_FULL - HDR)
		return upto;
	do {
		memcpy(&r, s->buf + at, sizeof(r));
		if (at > from && at + r.len - from > PTB_CHUNK_FULL - HDR)
			break;
		at += r.len;
	} while (at < upto);
	return at;
}

/* The bytes before `sent` have left already: the header is written over them. */
static void send_piece(struct stream *s, uint32_t stop)
{
	struct ptb_chunk h = {
		.magic = PTB_CHUNK_MAGIC,
		.abi = PTB_AGENT_ABI,
		.kind = (uint16_t)s->kind,
		.len = stop - s->sent + HDR,
		.tid = s->tid,
		.stream = s->nr,
		.seq = atomic_load_explicit(&s->seq, memory_order_relaxed) + 1,
		.dropped = atomic_load_explicit(&s->dropped, memory_order_relaxed),
		.logical = atomic_load_explicit(&s->logical, memory_order_relaxed),
	};
	void *chunk = s->buf + s->sent - HDR;

	memcpy(chunk, &h, sizeof(h));
	s->sent = stop;
	if (!agent__listening())
		return; /* nobody is there to miss it */
	atomic_store_explicit(&s->seq, h.seq, memory_order_relaxed);
	__atomic_fetch_add(&ptbpf_agent_ctl.chunks, 1, __ATOMIC_RELAXED);
	fire(chunk, h.len);
}

/* With the lock. */
static void send_upto(struct stream *s, uint32_t upto)
{
	while (s->sent < upto)
		send_piece(s, piece_end(s, s->sent, upto));
}

/* The owner's: all of it, and back to the buffer's begin. */
static bool send_all(struct stream *s)
{
	if (!try_lock(s))
		return false;
	send_upto(s, atomic_load_explicit(&s->end, memory_order_relaxed));
	s->sent = HDR;
	atomic_store_explicit(&s->end, HDR, memory_order_relaxed);
	unlock(s);
	return true;
}

void stream__send(struct stream *s)
{
	send_all(s);
}

void streams__flush(bool all)
{
	struct stream *s;

	for (s = atomic_load_explicit(&streams, memory_order_acquire); s; s = s->next) {
		uint32_t seq = atomic_load_explicit(&s->seq, memory_order_relaxed);
		bool sends = seq != s->seen_seq; /* its owner does, often: not to be disturbed */

		s->seen_seq = seq;
		if ((sends && !all) || !try_lock(s))
			continue; /* or its owner is just sending */
		send_upto(s, atomic_load_explicit(&s->end, memory_order_acquire));
		s->seen_seq = atomic_load_explicit(&s->seq, memory_order_relaxed);
		unlock(s);
	}
}

/* ---- owners ---- */

static void begin(struct stream *s, enum ptb_chunk_kind kind, uint32_t tid)
{
	s->nr = atomic_fetch_add(&last_nr, 1) + 1;
	s->kind = kind;
	s->tid = tid;
	atomic_store(&s->seq, 0);
	s->sent = HDR;
	atomic_store(&s->end, HDR);
	atomic_store(&s->dropped, 0);
	atomic_store(&s->logical, 0);
}

static struct stream *take_unused(void)
{
	struct stream *s;
	unsigned int no;

	for (s = atomic_load(&streams); s; s = s->next) {
		no = 0;
		if (!atomic_load(&s->owned) && atomic_compare_exchange_strong(&s->owned, &no, 1)) {
			if (try_lock(s)) {
				send_upto(s, atomic_load(&s->end));
				return s;
			}
			atomic_store(&s->owned, 0); /* the agent's thread is just looking at it */
		}
	}
	return NULL;
}

struct stream *stream__new(enum ptb_chunk_kind kind, uint32_t tid)
{
	struct stream *s = take_unused(), *first;

	if (s) {
		memset(s->own, 0, sizeof(s->own));
		begin(s, kind, tid);
		unlock(s);
		return s;
	}
	s = mmap(NULL, STREAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		return NULL;
	atomic_store(&s->owned, 1);
	begin(s, kind, tid);
	first = atomic_load(&streams);
	do
		s->next = first;
	while (!atomic_compare_exchange_weak(&streams, &first, s));
	return s;
}

void stream__release(struct stream *s)
{
	send_all(s); /* or the agent's thread does, and again until somebody takes it */
	atomic_store_explicit(&s->owned, 0, memory_order_release);
}

bool stream__renew(struct stream *s)
{
	if (!try_lock(s))
		return false;
	begin(s, (enum ptb_chunk_kind)s->kind, s->tid);
	unlock(s);
	return true;
}

void stream__drop(struct stream *s)
{
	atomic_store_explicit(&s->dropped, atomic_load_explicit(&s->dropped, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	__atomic_fetch_add(&ptbpf_agent_ctl.dropped, 1, __ATOMIC_RELAXED);
}

void *stream__reserve(struct stream *s, uint32_t len, uint32_t *room)
{
	uint32_t end = atomic_load_explicit(&s->end, memory_order_relaxed);

	if (end + len > PTB_CHUNK_FULL && end > HDR && send_all(s))
		end = HDR;
	if (end + len > BUF_END) {
		stream__drop(s);
		return NULL;
	}
	if (room)
		*room = BUF_END - end < STREAM_RECORD_MAX ? BUF_END - end : STREAM_RECORD_MAX;
	return s->buf + end;
}

void stream__commit(struct stream *s, uint32_t len)
{
	atomic_store_explicit(&s->end, atomic_load_explicit(&s->end, memory_order_relaxed) + len,
			      memory_order_release);
}

void stream__put(struct stream *s, const struct ptb_arec *r)
{
	void *at = stream__reserve(s, r->len, NULL);

	if (!at)
		return;
	memcpy(at, r, r->len);
	stream__commit(s, r->len);
}

void stream__set_logical(struct stream *s, uint64_t logical)
{
	atomic_store_explicit(&s->logical, logical, memory_order_relaxed);
}

void *stream__own(struct stream *s)
{
	return s->own;
}

/* ---- who is inside ---- */

bool stream__enter(struct stream *s)
{
	if (atomic_load_explicit(&s->inside, memory_order_relaxed))
		return false;
	atomic_store_explicit(&s->inside, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); /* the processor's part is streams__quiet()'s */
	return true;
}

void stream__leave(struct stream *s)
{
	atomic_store_explicit(&s->inside, 0, memory_order_release);
}

/*
 * Owners enter with a plain store and then look whether the way is barred. After a membarrier, each of them
 * has either seen that or is seen inside. Where there is none, a store is visible in a few ms at any rate.
 */
bool streams__quiet(uint64_t wait_ns)
{
	const struct timespec pause = { .tv_nsec = 200000 };
	uint64_t until = agent__mono_ns() + wait_ns;
	struct stream *s;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) &&
	    (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) ||
	     syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0)))
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	for (s = atomic_load(&streams); s; s = s->next)
		while (atomic_load_explicit(&s->inside, memory_order_acquire)) {
			if (agent__mono_ns() > until)
				return false;
			nanosleep(&pause, NULL);
		}
	return true;
}
