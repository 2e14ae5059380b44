/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Shares of the part of a window in which operators are not recorded any more. Probes on operators
 * slow a program down, most where operators are small, so this part, which is the longer one, says
 * better how a step is spent.
 *
 * While operators are recorded each sample of a thread is known to lie in a class, and in what a
 * rule takes. Later samples of the same stack, or else of the same line, are taken to lie in the
 * same, in the same proportion. Waits are recorded all the time: their sums need only the share of
 * them that lay in nothing that has a class.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "why/why_priv.h"

/* Of fewer samples there is hardly a share. */
#define LEARNED_MIN 8
#define LATER_MIN 100

struct learned { /* a sample of the time in which operators are recorded */
	uint64_t ts_ns, ns;
	uint32_t stack; /* of stacks */
	uint32_t rules; /* bits */
	uint32_t part;
	bool in; /* of what is asked for */
};

struct later_place {
	uint64_t known_ns, later_ns;
	double weight, in; /* of the samples before; of those that lie in what is asked for */
	uint32_t line;     /* of lines: where the stack is */
};

struct why_later {
	struct learned *list;
	uint32_t cnt, cap;
	struct later_place *stacks, *lines; /* each blocked or not */
	uint32_t stack_cnt, stack_cap, line_cnt, line_cap;
	struct hashmap stack_ids, line_ids, hashes; /* hashes: of stacks by their numbers */
	uint64_t all_ns;                            /* samples of the later time */
	uint32_t all_cnt;
	uint64_t waits_ns[PTB_WAIT_CNT];
	bool settled;
};

void why_later__free(struct why_later *l)
{
	if (!l)
		return;
	free(l->list);
	free(l->stacks);
	free(l->lines);
	hashmap__clear(&l->stack_ids);
	hashmap__clear(&l->line_ids);
	hashmap__clear(&l->hashes);
	free(l);
}

static struct why_later *later_of(const struct why_seen *seen)
{
	struct why_thread *t = seen->t;

	if (!t->later && t->probed_until < session__info(why__session(seen->w))->end_ns)
		t->later = xcalloc(1, sizeof(*t->later));
	return t->later;
}

/* The same for all stacks with the same functions and lines. */
static uint64_t hash_of(const struct why_seen *seen, struct why_later *l, uint32_t stack)
{
	const struct session *s = why__session(seen->w);
	const uint64_t *known = hashmap__get(&l->hashes, stack, 0);
	struct py_stack st = session__py_stack(s, stack);
	uint64_t hash = stack;

	if (known)
		return *known;
	for (uint32_t i = 0; i < st.frame_cnt; i++) {
		struct py_frame f = session__py_frame(s, st.frames[i] & ~PY_FRAME_NATIVE);

		hash = (i ? hash : 0) * 0x9e3779b97f4a7c15ULL + f.code * 31 + (uint32_t)f.line;
		hash ^= hash >> 29;
	}
	hashmap__put(&l->hashes, stack, 0, hash);
	return hash;
}

static uint32_t part_of(const struct py_sample *ps, bool blocked)
{
	enum time_class class = why__class_at(&ps->at);

	if (class != TIME_CLASSES)
		return class;
	return blocked ? WHY_PART_WAIT : WHY_PART_PYTHON;
}

void why_later__sample(const struct why_seen *seen, const struct py_sample *ps)
{
	/* it waits for a CPU wherever it would run else */
	bool blocked = py_sample__state(ps) == SAMPLE_BLOCKED;
	struct why_later *l = later_of(seen);
	struct later_place *line, *stack;

	if (!l)
		return;
	line = list__keyed(KEYED_LIST(l, lines, line), why__line(seen->w, ps->stack), blocked);
	stack = list__keyed(KEYED_LIST(l, stacks, stack), hash_of(seen, l, ps->stack), blocked);
	stack->line = (uint32_t)(line - l->lines);
	if (ps->ts_ns > seen->t->probed_until) {
		stack->later_ns += ps->ns;
		l->all_ns += ps->ns;
		l->all_cnt++;
		return;
	}
	stack->known_ns += ps->ns;
	line->known_ns += ps->ns;
	vec_push(l->list, l->cnt, l->cap,
		 (struct learned){ .ts_ns = ps->ts_ns,
				   .ns = ps->ns,
				   .stack = (uint32_t)(stack - l->stacks),
				   .part = part_of(ps, blocked) });
}

void why_later__take(const struct why_seen *seen)
{
	struct why_later *l = seen->t->later;

	for (uint32_t i = l && seen->end_ns ? l->cnt : 0;
	     i && l->list[i - 1].ts_ns >= seen->begin_ns; i--)
		if (l->list[i - 1].ts_ns <= seen->end_ns)
			l->list[i - 1].rules |= 1u << seen->rule;
}

void why_later__wait(const struct why_seen *seen, const struct sched_event *ev)
{
	struct why_later *l = later_of(seen);

	for (uint32_t k = 0; k < PTB_WAIT_CNT && l; k++)
		l->waits_ns[k] += ev->ns[k];
}

/* ---- at the end ---- */

/* Samples of stacks that were not seen before count for their lines. */
static bool settle(struct why_later *l)
{
	for (uint32_t i = 0; l && !l->settled && i < l->stack_cnt; i++)
		if (!l->stacks[i].known_ns)
			l->lines[l->stacks[i].line].later_ns += l->stacks[i].later_ns;
	if (l)
		l->settled = true;
	return l && l->cnt >= LEARNED_MIN && l->all_cnt >= LATER_MIN && l->all_ns;
}

/* For its stack and its line. */
static void add_weight(struct why_later *l, const struct learned *at, double weight, bool in)
{
	struct later_place *stack = &l->stacks[at->stack], *line = &l->lines[stack->line];

	weight *= (double)at->ns;
	stack->weight += weight;
	line->weight += weight;
	stack->in += in ? weight : 0;
	line->in += in ? weight : 0;
}

static double later_in(struct later_place *list, uint32_t cnt)
{
	double sum = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		if (list[i].weight > 0)
			sum += (double)list[i].later_ns * list[i].in / list[i].weight;
		list[i].weight = list[i].in = 0;
	}
	return sum;
}

/*
 * The share of the later time that lies where the samples lie whose `in` is set. Before, exactly
 * `known` of the time did: few samples may say more or less, and are weighted to agree with it.
 */
static double share_in(struct why_later *l, double known)
{
	double all = 0, in = 0;

	for (uint32_t i = 0; i < l->cnt; i++) {
		all += (double)l->list[i].ns;
		in += l->list[i].in ? (double)l->list[i].ns : 0;
	}
	for (uint32_t i = 0; i < l->cnt; i++) {
		const struct learned *at = &l->list[i];

		if (in > 0 && in < all) {
			add_weight(l, at, at->in ? known / in : (1 - known) / (all - in), at->in);
		} else { /* all of them, or none, do: each in part */
			add_weight(l, at, known, true);
			add_weight(l, at, 1 - known, false);
		}
	}
	return (later_in(l->stacks, l->stack_cnt) + later_in(l->lines, l->line_cnt)) /
	       (double)l->all_ns;
}

double why_later__share(struct why_later *l, uint32_t rule, double known)
{
	if (!settle(l) || known >= 1)
		return known;
	for (uint32_t i = 0; i < l->cnt; i++)
		l->list[i].in = l->list[i].rules >> rule & 1;
	return share_in(l, known);
}

double why_later__waits(const struct why_thread *t, uint64_t later_ns, uint32_t kinds,
			uint64_t taken_ns)
{
	uint64_t known = 0, later = 0;

	for (uint32_t k = 0; k < PTB_WAIT_CNT && t->later && t->waits; k++) {
		if (!(kinds >> k & 1))
			continue;
		later += t->later->waits_ns[k];
		for (uint32_t c = 0; c <= TIME_CLASSES; c++)
			known += t->waits->of[c][k].all_ns;
	}
	return known ? time__share(later, later_ns) * time__share(taken_ns, known) : 0;
}

static double put_waits(const struct why_thread *t, uint64_t later_ns, double shares[WHY_PARTS])
{
	double sum = 0;

	for (uint32_t k = 0; k < PTB_WAIT_CNT && t->waits; k++) {
		shares[WHY_PART_WAIT + k] =
			wait__everywhere(k) ?
				time__share(t->later->waits_ns[k], later_ns) :
				why_later__waits(t, later_ns, 1u << k,
						 t->waits->of[TIME_CLASSES][k].all_ns);
		sum += shares[WHY_PART_WAIT + k];
	}
	return sum;
}

bool why_later__parts(const struct why_thread *t, uint64_t later_ns, const double *known,
		      double shares[WHY_PARTS])
{
	struct why_later *l = t->later;
	double rest = 1, sum = 0;

	if (!settle(l))
		return false;
	memset(shares, 0, WHY_PARTS * sizeof(*shares));
	rest -= put_waits(t, later_ns, shares);
	for (uint32_t p = 0; p <= WHY_PART_PYTHON; p++) {
		for (uint32_t i = 0; i < l->cnt; i++)
			l->list[i].in = l->list[i].part == p;
		shares[p] = share_in(l, known[p] < 0 ? 0 : known[p] < 1 ? known[p] : 1);
		sum += shares[p];
	}
	for (uint32_t i = 0; i < l->stack_cnt; i++)
		if (!l->lines[l->stacks[i].line].known_ns)
			rest -= (double)l->stacks[i].later_ns / (double)l->all_ns;
	for (uint32_t p = 0; p <= WHY_PART_PYTHON && sum > 0; p++)
		shares[p] *= rest > 0 ? rest / sum : 0;
	return true;
}
