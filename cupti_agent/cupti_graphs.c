/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Nodes of CUDA graphs; see cupti_graphs.h. The callback runs in the threads that capture: it
 * writes into a ring, never waits, and counts what does not fit. An entry belongs to who got its
 * number until `ready` has that number + 1, and to the agent's thread from then on.
 */
#include "cupti_graphs.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cupti_records.h"

/* in the ring: a power of two; the agent's thread empties it every PTB_AGENT_FLUSH_NS */
#define NODES 32768u

static struct graph_node { /* not resident before the first graph is captured */
	_Atomic uint32_t ready;
	uint32_t tid;
	uint64_t mono_ns, node, original;
} nodes[NODES];

static _Atomic uint32_t made, taken, dropped;
static _Atomic bool on;
static int (*_Atomic graph_node_id)(void *node, uint64_t *id);
static int (*unsubscribe)(void *subscriber);
static void *subscriber;

/* ---- what CUPTI calls, on any thread ---- */

/* A number of the ring's; false: it is full. */
static bool take_number(uint32_t *nr)
{
	uint32_t from;

	do {
		from = atomic_load(&taken); /* first: `made` is never behind what it was */
		*nr = atomic_load(&made);
		if (*nr - from >= NODES)
			return false;
	} while (!atomic_compare_exchange_weak(&made, nr, *nr + 1));
	return true;
}

static void keep_node(uint64_t node, uint64_t original)
{
	struct graph_node *n;
	uint32_t nr;

	if (!take_number(&nr)) {
		atomic_fetch_add(&dropped, 1);
		return;
	}
	n = &nodes[nr % NODES];
	n->mono_ns = agent__mono_ns();
	n->tid = (uint32_t)syscall(SYS_gettid);
	n->node = node;
	n->original = original;
	atomic_store_explicit(&n->ready, nr + 1, memory_order_release);
}

static void on_node(void *user, uint32_t domain, uint32_t cbid, const void *info)
{
	const struct cupti_resource_data *r = info;
	const struct cupti_graph_data *g = r ? r->data : NULL;
	int (*id_of)(void *, uint64_t *) = atomic_load(&graph_node_id);
	bool is_copy = cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED;
	uint64_t node = 0, original = 0;

	(void)user;
	if (!atomic_load(&on) || domain != CUPTI_CB_DOMAIN_RESOURCE || !g ||
	    (!is_copy && cbid != CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) || g->node_type < 0 ||
	    g->node_type >= CUPTI_NODE_TYPES_WORK)
		return;
	if (id_of(g->node, &node) || !node ||
	    (is_copy && (id_of(g->original_node, &original) || !original))) {
		atomic_fetch_add(&dropped, 1);
		return;
	}
	keep_node(node, original);
}

/* ---- the agent's thread ---- */

static int enable(const struct cupti_api *api)
{
	int err = api->enable_callback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
				       CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);

	return err ? err :
		     api->enable_callback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
					  CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
}

int cupti_graphs__start(const struct cupti_api *api)
{
	int err;

	if (!api->enable_callback || !api->graph_node_id)
		return -1;
	atomic_store(&graph_node_id, api->graph_node_id);
	unsubscribe = api->unsubscribe;
	err = api->subscribe(&subscriber, on_node, NULL);
	if (err)
		return err;
	atomic_store(&on, true);
	err = enable(api);
	if (err)
		cupti_graphs__stop();
	return err;
}

void cupti_graphs__stop(void)
{
	if (!atomic_exchange(&on, false))
		return;
	unsubscribe(subscriber);
}

void cupti_graphs__take(void)
{
	struct ptb_arec_graph_node r = { .r.kind = PTB_AREC_GRAPH_NODE };
	uint32_t nr = atomic_load(&taken), lost = atomic_exchange(&dropped, 0);
	const struct graph_node *n = &nodes[nr % NODES];

	for (; atomic_load_explicit(&n->ready, memory_order_acquire) == nr + 1;
	     n = &nodes[nr % NODES]) {
		r.mono_ns = n->mono_ns;
		r.tid = n->tid;
		r.node = n->node;
		r.original = n->original;
		cupti_record__put(&r.r, sizeof(r), NULL, 0);
		atomic_store(&taken, ++nr);
	}
	cupti_records__drop(lost);
}

void cupti_graphs__forked(void)
{
	atomic_store(&on, false);
}
