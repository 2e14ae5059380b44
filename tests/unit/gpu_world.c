/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A made-up process that uses GPUs; see gpu_world.h. */
#include "gpu_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US 1000ULL
#define CONTEXT 1

static void init_device(struct ptb_gpu_device *d, uint32_t id, uint32_t major, uint32_t sms,
			uint32_t shared_kib)
{
	*d = (struct ptb_gpu_device){
		.h = { .len = sizeof(*d), .kind = PTB_REC_GPU_DEVICE, .tgid = 100 },
		.memory_bytes = 80ULL << 30,
		.memory_bandwidth = 3352320000ULL,
		.id = id,
		.name = id + 1,
		.major = major,
		.sm_cnt = sms,
		.warp_size = 32,
		.clock_khz = 1980000,
		.max_threads_per_block = 1024,
		.max_warps_per_sm = 64,
		.max_blocks_per_sm = 32,
		.shared_per_block = 48 << 10,
		.shared_per_sm = shared_kib << 10,
		.regs_per_block = 65536,
		.regs_per_sm = 65536,
	};
}

void gw__init(struct gpu_world *w)
{
	memset(w, 0, sizeof(*w));
	w->s = fake_session();
	init_device(&w->devices[0], 0, 9, 132, 228);
	init_device(&w->devices[1], 1, 8, 108, 164);
	for (uint32_t i = 0; i < GW_DEVICES; i++)
		w->device_list[i] = &w->devices[i];
	w->s.names[1] = "NVIDIA H100 80GB HBM3";
	w->s.names[2] = "NVIDIA A100-SXM4-80GB";
	w->s.info.devices = w->device_list;
	w->s.info.device_cnt = GW_DEVICES;
	w->s.info.has_gpu = true;
	w->s.info.gpu_clock_err_ns = 500;
	w->s.info.gpu_clock_cnt = 12;
	w->s.meta[0].key = "agent";
	w->s.meta[0].json = "[{\"pid\": 100, \"source\": \"agent\", \"why\": \"\", \"gpu_why\": \"\", "
			    "\"cupti_version\": 130000, \"cuda_driver_version\": 13000}]";
	w->tgid = 100;
	w->correlation = 1000;
	gw__context(w, 100, 0, NULL, NULL);
}

void gw__context(struct gpu_world *w, uint32_t tid, uint64_t op_slice, const char *op,
		 const char *annotation)
{
	w->at = (struct op_context){ .tgid = w->tgid,
				     .tid = tid,
				     .slice = op_slice,
				     .op_slice = op_slice,
				     .op = op ? op : "",
				     .outer_op = op ? op : "",
				     .annotation = annotation ? annotation : "",
				     .step = -1 };
}

int gw__slice(struct gpu_world *w, uint64_t id, const char *name, uint64_t begin, uint64_t end)
{
	struct slice sl = fake_slice(id, name, begin, end);

	sl.tgid = w->tgid;
	sl.tid = w->at.tid;
	w->totals.slices++;
	w->totals.ops++;
	return w->sink.slice ? w->sink.slice(w->sink.arg, &sl) : 0;
}

int gw__annotation(struct gpu_world *w, uint64_t id, const char *name, uint64_t begin, uint64_t end,
		   uint32_t flags)
{
	struct slice sl = fake_slice(id, name, begin, end);

	sl.tgid = w->tgid;
	sl.tid = w->at.tid;
	sl.cat = SLICE_USER_ANNOTATION;
	sl.flags = flags;
	w->totals.slices++;
	w->totals.annotations += !(flags & SLICE_DERIVED);
	w->totals.steps += !!(flags & SLICE_DERIVED);
	return w->sink.slice ? w->sink.slice(w->sink.arg, &sl) : 0;
}

static struct gw_item *item(struct gpu_world *w, enum gpu_what what, uint8_t kind, size_t len,
			    uint64_t begin, uint64_t end)
{
	struct gw_item *it = &w->items[w->item_cnt];

	if (w->item_cnt == GW_ITEMS) {
		fputs("gpu_world: too many items\n", stderr);
		abort();
	}
	w->item_cnt++;
	memset(it, 0, sizeof(*it));
	it->g = (struct gpu_slice){ .what = what,
				    .begin_ns = begin,
				    .end_ns = end,
				    .name = "",
				    .launch_name = "",
				    .context = CONTEXT,
				    .at = w->at,
				    .rec = &it->rec.h };
	it->rec.h = (struct ptb_rec_hdr){
		.len = (uint16_t)len, .kind = kind, .ts_ns = end, .tgid = w->tgid, .tid = w->at.tid
	};
	return it;
}

struct gw_item *gw__call(struct gpu_world *w, const char *name, uint64_t begin, uint64_t end)
{
	struct gw_item *it =
		w->host_only ?
			item(w, GPU_API, PTB_REC_CUDA_CALL, sizeof(struct ptb_cuda_call), begin, end) :
			item(w, GPU_API, PTB_REC_GPU_API, sizeof(struct ptb_gpu_api), begin, end);

	w->totals.gpu_calls++;
	it->g.name = name;
	it->g.host_only = w->host_only;
	if (w->host_only) {
		it->rec.host.begin_ns = begin;
		it->rec.host.stream = 0x55aa;
		it->rec.host.copy_kind = 0xff;
		it->rec.host.flags = PTB_CUDA_HAS_RESULT;
		return it;
	}
	it->g.correlation = ++w->correlation;
	it->rec.api.correlation = it->g.correlation;
	it->rec.api.cbid = 211;
	return it;
}

struct gw_item *gw__driver(struct gpu_world *w, const char *name, uint64_t begin, uint64_t end,
			   uint32_t correlation)
{
	struct gw_item *it = gw__call(w, name, begin, end);

	it->g.driver = true;
	if (w->host_only)
		return it;
	it->rec.api.driver = 1;
	it->rec.api.cbid = 307;
	if (correlation) {
		w->correlation--;
		it->g.correlation = it->rec.api.correlation = correlation;
	}
	return it;
}

static struct gw_item *work(struct gpu_world *w, enum gpu_what what, uint8_t kind, size_t len,
			    uint32_t device, uint32_t stream, uint64_t begin, uint64_t end,
			    const struct gw_item *call)
{
	struct gw_item *it = item(w, what, kind, len, begin, end);

	w->totals.gpu_work++;
	it->g.device = device;
	it->g.stream = stream;
	it->g.context = CONTEXT + device;
	it->g.props = device < GW_DEVICES ? &w->devices[device] : NULL;
	if (!call) {
		it->g.at = (struct op_context){
			.tgid = w->tgid, .op = "", .outer_op = "", .annotation = "", .step = -1
		};
		it->g.correlation = ++w->correlation;
		w->totals.gpu_unlinked++;
		return it;
	}
	it->g.at = call->g.at;
	it->g.correlation = call->g.correlation;
	it->g.launch_begin_ns = call->g.begin_ns;
	it->g.launch_end_ns = call->g.end_ns;
	it->g.launch_name = call->g.name;
	it->g.before_launch = begin + w->s.info.gpu_clock_err_ns < call->g.begin_ns;
	w->totals.gpu_before_launch += it->g.before_launch;
	return it;
}

struct gw_item *gw__kernel(struct gpu_world *w, const char *name, uint32_t device, uint32_t stream,
			   uint64_t begin, uint64_t end, const struct gw_item *call)
{
	struct gw_item *it = work(w, GPU_KERNEL, PTB_REC_GPU_KERNEL, sizeof(struct ptb_gpu_kernel),
				  device, stream, begin, end, call);
	struct ptb_gpu_kernel *k = &it->rec.kernel;

	it->g.name = name;
	k->grid[0] = 264;
	k->grid[1] = k->grid[2] = 1;
	k->block[0] = 128;
	k->block[1] = 2;
	k->block[2] = 1;
	k->registers = 32;
	k->static_shared = 1024;
	k->dynamic_shared = 16384;
	return it;
}

static struct gw_item *memory(struct gpu_world *w, bool fill, uint64_t bytes, uint32_t device,
			      uint32_t stream, uint64_t begin, uint64_t end, const struct gw_item *call)
{
	struct gw_item *it = work(w, fill ? GPU_MEMSET : GPU_MEMCPY,
				  fill ? PTB_REC_GPU_MEMSET : PTB_REC_GPU_MEMCPY,
				  sizeof(struct ptb_gpu_memory), device, stream, begin, end, call);

	it->rec.memory.bytes = bytes;
	return it;
}

struct gw_item *gw__copy(struct gpu_world *w, uint32_t kind, uint64_t bytes, uint32_t device,
			 uint32_t stream, uint64_t begin, uint64_t end, const struct gw_item *call)
{
	struct gw_item *it = memory(w, false, bytes, device, stream, begin, end, call);

	it->rec.memory.copy_kind = kind;
	it->rec.memory.src_kind = kind == 1 ? 1 : 3;
	it->rec.memory.dst_kind = kind == 2 ? 2 : 3;
	it->g.name = kind == 1 ? "Memcpy HtoD (Pageable -> Device)" :
		     kind == 2 ? "Memcpy DtoH (Device -> Pinned)" :
				 "Memcpy PtoP (Device -> Device)";
	return it;
}

struct gw_item *gw__fill(struct gpu_world *w, uint64_t bytes, uint32_t device, uint32_t stream,
			 uint64_t begin, uint64_t end, const struct gw_item *call)
{
	struct gw_item *it = memory(w, true, bytes, device, stream, begin, end, call);

	it->rec.memory.dst_kind = 3;
	it->g.name = "Memset (Device)";
	return it;
}

struct gw_item *gw__sync(struct gpu_world *w, uint32_t what, uint32_t stream, uint64_t begin,
			 uint64_t end, const struct gw_item *call)
{
	static const char *const names[] = { "Unknown", "Event Sync", "Stream Wait Event",
					     "Stream Sync", "Context Sync" };
	struct gw_item *it = item(w, GPU_SYNC, PTB_REC_GPU_SYNC, sizeof(struct ptb_gpu_sync), begin, end);

	it->g.at = call->g.at;
	it->g.correlation = call->g.correlation;
	it->g.stream = stream;
	it->rec.sync.what = what;
	it->g.name = names[what];
	it->rec.sync.event = it->rec.sync.event_stream = UINT32_MAX;
	return it;
}

struct gw_item *gw__event(struct gpu_world *w, uint32_t stream, uint64_t at, const struct gw_item *call)
{
	struct gw_item *it = item(w, GPU_EVENT, PTB_REC_GPU_EVENT, sizeof(struct ptb_gpu_event), at, at);

	it->g.at = call->g.at;
	it->g.correlation = call->g.correlation;
	it->g.stream = stream;
	it->rec.event.event = 5;
	it->g.name = "cudaEvent";
	return it;
}

struct gw_item *gw__overhead(struct gpu_world *w, const char *name, uint64_t begin, uint64_t end)
{
	struct gw_item *it = item(w, GPU_OVERHEAD, PTB_REC_GPU_OVERHEAD,
				  sizeof(struct ptb_gpu_overhead), begin, end);

	it->g.name = name;
	return it;
}

struct gw_item *gw__gpu_annotation(struct gpu_world *w, const char *name, uint64_t slice,
				   uint32_t stream, uint64_t begin, uint64_t end)
{
	struct gw_item *it = item(w, GPU_ANNOTATION, 0, 0, begin, end);

	it->g.rec = NULL;
	it->g.name = name;
	it->g.stream = stream;
	it->g.at.slice = slice;
	it->g.at.op_slice = 0;
	return it;
}

/* Calls by time, an outer one before those inside; the rest by device, stream and time. */
static int by_order(const void *a, const void *b)
{
	const struct gpu_slice *x = &((const struct gw_item *)a)->g,
			       *y = &((const struct gw_item *)b)->g;

	if ((x->what == GPU_API) != (y->what == GPU_API))
		return x->what == GPU_API ? -1 : 1;
	if (x->what != GPU_API && x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->what != GPU_API && x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns;
}

int gw__emit(struct gpu_world *w)
{
	int err = 0;

	qsort(w->items, w->item_cnt, sizeof(w->items[0]), by_order);
	for (uint32_t i = 0; i < w->item_cnt && !err; i++) {
		if (w->items[i].g.rec)
			w->items[i].g.rec = &w->items[i].rec.h;
		err = w->sink.gpu(w->sink.arg, &w->items[i].g);
	}
	w->emitted_cnt = w->item_cnt;
	w->item_cnt = 0;
	return err;
}

/* ---- a training loop ---- */

static int put_forward(struct gpu_world *w, uint64_t t, uint64_t id)
{
	struct gw_item *c;
	int err;

	gw__context(w, 100, id + 2, "aten::copy_", NULL);
	c = gw__call(w, "cudaMemcpyAsync", t + 30 * US, t + 50 * US);
	gw__copy(w, 1, 1 << 20, 0, 7, t + 60 * US, t + 160 * US, c);
	err = gw__slice(w, id + 2, "aten::copy_", t + 20 * US, t + 80 * US);
	gw__context(w, 100, id + 4, "aten::addmm", "forward");
	gw__call(w, "cudaGetDevice", t + 210 * US, t + 211 * US);
	c = gw__call(w, "cudaLaunchKernel", t + 220 * US, t + 232 * US);
	gw__driver(w, "cuLaunchKernel", t + 224 * US, t + 230 * US, c->g.correlation);
	gw__kernel(w, "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x64x8", 0, 7, t + 240 * US,
		   t + 900 * US, c);
	c = gw__call(w, "cudaMemsetAsync", t + 234 * US, t + 238 * US);
	gw__fill(w, 4096, 0, 7, t + 901 * US, t + 903 * US, c);
	/* ends 200 ns after its operator, by its clock */
	c = gw__call(w, "cudaLaunchKernelExC", t + 250 * US, t + 260 * US + 200);
	gw__kernel(w,
		   "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
		   "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
		   0, 7, t + 905 * US, t + 1000 * US, c);
	err = err ? err : gw__slice(w, id + 4, "aten::addmm", t + 205 * US, t + 260 * US);
	gw__context(w, 100, id + 5, "triton_poi_fused_relu_0", "forward");
	c = gw__driver(w, "cuLaunchKernelEx", t + 280 * US, t + 290 * US, 0);
	gw__kernel(w, "triton_poi_fused_relu_0", 0, 7, t + 1002 * US, t + 1100 * US, c)->rec.kernel.flags =
		PTB_GPU_HAS_PRIORITY;
	gw__driver(w, "cuCtxGetCurrent", t + 291 * US, t + 292 * US, 0);
	err = err ? err : gw__slice(w, id + 5, "triton_poi_fused_relu_0", t + 270 * US, t + 300 * US);
	return err ? err : gw__annotation(w, id + 3, "forward", t + 200 * US, t + 400 * US, 0);
}

static int put_backward(struct gpu_world *w, uint64_t t, uint64_t id)
{
	struct gw_item *c;
	int err;

	gw__context(w, 101, id + 7, "aten::mm", NULL);
	c = gw__call(w, "cudaLaunchKernel", t + 530 * US, t + 540 * US);
	gw__kernel(w, "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x64x8", 0, 7,
		   t + 1110 * US, t + 1900 * US, c);
	err = gw__slice(w, id + 7, "aten::mm", t + 520 * US, t + 550 * US);
	gw__context(w, 101, id + 6, "AddmmBackward0", NULL);
	c = gw__call(w, "cudaEventRecord", t + 556 * US, t + 558 * US);
	gw__event(w, 7, t + 1901 * US, c);
	gw__context(w, 101, 0, NULL, NULL);
	err = err ? err : gw__slice(w, id + 6, "AddmmBackward0", t + 510 * US, t + 560 * US);
	{
		uint32_t record = c->g.correlation;
		struct gw_item *s;

		c = gw__call(w, "cudaStreamWaitEvent", t + 562 * US, t + 564 * US);
		s = gw__sync(w, 2, 13, t + 562 * US, t + 564 * US, c);
		s->rec.sync.event = 5;
		s->rec.sync.event_stream = 7;
		s->rec.sync.event_correlation = record;
	}
	gw__context(w, 101, id + 8, "record_param_comms", NULL);
	c = gw__call(w, "cudaLaunchKernelExC", t + 570 * US, t + 580 * US);
	gw__kernel(w, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
		   0, 13, t + 1905 * US, t + 2500 * US, c);
	gw__kernel(w, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
		   1, 13, t + 1906 * US, t + 2501 * US,
		   gw__call(w, "cudaLaunchKernelExC", t + 582 * US, t + 590 * US));
	return err ? err : gw__slice(w, id + 8, "record_param_comms", t + 566 * US, t + 600 * US);
}

static int put_optimizer(struct gpu_world *w, uint64_t t, uint64_t id)
{
	struct gw_item *c, *k;
	int err;

	gw__context(w, 100, 0, NULL, "Optimizer.step#Adam.step");
	c = gw__call(w, "cudaGraphLaunch", t + 1000 * US, t + 1030 * US);
	for (uint32_t i = 0; i < 2; i++) { /* nodes of one graph have the launch's correlation, all of them */
		k = gw__kernel(w, "adam_update", 0, 7, t + 2600 * US + i * 100 * US,
			       t + 2690 * US + i * 100 * US, c);
		k->rec.kernel.flags = PTB_GPU_HAS_GRAPH | PTB_GPU_HAS_CHANNEL;
		k->rec.kernel.graph = 3;
		k->rec.kernel.graph_node = 0x300000001ULL + i;
		k->rec.kernel.channel = 9;
		k->rec.kernel.channel_type = 1;
	}
	err = gw__annotation(w, id + 9, "Optimizer.step#Adam.step", t + 950 * US, t + 1100 * US, 0);
	gw__context(w, 100, id + 10, "aten::_local_scalar_dense", NULL);
	c = gw__call(w, "cudaMemcpyAsync", t + 1210 * US, t + 1230 * US);
	gw__copy(w, 2, 4, 0, 7, t + 2800 * US, t + 2802 * US, c);
	c = gw__call(w, "cudaStreamSynchronize", t + 1240 * US, t + 2810 * US);
	gw__sync(w, 3, 7, t + 1240 * US, t + 2809 * US, c);
	err = err ? err :
		    gw__slice(w, id + 10, "aten::_local_scalar_dense", t + 1200 * US, t + 2820 * US);
	gw__overhead(w, "Instrumentation", t + 2830 * US, t + 2833 * US);
	gw__context(w, 100, 0, NULL, NULL);
	c = gw__call(w, "cudaDeviceSynchronize", t + 9000 * US, t + 9010 * US);
	gw__sync(w, 4, UINT32_MAX, t + 9000 * US, t + 9009 * US, c);
	gw__gpu_annotation(w, "forward", id + 3, 7, t + 240 * US, t + 1100 * US);
	gw__gpu_annotation(w, "Optimizer.step#Adam.step", id + 9, 7, t + 2600 * US, t + 2790 * US);
	return err;
}

int gw__train(struct gpu_world *w, uint32_t steps)
{
	char names[64][32];
	int err = 0;

	for (uint32_t nr = 0; nr < steps && nr < 64 && !err; nr++) {
		uint64_t t = GW_BEGIN + 10000 * US + nr * 10000 * US, id = 10 + nr * 20;

		snprintf(names[nr], sizeof(names[nr]), "ProfilerStep#%u", nr);
		err = put_forward(w, t, id);
		err = err ? err : put_backward(w, t, id);
		err = err ? err : put_optimizer(w, t, id);
		gw__context(w, 100, 0, NULL, NULL);
		err = err ? err : gw__annotation(w, id, names[nr], t, t + 9999999, SLICE_DERIVED);
	}
	return err ? err : gw__emit(w);
}
