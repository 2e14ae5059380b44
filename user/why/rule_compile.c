/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * torch.compile is at work, or compiles again: samples in its code, or the annotations that it had
 * until torch 2.5 without a profiler (torch/_dynamo/utils.py, dynamo_timed()).
 */
#include <stdlib.h>
#include <string.h>

#include "why/why_priv.h"

static const char timed[] = " (dynamo_timed)", compile[] = "_compile.compile_inner";

struct state {
	struct why_outer outer;
	struct why_amount work, frames, samples;
	uint32_t stack; /* of the last one that has one */
};

static bool takes(const struct slice *sl)
{
	size_t len = strlen(sl->name);

	return sl->cat == SLICE_USER_ANNOTATION && len >= sizeof(timed) - 1 &&
	       !strcmp(sl->name + len - (sizeof(timed) - 1), timed);
}

static void take_slice(const struct why_seen *seen, void *state)
{
	struct state *st = state;
	const struct slice *sl = seen->sl;

	why_outer__add(seen, &st->outer, &st->work);
	if (strncmp(sl->name, compile, sizeof(compile) - 1) != 0)
		return;
	st->stack = sl->stack ? sl->stack : st->stack;
	why_amount__add(seen, &st->frames, sl->end_ns - sl->begin_ns, 1);
}

/* What compiles a frame, and all that it calls. */
static bool takes_frame(const struct py_frame *f)
{
	static const char file[] = "torch/_dynamo/convert_frame.py";
	size_t len = strlen(f->file);

	return len >= sizeof(file) - 1 && !strcmp(f->file + len - (sizeof(file) - 1), file);
}

static void take_sample(const struct why_seen *seen, const struct py_sample *ps, void *state)
{
	struct state *st = state;

	st->stack = ps->stack;
	why_amount__add(seen, &st->samples, ps->ns, 1);
}

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	struct state *st = state;
	const struct session_info *info = session__info(c->args->s);
	uint64_t frames = why_amount__cnt(c->thread, &st->frames);
	uint64_t work = why_amount__ns(c->thread, &st->work);
	uint64_t sampled = why_amount__ns(c->thread, &st->samples);
	char at[PY_TEXT_MAX + 8];

	(void)report;
	if (!info->sample_hz && !info->with_samples && !work)
		out->lacks = WHY_SAMPLES;
	why_cause__costs(c, out, work > sampled ? work : sampled);
	out->line = why__line(c->w, st->stack);
	why_cause__evidence(out, "torch.compile compiles%s: %s%s", why__at(c, out->line, at),
			    unit__ns((double)out->step_ns).text, why__per(c));
	if (frames)
		why_cause__evidence(out, "torch.compile compiles%s: %s times, %s%s",
				    why__at(c, out->line, at), cell__count(frames).text,
				    unit__ns((double)out->step_ns).text, why__per(c));
	why_cause__change(
		out,
		"give the function the same shapes and constants each time, or dynamic=True; TORCH_LOGS=recompiles says which change");
	why_cause__next_line(c, out);
}

static void free_state(void *state)
{
	free(((struct state *)state)->outer.list);
}

const struct why_rule rule_compile = {
	.name = "compile",
	.title = "torch.compile at work",
	.state = sizeof(struct state),
	.throughout = true,
	.takes = takes,
	.slice = take_slice,
	.takes_frame = takes_frame,
	.sample = take_sample,
	.judge = judge,
	.free = free_state,
};
