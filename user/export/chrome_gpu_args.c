/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Args of GPU activities in a Chrome trace, key by key as kineto writes them (libkineto
 * CuptiActivity.h, CudaMetadataFields.h). What is not known is left out, never made up; ptbpf's own
 * keys come last.
 */
#include "export/chrome_priv.h"

#include <stdio.h>

#include "export/gpu_text.h"

/* CUPTI's "none" of streams and events is -1 in a trace. */
static int64_t or_none(uint32_t id)
{
	return id == UINT32_MAX ? -1 : (int64_t)id;
}

static void put_three(struct jsonw *w, const uint32_t v[3])
{
	jsonw__begin_arr(w);
	for (int i = 0; i < 3; i++)
		jsonw__u64(w, v[i]);
	jsonw__end_arr(w);
}

static void put_external_id(struct jsonw *w, const struct gpu_slice *g)
{
	if (g->at.op_slice)
		JSONW_U64(w, "External id", g->at.op_slice);
}

static void put_origin(struct jsonw *w, const struct gpu_origin *c, const char *line)
{
	if (c && *c->op) {
		JSONW_STR(w, "ptbpf.captured_op", c->op);
		JSONW_U64(w, "ptbpf.captured_id", c->op_slice);
	}
	if (c)
		JSONW_STR(w, "ptbpf.captured_in", c->within);
	if (*line)
		JSONW_STR(w, "ptbpf.captured_at", line);
}

static void put_work_marks(struct jsonw *w, const struct gpu_slice *g, const char *line)
{
	put_origin(w, g->origin, line);
	if (g->before_launch)
		JSONW_BOOL(w, "ptbpf.before_launch", true);
}

/* ---- kernels ---- */

static void put_occupancy(struct jsonw *w, const struct gpu_occupancy *o)
{
	char limits[GPU_LIMITS_MAX];

	JSONW_OBJ(w, "occupancy");
	JSONW_U64(w, "activeBlocksPerMultiprocessor", o->active_blocks);
	JSONW_STR(w, "limitingFactors", gpu_occupancy__limits(limits, o->limits));
	JSONW_U64(w, "blockLimitRegs", o->by_regs);
	JSONW_U64(w, "blockLimitSharedMem", o->by_shared);
	JSONW_U64(w, "blockLimitWarps", o->by_warps);
	JSONW_U64(w, "blockLimitBlocks", o->by_blocks);
	JSONW_U64(w, "blockLimitBarriers", o->by_barriers);
	JSONW_U64(w, "allocatedRegistersPerBlock", o->regs_per_block);
	JSONW_U64(w, "allocatedSharedMemPerBlock", o->shared_per_block);
	jsonw__end_obj(w);
}

struct load { /* of a kernel on its device */
	double blocks_per_sm, warps_per_sm;
	int64_t percent;
	struct gpu_occupancy occ;
	bool has_occ;
};

static bool load_of(const struct ptb_gpu_kernel *k, const struct ptb_gpu_device *d,
		    struct load *out)
{
	double threads = (double)k->block[0] * k->block[1] * k->block[2];
	struct gpu_launch l = { .threads = threads < UINT32_MAX ? (uint32_t)threads : UINT32_MAX,
				.regs = k->registers,
				.static_shared = k->static_shared,
				.dynamic_shared = k->dynamic_shared };
	double active;

	*out = (struct load){ 0 };
	if (!d || !d->sm_cnt)
		return false;
	out->blocks_per_sm = (double)k->grid[0] * k->grid[1] * k->grid[2] / d->sm_cnt;
	out->warps_per_sm = out->blocks_per_sm * threads / 32;
	out->has_occ = gpu_occupancy__of(d, &l, &out->occ);
	if (!out->has_occ)
		return true;
	active = out->occ.active_blocks < out->blocks_per_sm ? out->occ.active_blocks :
							       out->blocks_per_sm;
	out->percent =
		(int64_t)(100 * active * threads / ((double)d->max_warps_per_sm * d->warp_size) +
			  0.5);
	return true;
}

static void put_graph(struct jsonw *w, uint32_t flags, uint32_t graph, uint64_t node)
{
	if (!(flags & PTB_GPU_HAS_GRAPH))
		return;
	JSONW_U64(w, "graph id", graph);
	JSONW_U64(w, "graph node id", node);
}

static void put_channel(struct jsonw *w, uint32_t flags, uint32_t channel, uint32_t type)
{
	if (!(flags & PTB_GPU_HAS_CHANNEL))
		return;
	JSONW_I64(w, "channel", or_none(channel));
	JSONW_U64(w, "channel_type", type);
}

static void put_kernel(struct jsonw *w, const struct gpu_slice *g, uint64_t corr)
{
	const struct ptb_gpu_kernel *k = (const void *)g->rec;
	struct load load;
	bool loaded = load_of(k, g->props, &load);

	JSONW_U64(w, "queued", 0); /* kineto never asks for it */
	JSONW_U64(w, "device", g->device);
	JSONW_U64(w, "context", g->context);
	JSONW_U64(w, "stream", g->stream);
	JSONW_U64(w, "correlation", corr);
	JSONW_U64(w, "registers per thread", k->registers);
	JSONW_U64(w, "shared memory", (uint64_t)k->static_shared + k->dynamic_shared);
	if (loaded) {
		JSONW_DOUBLE(w, "blocks per SM", load.blocks_per_sm);
		JSONW_DOUBLE(w, "warps per SM", load.warps_per_sm);
	}
	JSONW_KEY(w, "grid");
	put_three(w, k->grid);
	JSONW_KEY(w, "block");
	put_three(w, k->block);
	if (loaded && load.has_occ) {
		JSONW_I64(w, "est. achieved occupancy %", load.percent);
		put_occupancy(w, &load.occ);
	}
	put_graph(w, k->flags, k->graph, k->graph_node);
	if (k->flags & PTB_GPU_HAS_PRIORITY)
		JSONW_I64(w, "priority", k->priority);
	put_channel(w, k->flags, k->channel, k->channel_type);
}

/* ---- copies and fills ---- */

static void put_memory(struct jsonw *w, const struct gpu_slice *g, uint64_t corr)
{
	const struct ptb_gpu_memory *m = (const void *)g->rec;

	if (m->flags & PTB_GPU_PEER) {
		JSONW_U64(w, "fromDevice", m->src_device);
		JSONW_U64(w, "inDevice", g->device);
		JSONW_U64(w, "toDevice", m->dst_device);
		JSONW_U64(w, "fromContext", m->src_context);
		JSONW_U64(w, "inContext", g->context);
		JSONW_U64(w, "toContext", m->dst_context);
	} else {
		JSONW_U64(w, "device", g->device);
		JSONW_U64(w, "context", g->context);
	}
	JSONW_U64(w, "stream", g->stream);
	JSONW_U64(w, "correlation", corr);
	JSONW_U64(w, "bytes", m->bytes);
	if (g->end_ns > g->begin_ns) {
		JSONW_DOUBLE(w, "memory bandwidth (GB/s)",
			     (double)m->bytes / (double)(g->end_ns - g->begin_ns));
	}
	put_graph(w, m->flags, m->graph, m->graph_node);
	put_channel(w, m->flags, m->channel, m->channel_type);
}

void chrome_gpu_args__work(struct jsonw *w, const struct gpu_slice *g, uint64_t corr,
			   const char *line)
{
	put_external_id(w, g);
	if (g->what == GPU_KERNEL)
		put_kernel(w, g, corr);
	else
		put_memory(w, g, corr);
	put_work_marks(w, g, line);
}

/* ---- calls ---- */

/*
 * A call that a kernel probe saw has no correlation of CUPTI's. Consumers need a number that is
 * unique among launches (Chakra's linker ends where two have the same, HolisticTraceAnalysis joins
 * rows by it), so the trace gives it one that no GPU slice has. What else the probe knows has names
 * of its own: an argument "stream" would make HolisticTraceAnalysis take the call for a row of the
 * GPU.
 */
static void put_host_call(struct jsonw *w, const struct gpu_slice *g)
{
	const struct ptb_cuda_call *c = (const void *)g->rec;
	const char *copy = gpu_api__copy_kind(c->copy_kind);
	char handle[24];

	JSONW_BOOL(w, "ptbpf.host_only", true);
	if (c->stream != UINT64_MAX) {
		snprintf(handle, sizeof(handle), "0x%llx", (unsigned long long)c->stream);
		JSONW_STR(w, "ptbpf.stream", handle);
	}
	if (c->bytes)
		JSONW_U64(w, "ptbpf.bytes", c->bytes);
	if (*copy)
		JSONW_STR(w, "ptbpf.copy", copy);
	if (c->grid[0]) {
		JSONW_KEY(w, "ptbpf.grid");
		put_three(w, c->grid);
		JSONW_KEY(w, "ptbpf.block");
		put_three(w, c->block);
		JSONW_U64(w, "ptbpf.shared_memory", c->shared);
	}
	if (g->kernel_name && *g->kernel_name)
		JSONW_STR(w, "ptbpf.kernel", g->kernel_name);
	if (c->flags & PTB_API_NO_RESULT)
		JSONW_BOOL(w, "ptbpf.no_result", true);
	else if (c->flags & PTB_CUDA_HAS_RESULT && c->result)
		JSONW_I64(w, "ptbpf.error", c->result);
}

void chrome_gpu_args__call(struct jsonw *w, const struct gpu_slice *g, uint64_t corr)
{
	const struct ptb_gpu_api *a = (const void *)g->rec;

	put_external_id(w, g);
	if (g->host_only) {
		JSONW_U64(w, "correlation", corr);
		put_host_call(w, g);
		return;
	}
	JSONW_U64(w, "cbid", a->cbid);
	JSONW_U64(w, "correlation", corr);
	if (a->result)
		JSONW_U64(w, "ptbpf.error", a->result);
}

/* ---- synchronisation ---- */

void chrome_gpu_args__sync(struct jsonw *w, const struct gpu_slice *g, uint64_t corr,
			   uint64_t event_corr)
{
	const struct ptb_gpu_sync *s = (const void *)g->rec;

	JSONW_STR(w, "cuda_sync_kind", g->name);
	if (s->what == GPU_SYNC_EVENT || s->what == GPU_SYNC_STREAM_WAIT) {
		JSONW_I64(w, "wait_on_stream", event_corr ? or_none(s->event_stream) : -1);
		if (event_corr)
			JSONW_U64(w, "wait_on_cuda_event_record_corr_id", event_corr);
		else
			JSONW_I64(w, "wait_on_cuda_event_record_corr_id", -1);
		JSONW_I64(w, "wait_on_cuda_event_id", or_none(s->event));
	}
	JSONW_I64(w, "stream", or_none(g->stream));
	JSONW_U64(w, "correlation", corr);
	JSONW_U64(w, "device", g->device);
	JSONW_U64(w, "context", g->context);
}

void chrome_gpu_args__event(struct jsonw *w, const struct gpu_slice *g, uint64_t corr)
{
	const struct ptb_gpu_event *e = (const void *)g->rec;

	JSONW_U64(w, "event_id", e->event);
	JSONW_I64(w, "stream", or_none(g->stream));
	JSONW_U64(w, "correlation", corr);
	JSONW_U64(w, "device", g->device);
	JSONW_U64(w, "context", g->context);
}
