/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * States of threads in a Chrome trace: events of phase T, which Perfetto draws as a track of the
 * thread, as it draws those of the kernel's own traces. They have no category: a reader that takes
 * all that has one and a duration for an operator leaves them out. Waits shorter than
 * PTB_SCHED_LONG_NS are a part of Running.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/containers.h"
#include "base/mem.h"
#include "export/chrome_priv.h"

struct state_thread {
	uint32_t tgid, tid;
	uint64_t until_ns; /* its states are written up to here */
	uint64_t known_ns; /* and known up to here */
};

struct chrome_sched {
	struct jsonw *w;
	const struct session *s;
	const struct chrome_clock *clock;
	struct state_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_ids;
};

struct chrome_sched *chrome_sched__new(struct jsonw *w, const struct session *s,
				       const struct chrome_clock *clock)
{
	struct chrome_sched *cs = xcalloc(1, sizeof(*cs));

	cs->w = w;
	cs->s = s;
	cs->clock = clock;
	return cs;
}

void chrome_sched__free(struct chrome_sched *cs)
{
	if (!cs)
		return;
	hashmap__clear(&cs->thread_ids);
	free(cs->threads);
	free(cs);
}

/* Opens a state up to its args. */
static void begin_state(const struct chrome_sched *cs, const char *state,
			const struct state_thread *t, uint64_t begin, uint64_t end)
{
	uint64_t from = chrome_clock__rel(cs->clock, begin);

	chrome_event__head(cs->w, "T");
	JSONW_STR(cs->w, "name", state);
	JSONW_U64(cs->w, "pid", t->tgid);
	JSONW_U64(cs->w, "tid", t->tid);
	JSONW_US(cs->w, "ts", from);
	JSONW_US(cs->w, "dur", chrome_clock__rel(cs->clock, end) - from);
	JSONW_OBJ(cs->w, "args");
}

static void put_state(const struct chrome_sched *cs, const char *state,
		      const struct state_thread *t, uint64_t begin, uint64_t end)
{
	if (begin >= end)
		return;
	begin_state(cs, state, t, begin, end);
	chrome_event__end(cs->w);
}

static void put_wait(const struct chrome_sched *cs, const struct state_thread *t,
		     const struct sched_event *ev, uint64_t ready)
{
	const struct ptb_sched_wait *r = ev->wait;
	bool held = r->what == PTB_WAIT_GIL && r->holder;
	char what[160];

	if (ev->begin_ns >= ready)
		return;
	begin_state(cs, r->flags & PTB_SCHED_IO ? "D" : "S", t, ev->begin_ns, ready);
	snprintf(what, sizeof(what), "%s%s%s", wait__name(r->what), held ? ", held by " : "",
		 held ? session__thread_label(cs->s, t->tgid, r->holder) : "");
	JSONW_STR(cs->w, "blocked_function", what);
	JSONW_BOOL(cs->w, "io_wait", r->flags & PTB_SCHED_IO);
	if (held)
		JSONW_U64(cs->w, "holder", r->holder);
	if (r->waker_tid)
		JSONW_U64(cs->w, "waker", r->waker_tid);
	chrome_event__end(cs->w);
}

void chrome_sched__event(struct chrome_sched *cs, const struct sched_event *ev)
{
	struct state_thread *t =
		list__keyed(KEYED_LIST(cs, threads, thread), ev->at.tgid, ev->at.tid);
	uint64_t ready;

	t->tgid = ev->at.tgid;
	t->tid = ev->at.tid;
	if (!t->until_ns)
		t->until_ns = ev->wait ? ev->begin_ns :
					 ev->since_ns; /* a wait: what is before it is lost */
	t->known_ns = ev->end_ns;
	if (!ev->wait)
		return;
	ready = ev->preempted ? ev->begin_ns : ev->end_ns - ev->ns[PTB_WAIT_CPU];
	put_state(cs, "Running", t, t->until_ns, ev->begin_ns);
	put_wait(cs, t, ev, ready);
	put_state(cs, "R", t, ready, ev->end_ns);
	t->until_ns = ev->end_ns;
}

void chrome_sched__finish(const struct chrome_sched *cs)
{
	for (uint32_t i = 0; i < cs->thread_cnt; i++)
		put_state(cs, "Running", &cs->threads[i], cs->threads[i].until_ns,
			  cs->threads[i].known_ns);
}
