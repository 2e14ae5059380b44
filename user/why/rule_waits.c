/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The thread sleeps, or waits for a lock, a file, or another process: outside of operators, data
 * loaders and collectives, which have rules of their own. Or it waits for memory, anywhere. Five
 * rules with one judgement: each has a row.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "why/why_priv.h"

struct state {
	struct why_amount waits;
	struct why_lines lines;
	struct why_peers wakers;
	uint64_t sampled_ns; /* when it was seen not to run last, */
	uint32_t stack;      /* and where */
};

/* Threads of torch's own pools: what they work at counts as theirs. */
static bool is_torchs(const struct why_seen *seen, const struct ptb_sched_wait *r)
{
	static const char pool[] = "pt_";
	const struct session *s = why__session(seen->w);

	return r && !strncmp(session__thread_comm(s, r->waker_tgid, r->waker_tid), pool,
			     sizeof(pool) - 1);
}

static void add(const struct why_seen *seen, struct state *st, const struct sched_event *ev,
		uint32_t kinds, bool anywhere)
{
	enum time_class class = anywhere ? TIME_CLASSES : why__class_at(&ev->at);
	const struct ptb_sched_wait *r = ev->wait;
	uint32_t stack = ev->at.stack;
	uint64_t ns = 0;

	for (uint32_t k = 0; k < PTB_WAIT_CNT; k++)
		ns += kinds >> k & 1 ? ev->ns[k] : 0;
	if (!ns || class != TIME_CLASSES || is_torchs(seen, r))
		return;
	why_amount__add(seen, &st->waits, ns, ev->voluntary);
	if (!stack && st->sampled_ns >= ev->begin_ns && st->sampled_ns <= ev->end_ns)
		stack = st->stack;
	if (stack)
		why_lines__add(seen, &st->lines, stack, ns, 1);
	if (r && r->waker_tid)
		why_peers__add(&st->wakers, r->waker_tgid, r->waker_tid, ns);
}

static void take_sample(const struct why_seen *seen, const struct py_sample *ps, void *state)
{
	struct state *st = state;

	(void)seen;
	if (py_sample__state(ps) == SAMPLE_RUNNING || !ps->stack)
		return;
	st->sampled_ns = ps->ts_ns;
	st->stack = ps->stack;
}

static void judge(const struct why_case *c, struct state *st, uint32_t kinds, const char *what,
		  bool woken, const char *change, struct why_cause *out)
{
	const struct why_peer *w = woken ? why_peers__most(&st->wakers) : NULL;
	const struct why_line *line;
	char at[PY_TEXT_MAX + 8], by[160] = "";
	uint64_t ns, cnt;

	if (c->later_parts && !st->waits.throughout)
		why_cause__takes(c, out,
				 why_later__waits(c->thread, c->later_ns, kinds, st->waits.all_ns));
	else
		why_cause__costs(c, out, why_amount__ns(c->thread, &st->waits));
	line = why_lines__most(c->thread, &st->lines, &ns, &cnt);
	if (w)
		snprintf(by, sizeof(by), ", mostly until thread %u (%s) of process %u ends it",
			 w->tid, session__thread_label(c->args->s, w->tgid, w->tid), w->tgid);
	why_cause__evidence(out, "%s%s: %s%s%s", what, why__at(c, line ? line->line : 0, at),
			    unit__ns((double)out->step_ns).text, why__per(c), by);
	out->line = line ? line->line : 0;
	why_cause__change(out, "%s", change);
	why_cause__next(out, "ptbpf report %s --sched", c->args->capture);
}

static void free_state(void *state)
{
	struct state *st = state;

	why_lines__free(&st->lines);
	why_peers__free(&st->wakers);
}

#define RULE(id, rule_title, kinds, anywhere, what, woken, advice)                                 \
	static void take_##id(const struct why_seen *seen, const struct sched_event *ev,           \
			      void *state)                                                         \
	{                                                                                          \
		add(seen, state, ev, kinds, anywhere);                                             \
	}                                                                                          \
	static void judge_##id(const struct why_case *c, void *state, void *report,                \
			       struct why_cause *out)                                              \
	{                                                                                          \
		(void)report;                                                                      \
		judge(c, state, kinds, what, woken, advice, out);                                  \
	}                                                                                          \
	const struct why_rule rule_##id = {                                                        \
		.name = #id,                                                                       \
		.title = rule_title,                                                               \
		.needs = WHY_SCHED,                                                                \
		.state = sizeof(struct state),                                                     \
		.throughout = anywhere,                                                            \
		.sched = take_##id,                                                                \
		.all_samples = take_sample,                                                        \
		.judge = judge_##id,                                                               \
		.free = free_state,                                                                \
	};

RULE(sleep, "sleeping", 1u << PTB_WAIT_SLEEP, false, "the thread sleeps", false,
     "wait for what the sleep is for, or do it in another thread")
RULE(lock, "waiting for a lock", 1u << PTB_WAIT_LOCK, false,
     "the thread waits for a lock, a condition or a queue", true,
     "hold the lock for a shorter time, or hand over what is needed before it is needed")
RULE(file_io, "reading and writing files", 1u << PTB_WAIT_FILE, false, "the thread waits for files",
     false, "do it in another thread or less often, without fsync, or on a faster disk")
RULE(other_process, "waiting for another process", 1u << PTB_WAIT_PIPE | 1u << PTB_WAIT_POLL, false,
     "the thread waits for a pipe, a socket or what it polls", true,
     "let the other side send earlier, or more than one item ahead")
RULE(memory_wait, "waiting for memory", 1u << PTB_WAIT_MEMORY, true,
     "the thread waits for memory: for pages from a disk or from swap, or for other threads that map and unmap",
     false,
     "use less memory or give the process more: its control group's limit, swap, and files that it maps")
