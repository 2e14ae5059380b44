/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A loop of Python over the elements of a tensor: torch.profiler's ForLoopIndexingPattern. */
#include "why/why_priv.h"

static const char *const elements[] = { "aten::select", "aten::index", "aten::index_put_", NULL };
/* What only one step after the other can do: a recurrent model. */
static const char *const layers[] = { "aten::linear", "aten::addmm",  "aten::mm",     "aten::bmm",
				      "aten::matmul", "aten::conv1d", "aten::conv2d", NULL };

static bool take_loop(const struct why_seen *seen, const struct why_loop *l, void *state)
{
	if (!why_loop__has(l, elements) || why_loop__has(l, layers) || !why_loop__is_tiny(l))
		return false;
	why_loop_state__add(seen, state, l, "aten::select");
	return true;
}

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	struct why_loop_state *st = state;
	uint64_t ns, cnt;
	const struct why_line *most = why_lines__most(c->thread, &st->lines, &ns, &cnt);
	char at[PY_TEXT_MAX + 8];

	(void)report;
	if (!most)
		return;
	why_cause__costs(c, out, ns);
	out->line = most->line;
	out->op = st->op;
	why_cause__evidence(out, "a loop%s takes elements of a tensor one by one, %s times%s: %s",
			    why__at(c, most->line, at), cell__count(cnt / c->steps).text,
			    why__per(c), unit__ns((double)out->step_ns).text);
	why_cause__change(out, "compute on the whole tensor in place of its elements");
	why_cause__next_line(c, out);
}

const struct why_rule rule_indexing = {
	.name = "loop_indexing",
	.title = "loop over the elements of a tensor",
	.needs = WHY_OPERATORS,
	.state = sizeof(struct why_loop_state),
	.loop = take_loop,
	.judge = judge,
	.free = why_loop_state__free,
};
