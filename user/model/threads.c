/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Threads and processes of a pass: when they are first seen, born, replaced and gone. */
#include <stdlib.h>

#include "base/containers.h"
#include "base/limits.h"
#include "base/mem.h"
#include "model/memory_priv.h"

struct thread *model__known_thread(struct model *m, uint32_t tgid, uint32_t tid)
{
	const uint64_t *i = hashmap__get(&m->thread_by_id, tgid, tid);

	return i ? m->threads[*i] : NULL;
}

/* Threads that may have something open, by process: a program that begins and ends many pays for
 * each once. */
static void add_living(struct model *m, struct thread *t)
{
	uint64_t *ends = hashmap__get(&m->living, t->tgid, 0), me = (uint64_t)t->idx + 1;

	t->lives = true;
	t->next_of_proc = 0;
	if (!ends || !*ends) {
		hashmap__put(&m->living, t->tgid, 0, me << 32 | me);
		return;
	}
	m->threads[(uint32_t)*ends - 1]->next_of_proc = t->idx + 1;
	*ends = (*ends & ~(uint64_t)UINT32_MAX) | me;
}

static struct thread *new_thread(struct model *m, uint32_t tgid, uint32_t tid)
{
	struct thread *t;

	vec_reserve((void **)&m->threads, &m->thread_cap, (uint64_t)m->thread_cnt + 1,
		    sizeof(*m->threads));
	t = xcalloc(1, sizeof(*t));
	t->tgid = tgid;
	t->tid = tid;
	t->idx = m->thread_cnt;
	t->keys = facts__keys(m->f, tgid);
	t->unprobed_ns = facts__unprobed(m->f, tgid);
	memory__thread_new(m, t);
	hashmap__put(&m->thread_by_id, tgid, tid, m->thread_cnt);
	m->threads[m->thread_cnt++] = t;
	add_living(m, t);
	return t;
}

static void announce_thread(struct model *m, struct thread *t)
{
	const uint64_t *i = hashmap__get(&m->f->process_by_tgid, t->tgid, 0);
	uint64_t start_ns = i ? m->f->processes[*i].start_ns : 0;
	bool later = start_ns > m->begin_ns && start_ns < m->end_ns; /* than the window */

	t->announced = true;
	stack__reserve_begin(t, later ? start_ns : m->begin_ns);
	t->step_order = ++m->next_id;
	steps__thread_begins(m, t);
	memory__thread_announced(t);
	MODEL_EMIT(m, thread, t->tgid, t->tid);
}

struct thread *model__thread(struct model *m, uint32_t tgid, uint32_t tid)
{
	struct thread *t = m->last_thread;

	if (t && t->tid == tid && t->tgid == tgid)
		return t;
	t = model__known_thread(m, tgid, tid);
	if (!t)
		t = new_thread(m, tgid, tid);
	if (!t->lives)
		add_living(m, t);
	if (!t->announced)
		announce_thread(m, t);
	m->last_thread = t;
	return t;
}

/* The thread is gone or becomes another: nothing of it goes on. */
static void end_thread(struct model *m, struct thread *t, uint64_t ts)
{
	stack__close_all(m, t, ts, SLICE_THREAD_EXIT);
	autograd__thread_gone(m, t);
	t->scope_name = NULL;
	args__free(m, t->scope_args);
	t->scope_args = NULL;
	t->ctor_handle = 0;
	t->steps = NULL;
	t->born = true; /* if its number is used again */
	t->exit_func = 0;
	free(t->stack); /* a program may begin and end many */
	t->stack = NULL;
	t->cap = 0;
}

static void end_process(struct model *m, uint32_t tgid, uint64_t ts)
{
	uint64_t *ends = hashmap__get(&m->living, tgid, 0);
	uint32_t next = ends ? (uint32_t)(*ends >> 32) : 0;

	for (; next; next = m->threads[next - 1]->next_of_proc) {
		m->threads[next - 1]->lives = false;
		end_thread(m, m->threads[next - 1], ts);
	}
	if (ends)
		*ends = 0;
	m->last_thread = NULL;
}

void model__unprobed(struct model *m, uint32_t tgid, uint64_t ts)
{
	const uint64_t *ends = hashmap__get(&m->living, tgid, 0);

	for (uint32_t next = ends ? (uint32_t)(*ends >> 32) : 0; next;
	     next = m->threads[next - 1]->next_of_proc)
		stack__close_all(m, m->threads[next - 1], ts, SLICE_UNFINISHED);
}

void model__task(struct model *m, const struct ptb_task *r)
{
	uint32_t tgid = r->h.kind == PTB_REC_FORK ? r->child_tgid : r->h.tgid;
	struct thread *t;

	switch (r->h.kind) {
	case PTB_REC_FORK:
		end_process(m, tgid, r->h.ts_ns); /* an earlier process of that number */
		memory__new_process(m, tgid, false);
		tensor_ids__new_program(&m->tensors, tgid);
		/* fallthrough */
	case PTB_REC_THREAD_NEW:
		facts__thread_seen(m->f, tgid, r->child_tid, r->comm);
		t = model__known_thread(m, tgid, r->child_tid);
		if (t)
			end_thread(m, t, r->h.ts_ns);
		else
			t = new_thread(m, tgid, r->child_tid);
		t->born = true;
		return;
	case PTB_REC_EXEC:
		end_process(m, tgid, r->h.ts_ns);
		memory__new_process(m, tgid, true);
		tensor_ids__new_program(&m->tensors, tgid);
		return;
	case PTB_REC_EXIT:
		facts__thread_seen(m->f, tgid, r->h.tid, r->comm);
		t = model__known_thread(m, tgid, r->h.tid);
		t = t ? t : new_thread(m, tgid, r->h.tid);
		if (t)
			end_thread(m, t, r->h.ts_ns);
		if (r->group_dead) {
			end_process(m, tgid, r->h.ts_ns);
			facts__process_ended(m->f, tgid, r->status);
		}
		return;
	}
}

void model__task_outside(struct model *m, const struct ptb_rec_hdr *h)
{
	const struct ptb_task *t = (const void *)h;

	if (h->kind == PTB_REC_EXIT && h->ts_ns < m->begin_ns)
		hashmap__del(&m->f->thread_comm, h->tgid, h->tid);
	else if (h->kind == PTB_REC_THREAD_NEW && h->ts_ns > m->end_ns)
		hashmap__del(&m->f->thread_comm, h->tgid, t->child_tid);
}

void model__count_silent(struct model *m)
{
	const struct hashmap_slot *s;
	uint64_t pos = 0;

	while ((s = hashmap__next(&m->f->thread_comm, &pos))) {
		const struct thread *t = model__known_thread(m, (uint32_t)s->k0, (uint32_t)s->k1);

		if (t && (t->seen || t->born))
			continue;
		m->totals->silent_threads++;
		m->totals->silent_mains += s->k0 == s->k1;
		m->totals->silent_main = s->k0 == s->k1 ? (uint32_t)s->k1 : m->totals->silent_main;
	}
}
