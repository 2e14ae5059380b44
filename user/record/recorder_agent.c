/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reads the chunks of agents; see recorder_agent.h. A chunk of operators waits for a clock pair
 * that is later than its last record, so that every time lies between two pairs.
 */
#define LOG_DOMAIN "agent"
#include "record/recorder_agent.h"

#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "target/proc_info.h"

/* Longest time between a program's reading of the clock and its reservation in the ring. */
#define QUEUE_SLACK_NS 2000000
/* So many clock pairs after a record, that record has come: the second call of streams__flush() in
 * the agent sends it, and the first pair may belong to a call that began earlier. */
#define FLUSHES_ALL 3
#define SECOND_NS 1000000000ULL
/* More than the error of a line through two clock pairs that is extended beyond them. */
#define AHEAD_NS 100000000
#define MALLOC_EXTRA 24 /* roughly malloc's overhead of a small block */
#define DRAIN_EVERY_NS 10000000ULL
#define TIDS_BURST_NS 100000000ULL /* time for reading a process's threads at once */
#define TIDS_SHARE 20              /* afterwards one part in so many of the time */

void agent__count(struct recorder *r, uint32_t id, uint64_t n)
{
	r->agent_counts[id - PTB_CNT_AGENT_LOST] += n;
}

void agent__over(struct recorder *r)
{
	r->over_agent++;
}

/* The kernel knows when a chunk was sent. The records of others must not wait for a later time,
 * which may never come. */
bool agent__is_ahead(const struct agent_proc *p, uint64_t mono_ns)
{
	return mono_ns > p->now_ns && mono_ns - p->now_ns > AHEAD_NS;
}

bool agent__fact_allowed(struct recorder *r, struct agent_proc *p)
{
	if (p->now_ns - p->facts_ns >= SECOND_NS) {
		p->facts_ns = p->now_ns;
		p->facts = 0;
	}
	if (p->facts++ < LIMIT_AGENT_FACTS)
		return true;
	agent__over(r);
	return false;
}

uint64_t recorder__agent_counter(const struct recorder *r, uint32_t id)
{
	if (id == PTB_CNT_GPU_NO_TIMES)
		return r->gpu_no_times;
	return id == PTB_CNT_OVER_AGENT ? r->over_agent : r->agent_counts[id - PTB_CNT_AGENT_LOST];
}

bool recorder__agent_gpu(const struct recorder *r)
{
	return r->agent_gpu;
}

static struct agent_proc *find_agent(const struct recorder *r, uint32_t tgid)
{
	uint32_t i = r->agent_cnt;

	while (i--)
		if (r->agents[i]->tgid == tgid)
			return r->agents[i];
	return NULL;
}

void recorder__agent(struct recorder *r, const struct agent_facts *facts)
{
	struct agent_proc *p;

	p = xcalloc(1, sizeof(*p));
	p->tgid = (uint32_t)facts->pid;
	p->same_ns = proc__same_pidns(facts->pid);
	p->clock.ns = !facts->tsc;
	p->schema_off = facts->schema_off;
	p->old_string_abi = facts->old_string_abi;
	vec_push(r->agents, r->agent_cnt, r->agent_cap, p);
}

static void free_agent(struct agent_proc *p)
{
	agent_open__clear(&p->open);
	agent_open__clear(&p->now_open);
	agent_clock__free(&p->clock);
	hashmap__clear(&p->tids);
	hashmap__clear(&p->streams);
	hashmap__clear(&p->stacks);
	agent_gpu__free(&p->gpu);
	free(p->held);
	free(p);
}

void recorder__agents_free(struct recorder *r)
{
	for (uint32_t i = 0; i < r->agent_queue_cnt; i++)
		free(r->agent_queue[i].rec);
	free(r->agent_queue);
	for (uint32_t i = 0; i < r->agent_cnt; i++)
		free_agent(r->agents[i]);
	free(r->agents);
}

/* Unpacking one agent's chunks may take long. The rings, which all processes share, are emptied in
 * between. */
static void drain_rings(struct recorder *r)
{
	if (!r->drain_fn || clock__mono_ns() - r->rings_read_ns < DRAIN_EVERY_NS)
		return;
	r->drain_fn(r->task_arg);
	r->rings_read_ns = clock__mono_ns();
}

static void read_threads(struct recorder *r, struct agent_proc *p)
{
	struct thread_status st;
	pid_t *tids = NULL;
	int n = proc__threads((pid_t)p->tgid, &tids);

	if (n > 0 && p->tids.live + (uint64_t)n > LIMIT_AGENT_THREADS)
		hashmap__clear(&p->tids);
	for (int i = 0; i < n && i < (int)LIMIT_AGENT_THREADS; i++) {
		if (!thread_status__read((pid_t)p->tgid, tids[i], &st))
			hashmap__try_put(&p->tids, (uint64_t)st.ns_pid, 0, (uint64_t)tids[i]);
		drain_rings(r);
	}
	free(tids);
}

/* An agent can name arbitrary threads, so the time for reading them is limited: a burst at first, a
 * share of the time later. */
static bool may_read_threads(struct agent_proc *p)
{
	uint64_t now = clock__mono_ns(), passed = now - p->tids_ns;

	p->tids_debt_ns -= passed < p->tids_debt_ns ? passed : p->tids_debt_ns;
	p->tids_ns = now;
	return p->tids_debt_ns <= TIDS_BURST_NS * TIDS_SHARE;
}

/* Converts a thread's number in its pid namespace to the one in ptbpf's. */
uint32_t agent__tid(struct recorder *r, struct agent_proc *p, uint32_t tid)
{
	uint64_t *known;

	if (p->same_ns || !tid)
		return tid;
	known = hashmap__get(&p->tids, tid, 0);
	if (!known && may_read_threads(p)) {
		read_threads(r, p);
		p->tids_debt_ns += (clock__mono_ns() - p->tids_ns) * TIDS_SHARE;
		known = hashmap__get(&p->tids, tid, 0);
		if (!known)
			hashmap__try_put(&p->tids, tid, 0, tid);
	}
	/* the thread has ended: its own number still distinguishes it */
	return known ? (uint32_t)*known : tid;
}

/* After this, a gap before a stream's next chunk is not noticed. */
static void make_room_for_stream(struct recorder *r, struct agent_proc *p)
{
	if (p->streams.live < 4ull * LIMIT_AGENT_STREAMS)
		return;
	hashmap__clear(&p->streams);
	agent__over(r);
}

/*
 * Counts the losses of a stream: gaps in its numbers, and drops that its sender reports. A stream
 * that began before this recording has a number above 1 at its first chunk. When a sender moves to
 * another processor, its new chunks may be read before its older ones: what looked lost then was
 * late.
 */
static void account(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c)
{
	uint64_t *seq, *dropped, *known;
	uint64_t had, last, missing;

	make_room_for_stream(r, p);
	seq = hashmap__get(&p->streams, c->stream, 0);
	dropped = hashmap__get(&p->streams, c->stream, 1);
	known = hashmap__get(&p->streams, c->stream, 2);
	had = dropped ? *dropped : 0;
	last = seq ? *seq : 0;
	missing = known ? *known : 0;
	if (seq && c->seq > last + 1) {
		agent__count(r, PTB_CNT_AGENT_LOST, c->seq - last - 1);
		hashmap__try_put(&p->streams, c->stream, 2, missing + c->seq - last - 1);
	} else if (c->seq < last && missing) {
		agent__count(r, PTB_CNT_AGENT_LOST, (uint64_t)-1);
		hashmap__try_put(&p->streams, c->stream, 2, missing - 1);
	}
	if ((dropped || c->seq == 1) && c->dropped > had)
		agent__count(r, PTB_CNT_AGENT_DROPPED, c->dropped - had);
	if (!seq || c->seq > last)
		hashmap__try_put(&p->streams, c->stream, 0, c->seq);
	if (!dropped || c->dropped > had)
		hashmap__try_put(&p->streams, c->stream, 1, c->dropped);
}

/* NULL: there is no valid record at `at`. */
static const struct ptb_arec *record_at(const char *at, const char *end)
{
	const struct ptb_arec *a = (const void *)at;

	if ((size_t)(end - at) < sizeof(*a) || a->len < sizeof(*a) || a->len % 8 ||
	    a->len > end - at)
		return NULL;
	return a;
}

/* Calls fn for each record of a chunk; counts a damaged one. */
static void each_record(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
			void (*fn)(struct recorder *r, struct agent_proc *p,
				   const struct ptb_chunk *c, const struct ptb_arec *a))
{
	static const uint16_t least[] = {
#define X(name, nr, type) [nr] = sizeof(struct type),
		PTB_AREC_KINDS(X)
#undef X
	};
	const char *at = (const char *)(c + 1), *end = (const char *)c + c->len;

	while (at != end) {
		const struct ptb_arec *a = record_at(at, end);

		if (!a || (a->kind < sizeof(least) / sizeof(*least) && a->len < least[a->kind])) {
			agent__count(r, PTB_CNT_AGENT_BAD, 1);
			return;
		}
		fn(r, p, c, a);
		at += a->len;
	}
}

static void state_record(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
			 const struct ptb_arec *a)
{
	(void)c;
	if (!agent__fact_allowed(r, p))
		return;
	if (a->kind == PTB_AREC_CLOCK) {
		const struct ptb_arec_clock *k = (const void *)a;

		if (agent__is_ahead(p, k->mono_ns) ||
		    agent_clock__add(&p->clock, a->ticks, k->mono_ns))
			agent__count(r, PTB_CNT_AGENT_BAD, 1);
		else if (r->begin_ns && k->mono_ns > r->begin_ns)
			p->flushes++;
		p->clocked = true;
	} else if (a->kind == PTB_AREC_STATE) {
		const struct ptb_arec_state *s = (const void *)a;

		if (r->begin_ns && p->now_ns > r->begin_ns &&
		    p->reported.ever & s->state & ~p->reported.state & PTB_AGENT_OPS_ON)
			p->reported.restarts++;
		p->reported.state = s->state;
		p->reported.ever |= s->state;
		p->reported.ops_why = s->ops_why;
	} else if (a->kind == PTB_AREC_GPU_CLOCK) {
		agent_gpu__clock(r, p, (const void *)a);
	}
}

static uint64_t last_ticks(const struct ptb_chunk *c)
{
	const char *at = (const char *)(c + 1), *end = (const char *)c + c->len;
	const struct ptb_arec *a;
	uint64_t last = 0;

	for (; (a = record_at(at, end)); at += a->len)
		if (a->ticks > last)
			last = a->ticks;
	return last;
}

/* Writes the held chunks whose times are known, until a signal. all: writes all of them, the rest
 * with estimated times. */
static void write_held(struct recorder *r, struct agent_proc *p, bool all)
{
	while (p->held_pos < p->held_len) {
		const struct ptb_chunk *c = (const void *)(p->held + p->held_pos);

		if (!all && (cancel__pending() || !agent_clock__covers(&p->clock, last_ticks(c))))
			/* the following chunks are later, or from other threads that can wait
			 * too */
			break;
		each_record(r, p, c, agent_ops__record);
		p->held_pos += c->len;
		drain_rings(r);
	}
	if (p->held_pos <= p->held_len / 2)
		return; /* moves at most as many bytes as were written */
	memmove(p->held, p->held + p->held_pos, p->held_len - p->held_pos);
	p->held_len -= p->held_pos;
	p->held_pos = 0;
}

static void hold_chunk(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c)
{
	if (p->held_len + c->len > LIMIT_AGENT_HELD)
		write_held(r, p, true);
	if (!vec_try_reserve((void **)&p->held, &p->held_cap, (uint64_t)p->held_len + c->len, 1)) {
		agent__count(r, PTB_CNT_AGENT_LOST, 1);
		return;
	}
	memcpy(p->held + p->held_len, c, c->len);
	p->held_len += c->len;
}

/* The stack precedes the operator's record, which is in a later chunk. */
void recorder__agent_stack(struct recorder *r, const struct ptb_agent_stack *s)
{
	struct agent_proc *p = find_agent(r, s->h.tgid);
	const uint64_t stream = s->number >> 32;
	const uint64_t *least;

	if (!p)
		return;
	if (p->stacks.live >= LIMIT_AGENT_STACKS) {
		r->over_agent += p->stacks.live;
		hashmap__clear(&p->stacks);
	}
	make_room_for_stream(r, p);
	least = hashmap__get(&p->streams, stream, 3);
	if ((!least || s->number < *least) && !hashmap__try_put(&p->streams, stream, 3, s->number))
		agent__over(r);
	if (!hashmap__try_put(&p->stacks, s->number, 0, s->id))
		agent__over(r);
}

/* ---- chunks in the order of their sending: those of one sender come through several rings ---- */

static int queue_cmp(const void *a, const void *b)
{
	const struct agent_queued *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	return x->nr < y->nr ? -1 : x->nr > y->nr;
}

static uint64_t queued_size(const struct ptb_agent_data *d)
{
	return d->h.len + sizeof(struct agent_queued) + MALLOC_EXTRA;
}

void recorder__agent_data(struct recorder *r, const struct ptb_agent_data *d)
{
	struct agent_queued q = { .ts_ns = d->h.ts_ns, .nr = r->agent_queue_nr++ };
	struct agent_proc *p = find_agent(r, d->h.tgid);

	if (!p)
		return;
	if (p->queued + queued_size(d) > LIMIT_AGENT_QUEUED) {
		agent__over(r);
		return;
	}
	if (!mem_limit__allows(queued_size(d)) ||
	    !vec_try_reserve((void **)&r->agent_queue, &r->agent_queue_cap,
			     (uint64_t)r->agent_queue_cnt + 1, sizeof(q))) {
		agent__count(r, PTB_CNT_AGENT_LOST, 1);
		return;
	}
	q.rec = vec_dup(d, d->h.len, 1);
	r->agent_queue[r->agent_queue_cnt++] = q;
	p->queued += queued_size(d);
}

static void take_chunk(struct recorder *r, const struct ptb_agent_data *d)
{
	struct agent_proc *p = find_agent(r, d->h.tgid);
	const struct ptb_chunk *c = (const void *)(d + 1);

	if (!p)
		return;
	/* may be from before an exec */
	p->queued -= p->queued < queued_size(d) ? p->queued : queued_size(d);
	if (d->h.len < sizeof(*d) || d->bytes > d->h.len - sizeof(*d))
		return;
	if (d->bytes < sizeof(*c) || c->magic != PTB_CHUNK_MAGIC || c->abi != PTB_AGENT_ABI ||
	    c->len < sizeof(*c) || c->len > d->bytes || c->len > PTB_CHUNK_MAX || c->len % 8) {
		agent__count(r, PTB_CNT_AGENT_BAD, 1);
		return;
	}
	if (d->h.ts_ns > p->now_ns) /* another ring may have delivered a later one */
		p->now_ns = d->h.ts_ns;
	account(r, p, c);
	switch (c->kind) {
	case PTB_CHUNK_STATE:
		each_record(r, p, c, state_record);
		if (p->clocked || p->clock.ns)
			write_held(r, p, false);
		p->clocked = false;
		break;
	case PTB_CHUNK_OPS:
		hold_chunk(r, p, c);
		break;
	case PTB_CHUNK_GPU:
		each_record(r, p, c, agent_gpu__record);
		break;
	default:
		agent__count(r, PTB_CNT_AGENT_BAD, 1);
	}
}

/*
 * Unpacks the chunks that were sent before `until`. Later ones stay queued, since earlier ones may
 * still be in another ring. A signal ends this early, unless `until` is UINT64_MAX.
 */
static void take_queue(struct recorder *r, uint64_t until)
{
	uint32_t i, cnt = r->agent_queue_cnt;

	qsort(r->agent_queue, cnt, sizeof(*r->agent_queue), queue_cmp);
	for (i = 0; i < cnt && r->agent_queue[i].ts_ns < until; i++) {
		if (until != UINT64_MAX && cancel__pending())
			break;
		take_chunk(r, r->agent_queue[i].rec);
		free(r->agent_queue[i].rec);
		drain_rings(r);
	}
	r->agent_queue_cnt -= i;
	memmove(r->agent_queue, r->agent_queue + i, r->agent_queue_cnt * sizeof(*r->agent_queue));
}

/*
 * The operators that were open when the window began are known once every earlier record has come.
 * No timeout can replace that: on a slow machine the agent's thread may not run for seconds.
 */
void recorder__agent_round(struct recorder *r, uint64_t drained_ns)
{
	r->rings_read_ns = clock__mono_ns();
	if (r->agent_queue_cnt)
		take_queue(r, drained_ns - QUEUE_SLACK_NS);
	for (uint32_t i = 0; i < r->agent_cnt; i++)
		if (r->agents[i]->flushes >= FLUSHES_ALL)
			agent_ops__record_open(r, r->agents[i], 0);
}

void recorder__agents_open(void *arg, uint64_t since_ns)
{
	struct recorder *r = arg;

	for (uint32_t i = 0; i < r->agent_cnt; i++)
		agent_ops__record_held(r, r->agents[i], since_ns);
}

struct agent_reported recorder__agent_reported(const struct recorder *r, pid_t pid)
{
	const struct agent_proc *p = find_agent(r, (uint32_t)pid);

	return p ? p->reported : (struct agent_reported){ 0 };
}

bool recorder__agent_idle(const struct recorder *r, pid_t pid)
{
	const struct agent_proc *p = find_agent(r, (uint32_t)pid);

	return !p || !(p->reported.state & PTB_AGENT_SENDS);
}

static void remove_agent(struct recorder *r, struct agent_proc *p)
{
	uint32_t i = 0;

	while (r->agents[i] != p)
		i++;
	memmove(&r->agents[i], &r->agents[i + 1], (r->agent_cnt - i - 1) * sizeof(*r->agents));
	r->agent_cnt--;
	free_agent(p);
}

struct agent_reported recorder__agent_end(struct recorder *r, pid_t pid)
{
	struct agent_proc *p = find_agent(r, (uint32_t)pid);
	struct agent_reported last = { 0 };

	if (!p)
		return last;
	if (r->agent_queue_cnt)
		take_queue(r, UINT64_MAX);
	write_held(r, p, true);
	if (r->begin_ns)
		agent_ops__record_open(r, p, 0);
	agent_gpu__end(r, p);
	last = p->reported;
	remove_agent(r, p);
	return last;
}
