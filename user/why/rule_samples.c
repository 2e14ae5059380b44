/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The thread runs, but not for the program: it collects garbage, or the kernel gives it memory.
 * Samples say so. Two rules with one judgement: each has a row.
 */
#include <stdio.h>

#include "export/facts_json.h"
#include "why/why_priv.h"

struct state {
	struct why_amount time;
	struct why_lines lines;
};

static void add(const struct why_seen *seen, const struct py_sample *ps, uint32_t flag, void *state)
{
	struct state *st = state;

	if (!(ps->flags & flag))
		return;
	why_amount__add(seen, &st->time, ps->ns, 1);
	if (ps->stack)
		why_lines__add(seen, &st->lines, ps->stack, ps->ns, 1);
}

static void judge(const struct why_case *c, struct state *st, bool collects, const char *what,
		  const char *change, struct why_cause *out)
{
	const struct why_line *line;
	char at[PY_TEXT_MAX + 8], full[64] = "";
	double collected = collects ? session_json__full_collections(c->args->s, c->proc->pid) : -1;
	uint64_t ns, cnt;

	why_cause__costs(c, out, why_amount__ns(c->thread, &st->time));
	line = why_lines__most(c->thread, &st->lines, &ns, &cnt);
	out->line = line ? line->line : 0;
	if (collected >= 0)
		snprintf(full, sizeof(full), "; %.3g full collections in the window", collected);
	why_cause__evidence(out, "%s%s%s: %s%s, by %s samples%s", what, out->line ? ", mostly" : "",
			    why__at(c, out->line, at), unit__ns((double)out->step_ns).text,
			    why__per(c), cell__count(st->time.all_cnt).text, full);
	why_cause__change(out, "%s", change);
}

static void free_state(void *state)
{
	why_lines__free(&((struct state *)state)->lines);
}

#define RULE(id, rule_title, needed, flag, what, advice, command)                                  \
	static void take_##id(const struct why_seen *seen, const struct py_sample *ps,             \
			      void *state)                                                         \
	{                                                                                          \
		add(seen, ps, flag, state);                                                        \
	}                                                                                          \
	static void judge_##id(const struct why_case *c, void *state, void *report,                \
			       struct why_cause *out)                                              \
	{                                                                                          \
		(void)report;                                                                      \
		judge(c, state, (flag) == PTB_SAMPLE_GC, what, advice, out);                       \
		why_cause__next(out, "sudo ptbpf attach --pid %u -d 5s " command, c->proc->pid);   \
	}                                                                                          \
	const struct why_rule rule_##id = {                                                        \
		.name = #id,                                                                       \
		.title = rule_title,                                                               \
		.needs = needed,                                                                   \
		.state = sizeof(struct state),                                                     \
		.throughout = true,                                                                \
		.all_samples = take_##id,                                                          \
		.judge = judge_##id,                                                               \
		.free = free_state,                                                                \
	};

RULE(garbage_collection, "garbage collection", WHY_SAMPLES | WHY_SCHED, PTB_SAMPLE_GC,
     "Python collects garbage",
     "gc.freeze() when all is set up and a higher gc.set_threshold(), or gc.disable() and gc.collect() now and then",
     "--sample-stacks 99")
RULE(fresh_memory, "fresh memory", WHY_SAMPLES, PTB_SAMPLE_MEMORY,
     "the kernel gives memory to the thread and takes it back",
     "use the same tensors again (out=), or let malloc keep memory: MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_, jemalloc, tcmalloc",
     "--kernel-memory")
