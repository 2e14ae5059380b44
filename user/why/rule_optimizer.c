/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The optimizer works on each parameter: torch.profiler's OptimizerSingleTensorPattern. */
#include <string.h>

#include "why/why_priv.h"

struct state {
	struct why_amount steps, ops; /* the optimizer's; their operators */
	const char *name;
	uint32_t stack;
};

static bool takes(const struct slice *sl)
{
	return sl->cat == SLICE_USER_ANNOTATION &&
	       !strncmp(sl->name, SESSION_STEP_ON, sizeof(SESSION_STEP_ON) - 1);
}

static void take_slice(const struct why_seen *seen, void *state)
{
	struct state *st = state;
	const struct slice *sl = seen->sl;

	st->name = sl->name;
	st->stack = sl->stack;
	why_amount__add(seen, &st->steps, sl->end_ns - sl->begin_ns, 1);
	why_amount__add(seen, &st->ops, seen->in->ns[TIME_OPERATORS], seen->in->ops);
}

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	struct state *st = state;
	uint64_t ns = why_amount__ns(c->thread, &st->steps);
	uint64_t cnt = why_amount__cnt(c->thread, &st->steps);
	uint64_t ops = why_amount__cnt(c->thread, &st->ops);
	uint64_t op_ns = ops ? why_amount__ns(c->thread, &st->ops) / ops : 0;
	char at[PY_TEXT_MAX + 8];

	(void)report;
	if (!cnt || ops / cnt < WHY_OPTIMIZER_OPS || op_ns > WHY_OPTIMIZER_OP_NS ||
	    time__share(ns, c->whole_ns) < WHY_OPTIMIZER_SHARE)
		return;
	why_cause__costs(c, out, ns);
	out->line = why__line(c->w, st->stack);
	why_cause__evidence(out, "%.64s%s calls %s operators, of %s on average: %s%s",
			    strchr(st->name, '#') ? strchr(st->name, '#') + 1 : st->name,
			    why__at(c, out->line, at), cell__count(ops / cnt).text,
			    unit__ns((double)op_ns).text, unit__ns((double)out->step_ns).text,
			    why__per(c));
	why_cause__change(
		out, "give the optimizer fused=True, or foreach=True where it has no fused one");
	why_cause__next_line(c, out);
}

const struct why_rule rule_optimizer = {
	.name = "optimizer",
	.title = "optimizer works parameter by parameter",
	.needs = WHY_OPERATORS,
	.state = sizeof(struct state),
	.takes = takes,
	.slice = take_slice,
	.judge = judge,
};
