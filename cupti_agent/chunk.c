/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Buffers of records; see chunk.h and stream.h. */
#include "chunk.h"

#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stream.h"
#include "usdt.h"

#define PAGE_MIN 4096u

static _Atomic(struct stream *) streams; /* only grows */
static atomic_uint last_nr;

/* ---- sending ---- */

__attribute__((noinline)) static void fire(const struct ptb_chunk *chunk, uint64_t len)
{
	USDT_SITE(CHUNK, "chunk", "8@%%rdi 8@%%rsi", "D"(chunk), "S"(len));
}

/*
 * The tracer cannot wait for a page that the kernel has hidden to balance its nodes, moved or
 * swapped out: it is brought back here.
 */
static void touch(const void *chunk, uint64_t len)
{
	for (uint64_t i = 0; i < len; i += PAGE_MIN)
		(void)*((const volatile uint8_t *)chunk + i);
	(void)*((const volatile uint8_t *)chunk + len - 1);
}

static bool try_lock(struct stream *s)
{
	return !atomic_exchange_explicit(&s->sending, 1, memory_order_acquire);
}

static void unlock(struct stream *s)
{
	atomic_store_explicit(&s->sending, 0, memory_order_release);
}

/* With the lock. The bytes before `sent` have left already: the header is written over them. */
static void send_upto(struct stream *s, uint32_t upto)
{
	struct ptb_chunk h = {
		.magic = PTB_CHUNK_MAGIC,
		.abi = PTB_AGENT_ABI,
		.kind = (uint16_t)s->kind,
		.len = upto - s->sent + STREAM_HDR,
		.tid = s->tid,
		.stream = s->nr,
		.seq = atomic_load_explicit(&s->seq, memory_order_relaxed) + 1,
		.dropped = atomic_load_explicit(&s->dropped, memory_order_relaxed),
		.logical = atomic_load_explicit(&s->logical, memory_order_relaxed),
	};
	void *chunk = s->buf + s->sent - STREAM_HDR;

	if (s->sent == upto)
		return;
	s->sent = upto;
	if (!agent__listening())
		return; /* no tracer would receive it */
	memcpy(chunk, &h, sizeof(h));
	atomic_store_explicit(&s->seq, h.seq, memory_order_relaxed);
	__atomic_fetch_add(&ptbpf_agent_ctl.chunks, 1, __ATOMIC_RELAXED);
	touch(chunk, h.len);
	fire(chunk, h.len);
}

/* All of it, and back to the buffer's begin. */
static bool send_all(struct stream *s)
{
	if (!try_lock(s))
		return false;
	send_upto(s, stream__end(s));
	s->sent = STREAM_HDR;
	atomic_store_explicit(&s->end, STREAM_HDR, memory_order_relaxed);
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

static void begin_stream(struct stream *s, enum ptb_chunk_kind kind, uint32_t tid)
{
	s->nr = atomic_fetch_add(&last_nr, 1) + 1;
	s->kind = kind;
	s->tid = tid;
	s->sent = STREAM_HDR;
	s->stacks = 0;
	atomic_store(&s->seq, 0);
	atomic_store(&s->end, STREAM_HDR);
	atomic_store(&s->dropped, 0);
	atomic_store(&s->logical, 0);
	memset(s->named, 0, sizeof(s->named));
	__atomic_store_n(&s->open.h.cnt, 0, __ATOMIC_RELAXED);
	s->open.h.over = 0;
}

/* A stream without an owner, locked. */
static struct stream *take_unused(void)
{
	struct stream *s;
	unsigned int no;

	for (s = atomic_load(&streams); s; s = s->next) {
		no = 0;
		if (atomic_load(&s->owned) || !atomic_compare_exchange_strong(&s->owned, &no, 1))
			continue;
		if (try_lock(s))
			return s;
		atomic_store(&s->owned, 0); /* the agent's thread is just sending it */
	}
	return NULL;
}

struct stream *stream__new(enum ptb_chunk_kind kind, uint32_t tid)
{
	struct stream *s = take_unused(), *first;

	if (s) {
		send_upto(s, stream__end(s));
		begin_stream(s, kind, tid);
		unlock(s);
		return s;
	}
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		return NULL;
	atomic_store(&s->owned, 1);
	begin_stream(s, kind, tid);
	first = atomic_load(&streams);
	do
		s->next = first;
	while (!atomic_compare_exchange_weak(&streams, &first, s));
	return s;
}

void stream__release(struct stream *s)
{
	send_all(s); /* or the agent's thread does, and again until another owner takes it */
	atomic_store_explicit(&s->owned, 0, memory_order_release);
}

bool stream__renew(struct stream *s)
{
	if (!try_lock(s))
		return false;
	begin_stream(s, (enum ptb_chunk_kind)s->kind, s->tid);
	unlock(s);
	return true;
}

void streams__renew(enum ptb_chunk_kind kind)
{
	struct stream *s;

	for (s = atomic_load(&streams); s; s = s->next)
		if (s->kind == kind)
			/* or its owner is just giving it up: who takes it begins anew */
			stream__renew(s);
}

void stream__drop(struct stream *s)
{
	atomic_store_explicit(&s->dropped,
			      atomic_load_explicit(&s->dropped, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	__atomic_fetch_add(&ptbpf_agent_ctl.dropped, 1, __ATOMIC_RELAXED);
}

void *stream__make_room(struct stream *s, uint32_t len)
{
	if (stream__end(s) == STREAM_HDR || send_all(s) || stream__end(s) + len <= PTB_CHUNK_MAX)
		return s->buf + stream__end(s);
	stream__drop(s);
	return NULL;
}

void *stream__reserve(struct stream *s, uint32_t len, uint32_t *room)
{
	void *at = stream__room(s, len);
	uint32_t left = PTB_CHUNK_MAX - stream__end(s);

	if (room)
		*room = left < STREAM_RECORD_MAX ? left : STREAM_RECORD_MAX;
	return at;
}

void stream__commit(struct stream *s, uint32_t len)
{
	stream__ends(s, s->buf + stream__end(s) + len);
}

void stream__put(struct stream *s, const struct ptb_arec *r)
{
	void *at = stream__room(s, r->len);

	if (!at)
		return;
	memcpy(at, r, r->len);
	stream__commit(s, r->len);
}

/* Its address is no other's before this returns, so whoever has it there means this one. */
void streams__end_elsewhere(uint64_t rf)
{
	struct stream *s;

	for (s = atomic_load_explicit(&streams, memory_order_acquire); s; s = s->next) {
		uint32_t cnt = __atomic_load_n(&s->open.h.cnt, __ATOMIC_ACQUIRE);

		for (uint32_t i = 0; i < cnt; i++) {
			__u64 same = rf;

			if (__atomic_compare_exchange_n(&s->open.ops[i].rf, &same, 0, false,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED))
				return;
		}
	}
}

/* ---- who is inside ---- */

/*
 * An owner enters with a plain store and then checks whether streams are closed. After a
 * membarrier, each owner has either seen that they are or is seen inside. Where there is none, a
 * store is visible in a few ms at any rate.
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
