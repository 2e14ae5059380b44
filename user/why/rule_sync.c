/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The program fetches values of tensors one by one: in a loop of Python, or on a GPU, where it
 * waits for all that was launched.
 */
#include <string.h>

#include "why/why_priv.h"

static const char *const fetches[] = { "aten::item", "aten::_local_scalar_dense",
				       "aten::is_nonzero", NULL };
static const char *const elements[] = { "aten::select", "aten::index", NULL };

struct state {
	struct why_loop_state loops;
	struct why_lines waits; /* of single ones, by line */
};

/* A loop over the elements of a tensor is rule_indexing's. */
static bool take_loop(const struct why_seen *seen, const struct why_loop *l, void *state)
{
	if (!why_loop__has(l, fetches) || why_loop__has(l, elements) || !why_loop__is_tiny(l))
		return false;
	why_loop_state__add(seen, &((struct state *)state)->loops, l, "aten::item");
	return true;
}

static bool takes(const struct slice *sl)
{
	static const char *const names[] = { "aten::item", "aten::nonzero" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (sl->cat == SLICE_CPU_OP && !strcmp(sl->name, names[i]))
			return true;
	return false;
}

static void take_slice(const struct why_seen *seen, void *state)
{
	const struct slice *sl = seen->sl;
	struct why_seen own = *seen;

	if (!session__info(why__session(seen->w))->has_gpu)
		own.end_ns = 0; /* it is no part of the cause */
	why_lines__add(&own, &((struct state *)state)->waits, sl->stack, sl->end_ns - sl->begin_ns,
		       1);
}

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	struct state *st = state;
	uint64_t loop_ns, loop_cnt, wait_ns, wait_cnt;
	const struct why_line *loop =
		why_lines__most(c->thread, &st->loops.lines, &loop_ns, &loop_cnt);
	const struct why_line *wait = why_lines__most(c->thread, &st->waits, &wait_ns, &wait_cnt);
	const struct why_line *most;
	char at[PY_TEXT_MAX + 8];

	(void)report;
	if (!c->args->totals->gpu_calls) /* on a CPU it is the operators' own work */
		wait_ns = 0;
	most = wait_ns > loop_ns ? wait : loop;
	if (!most)
		return;
	why_cause__costs(c, out, wait_ns > loop_ns ? wait_ns : loop_ns);
	out->line = most->line;
	out->op = "aten::item";
	why_cause__evidence(out, "item() %s times%s%s: %s%s",
			    cell__count((wait_ns > loop_ns ? wait_cnt : loop_cnt) / c->steps).text,
			    why__per(c), why__at(c, most->line, at),
			    wait_ns > loop_ns ? "the program waits for the GPU, " : "",
			    unit__ns((double)out->step_ns).text);
	why_cause__change(
		out,
		"keep the values as tensors and fetch them once, with tolist(), or every N steps");
	why_cause__next_line(c, out);
}

static void free_state(void *state)
{
	struct state *st = state;

	why_loop_state__free(&st->loops);
	why_lines__free(&st->waits);
}

const struct why_rule rule_sync = {
	.name = "synchronisation",
	.title = "values fetched one by one",
	.needs = WHY_OPERATORS,
	.state = sizeof(struct state),
	.takes = takes,
	.slice = take_slice,
	.loop = take_loop,
	.judge = judge,
	.free = free_state,
};
