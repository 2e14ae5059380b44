/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which nodes of two trees of calls are the same place. From the step on, what a place calls is
 * matched by name. A level that only one program has is taken out: what it calls lies beside it
 * then. What is left on both sides between the same neighbours, and is called as often, has another
 * name and the same place.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "diff/diff_priv.h"

#define WRAPPER_DEPTH 4 /* levels that a wrapper may be above what it wraps */
#define GROUPS_MAX 512  /* at one place; of more only names are compared */

struct group { /* nodes of one name below a place */
	uint32_t name, is_op, *nodes, cnt, cap;
	double calls; /* a step */
	uint64_t order;
	bool paired, taken_out;
};

struct groups {
	struct group *list;
	uint32_t cnt, cap;
	struct hashmap ids; /* name, is_op -> index */
};

struct match {
	struct diff *d;
	uint32_t *first[DIFF_SIDES], *next[DIFF_SIDES]; /* children of each node; 0: no more */
};

static struct group *group_of(struct groups *g, uint32_t name, uint32_t is_op)
{
	const uint64_t *at = hashmap__get(&g->ids, name, is_op);

	return at ? &g->list[*at] : NULL;
}

static void add_children(const struct match *m, uint32_t side, struct groups *g,
			 const uint32_t *nodes, uint32_t cnt);

static void add_node(const struct match *m, uint32_t side, struct groups *g, uint32_t node)
{
	const struct diff_side *ds = &m->d->side[side];
	const struct diff_node *n = &ds->nodes[node];
	struct group *at = group_of(g, n->name, n->is_op);

	if (!at) {
		hashmap__put(&g->ids, n->name, n->is_op, g->cnt);
		vec_push(g->list, g->cnt, g->cap,
			 (struct group){ .name = n->name, .is_op = n->is_op, .order = n->order });
		at = &g->list[g->cnt - 1];
	}
	vec_push(at->nodes, at->cnt, at->cap, node);
	at->calls += ds->cnt ? (double)n->self.calls / ds->cnt : 0;
	at->order = n->order < at->order ? n->order : at->order;
	if (at->taken_out) /* a recursion */
		add_children(m, side, g, &node, 1);
}

static void add_children(const struct match *m, uint32_t side, struct groups *g,
			 const uint32_t *nodes, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++)
		for (uint32_t n = m->first[side][nodes[i]]; n; n = m->next[side][n])
			add_node(m, side, g, n);
}

/* ---- levels that one program alone has ---- */

/* Calls a step of that name below the nodes. */
static double calls_below(const struct match *m, uint32_t side, const uint32_t *nodes, uint32_t cnt,
			  const struct group *what, uint32_t depth)
{
	const struct diff_side *ds = &m->d->side[side];
	double sum = 0;

	for (uint32_t i = 0; i < cnt && depth; i++)
		for (uint32_t n = m->first[side][nodes[i]]; n; n = m->next[side][n]) {
			if (ds->nodes[n].name == what->name && ds->nodes[n].is_op == what->is_op)
				sum += (double)ds->nodes[n].self.calls / ds->cnt;
			else
				sum += calls_below(m, side, &n, 1, what, depth - 1);
		}
	return sum;
}

static double calls_of(const struct group *g)
{
	return g && !g->taken_out ? g->calls : 0;
}

/*
 * Is it a level around `what`, which the other program calls without it? Then that calls `what`
 * more often here, and the level less often, by what lies in it.
 */
static bool is_around(const struct match *m, struct groups g[DIFF_SIDES], uint32_t side,
		      const struct group *level, const struct group *what)
{
	double excess = what->calls - calls_of(group_of(&g[side], what->name, what->is_op));
	double missing = level->calls - calls_of(group_of(&g[!side], level->name, level->is_op));

	if (level->taken_out || excess <= 0 || missing <= 0 || excess < what->calls / 2 ||
	    missing < level->calls / 2)
		return false;
	return calls_below(m, side, level->nodes, level->cnt, what, WRAPPER_DEPTH) >= excess / 2;
}

static void take_out(const struct match *m, struct groups *g, uint32_t side, struct group *level)
{
	uint32_t cnt = level->cnt, *nodes = vec_dup(level->nodes, cnt, sizeof(*nodes));

	level->taken_out = true; /* and may move */
	add_children(m, side, g, nodes, cnt);
	free(nodes);
}

/* One of them, of either side. */
static bool take_one_out(const struct match *m, struct groups g[DIFF_SIDES])
{
	for (uint32_t side = 0; side < DIFF_SIDES; side++)
		for (uint32_t w = 0; w < g[!side].cnt; w++)
			for (uint32_t i = 0; i < g[side].cnt && !g[!side].list[w].taken_out; i++)
				if (is_around(m, g, side, &g[side].list[i], &g[!side].list[w])) {
					struct group own = g[side].list[i];
					struct group *other =
						group_of(&g[!side], own.name, own.is_op);

					take_out(m, &g[side], side, &g[side].list[i]);
					if (other)
						take_out(m, &g[!side], !side, other);
					return true;
				}
	return false;
}

/* ---- places ---- */

static void set_place(struct match *m, uint32_t place, uint32_t side, struct group *g)
{
	struct diff_place *p = &m->d->places[place];

	if (!g)
		return;
	p->name[side] = g->name;
	p->nodes[side] = g->nodes;
	p->node_cnt[side] = g->cnt;
	g->nodes = NULL;
	g->paired = true;
}

static void add_place(struct match *m, uint32_t parent, struct group *a, struct group *b)
{
	struct diff *d = m->d;
	uint32_t nr = d->place_cnt;

	vec_push(d->places, d->place_cnt, d->place_cap,
		 (struct diff_place){ .parent = parent,
				      .depth = d->places[parent].depth + 1,
				      .leaf_only = (a && a->taken_out) || (b && b->taken_out) });
	set_place(m, nr, DIFF_A, a);
	set_place(m, nr, DIFF_B, b);
}

static int by_order(const void *a, const void *b)
{
	return sort__cmp((*(struct group *const *)a)->order, (*(struct group *const *)b)->order);
}

/* Those that have no partner, each with how many that have one come before it. */
struct lone {
	struct group *g;
	uint32_t after; /* the number of the partner's pair before it, as the first side counts */
};

static uint32_t find_lone(struct groups *g, const struct hashmap *pairs, struct lone *out)
{
	struct group **sorted = xcalloc(g->cnt + 1ULL, sizeof(*sorted));
	uint32_t cnt = 0, after = 0;

	for (uint32_t i = 0; i < g->cnt; i++)
		sorted[i] = &g->list[i];
	sort__array(sorted, g->cnt, sizeof(*sorted), by_order);
	for (uint32_t i = 0; i < g->cnt; i++) {
		const uint64_t *pair = hashmap__get(pairs, sorted[i]->name, sorted[i]->is_op);

		if (sorted[i]->paired)
			after = pair ? (uint32_t)*pair : after;
		else
			out[cnt++] = (struct lone){ sorted[i], after };
	}
	free(sorted);
	return cnt;
}

static uint32_t count_after(const struct lone *l, uint32_t cnt, uint32_t after)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < cnt; i++)
		n += l[i].after == after;
	return n;
}

static bool is_renamed(const struct lone *a, const struct lone *b)
{
	double x = a->g->calls, y = b->g->calls;

	return a->after == b->after && a->g->is_op == b->g->is_op && x > 0 &&
	       fabs(x - y) <= 0.01 * (x + y);
}

/* One on each side, between the same neighbours. */
static void pair_renamed(struct match *m, uint32_t place, struct groups g[DIFF_SIDES],
			 const struct hashmap *pairs)
{
	struct lone *a = xcalloc(g[DIFF_A].cnt + 1ULL, sizeof(*a)),
		    *b = xcalloc(g[DIFF_B].cnt + 1ULL, sizeof(*b));
	uint32_t a_cnt = find_lone(&g[DIFF_A], pairs, a), b_cnt = find_lone(&g[DIFF_B], pairs, b);

	for (uint32_t i = 0; i < a_cnt && a_cnt <= GROUPS_MAX; i++)
		for (uint32_t k = 0; k < b_cnt && b_cnt <= GROUPS_MAX; k++)
			if (is_renamed(&a[i], &b[k]) && count_after(a, a_cnt, a[i].after) == 1 &&
			    count_after(b, b_cnt, b[k].after) == 1)
				add_place(m, place, a[i].g, b[k].g);
	for (uint32_t i = 0; i < a_cnt; i++)
		if (!a[i].g->paired)
			add_place(m, place, a[i].g, NULL);
	for (uint32_t i = 0; i < b_cnt; i++)
		if (!b[i].g->paired)
			add_place(m, place, NULL, b[i].g);
	free(a);
	free(b);
}

/* What the place calls, on both sides. */
static void match_below(struct match *m, uint32_t place)
{
	struct groups g[DIFF_SIDES] = { { .cnt = 0 } };
	struct hashmap pairs = { 0 };

	if (m->d->places[place].leaf_only)
		return;
	for (uint32_t side = 0; side < DIFF_SIDES; side++)
		add_children(m, side, &g[side], m->d->places[place].nodes[side],
			     m->d->places[place].node_cnt[side]);
	while (g[DIFF_A].cnt && g[DIFF_B].cnt && g[DIFF_A].cnt + g[DIFF_B].cnt < GROUPS_MAX &&
	       take_one_out(m, g))
		;
	for (uint32_t i = 0; i < g[DIFF_A].cnt; i++) {
		struct group *a = &g[DIFF_A].list[i], *b = group_of(&g[DIFF_B], a->name, a->is_op);

		if (b && !a->taken_out)
			hashmap__put(&pairs, a->name, a->is_op, i + 1);
		if (b || a->taken_out)
			add_place(m, place, a, b);
	}
	for (uint32_t i = 0; i < g[DIFF_B].cnt; i++)
		if (g[DIFF_B].list[i].taken_out && !g[DIFF_B].list[i].paired)
			add_place(m, place, NULL, &g[DIFF_B].list[i]);
	pair_renamed(m, place, g, &pairs);
	hashmap__clear(&pairs);
	for (uint32_t side = 0; side < DIFF_SIDES; side++) {
		hashmap__clear(&g[side].ids);
		free(g[side].list);
	}
}

static void link_children(struct match *m, uint32_t side)
{
	const struct diff_side *ds = &m->d->side[side];

	m->first[side] = xcalloc(ds->node_cnt, sizeof(uint32_t));
	m->next[side] = xcalloc(ds->node_cnt, sizeof(uint32_t));
	for (uint32_t n = ds->node_cnt - 1; n; n--) {
		m->next[side][n] = m->first[side][ds->nodes[n].parent];
		m->first[side][ds->nodes[n].parent] = n;
	}
}

void diff_match__places(struct diff *d)
{
	struct match m = { .d = d };
	struct diff_place root = { .parent = 0 };

	for (uint32_t side = 0; side < DIFF_SIDES; side++) {
		link_children(&m, side);
		vec_push(root.nodes[side], root.node_cnt[side], root.node_cap[side], 0);
	}
	vec_push(d->places, d->place_cnt, d->place_cap, root);
	for (uint32_t p = 0; p < d->place_cnt; p++)
		match_below(&m, p);
	for (uint32_t side = 0; side < DIFF_SIDES; side++) {
		free(m.first[side]);
		free(m.next[side]);
	}
}

/* ---- of places ---- */

double diff_match__share(const struct diff *d)
{
	double all[DIFF_SIDES] = { 0 }, both[DIFF_SIDES] = { 0 }, share[DIFF_SIDES];

	for (uint32_t p = 1; p < d->place_cnt; p++)
		for (uint32_t side = 0; side < DIFF_SIDES; side++) {
			double calls = diff_place__calls(d, p, side);

			all[side] += calls;
			both[side] += d->places[p].name[!side] ? calls : 0;
		}
	for (uint32_t side = 0; side < DIFF_SIDES; side++)
		share[side] = all[side] > 0 ? both[side] / all[side] : 1;
	return fmax(share[DIFF_A], share[DIFF_B]);
}

double diff_place__calls(const struct diff *d, uint32_t place, uint32_t side)
{
	const struct diff_place *p = &d->places[place];
	const struct diff_side *ds = &d->side[side];
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->node_cnt[side]; i++)
		sum += ds->nodes[p->nodes[side][i]].self.calls;
	return ds->cnt ? (double)sum / ds->cnt : 0;
}

char *diff_place__name(const struct diff *d, uint32_t place, char *buf, size_t cap)
{
	const struct diff_place *p = &d->places[place];
	const char *a = strtab__text(d->texts, p->name[DIFF_A]),
		   *b = strtab__text(d->texts, p->name[DIFF_B]);

	if (*a && *b && strcmp(a, b) != 0)
		snprintf(buf, cap, "%s / %s", a, b);
	else
		snprintf(buf, cap, "%s", *b ? b : a);
	return buf;
}

char *diff_place__path(const struct diff *d, uint32_t place, char *buf, size_t cap)
{
	char name[512];
	uint32_t path[80], cnt = 0;
	size_t len = 0;

	for (; place && cnt < 80; place = d->places[place].parent)
		path[cnt++] = place;
	*buf = '\0';
	while (cnt-- && len < cap) {
		diff_place__name(d, path[cnt], name, sizeof(name));
		len += (size_t)snprintf(buf + len, cap - len, "%s%s", len ? " > " : "", name);
	}
	return buf;
}
