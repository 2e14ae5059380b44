/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Forward operators and the backward nodes they made. Owns sequence numbers and the pairing; must
 * not touch nesting.
 *
 * Each thread counts the autograd nodes that it makes. The operator that is innermost when a number
 * is taken made the node; backward, the node carries that number and torch's own id of the forward
 * thread (1, 2, ... in order of use), which says nothing about OS threads. Two threads use the same
 * numbers, so that id must be learnt: a node whose number only one thread has waiting is a vote for
 * that thread, or, if several have it, a vote for the thread that runs the node when it is among
 * them (on the CPU backward runs where it was called). A thread is believed while its votes
 * outnumber those against; the nodes that came before it was are paired then.
 *
 * Waiting operators are kept per thread in ascending order of numbers, as they were taken.
 */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "model/model_priv.h"

#define WAITING_PER_THREAD (1u << 18)
#define WAITING_MAX (1u << 22)
#define LINKS_MAX (1u << 16)
#define LEARN_AMBIGUOUS 3 /* votes needed when other threads had the number too */

/* ---- waiting forwards of one thread ---- */

static void forget_oldest(struct model *m, struct thread *t, bool count)
{
	if (count && t->fwd[t->fwd_head].state != FWD_PAIRED)
		m->totals->forgotten_forwards++;
	t->fwd_head++;
	m->fwd_total--;
}

static void compact(struct thread *t)
{
	if (t->fwd_head < 64 || t->fwd_head < t->fwd_cnt / 2)
		return;
	memmove(t->fwd, t->fwd + t->fwd_head, (t->fwd_cnt - t->fwd_head) * sizeof(*t->fwd));
	t->fwd_base += t->fwd_head;
	t->fwd_cnt -= t->fwd_head;
	t->fwd_head = 0;
}

void autograd__thread_gone(struct model *m, struct thread *t)
{
	m->fwd_total -= t->fwd_cnt - t->fwd_head;
	t->fwd_base += t->fwd_cnt;
	t->fwd_head = t->fwd_cnt = t->fwd_cap = 0;
	free(t->fwd);
	t->fwd = NULL;
}

/* Position + 1 of the new entry; 0 if it cannot wait, which is counted. */
static uint64_t wait_for_backward(struct model *m, struct thread *t, uint64_t seq,
				  const struct entry *e)
{
	if (t->fwd_cnt > t->fwd_head && t->fwd[t->fwd_cnt - 1].seq >= seq)
		/* the count was set back: old numbers mean nothing now */
		autograd__thread_gone(m, t);
	if (t->fwd_cnt - t->fwd_head >= WAITING_PER_THREAD ||
	    (m->fwd_total >= WAITING_MAX && t->fwd_cnt > t->fwd_head))
		forget_oldest(m, t, true);
	compact(t);
	if (m->fwd_total >= WAITING_MAX) { /* all are of other threads */
		m->totals->forgotten_forwards++;
		return 0;
	}
	if (!t->fwd_listed)
		vec_push(m->fwd_threads, m->fwd_thread_cnt, m->fwd_thread_cap, t->idx);
	t->fwd_listed = true;
	vec_push(t->fwd, t->fwd_cnt, t->fwd_cap,
		 (struct fwd_entry){ .seq = seq,
				     .begin_ns = e->begin_ns,
				     .stack = e->stack,
				     .within = e->within });
	m->fwd_total++;
	return t->fwd_base + t->fwd_cnt;
}

void autograd__forward_done(struct thread *t, const struct entry *e)
{
	uint64_t i = e->fwd_pos - 1 - t->fwd_base;

	if (e->fwd_pos > t->fwd_base && i >= t->fwd_head && i < t->fwd_cnt &&
	    t->fwd[i].state == FWD_OPEN)
		t->fwd[i].state = FWD_DELIVERED;
}

static struct fwd_entry *find_waiting(const struct thread *t, uint64_t seq)
{
	uint32_t lo = t->fwd_head, hi = t->fwd_cnt;

	BISECT(lo, hi, mid, t->fwd[mid].seq < seq);
	if (lo < t->fwd_cnt && t->fwd[lo].seq == seq && t->fwd[lo].state == FWD_DELIVERED)
		return &t->fwd[lo];
	return NULL;
}

/* ---- numbers ---- */

static void stamp_makers(struct model *m, struct thread *t, uint64_t seq)
{
	bool made = false;
	uint32_t i = t->cnt;

	while (i) {
		struct entry *e = &t->stack[--i];

		if (e->annotation || e->hidden)
			continue;
		if (e->kind == PTB_FUNC_NODE || e->kind == PTB_FUNC_NODE_CALL)
			break;
		if (e->kind != PTB_FUNC_OP && e->kind != PTB_FUNC_BOXED &&
		    e->kind != PTB_FUNC_PYFUNC)
			continue; /* makes no nodes */
		if (!made && !e->fwd_pos)
			e->fwd_pos = wait_for_backward(m, t, seq, e);
		made = true;
		if (e->seq >= 0) /* then those around it have one as well */
			break;
		e->seq = (int64_t)seq;
	}
}

/*
 * The innermost operator made the node and waits for it. The operators around it show the number
 * too if they have none yet: torch stamps an operator with the number that is next when it starts.
 */
void autograd__seq(struct model *m, struct thread *t, const struct ptb_seq *r)
{
	stack__at(m, t, r->sp, r->h.ts_ns);
	if (r->seq <= INT64_MAX && !(r->h.flags & PTB_F_READ_FAULT))
		stamp_makers(m, t, r->seq);
}

/*
 * As torch pairs by the numbers alone (torch/csrc/autograd/profiler_kineto.cpp): of all operators
 * stamped with a number, the one that began last made the node.
 */
void autograd__stamped(struct model *m, struct thread *t, struct entry *e)
{
	struct fwd_entry *last = t->fwd_cnt > t->fwd_head ? &t->fwd[t->fwd_cnt - 1] : NULL;

	if (e->seq < 0 || e->fwd_thread)
		return;
	if (!last || last->seq != (uint64_t)e->seq) {
		e->fwd_pos = wait_for_backward(m, t, (uint64_t)e->seq, e);
		return;
	}
	last->begin_ns = e->begin_ns;
	last->stack = e->stack;
	last->within = e->within;
	last->state = FWD_OPEN;
	e->fwd_pos = t->fwd_base + t->fwd_cnt;
}

/* ---- pairing ---- */

static struct fwd_link *link_of(struct model *m, uint32_t tgid, uint64_t logical)
{
	const uint64_t *i = hashmap__get(&m->link_by_id, tgid, logical);

	if (i)
		return &m->links[*i];
	if (m->link_cnt >= LINKS_MAX)
		return NULL;
	vec_push(m->links, m->link_cnt, m->link_cap, (struct fwd_link){ 0 });
	hashmap__put(&m->link_by_id, tgid, logical, m->link_cnt - 1);
	return &m->links[m->link_cnt - 1];
}

void autograd__logical(struct model *m, struct thread *t, uint64_t logical)
{
	struct fwd_link *l = link_of(m, t->tgid, logical);

	t->logical = logical;
	if (!l)
		return;
	l->by_agent = true;
	l->thread = t->idx;
}

/* The thread that is believed to be meant, NULL: not known. */
static struct thread *believed(const struct model *m, const struct fwd_link *l)
{
	return l->by_agent || l->hits >= LEARN_AMBIGUOUS ? m->threads[l->thread] : NULL;
}

static void vote(struct fwd_link *l, uint32_t thread, bool sole)
{
	uint32_t weight = sole ? LEARN_AMBIGUOUS : 1;

	if (l->hits && l->thread == thread) {
		l->hits += weight;
		return;
	}
	l->misses++;
	if (l->misses <= l->hits)
		return;
	l->thread = thread;
	l->hits = weight;
	l->misses = 0;
}

/* Index of the thread that this node's number speaks for, or UINT32_MAX; *cnt threads have it. */
static uint32_t candidate(struct model *m, const struct thread *t, const struct entry *e,
			  uint32_t *cnt)
{
	uint32_t i = 0, one = UINT32_MAX;
	bool here = false;

	*cnt = 0;
	while (i < m->fwd_thread_cnt) {
		struct thread *c = m->threads[m->fwd_threads[i]];
		const struct fwd_entry *fe;

		if (c->fwd_cnt == c->fwd_head) { /* none waits any more */
			c->fwd_listed = false;
			m->fwd_threads[i] = m->fwd_threads[--m->fwd_thread_cnt];
			continue;
		}
		i++;
		if (c->logical && c->logical != e->fwd_thread)
			continue; /* the agent recorded its id, and it is another */
		fe = c->tgid == t->tgid ? find_waiting(c, (uint64_t)e->seq) : NULL;
		if (!fe || fe->begin_ns >= e->begin_ns)
			continue;
		++*cnt;
		if (!here)
			one = c->idx;
		here |= c == t;
	}
	return *cnt == 1 || here ? one : UINT32_MAX;
}

static void make_flow(struct model *m, struct thread *fwd, const struct fwd_undecided *bwd)
{
	struct fwd_entry *fe = find_waiting(fwd, bwd->seq);

	if (!fe || fe->begin_ns >= bwd->begin_ns)
		return;
	fe->state = FWD_PAIRED;
	if (!model__leaves_out(m, fe->within && bwd->within))
		model__flow(m, &(struct fwdbwd){ .id = ++m->next_flow,
						 .fwd_tgid = fwd->tgid,
						 .fwd_tid = fwd->tid,
						 .bwd_tid = bwd->tid,
						 .fwd_begin_ns = fe->begin_ns,
						 .bwd_begin_ns = bwd->begin_ns });
	while (fwd->fwd_head < fwd->fwd_cnt && fwd->fwd[fwd->fwd_head].state == FWD_PAIRED)
		forget_oldest(m, fwd, false);
}

struct thread *autograd__forward_thread(struct model *m, const struct thread *t,
					const struct entry *e)
{
	const uint64_t *known = hashmap__get(&m->link_by_id, t->tgid, e->fwd_thread);
	const struct fwd_link *l = known ? &m->links[*known] : NULL;
	uint32_t c, cnt;

	if (l && believed(m, l))
		return believed(m, l);
	c = e->seq < 0 ? UINT32_MAX : candidate(m, t, e, &cnt);
	return c == UINT32_MAX ? NULL : m->threads[c];
}

void autograd__take_stack(struct model *m, const struct thread *t, struct entry *e)
{
	const struct thread *fwd = NULL;
	const struct fwd_entry *fe;

	if ((m->f->py.seen || m->when) && e->seq >= 0 && e->fwd_thread)
		fwd = autograd__forward_thread(m, t, e);
	fe = fwd ? find_waiting(fwd, (uint64_t)e->seq) : NULL;
	if (fe && fe->begin_ns >= e->begin_ns)
		fe = NULL;
	e->fwd_stack = fe ? fe->stack : 0;
	if (fe && fe->within && !e->within)
		e->within = 1;
}

/* The link is believed: pairs what waited for that. */
static void pair_undecided(struct model *m, struct fwd_link *l)
{
	for (uint32_t i = 0; i < l->undecided_cnt; i++)
		make_flow(m, m->threads[l->thread], &l->undecided[i]);
	l->undecided_cnt = 0;
	free(l->undecided);
	l->undecided = NULL;
}

void autograd__clear(struct model *m)
{
	for (uint32_t i = 0; i < m->link_cnt; i++)
		free(m->links[i].undecided);
	free(m->links);
	free(m->fwd_threads);
	hashmap__clear(&m->link_by_id);
}

void autograd__backward_done(struct model *m, struct thread *t, const struct entry *e)
{
	struct fwd_undecided bwd = { .begin_ns = e->begin_ns, .tid = t->tid, .within = e->within };
	struct fwd_link *l;
	uint32_t c, cnt;

	if (e->seq < 0 || !e->fwd_thread || !m->fwd_total)
		return;
	bwd.seq = (uint64_t)e->seq;
	l = link_of(m, t->tgid, e->fwd_thread);
	if (!l)
		return;
	if (l->by_agent) {
		if (m->threads[l->thread]->logical == e->fwd_thread)
			make_flow(m, m->threads[l->thread], &bwd);
		return;
	}
	if (l->hits >= LEARN_AMBIGUOUS && find_waiting(m->threads[l->thread], bwd.seq)) {
		l->hits += l->hits < UINT32_MAX;
		make_flow(m, m->threads[l->thread], &bwd);
		return;
	}
	c = candidate(m, t, e, &cnt);
	if (c != UINT32_MAX)
		vote(l, c, cnt == 1);
	if (cnt && !l->undecided)
		l->undecided = xcalloc(FWD_UNDECIDED_MAX, sizeof(*l->undecided));
	if (cnt && l->undecided_cnt < FWD_UNDECIDED_MAX)
		l->undecided[l->undecided_cnt++] = bwd;
	if (c != UINT32_MAX && l->thread == c && l->hits >= LEARN_AMBIGUOUS)
		pair_undecided(m, l);
}
