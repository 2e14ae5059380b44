/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See thin.h. */
#include "sample/thin.h"

#define USEFUL 0.25 /* of its length: a shorter window is of little use */
#define SHORT_MAX 2 /* such windows in a row, then the next are thinned */
#define FAILED_MAX 3

static const char *const texts[] = {
#define X(name, text) text,
	THIN_LEVELS(X)
#undef X
};

const char *thin__text(enum thin_level level)
{
	return texts[level];
}

void thin__allow(struct thin *t, bool names, bool samples)
{
	*t = (struct thin){ .allowed = { true, names, samples } };
}

/* How much of a window the allowance is enough for: 1 for all of it, and more. An unknown cost: all. */
static double part(const struct thin_cost *c, double allowed_ns, uint64_t window_ns)
{
	double left = allowed_ns - c->fixed_ns, all = c->share * (double)window_ns;

	if (!c->known)
		return 1;
	if (left <= 0)
		return 0;
	return left >= all ? 1 : left / all;
}

/* The next allowed level in a direction; the same one: there is none. */
static enum thin_level neighbour(const struct thin *t, int step)
{
	int level = (int)t->level;

	do
		level += step;
	while (level >= 0 && level < THIN_LEVEL_CNT && !t->allowed[level]);
	return level < 0 || level >= THIN_LEVEL_CNT ? t->level : (enum thin_level)level;
}

bool thin__may_begin(const struct thin *t, double allowed_ns)
{
	return allowed_ns > t->cost[t->level].fixed_ns;
}

enum thin_level thin__next(struct thin *t, double allowed_ns, uint64_t window_ns)
{
	/* back, when a whole window is affordable */
	while (t->level != THIN_FULL && part(&t->cost[neighbour(t, -1)], allowed_ns, window_ns) >= 1) {
		t->level = neighbour(t, -1);
		t->short_cnt = 0;
	}
	if (part(&t->cost[t->level], allowed_ns, window_ns) >= USEFUL) {
		t->short_cnt = 0;
	} else if (++t->short_cnt >= SHORT_MAX) {
		t->short_cnt = 0;
		t->level = neighbour(t, 1);
	}
	return t->level;
}

void thin__learn(struct thin *t, enum thin_level level, double window_ns, double before_ns, double cost_ns)
{
	struct thin_cost *c = &t->cost[level];
	double fixed = 2 * before_ns < cost_ns ?
			       2 * before_ns :
			       cost_ns; /* to remove probes costs what it costs to place them */

	t->failed_cnt = 0;
	c->known = true;
	c->fixed_ns = fixed;
	if (window_ns > 0)
		c->share = (cost_ns - fixed) / window_ns;
}

void thin__failed(struct thin *t, enum thin_level level)
{
	if (level == THIN_FULL || ++t->failed_cnt < FAILED_MAX)
		return;
	t->failed_cnt = 0;
	t->allowed[level] = false;
	if (t->level == level)
		t->level = neighbour(t, -1);
}
