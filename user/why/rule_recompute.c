/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Activations are computed again in the backward pass: torch.utils.checkpoint. Operators that run
 * with autograd on, and so have a sequence number, within a node's backward are forward ones. With
 * create_graph=True those of all nodes are so; with checkpoints the nodes' own ones are not.
 */
#include <stdlib.h>
#include <string.h>

#include "why/why_priv.h"

struct state {
	struct why_outer again_list, plain_list;
	struct why_amount again, plain; /* plain: of nodes, without a sequence number */
	uint32_t stack;
};

static bool takes(const struct slice *sl)
{
	return sl->cat == SLICE_CPU_OP && !strncmp(sl->name, "aten::", 6);
}

static void take_slice(const struct why_seen *seen, void *state)
{
	struct state *st = state;
	const struct slice *sl = seen->sl;

	if (!sl->backward)
		return;
	if (sl->seq < 0) {
		struct why_seen aside = *seen;

		aside.end_ns = 0; /* it is no part of the cause */
		why_outer__add(&aside, &st->plain_list, &st->plain);
		return;
	}
	st->stack = sl->stack ? sl->stack : st->stack;
	why_outer__drop(seen, &st->plain_list, &st->plain);
	why_outer__add(seen, &st->again_list, &st->again);
}

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	struct state *st = state;
	uint64_t ns = why_amount__ns(c->thread, &st->again);
	char at[PY_TEXT_MAX + 8];

	(void)report;
	if ((double)why_amount__ns(c->thread, &st->plain) < WHY_PLAIN_BACKWARD * (double)ns)
		return;
	why_cause__costs(c, out, ns);
	out->line = why__line(c->w, st->stack);
	why_cause__evidence(out, "the backward pass%s runs forward operators: %s%s",
			    why__at(c, out->line, at), unit__ns((double)out->step_ns).text,
			    why__per(c));
	why_cause__change(
		out, "checkpoint fewer layers: torch.utils.checkpoint trades this time for memory");
	why_cause__next_line(c, out);
}

static void free_state(void *state)
{
	free(((struct state *)state)->again_list.list);
	free(((struct state *)state)->plain_list.list);
}

const struct why_rule rule_recompute = {
	.name = "recompute",
	.title = "activations computed again",
	.needs = WHY_OPERATORS,
	.state = sizeof(struct state),
	.takes = takes,
	.slice = take_slice,
	.judge = judge,
	.free = free_state,
};
