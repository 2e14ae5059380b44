/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See path_check.h. */
#include "path_check.h"

#include <stdlib.h>
#include <string.h>

struct walk {
	const struct flow *f;
	uint8_t *seen;
	uint32_t *todo, cnt;
};

static void visit(struct walk *w, uint32_t node)
{
	if (node == FLOW_NONE || w->seen[node])
		return;
	w->seen[node] = 1;
	w->todo[w->cnt++] = node;
}

static void visit_next(struct walk *w, uint32_t node)
{
	const struct flow_node *n = &w->f->nodes[node];

	visit(w, n->fall);
	visit(w, n->jump);
	for (uint32_t i = 0; i < n->table_cnt; i++)
		visit(w, w->f->targets[n->table + i]);
}

static bool is_site(uint32_t node, const uint32_t *sites, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (sites[i] == node)
			return true;
	return false;
}

static struct walk walk__new(const struct flow *f)
{
	struct walk w = { .f = f,
			  .seen = calloc(f->cnt + 1, 1),
			  .todo = calloc(f->cnt + 1, sizeof(uint32_t)) };

	if (!w.seen || !w.todo)
		abort();
	return w;
}

/* Returns that are reached from what is on the list, never through a site. */
static uint32_t returns_without(struct walk *w, const uint32_t *sites, uint32_t site_cnt)
{
	uint32_t node, cnt = 0;

	while (w->cnt) {
		node = w->todo[--w->cnt];
		if (is_site(node, sites, site_cnt))
			continue;
		if (w->f->nodes[node].in.cls == INSN_RET || w->f->nodes[node].leaves)
			cnt++;
		visit_next(w, node);
	}
	return cnt;
}

/* Marks all that can follow a node. */
static void visit_all_after(struct walk *w, uint32_t node)
{
	memset(w->seen, 0, w->f->cnt);
	visit_next(w, node);
	while (w->cnt)
		visit_next(w, w->todo[--w->cnt]);
}

static void after_sites(struct walk *w, const uint8_t *work, const uint32_t *sites,
			uint32_t site_cnt, struct path_faults *bad)
{
	for (uint32_t i = 0; i < site_cnt; i++) {
		visit_all_after(w, sites[i]);
		for (uint32_t k = 0; k < w->f->cnt; k++) {
			bad->work_after += w->seen[k] && work[k];
			bad->twice += w->seen[k] && is_site(k, sites, site_cnt);
		}
	}
}

struct path_faults path_check(const struct flow *f, const uint8_t *work, const uint32_t *sites,
			      uint32_t site_cnt)
{
	struct walk w = walk__new(f);
	struct path_faults bad = { 0 };

	visit(&w, 0); /* from the entry, through the work */
	bad.avoided = returns_without(&w, sites, site_cnt);
	after_sites(&w, work, sites, site_cnt, &bad);
	free(w.seen);
	free(w.todo);
	return bad;
}

struct path_faults path_check_after(const struct flow *f, const uint8_t *work,
				    const uint32_t *sites, uint32_t site_cnt, bool *any)
{
	struct walk w = walk__new(f);
	struct path_faults bad = { 0 };
	uint32_t k, more;

	*any = false;
	for (uint32_t i = 0; i < f->cnt; i++) {
		if (!work[i])
			continue;
		visit_all_after(&w, i);
		for (k = 0, more = 0; k < f->cnt; k++)
			more += w.seen[k] && work[k];
		if (more)
			continue;
		*any = true;
		bad.avoided += f->nodes[i].in.cls == INSN_RET || f->nodes[i].leaves;
		memset(w.seen, 0, f->cnt);
		visit_next(&w, i);
		bad.avoided += returns_without(&w, sites, site_cnt);
	}
	after_sites(&w, work, sites, site_cnt, &bad);
	free(w.seen);
	free(w.todo);
	return bad;
}
