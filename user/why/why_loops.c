/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Loops of a program: the same few operators over and over, called by Python. Of each depth of a
 * thread the last operators are kept; the next one continues a loop if it is the one that was a
 * period before.
 */
#include <string.h>

#include "why/why_priv.h"

#define AT(nr) ((nr) % LOOP_BODY_MAX)
/* What takes longer counts as so much: among small operators it is one that waited for a CPU. */
#define LOOP_OP_MAX_NS (10ULL * WHY_LOOP_OP_NS)

/* Python's own calls, not those of an operator, an optimizer or a data loader. */
static bool is_programs(uint32_t cat, const char *name)
{
	return cat != SLICE_CPU_OP && time_class__of_annotation(name) == TIME_CLASSES;
}

static bool in_program(const struct why_seen *seen, const struct slice *around)
{
	struct open_slice list[2];
	const struct slice *sl = seen->sl;
	uint32_t cnt;

	if (!sl)
		return true;
	if (around)
		return is_programs(around->cat, around->name);
	cnt = session__open_slices(why__session(seen->w), sl->tgid, sl->tid, list, 2);
	for (uint32_t i = 0; i < cnt; i++)
		if (list[i].id == sl->parent)
			return is_programs(list[i].cat, list[i].name);
	return !sl->parent;
}

/* around: what they lie in, if that ends now. */
static void end_loop(const struct why_seen *seen, struct loop_level *l, const struct slice *around)
{
	uint32_t period = l->period;
	const char *body[LOOP_BODY_MAX];
	struct why_loop loop = { .body = body,
				 .body_cnt = period,
				 .begin_ns = l->begin_ns,
				 .op_ns = l->op_ns,
				 .stack = l->stack };

	l->period = 0;
	if (!period)
		return;
	loop.repeats = 1 + l->matched / period;
	if (loop.repeats < WHY_LOOP_REPEATS || !in_program(seen, around))
		return;
	if (l->before && !strcmp(l->before, "aten::unbind")) /* it iterates over a tensor */
		loop.begin_ns = l->before_ns;
	loop.ns = l->end_ns - loop.begin_ns;
	for (uint32_t i = 0; i < period; i++)
		body[i] = l->names[AT(l->seen - period + i)];
	why__take_loop(seen, &loop);
}

/*
 * How far back the operator was before, 0: not lately. Where its predecessor was the same, too,
 * rather than where it was last: an operator may be in the body twice.
 */
static uint32_t find_period(const struct loop_level *l, const char *name)
{
	uint64_t max = l->seen < LOOP_BODY_MAX ? l->seen : LOOP_BODY_MAX;
	uint32_t last = 0;

	for (uint32_t d = 1; d <= max; d++) {
		if (l->names[AT(l->seen - d)] != name)
			continue;
		if (d < max && l->names[AT(l->seen - d - 1)] == l->names[AT(l->seen - 1)])
			return d;
		last = last ? last : d;
	}
	return last;
}

static void begin_loop(struct loop_level *l)
{
	uint64_t first = l->seen - l->period;
	bool known = first && l->period < LOOP_BODY_MAX;

	l->begin_ns = l->begins[AT(first)];
	l->stack = l->stacks[AT(first)];
	l->before = known ? l->names[AT(first - 1)] : NULL;
	l->before_ns = known ? l->begins[AT(first - 1)] : 0;
}

static void take_op(const struct why_seen *seen, struct loop_level *l)
{
	const struct slice *sl = seen->sl;
	uint64_t dur = sl->end_ns - sl->begin_ns;

	if (dur > LOOP_OP_MAX_NS)
		dur = LOOP_OP_MAX_NS;
	if (l->period && l->names[AT(l->seen - l->period)] == sl->name) {
		l->matched++;
		l->op_ns += dur;
	} else {
		end_loop(seen, l, NULL);
		l->period = find_period(l, sl->name);
		l->matched = 1;
		l->op_ns = dur;
		if (l->period)
			begin_loop(l);
	}
	l->end_ns = sl->end_ns;
	l->names[AT(l->seen)] = sl->name;
	l->begins[AT(l->seen)] = sl->begin_ns;
	l->stacks[AT(l->seen)] = sl->stack;
	l->seen++;
}

void why_loops__slice(const struct why_seen *seen)
{
	struct why_thread *t = seen->t;
	uint32_t depth = seen->sl->depth;

	while (t->level_cnt > depth + 1) {
		end_loop(seen, &t->levels[t->level_cnt - 1], seen->sl);
		t->level_cnt--;
	}
	while (t->level_cnt <= depth)
		vec_push(t->levels, t->level_cnt, t->level_cap, (struct loop_level){ .seen = 0 });
	if (seen->sl->cat == SLICE_CPU_OP) {
		take_op(seen, &t->levels[depth]);
		return;
	}
	end_loop(seen, &t->levels[depth], NULL);
	t->levels[depth].seen = 0;
}

void why_loops__end(const struct why_seen *seen)
{
	if (seen->t->level_cnt)
		end_loop(seen, &seen->t->levels[0], NULL);
}

/* ---- for rules ---- */

bool why_loop__has(const struct why_loop *l, const char *const *names)
{
	for (; *names; names++)
		for (uint32_t i = 0; i < l->body_cnt; i++)
			if (!strcmp(l->body[i], *names))
				return true;
	return false;
}

bool why_loop__is_tiny(const struct why_loop *l)
{
	return l->op_ns / (l->repeats * l->body_cnt) < WHY_LOOP_OP_NS;
}

void why_loop_state__add(const struct why_seen *seen, struct why_loop_state *st,
			 const struct why_loop *l, const char *op)
{
	if (l->ns > st->op_ns) {
		st->op_ns = l->ns;
		st->op = op;
	}
	why_lines__add(seen, &st->lines, l->stack, l->ns, l->repeats);
}

void why_loop_state__free(void *state)
{
	why_lines__free(&((struct why_loop_state *)state)->lines);
}
