/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls of CUDA's API among the slices of their threads. Their times are converted from another
 * clock, so a call may seem to cross the begin or end of an operator. Readers need strictly nested
 * slices, so such a call is shortened as little as possible; the caller marks it. Never changes a
 * slice.
 */
#include <stdlib.h>

#include "base/containers.h"
#include "base/mem.h"
#include "export/chrome_priv.h"

/* clang-format off */
/* between any two times of a thread, as in the model: some readers keep microseconds in doubles */
#define GAP_NS 3
/* clang-format on */

struct span {
	uint64_t begin, end;
};

struct track {
	struct span *spans; /* slices; sorted by the first call */
	/* what began before the current call and has not ended: slices and calls */
	struct span *open;
	uint32_t span_cnt, span_cap, open_cnt, open_cap, next;
	bool sorted;
};

struct chrome_nest {
	struct track *tracks;
	uint32_t track_cnt, track_cap, last;
	struct hashmap track_ids; /* (tgid, tid) -> index */
	uint64_t last_key;
};

struct chrome_nest *chrome_nest__new(void)
{
	return xcalloc(1, sizeof(struct chrome_nest));
}

void chrome_nest__free(struct chrome_nest *n)
{
	if (!n)
		return;
	for (uint32_t i = 0; i < n->track_cnt; i++) {
		free(n->tracks[i].spans);
		free(n->tracks[i].open);
	}
	free(n->tracks);
	hashmap__clear(&n->track_ids);
	free(n);
}

static struct track *track_of(struct chrome_nest *n, uint32_t tgid, uint32_t tid)
{
	uint64_t key = (uint64_t)tgid << 32 | tid;
	struct track *t;

	if (n->track_cnt && n->last_key == key)
		return &n->tracks[n->last];
	t = list__keyed(KEYED_LIST(n, tracks, track), tgid, tid);
	n->last = (uint32_t)(t - n->tracks);
	n->last_key = key;
	return t;
}

void chrome_nest__slice(struct chrome_nest *n, uint32_t tgid, uint32_t tid, uint64_t begin,
			uint64_t end)
{
	struct track *t = track_of(n, tgid, tid);

	vec_push(t->spans, t->span_cnt, t->span_cap, (struct span){ begin, end });
}

/* Outer ones first. */
static int by_begin(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end == y->end ? 0 : x->end > y->end ? -1 : 1;
}

/* What began before `at` and ends after it; calls come in order of their begin. */
static void open_until(struct track *t, uint64_t at)
{
	uint32_t kept = 0;

	if (!t->sorted)
		sort__array(t->spans, t->span_cnt, sizeof(*t->spans), by_begin);
	t->sorted = true;
	for (uint32_t i = 0; i < t->open_cnt; i++)
		if (t->open[i].end + GAP_NS > at)
			t->open[kept++] = t->open[i];
	t->open_cnt = kept;
	for (; t->next < t->span_cnt && t->spans[t->next].begin < at; t->next++)
		if (t->spans[t->next].end + GAP_NS > at)
			vec_push(t->open, t->open_cnt, t->open_cap, t->spans[t->next]);
}

static bool fits(const struct span *c, const struct span *s)
{
	return c->end + GAP_NS <= s->begin || c->begin >= s->end + GAP_NS ||
	       (c->begin >= s->begin + GAP_NS && c->end + GAP_NS <= s->end) ||
	       (c->begin + GAP_NS <= s->begin && c->end >= s->end + GAP_NS);
}

static void take_longer(struct span *best, uint64_t begin, uint64_t end)
{
	if (end > begin && end - begin > best->end - best->begin)
		*best = (struct span){ begin, end };
}

/* The longest part of the call that lies inside, before or after the slice; empty: none. */
static struct span longest_part(const struct span *c, const struct span *s)
{
	struct span best = { 0, 0 };
	uint64_t in_begin = c->begin > s->begin + GAP_NS ? c->begin : s->begin + GAP_NS;
	uint64_t in_end = c->end + GAP_NS < s->end ? c->end :
						     s->end - (s->end > GAP_NS ? GAP_NS : 0);
	uint64_t before = s->begin > GAP_NS ? s->begin - GAP_NS : 0;

	take_longer(&best, in_begin, in_end);
	take_longer(&best, c->begin, c->end < before ? c->end : before);
	take_longer(&best, c->begin > s->end + GAP_NS ? c->begin : s->end + GAP_NS, c->end);
	return best;
}

/* The first slice that the call crosses, from the innermost open one on; NULL: none. */
static const struct span *crossed(const struct track *t, const struct span *c)
{
	uint32_t i;

	for (i = t->open_cnt; i--;)
		if (!fits(c, &t->open[i]))
			return &t->open[i];
	for (i = t->next; i < t->span_cnt && t->spans[i].begin < c->end + GAP_NS; i++)
		if (!fits(c, &t->spans[i]))
			break;
	return i < t->span_cnt && t->spans[i].begin < c->end + GAP_NS ? &t->spans[i] : NULL;
}

void chrome_nest__fit(struct chrome_nest *n, uint32_t tgid, uint32_t tid, uint64_t *begin,
		      uint64_t *end)
{
	struct track *t = track_of(n, tgid, tid);
	struct span c = { *begin, *end > *begin ? *end : *begin + 1 };
	const struct span *s;

	open_until(t, c.begin);
	while (c.end > c.begin && (s = crossed(t, &c)))
		c = longest_part(&c, s); /* this ends, since the call gets shorter each time */
	*begin = c.begin;
	*end = c.end;
	if (c.end > c.begin)
		vec_push(t->open, t->open_cnt, t->open_cap, c);
}
