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
	uint32_t i;

	visit(w, n->fall);
	visit(w, n->jump);
	for (i = 0; i < n->table_cnt; i++)
		visit(w, w->f->targets[n->table + i]);
}

static bool is_site(uint32_t node, const uint32_t *sites, uint32_t cnt)
{
	uint32_t i;

	for (i = 0; i < cnt; i++)
		if (sites[i] == node)
			return true;
	return false;
}

struct path_faults path_check(const struct flow *f, const uint8_t *work, const uint32_t *sites,
			      uint32_t site_cnt)
{
	struct walk w = { .f = f, .seen = calloc(f->cnt + 1, 1),
			  .todo = calloc(f->cnt + 1, sizeof(uint32_t)) };
	struct path_faults bad = { 0 };
	uint32_t i, k, node;

	if (!w.seen || !w.todo)
		abort();
	/* from the entry (through the work) to a return, never through a site */
	visit(&w, 0);
	while (w.cnt) {
		node = w.todo[--w.cnt];
		if (is_site(node, sites, site_cnt))
			continue;
		if (f->nodes[node].in.cls == INSN_RET || f->nodes[node].leaves)
			bad.avoided++;
		visit_next(&w, node);
	}
	for (i = 0; i < site_cnt; i++) {
		memset(w.seen, 0, f->cnt);
		visit_next(&w, sites[i]);
		while (w.cnt)
			visit_next(&w, w.todo[--w.cnt]);
		for (k = 0; k < f->cnt; k++) {
			bad.work_after += w.seen[k] && work[k];
			bad.twice += w.seen[k] && is_site(k, sites, site_cnt);
		}
	}
	free(w.seen);
	free(w.todo);
	return bad;
}
