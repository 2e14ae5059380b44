/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * CUDA graphs in `report --gpu`: GPU time by graph, and within a graph by what was open when its
 * nodes were captured. The rest of the report, as torch, charges that work to the replaying call.
 * See report_priv.h.
 */
#include <stdlib.h>

#include "base/containers.h"
#include "report/report_priv.h"

void gr_graphs__take(struct gpu_report *gr, const struct gpu_slice *g, uint64_t ns)
{
	struct gr_graphs *gs = &gr->graphs;
	uint32_t within = g->origin ? text_ids__get(&gr->texts, g->origin->within) : GR_UNKNOWN, nr;
	struct gr_graph *graph = list__keyed(KEYED_LIST(gs, graphs, graph), g->at.tgid, g->graph);
	struct gr_origin *c;

	nr = (uint32_t)(graph - gs->graphs);
	graph->nr = nr;
	graph->tgid = g->at.tgid;
	graph->graph = g->graph;
	graph->cnt++;
	graph->ns += ns;
	gs->ns += ns;
	gs->unknown += !g->origin;
	gs->cnt++;
	if (!hashmap__get(&gs->launches, nr, g->correlation)) {
		hashmap__put(&gs->launches, nr, g->correlation, 1);
		graph->launches++;
	}
	c = list__keyed(KEYED_LIST(gs, origins, origin), nr, within);
	c->graph = nr;
	c->within = within;
	c->op = g->origin ? text_ids__get(&gr->texts, g->origin->op) : 0;
	c->cnt++;
	c->ns += ns;
}

static int by_graph_time(const void *a, const void *b)
{
	const struct gr_graph *x = a, *y = b;

	return x->ns != y->ns ? sort__cmp(y->ns, x->ns) : sort__cmp(x->nr, y->nr);
}

/* By graph, and of one graph most time first. */
static int by_origin_time(const void *a, const void *b)
{
	const struct gr_origin *x = a, *y = b;

	if (x->graph != y->graph)
		return sort__cmp(x->graph, y->graph);
	return x->ns != y->ns ? sort__cmp(y->ns, x->ns) : sort__cmp(x->within, y->within);
}

void gr_graphs__rank(struct gr_graphs *gs)
{
	sort__array(gs->origins, gs->origin_cnt, sizeof(*gs->origins), by_origin_time);
	for (uint32_t i = gs->origin_cnt; i--;) {
		gs->graphs[gs->origins[i].graph].first_origin = i;
		gs->graphs[gs->origins[i].graph].origin_cnt++;
	}
	sort__array(gs->graphs, gs->graph_cnt, sizeof(*gs->graphs), by_graph_time);
}

void gr_graphs__free(struct gr_graphs *gs)
{
	hashmap__clear(&gs->graph_ids);
	hashmap__clear(&gs->origin_ids);
	hashmap__clear(&gs->launches);
	free(gs->graphs);
	free(gs->origins);
}
