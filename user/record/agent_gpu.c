/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* GPU records; see recorder_agent.h. */
#include "record/recorder_agent.h"

#include <string.h>

#include "base/limits.h"
#include "capture/capture.h"

static void fill_head(struct ptb_rec_hdr *h, const struct agent_proc *p, uint32_t kind,
		      uint32_t len)
{
	*h = (struct ptb_rec_hdr){ .len = (uint16_t)len,
				   .kind = (uint8_t)kind,
				   .flags = PTB_F_AGENT,
				   .ts_ns = p->now_ns,
				   .tgid = p->tgid };
}

static void put_note(struct recorder *r, struct agent_proc *p, uint32_t what, uint64_t value)
{
	struct ptb_gpu_note n = { .what = what, .value = value };

	fill_head(&n.h, p, PTB_REC_GPU_NOTE, sizeof(n));
	recorder__put_ring(r, AGENT_RING_GPU, &n.h);
}

/* The capture's name id; 0: none, or its name was not sent. */
static uint32_t name_id(const struct agent_proc *p, uint32_t id)
{
	const uint64_t *known = hashmap__get(&p->gpu.names, id, 0);

	return known ? (uint32_t)*known : 0;
}

static bool learn_gpu_name(struct recorder *r, struct agent_proc *p, const struct ptb_arec *a)
{
	const struct ptb_arec_gpu_name *n = (const void *)a;
	char text[PTB_CHUNK_MAX];

	if (n->bytes > a->len - sizeof(*n))
		return false;
	if (p->gpu.names.live >= LIMIT_AGENT_NAMES && !hashmap__get(&p->gpu.names, a->aux, 0)) {
		agent__over(r);
		return true;
	}
	memcpy(text, n + 1, n->bytes);
	text[n->bytes] = '\0';
	hashmap__try_put(&p->gpu.names, a->aux, 0, recorder__name(r, p->tgid, text));
	return true;
}

static bool put_device(struct recorder *r, struct agent_proc *p, const struct ptb_arec *a)
{
	const struct ptb_arec_gpu_device *d = (const void *)a;
	const uint32_t *v = (const uint32_t *)(d + 1); /* enum ptb_gpu_attr */
	struct ptb_gpu_device to = { 0 };

	if (d->cnt < PTB_GPU_ATTR_CNT || a->len - sizeof(*d) < PTB_GPU_ATTR_CNT * sizeof(*v))
		return false;
	fill_head(&to.h, p, PTB_REC_GPU_DEVICE, sizeof(to));
	to.id = d->id;
	to.name = name_id(p, a->aux);
	to.memory_bytes = d->memory_bytes;
	to.memory_bandwidth = 2ULL * v[PTB_GPU_ATTR_MEMORY_KHZ] * v[PTB_GPU_ATTR_MEMORY_BITS] / 8;
	to.major = v[PTB_GPU_ATTR_MAJOR];
	to.minor = v[PTB_GPU_ATTR_MINOR];
	to.sm_cnt = v[PTB_GPU_ATTR_SM_CNT];
	to.warp_size = v[PTB_GPU_ATTR_WARP_SIZE];
	to.clock_khz = v[PTB_GPU_ATTR_CLOCK_KHZ];
	to.max_threads_per_block = v[PTB_GPU_ATTR_THREADS_PER_BLOCK];
	to.max_warps_per_sm = to.warp_size ? v[PTB_GPU_ATTR_THREADS_PER_SM] / to.warp_size : 0;
	to.max_blocks_per_sm = v[PTB_GPU_ATTR_BLOCKS_PER_SM];
	to.shared_per_block = v[PTB_GPU_ATTR_SHARED_PER_BLOCK];
	to.shared_per_sm = v[PTB_GPU_ATTR_SHARED_PER_SM];
	to.regs_per_block = v[PTB_GPU_ATTR_REGS_PER_BLOCK];
	to.regs_per_sm = v[PTB_GPU_ATTR_REGS_PER_SM];
	recorder__put_ring(r, AGENT_RING_GPU, &to.h);
	return true;
}

static void put_activity(struct recorder *r, struct agent_proc *p, const struct ptb_arec *a)
{
	union ptb_gpu_record u;
	uint32_t tid;

	switch (cupti_decoder__take(&p->gpu.decoder, a + 1, a->len - sizeof(*a), name_id(p, a->aux),
				    a->flags & PTB_AREC_TIDS, &u)) {
	case CUPTI_TAKEN:
		tid = agent__tid(r, p, u.h.tid);
		fill_head(&u.h, p, u.h.kind, record__fixed_size(u.h.kind));
		u.h.tid = tid;
		r->agent_gpu = true;
		recorder__put_ring(r, AGENT_RING_GPU, &u.h);
		break;
	case CUPTI_UNKNOWN:
		p->gpu.unknown++;
		break;
	case CUPTI_INCOMPLETE:
		r->gpu_no_times++;
		break;
	}
}

static bool put_graph_node(struct recorder *r, struct agent_proc *p, const struct ptb_arec *a)
{
	const struct ptb_arec_graph_node *n = (const void *)a;
	struct ptb_gpu_graph_node to = { .at_ns = n->mono_ns,
					 .node = n->node,
					 .original = n->original };

	if (agent__is_ahead(p, n->mono_ns))
		return false;
	fill_head(&to.h, p, PTB_REC_GPU_GRAPH_NODE, sizeof(to));
	to.h.tid = agent__tid(r, p, n->tid);
	recorder__put_ring(r, AGENT_RING_GPU, &to.h);
	return true;
}

void agent_gpu__record(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
		       const struct ptb_arec *a)
{
	const struct ptb_arec_gpu_note *n = (const void *)a;
	bool good = true;

	(void)c;
	switch (a->kind) {
	case PTB_AREC_CUPTI:
		put_activity(r, p, a);
		break;
	case PTB_AREC_GRAPH_NODE:
		good = put_graph_node(r, p, a);
		break;
	case PTB_AREC_GPU_NAME:
		good = learn_gpu_name(r, p, a);
		break;
	case PTB_AREC_GPU_DEVICE:
		good = !agent__fact_allowed(r, p) || put_device(r, p, a);
		break;
	case PTB_AREC_GPU_NOTE:
		if (!agent__fact_allowed(r, p))
			break;
		if (a->aux == PTB_GPU_DROPPED)
			agent__count(r, PTB_CNT_GPU_DROPPED, n->value);
		put_note(r, p, a->aux, n->value);
		break;
	default:
		good = false;
	}
	if (!good)
		agent__count(r, PTB_CNT_AGENT_BAD, 1);
}

void agent_gpu__end(struct recorder *r, struct agent_proc *p)
{
	if (p->gpu.unknown)
		put_note(r, p, PTB_GPU_UNKNOWN, p->gpu.unknown);
	p->gpu.unknown = 0;
}

void agent_gpu__free(struct agent_gpu *g)
{
	hashmap__clear(&g->names);
	cupti_decoder__clear(&g->decoder);
}

void agent_gpu__clock(struct recorder *r, struct agent_proc *p, const struct ptb_arec_gpu_clock *k)
{
	struct ptb_gpu_clock g = { .gpu_ns = k->gpu_ns,
				   .mono_ns = k->mono_ns,
				   .err_ns = k->err_ns };

	if (agent__is_ahead(p, k->mono_ns)) {
		agent__count(r, PTB_CNT_AGENT_BAD, 1);
		return;
	}
	fill_head(&g.h, p, PTB_REC_GPU_CLOCK, sizeof(g));
	recorder__put_ring(r, AGENT_RING_GPU, &g.h);
}
