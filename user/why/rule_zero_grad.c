/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Gradients are filled with zeros, not dropped: torch.profiler's GradNotSetToNonePattern. */
#include <string.h>

#include "why/why_priv.h"

struct state {
	struct why_amount fills;
	uint32_t stack;
};

static bool takes(const struct slice *sl)
{
	static const char name[] = "Optimizer.zero_grad"; /* torch/optim/optimizer.py */

	return sl->cat == SLICE_USER_ANNOTATION && !strncmp(sl->name, name, sizeof(name) - 1);
}

/* Gradients that are dropped need no operator. */
static void take_slice(const struct why_seen *seen, void *state)
{
	struct state *st = state;
	const struct slice *sl = seen->sl;

	if (!seen->in->ops)
		return;
	st->stack = sl->stack;
	why_amount__add(seen, &st->fills, sl->end_ns - sl->begin_ns, seen->in->ops);
}

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	struct state *st = state;
	char at[PY_TEXT_MAX + 8];

	(void)report;
	why_cause__costs(c, out, why_amount__ns(c->thread, &st->fills));
	out->line = why__line(c->w, st->stack);
	why_cause__evidence(out, "zero_grad()%s fills the gradients with zeros: %s%s",
			    why__at(c, out->line, at), unit__ns((double)out->step_ns).text,
			    why__per(c));
	why_cause__change(out, "zero_grad(set_to_none=True), which is the default");
	why_cause__next_line(c, out);
}

const struct why_rule rule_zero_grad = {
	.name = "zero_grad",
	.title = "gradients set to zero, not to None",
	.needs = WHY_OPERATORS,
	.state = sizeof(struct state),
	.takes = takes,
	.slice = take_slice,
	.judge = judge,
};
