/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Python calls so many small operators that calling them is what takes the time. */
#include "why/why_priv.h"

static bool take_loop(const struct why_seen *seen, const struct why_loop *l, void *state)
{
	if (l->repeats < WHY_DISPATCH_REPEATS || !why_loop__is_tiny(l))
		return false;
	why_loop_state__add(seen, state, l, l->body[0]);
	return true;
}

static void judge_loops(const struct why_case *c, struct why_loop_state *st, struct why_cause *out)
{
	uint64_t ns, cnt;
	const struct why_line *most = why_lines__most(c->thread, &st->lines, &ns, &cnt);
	char at[PY_TEXT_MAX + 8];

	if (!most)
		return;
	why_cause__costs(c, out, ns);
	out->line = most->line;
	out->op = st->op;
	why_cause__evidence(
		out, "%s and the like %s times%s in loops%s, %s with the Python between them",
		st->op, cell__count(cnt / c->steps).text, why__per(c), why__at(c, most->line, at),
		unit__ns((double)out->step_ns).text);
}

/* The Python between all operators of a step, without what probes add to it. */
static void judge_gaps(const struct why_case *c, struct why_cause *out)
{
	double share = time__share(c->in.gaps_ns, c->whole_ns) - c->probes;
	uint64_t ops = c->in.ops;

	if (c->later_parts)
		share = c->later_parts[WHY_PART_PYTHON];
	if (share < WHY_PYTHON_SHARE || ops / c->steps < WHY_PYTHON_OPS ||
	    c->in.ns[TIME_OPERATORS] / ops > WHY_PYTHON_OP_NS || share <= out->share)
		return;
	why_cause__takes(c, out, share);
	out->line = 0;
	out->op = NULL;
	why_cause__evidence(out, "%s operators%s, of %s on average, with %s of Python between them",
			    cell__count(ops / c->steps).text, why__per(c),
			    unit__ns((double)(c->in.ns[TIME_OPERATORS] / ops)).text,
			    unit__ns((double)out->step_ns).text);
}

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	(void)report;
	judge_loops(c, state, out);
	judge_gaps(c, out);
	why_cause__change(
		out, "fewer and larger operators: larger batches, whole tensors, torch.compile()");
	why_cause__next_line(c, out);
}

const struct why_rule rule_dispatch = {
	.name = "dispatch",
	.title = "many small operators",
	.needs = WHY_OPERATORS,
	.state = sizeof(struct why_loop_state),
	.loop = take_loop,
	.judge = judge,
	.free = why_loop_state__free,
};
