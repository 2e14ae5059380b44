/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See targets.h. */
#define LOG_DOMAIN "agent"
#include "record/targets.h"

#include "base/clock.h"
#include "base/log.h"

#define LOOK_EVERY_NS 500000000ULL /* for torch in a process that had none */
#define LOOKS_SLOWER 4             /* of them, each after twice the time */

/* It has answered: samples read there from now on. */
static void use(struct targets *ts, struct target *t)
{
	struct ptb_py_layout layout = t->python.layout;
	int err = target_agent__open_ops(t->agent, t->pid, &layout);
	uint64_t on = layout.open_on;

	layout.open_on = 0; /* a sample may be taken while it is being written */
	if (!err)
		err = probe_set__python(ts->ps, t->proc_idx, &layout);
	layout.open_on = on;
	if (!err)
		err = probe_set__python(ts->ps, t->proc_idx, &layout);
	if (err)
		pr_warn("pid %d: samples do not say which operator was open: %s", t->pid,
			errstr(err));
	t->open_known = !err;
	t->agent->ops = !err;
}

void target_open__begin(struct targets *ts, struct target *t, const struct torch_proc *tp)
{
	struct target_agent *found;
	struct shared_plan *sp;
	struct proc_ops po;

	if (ts->opts->agent == AGENT_OFF || !torch_proc__ready(tp))
		return;
	t->open_tried = true;
	found = target_agent__find(t->pid, t->mem, ts->opts, t->agent_why, sizeof(t->agent_why));
	if (!found) {
		if (t->agent_why[0])
			targets__say_agent(ts, t, t->agent_why);
		return;
	}
	target_agent__free(found); /* a plan takes long, and only an agent needs it */
	sp = targets__plan(ts, tp->libs, ts->opts->no_cache);
	if (!sp || targets__verify_plan(tp, sp))
		return;
	proc_ops__init(&po, tp, sp->plan);
	targets__request_agent(ts, t, &po);
	proc_ops__free(&po);
	if (t->agent && t->agent->ops)
		use(ts, t);
}

/* Torch may be loaded at any time. */
static void look_for_torch(struct targets *ts, struct target *t)
{
	uint64_t now = clock__mono_ns();
	struct torch_proc *tp = NULL;
	enum torch_proc_why why;

	if (now < t->next_facts_ns)
		return;
	t->next_facts_ns = now + (LOOK_EVERY_NS << t->tries);
	t->tries += t->tries < LOOKS_SLOWER;
	if (torch_proc__peek(t->pid) <= 0 || torch_proc__open_any(t->pid, &tp, &why))
		return;
	target_open__begin(ts, t, tp);
	torch_proc__free(tp);
}

void target_open__follow(struct targets *ts, struct target *t)
{
	if (ts->opts->agent != AGENT_OFF && !t->open_tried)
		look_for_torch(ts, t);
	if (!t->agent)
		return;
	if (t->agent->answer == AGENT_PENDING &&
	    target_agent__poll(t->agent, t->pid) != AGENT_PENDING) {
		if (t->agent->ops)
			use(ts, t);
		else
			targets__say_agent(ts, t, t->agent->why);
	}
	if (t->open_known && target_agent__gave_up(t->agent, ts->rec, t->pid)) {
		t->open_known = false;
		ts->agents_gave_up++;
		pr_warn("pid %d: samples no longer say which operator was open: its agent: %s",
			t->pid, t->agent->why);
	}
}
