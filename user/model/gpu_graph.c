/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Nodes of CUDA graphs: when a pass reaches the time at which a node was captured, what is open on
 * the capturing thread is what every replay of the node belongs to. cudaGraphInstantiate() copies
 * the nodes; what runs has the copies' ids.
 */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "model/gpu_priv.h"

#define COPIES_MAX 16 /* copies of copies: cudaGraphClone(), graphs as nodes of others */
#define WITHIN_MAX 1024
#define BETWEEN " > "
#define CUT "... > "

/* ---- reading ---- */

void gpu_graph__add(struct gpu_graphs *gg, const struct ptb_gpu_graph_node *r)
{
	struct gpu_node n = {
		.at_ns = r->at_ns, .node = r->node, .tgid = r->h.tgid, .tid = r->h.tid
	};

	if (r->original == r->node)
		return;
	if (r->original) {
		hashmap__put(&gg->originals, r->node, r->h.tgid, r->original);
		return;
	}
	vec_push(gg->nodes, gg->node_cnt, gg->node_cap, n);
}

static int cmp_node(const void *pa, const void *pb)
{
	const struct gpu_node *a = pa, *b = pb;
	int c = sort__cmp(a->at_ns, b->at_ns);

	if (!c)
		c = sort__cmp(a->tgid, b->tgid);
	return c ? c : sort__cmp(a->node, b->node);
}

void gpu_graph__order(struct gpu_graphs *gg)
{
	sort__array(gg->nodes, gg->node_cnt, sizeof(*gg->nodes), cmp_node);
	for (uint32_t i = 0; i < gg->node_cnt; i++)
		hashmap__put(&gg->node_ids, gg->nodes[i].node, gg->nodes[i].tgid, i);
}

void gpu_graph__free(struct gpu_graphs *gg)
{
	hashmap__clear(&gg->node_ids);
	hashmap__clear(&gg->originals);
	free(gg->nodes);
	free(gg->origins);
}

/* ---- during the pass ---- */

void gpu_graph__begin(struct gpu_graphs *gg)
{
	gg->next = gg->origin_cnt = 0;
	for (uint32_t i = 0; i < gg->node_cnt; i++)
		gg->nodes[i].origin = GPU_NONE;
}

/* The names of what is open, outermost first; of too many the innermost. Written from the end of
 * buf. */
static const char *within_text(char buf[WITHIN_MAX], const struct thread *t)
{
	char *at = buf + WITHIN_MAX - 1;
	uint32_t i = t->cnt;

	for (*at = '\0'; i--;) {
		const struct entry *e = &t->stack[i];
		size_t between = *at ? strlen(BETWEEN) : 0, len;

		if (e->hidden || e->is_step || !e->name)
			continue;
		len = strlen(e->name);
		if (len + between + strlen(CUT) > (size_t)(at - buf)) {
			at -= strlen(CUT);
			memcpy(at, CUT, strlen(CUT));
			break;
		}
		at -= between;
		memcpy(at, BETWEEN, between);
		at -= len;
		memcpy(at, e->name, len);
	}
	return at;
}

static void place_node(struct model *m, struct gpu_node *n)
{
	struct gpu_graphs *gg = &m->gpu->graphs;
	struct thread *t = n->tid ? model__known_thread(m, n->tgid, n->tid) : NULL;
	const struct gpu_origin *last = gg->origin_cnt ? &gg->origins[gg->origin_cnt - 1] : NULL;
	struct op_context at = op_context__none(n->tgid, n->tid);
	struct gpu_origin c = { .op = "", .within = "" };
	char buf[WITHIN_MAX];

	if (t) {
		const char *text = within_text(buf, t);

		stack__context(t, &at);
		c.op = at.op;
		c.op_slice = at.op_slice;
		c.stack = at.stack;
		c.within = facts__intern(m->f, text, strlen(text));
	}
	if (!last || last->op != c.op || last->op_slice != c.op_slice || last->stack != c.stack ||
	    last->within != c.within)
		vec_push(gg->origins, gg->origin_cnt, gg->origin_cap, c);
	n->origin = gg->origin_cnt - 1;
}

void gpu_graph__until(struct model *m, uint64_t ts)
{
	struct gpu_graphs *gg = &m->gpu->graphs;

	for (; gg->next < gg->node_cnt && gg->nodes[gg->next].at_ns < ts; gg->next++)
		if (gg->nodes[gg->next].at_ns >= m->begin_ns &&
		    gg->nodes[gg->next].at_ns <= m->end_ns)
			place_node(m, &gg->nodes[gg->next]);
}

const struct gpu_origin *gpu_graph__origin(const struct gpu_graphs *gg, uint32_t tgid,
					   uint64_t node)
{
	const uint64_t *known = NULL;

	for (uint32_t i = 0; i < COPIES_MAX && (known = hashmap__get(&gg->originals, node, tgid));
	     i++)
		node = *known;
	known = hashmap__get(&gg->node_ids, node, tgid);
	return known && gg->nodes[*known].origin != GPU_NONE ?
		       &gg->origins[gg->nodes[*known].origin] :
		       NULL;
}
