/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The thread waits for the GIL, which other threads of its program hold. */
#include <stdio.h>
#include <stdlib.h>

#include "why/why_priv.h"

struct state {
	struct why_amount waits;
	struct why_peers holders;
	struct why_lines lines; /* in which the thread itself ran, by samples */
};

static void take_wait(const struct why_seen *seen, const struct sched_event *ev, void *state)
{
	struct state *st = state;

	why_amount__add(seen, &st->waits, ev->ns[PTB_WAIT_GIL], ev->voluntary);
	if (ev->wait && ev->wait->holder && ev->wait->what == PTB_WAIT_GIL)
		why_peers__add(&st->holders, seen->t->tgid, ev->wait->holder, ev->ns[PTB_WAIT_GIL]);
}

static void take_sample(const struct why_seen *seen, const struct py_sample *ps, void *state)
{
	if (py_sample__state(ps) == SAMPLE_RUNNING)
		why_lines__add(seen, &((struct state *)state)->lines, ps->stack, ps->ns, 1);
}

/* " of thread 12 (metrics) at train.py:6" */
static void say_holder(const struct why_case *c, const struct state *st, char *buf, size_t cap)
{
	const struct why_peer *most = why_peers__most(&st->holders);
	const struct why_line *line = NULL;
	const struct why_thread *t;
	struct state *own;
	uint64_t ns, cnt;
	char at[PY_TEXT_MAX + 8];

	*buf = '\0';
	if (!most)
		return;
	t = why__thread(c->w, c->t.tgid, most->tid);
	own = why__state(c->w, c->t.tgid, most->tid, &rule_gil);
	if (own)
		line = why_lines__most(t, &own->lines, &ns, &cnt);
	snprintf(buf, cap, ", mostly while thread %u (%s) holds it%s", most->tid,
		 session__thread_label(c->args->s, c->t.tgid, most->tid),
		 why__at(c, line ? line->line : 0, at));
}

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	struct state *st = state;
	char holder[384];

	(void)report;
	why_cause__costs(c, out, why_amount__ns(c->thread, &st->waits));
	say_holder(c, st, holder, sizeof(holder));
	why_cause__evidence(out, "the thread waits for the GIL: %s%s%s",
			    unit__ns((double)out->step_ns).text, why__per(c), holder);
	why_cause__change(
		out,
		"move what the other thread does into another process, or into code that releases the GIL");
	why_cause__next(out, "ptbpf report %s --sched", c->args->capture);
}

static void free_state(void *state)
{
	struct state *st = state;

	why_peers__free(&st->holders);
	why_lines__free(&st->lines);
}

const struct why_rule rule_gil = {
	.name = "gil",
	.title = "waiting for the GIL",
	.needs = WHY_SCHED,
	.state = sizeof(struct state),
	.throughout = true,
	.sched = take_wait,
	.all_samples = take_sample,
	.judge = judge,
	.free = free_state,
};
