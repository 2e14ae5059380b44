/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the excess of a slow rank is made of: the same sums of all ranks, over the steps in which it
 * is slow, by operator and by place in the step. What of a rank's own time no operator and no
 * loader has is outside of them.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "ranks/ranks_priv.h"

#define PLACES 256 /* collectives of a step; further ones count as the last */

struct causes {
	struct rank_times *rt;
	uint32_t rank, ranks;
	uint32_t first, last; /* steps */
	double *whats;        /* [text * ranks + rank]: sums */
	uint32_t text_cnt;
	double *places; /* [place * ranks + rank] */
	uint32_t place_cnt;
	uint32_t place_names[PLACES];
	double *others; /* room for medians */
};

/* Collectives of the rank by their number: index, or that of the next one. */
static uint32_t *index_calls(const struct rank_calls *list, uint32_t *cnt)
{
	uint32_t *at, most = 0;

	for (uint32_t i = 0; i < list->cnt; i++)
		most = list->calls[i].nr > most ? list->calls[i].nr : most;
	*cnt = most + 1;
	at = xmalloc(((size_t)most + 1) * sizeof(*at));
	for (uint32_t i = 0; i <= most; i++)
		at[i] = UINT32_MAX;
	for (uint32_t i = 0; i < list->cnt; i++)
		at[list->calls[i].nr] = i;
	for (uint32_t i = most; i--;)
		if (at[i] == UINT32_MAX)
			at[i] = at[i + 1];
	return at;
}

/* Is the time before that collective of the rank in one of the steps? */
static bool is_in_steps(const struct causes *k, uint32_t rank, uint32_t call)
{
	int64_t c = (int64_t)call + k->rt->lags[rank];
	int32_t step = c > k->rt->from && c < k->rt->to ? k->rt->step_of[c - k->rt->from] : -1;

	return step >= (int32_t)k->first && step <= (int32_t)k->last;
}

static void sum_pieces(struct causes *k)
{
	for (uint32_t r = 0; r < k->ranks; r++) {
		uint32_t cnt, *at = index_calls(k->rt->lists[r], &cnt);

		for (uint32_t i = 0; i < k->rt->piece_cnt; i++) {
			const struct rt_piece *p = &k->rt->pieces[i];

			if (p->tgid == k->rt->lists[r]->tgid && p->nr < cnt &&
			    is_in_steps(k, r, at[p->nr])) {
				k->whats[(size_t)p->name * k->ranks + r] += (double)p->ns;
				k->whats[(size_t)k->rt->outside * k->ranks + r] -= (double)p->ns;
			}
		}
		free(at);
	}
}

/* Own times by place, and all of them as outside of operators: what is inside is taken off. */
static void sum_places(struct causes *k)
{
	const struct rank_times *rt = k->rt;
	int32_t step = -1;
	uint32_t place = 0;

	for (int64_t c = rt->from + 1; c < rt->to; c++) {
		int32_t now = rt->step_of[c - rt->from];

		place = now == step && place < PLACES - 1 ? place + 1 : now == step ? place : 0;
		step = now;
		if (now < (int32_t)k->first || now > (int32_t)k->last)
			continue;
		if (place >= k->place_cnt) {
			k->place_names[place] = rt__call(rt, 0, c)->name;
			k->place_cnt = place + 1;
		}
		for (uint32_t r = 0; r < k->ranks; r++) {
			double own = rt__own_before(rt, r, c);

			k->places[(size_t)place * k->ranks + r] += own;
			k->whats[(size_t)rt->outside * k->ranks + r] += own;
		}
	}
}

static void add_what(struct rank_time *out, const struct rank_what *w)
{
	uint32_t at = out->what_cnt;

	if (at == RANK_WHATS && out->what[at - 1].excess_ns >= w->excess_ns)
		return;
	if (at < RANK_WHATS)
		out->what_cnt++;
	else
		at--;
	for (; at && out->what[at - 1].excess_ns < w->excess_ns; at--)
		out->what[at] = out->what[at - 1];
	out->what[at] = *w;
}

static void conclude(struct causes *k, struct rank_time *out)
{
	double steps = k->last - k->first + 1;

	for (uint32_t t = 1; t < k->text_cnt; t++) {
		const double *row = &k->whats[(size_t)t * k->ranks];
		struct rank_what w = {
			.name = text_ids__text(&k->rt->texts, t),
			.own_ns = row[k->rank] / steps,
			.excess_ns = skew__excess(row, k->ranks, 1, k->rank, k->others) / steps
		};

		if (w.excess_ns > 0)
			add_what(out, &w);
	}
	for (uint32_t p = 0; p < k->place_cnt; p++) {
		double ns = skew__excess(&k->places[(size_t)p * k->ranks], k->ranks, 1, k->rank,
					 k->others) /
			    steps;

		if (ns <= out->before_ns)
			continue;
		out->before_ns = ns;
		out->before_nr = p + 1;
		out->before_of = k->place_cnt;
		out->before = strtab__text(k->rt->calls.texts, k->place_names[p]);
	}
}

static void find_causes(struct rank_times *rt, uint32_t rank)
{
	struct rank_time *out = &rt->out.ranks[rank];
	struct causes k = { .rt = rt,
			    .rank = rank,
			    .ranks = rt->out.rank_cnt,
			    .first = out->verdict.first,
			    .last = out->verdict.last,
			    .text_cnt = strtab__cnt(rt->texts.texts) + 1 };

	k.whats = xcalloc((size_t)k.text_cnt * k.ranks, sizeof(*k.whats));
	k.places = xcalloc((size_t)PLACES * k.ranks, sizeof(*k.places));
	k.others = xcalloc(k.ranks, sizeof(*k.others));
	sum_places(&k);
	sum_pieces(&k);
	conclude(&k, out);
	free(k.whats);
	free(k.places);
	free(k.others);
}

void rt__find_causes(struct rank_times *rt)
{
	for (uint32_t r = 0; r < rt->out.rank_cnt; r++)
		if (rt->out.ranks[r].verdict.slow)
			find_causes(rt, r);
}
