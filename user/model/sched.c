/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What threads wait for when they do not run. A thread that does not run begins and ends no slice,
 * so what is open at the end of a wait was open all the time.
 */
#include "capture/capture.h"
#include "model/model_priv.h"

const char *py_sample__state_name(enum py_sample_state state)
{
	return state == SAMPLE_RUNNING ? "running" :
	       state == SAMPLE_QUEUED  ? "waiting for a CPU" :
					 "blocked";
}

const char *wait__name(uint32_t what)
{
	static const char *const names[PTB_WAIT_CNT] = {
#define X(name, nr, text, group) [nr] = text,
		PTB_WAITS(X)
#undef X
	};

	return what < PTB_WAIT_CNT ? names[what] : names[PTB_WAIT_OTHER];
}

enum wait_group wait__group(uint32_t what)
{
	static const uint8_t groups[PTB_WAIT_CNT] = {
#define X(name, nr, text, group) [nr] = WAITS_##group,
		PTB_WAITS(X)
#undef X
	};

	return (enum wait_group)groups[what];
}

static bool take_wait(const struct model *m, const struct ptb_sched_wait *r, struct sched_event *ev)
{
	uint64_t ready = r->ready_ns;

	ev->wait = r;
	if (r->what >= PTB_WAIT_CNT || ev->begin_ns > ready || ready > ev->end_ns)
		return false;
	if (ev->begin_ns < m->begin_ns)
		ev->begin_ns = m->begin_ns;
	if (ready < ev->begin_ns)
		ready = ev->begin_ns;
	ev->ns[r->what] = ready - ev->begin_ns;
	ev->ns[PTB_WAIT_CPU] += ev->end_ns - ready;
	ev->preempted = r->flags & PTB_SCHED_PREEMPTED ? 1 : 0;
	ev->voluntary = !ev->preempted;
	return true;
}

static bool take_sums(const struct model *m, const struct ptb_sched *r, struct sched_event *ev)
{
	uint64_t left;

	ev->since_ns = r->since_ns > m->begin_ns ? r->since_ns : m->begin_ns;
	if (!ev->begin_ns)
		ev->begin_ns = ev->end_ns;
	if (ev->begin_ns > ev->end_ns || ev->since_ns > ev->end_ns)
		return false;
	left = ev->end_ns - ev->begin_ns;
	for (uint32_t i = 0; i < PTB_WAIT_CNT; i++) {
		if (r->ns[i] > left)
			return false;
		left -= ev->ns[i] = r->ns[i];
	}
	ev->voluntary = r->voluntary;
	ev->preempted = r->preempted;
	return true;
}

void sched__record(struct model *m, struct thread *t, const struct ptb_rec_hdr *h)
{
	const struct ptb_sched_wait *w = (const void *)h;
	const struct ptb_sched *sums = (const void *)h;
	bool single = h->kind == PTB_REC_SCHED_WAIT;
	const struct entry *open;
	struct sched_event ev = { .end_ns = h->ts_ns,
				  .begin_ns = single ? w->begin_ns : sums->begin_ns };

	if (!(single ? take_wait(m, w, &ev) : take_sums(m, sums, &ev))) {
		m->totals->bad_records++;
		return;
	}
	open = stack__whole_context(m, t, h->tgid, h->tid, &ev.at).entry;
	if (!ev.at.stack && open)
		ev.at.stack = entry__py_stack(open);
	if (!model__leaves_out(m, ev.at.within))
		MODEL_EMIT(m, sched, &ev);
}
