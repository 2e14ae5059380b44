/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The agent's CUPTI part against the mock: exactly what a program did is recorded, with the records of each version. */
#include "cupti_world.h"

#include <pthread.h>
#include <sys/syscall.h>

#include "suite.h"

#define REQUEST AGENT_REQUEST(GPU)
#define REQUEST_SYNC (AGENT_REQUEST(GPU) | AGENT_REQUEST(SYNC))

static void load(void)
{
	setenv("MOCK_CUPTI_VERSION", version, 1);
	world__load(library);
}

/* Waits until what was put into the device's streams is over, then ends. */
static void finish(void)
{
	CHECK(!world.cudaDeviceSynchronize());
	cupti__stop();
	CHECK(!(ptbpf_agent_ctl.state & PTB_AGENT_GPU_ON));
	CHECK(!world.mock_cupti_kinds());
	CHECK(emitted__notes(PTB_GPU_UNKNOWN) == 0 && emitted__notes(PTB_GPU_ERROR) == 0);
}

/* ---- kernels ---- */

static void check_kernel(const struct ptb_gpu_kernel *k, uint64_t after)
{
	const struct ptb_gpu_api *call;
	uint32_t tid = 0;

	CHECK(!strcmp(emitted__name(k->name), "_Z6kernelPfi"));
	CHECK(k->grid[0] == 3 && k->grid[1] == 2 && k->grid[2] == 1);
	CHECK(k->block[0] == 128 && k->block[1] == 1 && k->block[2] == 1);
	CHECK(k->registers == 32 && k->static_shared == 1024 && k->dynamic_shared == 64 &&
	      k->local_per_thread == 16);
	CHECK(k->context == 1 && k->device == 0 && k->stream == 7 && !k->graph && !k->graph_node);
	CHECK(k->begin >= after && k->end > k->begin);
	CHECK(k->flags & PTB_GPU_HAS_CHANNEL && k->channel == 4 && k->channel_type == 1);
	CHECK(!(k->flags & PTB_GPU_HAS_PRIORITY) == (atoi(version) < 130100));
	CHECK(k->priority == (k->flags & PTB_GPU_HAS_PRIORITY ? -1 : 0));
	call = emitted__call(k->correlation, &tid);
	CHECK(call && !call->driver && call->cbid == 211 && !call->result);
	CHECK(!strcmp(emitted__name(call->name), "cudaLaunchKernel"));
	CHECK(call->end > call->begin && k->begin > call->begin);
	CHECK(tid == (uint32_t)syscall(SYS_gettid));
}

TEST_VERSIONS("kernels")
{
	size_t cnt = 5000;
	uint64_t last = 0;

	load();
	world__launch(NULL); /* before: not recorded */
	CHECK(world__start(REQUEST) == 0);
	CHECK(ptbpf_agent_ctl.cupti_version == (uint32_t)atoi(version));
	CHECK(ptbpf_agent_ctl.state == (PTB_AGENT_CUPTI | PTB_AGENT_GPU_ON));
	for (size_t i = 0; i < cnt; i++) {
		world__launch(NULL);
		if (i % 500 == 0)
			cupti__tick();
	}
	finish();
	world__launch(NULL); /* after: not recorded */
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) == cnt);
	CHECK(emitted__notes(PTB_GPU_DROPPED) == 0 && emitted__notes(PTB_GPU_BUFFERS) == 0);
	for (size_t i = 0; i < cnt; i += 97)
		check_kernel(&emitted__nth(PTB_REC_GPU_KERNEL, i)->u.kernel, last);
	CHECK(emitted__count(PTB_REC_GPU_API) == cnt + 1); /* and cudaDeviceSynchronize() */
	CHECK(emitted__count(PTB_REC_GPU_SYNC) == 0 && emitted__count(PTB_REC_GPU_EVENT) == 0);
	CHECK(emitted__count(PTB_REC_GPU_DEVICE) == 2);
	CHECK(emitted__count(PTB_REC_GPU_OVERHEAD) > 0);
}

/* ---- copies and fills ---- */

static const struct ptb_gpu_memory *memory(uint32_t kind, size_t nth)
{
	const struct world_record *r = emitted__nth(kind, nth);

	CHECK(r);
	CHECK(r->u.memory.end > r->u.memory.begin && emitted__call(r->u.memory.correlation, NULL));
	return &r->u.memory;
}

static void check_call(const struct ptb_gpu_memory *m, const char *name)
{
	CHECK(!strcmp(emitted__name(emitted__call(m->correlation, NULL)->name), name));
}

TEST_VERSIONS("copies and fills")
{
	const struct ptb_gpu_memory *m;
	char host[4096];
	void *device;

	load();
	CHECK(!world.cudaMalloc(&device, sizeof(host)));
	CHECK(world__start(REQUEST) == 0);
	CHECK(!world.cudaMemcpy(device, host, 4096, 1));
	CHECK(!world.cudaMemcpyAsync(host, device, 2048, 2, NULL));
	CHECK(!world.cudaMemcpyAsync(device, device, 1024, 3, NULL));
	CHECK(!world.cudaMemcpyPeerAsync(device, 1, device, 0, 512, NULL));
	CHECK(!world.cudaMemset(device, 0xab, 256));
	finish();
	CHECK(emitted__count(PTB_REC_GPU_MEMCPY) == 4 && emitted__count(PTB_REC_GPU_MEMSET) == 1);
	m = memory(PTB_REC_GPU_MEMCPY, 0);
	CHECK(m->bytes == 4096 && m->copy_kind == 1 && m->src_kind == 1 && m->dst_kind == 3);
	check_call(m, "cudaMemcpy");
	m = memory(PTB_REC_GPU_MEMCPY, 1);
	CHECK(m->bytes == 2048 && m->copy_kind == 2 && m->src_kind == 3 && m->dst_kind == 1);
	CHECK(m->flags == (PTB_GPU_HAS_CHANNEL | PTB_GPU_HAS_GRAPH) && m->channel == 5);
	check_call(m, "cudaMemcpyAsync");
	CHECK(memory(PTB_REC_GPU_MEMCPY, 2)->copy_kind == 8);
	m = memory(PTB_REC_GPU_MEMCPY, 3);
	CHECK(m->bytes == 512 && m->copy_kind == 10 && m->flags == (PTB_GPU_PEER | PTB_GPU_HAS_GRAPH));
	CHECK(m->src_device == 0 && m->dst_device == 1 && m->src_context == 1 && m->dst_context == 2);
	m = memory(PTB_REC_GPU_MEMSET, 0);
	CHECK(m->bytes == 256 && m->copy_kind == 0xab && m->dst_kind == 3 && m->stream == 7);
	check_call(m, "cudaMemset");
}

/* ---- synchronisation and events ---- */

TEST_VERSIONS("synchronisation and events")
{
	const struct ptb_gpu_sync *s;
	const struct ptb_gpu_event *e;
	CUstream stream;
	CUevent event;

	load();
	CHECK(!world.cudaStreamCreate(&stream) && !world.cudaEventCreate(&event));
	CHECK(world__start(REQUEST_SYNC) == 0);
	CHECK(ptbpf_agent_ctl.state & PTB_AGENT_SYNC_ON);
	world__launch(NULL);
	CHECK(!world.cudaEventRecord(event, NULL));
	CHECK(!world.cudaStreamWaitEvent(stream, event, 0));
	CHECK(!world.cudaEventSynchronize(event));
	CHECK(!world.cudaStreamSynchronize(stream));
	finish();
	CHECK(!(ptbpf_agent_ctl.state & PTB_AGENT_SYNC_ON));
	CHECK(emitted__count(PTB_REC_GPU_EVENT) == 1 && emitted__count(PTB_REC_GPU_SYNC) == 4);
	e = &emitted__nth(PTB_REC_GPU_EVENT, 0)->u.event;
	CHECK(e->stream == 7 && e->context == 1 && !e->at == (atoi(version) < 26));
	s = &emitted__nth(PTB_REC_GPU_SYNC, 0)->u.sync;
	CHECK(s->what == 2 && s->event == e->event && s->event_correlation == e->correlation);
	CHECK(s->event_stream == 7 && s->stream != 7);
	s = &emitted__nth(PTB_REC_GPU_SYNC, 1)->u.sync;
	CHECK(s->what == 1 && s->event_correlation == e->correlation && s->stream == ~0u);
	s = &emitted__nth(PTB_REC_GPU_SYNC, 2)->u.sync;
	CHECK(s->what == 3 && s->event == ~0u && !s->event_correlation && s->end >= s->begin);
	s = &emitted__nth(PTB_REC_GPU_SYNC, 3)->u.sync;
	CHECK(s->what == 4 && s->stream == ~0u && s->device == 0);
}

/* The request for synchronisation comes and goes while kernels are recorded. */
TEST_VERSIONS("synchronisation is requested later")
{
	load();
	CHECK(world__start(REQUEST) == 0);
	CHECK(!world.cudaDeviceSynchronize());
	CHECK(world__start(REQUEST_SYNC) == 0);
	CHECK(!world.cudaDeviceSynchronize());
	CHECK(world__start(REQUEST) == 0);
	world__launch(NULL);
	finish();
	CHECK(emitted__count(PTB_REC_GPU_SYNC) == 1 && emitted__count(PTB_REC_GPU_KERNEL) == 1);
}

/* ---- graphs, threads, calls ---- */

TEST_VERSIONS("graphs")
{
	const struct ptb_gpu_kernel *k;
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;

	load();
	CHECK(!world.cudaStreamCreate(&stream));
	CHECK(world__start(REQUEST) == 0);
	CHECK(!world.cudaStreamBeginCapture(stream, 0));
	for (size_t i = 0; i < 3; i++)
		world__launch(stream);
	CHECK(!world.cudaStreamEndCapture(stream, &graph));
	CHECK(!world.cudaGraphInstantiate(&exec, graph, 0));
	for (size_t i = 0; i < 4; i++)
		CHECK(!world.cudaGraphLaunch(exec, stream));
	finish();
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) == 12);
	for (size_t i = 0; i < 12; i++) {
		k = &emitted__nth(PTB_REC_GPU_KERNEL, i)->u.kernel;
		CHECK(k->graph && (k->graph_node & 0xffffffff) == i % 3 + 1 &&
		      k->flags & PTB_GPU_HAS_GRAPH);
		CHECK(!strcmp(emitted__name(emitted__call(k->correlation, NULL)->name),
			      "cudaGraphLaunch"));
		if (i % 3)
			CHECK(k->correlation ==
			      emitted__nth(PTB_REC_GPU_KERNEL, i - 1)->u.kernel.correlation);
	}
}

static void *launch_some(void *tid)
{
	*(uint32_t *)tid = (uint32_t)syscall(SYS_gettid);
	for (uint32_t i = 0; i < 200; i++)
		world__launch(NULL);
	return NULL;
}

static void run_threads(void)
{
	uint32_t tids[6], tid;
	pthread_t threads[6];
	size_t cnt;

	load();
	CHECK(world__start(REQUEST) == 0);
	for (size_t i = 0; i < 6; i++)
		CHECK(!pthread_create(&threads[i], NULL, launch_some, &tids[i]));
	for (size_t i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
	finish();
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) == 1200);
	for (size_t n = 0; n < 6; n++) {
		for (size_t i = cnt = 0; i < 1200; i++)
			if (emitted__call(emitted__nth(PTB_REC_GPU_KERNEL, i)->u.kernel.correlation, &tid) &&
			    tid == tids[n])
				cnt++;
		CHECK(cnt == 200);
	}
}

TEST("threads")
{
	version = "130001";
	library = CUPTI_13;
	CU_ASSERT_EQUAL(world__case(run_threads), 0);
}

/* The driver's calls: those of the allow-list; the runtime's: all but those that traces never have. */
TEST_VERSIONS("which calls")
{
	CUmodule module;
	CUfunction f;
	int device;

	load();
	CHECK(world__start(REQUEST) == 0);
	CHECK(!world.cudaGetDevice(&device));
	CHECK(!world.cuModuleLoadData(&module, "image") &&
	      !world.cuModuleGetFunction(&f, module, "triton_kernel"));
	CHECK(!world.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	finish();
	CHECK(emitted__count(PTB_REC_GPU_API) == 2);
	CHECK(emitted__nth(PTB_REC_GPU_API, 0)->u.api.driver &&
	      emitted__nth(PTB_REC_GPU_API, 0)->u.api.cbid == 307);
	CHECK(!strcmp(emitted__name(emitted__nth(PTB_REC_GPU_API, 0)->u.api.name), "cuLaunchKernel"));
	CHECK(!strcmp(emitted__name(emitted__nth(PTB_REC_GPU_KERNEL, 0)->u.kernel.name), "triton_kernel"));
}

/* ---- clocks ---- */

static void run_clocks(void)
{
	const int64_t offset = -123456789012345;
	double fit;

	setenv("MOCK_CUPTI_OFFSET_NS", "-123456789012345", 1);
	setenv("MOCK_CUPTI_DRIFT_PPM", "40", 1);
	load();
	CHECK(world__start(REQUEST) == 0);
	for (size_t i = 0; i < 20; i++) {
		cupti__tick();
		usleep(2000);
	}
	finish();
	CHECK(emitted_clock_cnt == 21);
	for (size_t i = 0; i < emitted_clock_cnt; i++) {
		fit = (double)emitted_clocks[i].mono_ns * 1.00004 + (double)offset -
		      (double)(int64_t)emitted_clocks[i].gpu_ns;
		CHECK(emitted_clocks[i].err_ns < 10000000 && fit < (double)emitted_clocks[i].err_ns + 100 &&
		      fit > -(double)emitted_clocks[i].err_ns - 100);
	}
}

TEST("clocks")
{
	version = "22";
	library = CUPTI_12;
	CU_ASSERT_EQUAL(world__case(run_clocks), 0);
}

/* ---- names ---- */

static void run_names(void)
{
	static char text[6000];
	CUmodule module;
	CUfunction f;

	memset(text, 'x', sizeof(text) - 1);
	load();
	CHECK(!world.cuModuleLoadData(&module, "image"));
	CHECK(world__start(REQUEST) == 0);
	for (size_t i = 0; i < 60000; i++) { /* more than the table keeps */
		snprintf(text, 40, "kernel_%zu", i % 55000);
		CHECK(!world.cuModuleGetFunction(&f, module, text));
		CHECK(!world.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
		if (i % 1000 == 0) {
			world.cuptiActivityFlushAll(0);
			cupti__tick();
		}
	}
	finish();
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) == 60000);
	for (size_t i = 0; i < 60000; i += 613) {
		snprintf(text, 40, "kernel_%zu", i % 55000);
		CHECK(!strcmp(emitted__name(emitted__nth(PTB_REC_GPU_KERNEL, i)->u.kernel.name), text));
	}
}

TEST("names")
{
	version = "22";
	library = CUPTI_12;
	CU_ASSERT_EQUAL(world__case(run_names), 0);
}

/* ---- what does not come as it should ---- */

static void run_reordered(void)
{
	setenv("MOCK_CUPTI_REORDER", "1", 1);
	load();
	CHECK(world__start(REQUEST) == 0);
	for (size_t i = 0; i < 3000; i++)
		world__launch(NULL);
	finish();
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) == 3000);
	CHECK(emitted__nth(PTB_REC_GPU_KERNEL, 0)->u.kernel.begin >
	      emitted__nth(PTB_REC_GPU_KERNEL, 1)->u.kernel.begin);
	for (size_t i = 0; i < 3000; i += 101)
		check_kernel(&emitted__nth(PTB_REC_GPU_KERNEL, i)->u.kernel, 0);
}

static void run_dropped(void)
{
	setenv("MOCK_CUPTI_DROP", "7", 1);
	load();
	CHECK(world__start(REQUEST) == 0);
	for (size_t i = 0; i < 3000; i++)
		world__launch(NULL);
	cupti__tick();
	finish();
	CHECK(world.mock_cupti_lost() > 800);
	CHECK(emitted__notes(PTB_GPU_DROPPED) == world.mock_cupti_lost());
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) + emitted__count(PTB_REC_GPU_API) +
		      emitted__notes(PTB_GPU_DROPPED) ==
	      6001);
}

/* A forced flush in the middle of the device's work: what has no times is counted, not recorded. */
static void run_unfinished(void)
{
	void *device;

	load();
	CHECK(!world.cudaMalloc(&device, 1 << 20));
	CHECK(world__start(REQUEST) == 0);
	world__launch(NULL);
	usleep(30000);
	cupti__tick();
	CHECK(!world.cudaMemset(device, 0, 1ULL << 34)); /* a second of work */
	world__launch(NULL);
	cupti__stop();
	CHECK(emitted__notes(PTB_GPU_DROPPED) == 2);
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) == 1 && emitted__count(PTB_REC_GPU_MEMSET) == 0);
	CHECK(emitted__count(PTB_REC_GPU_API) == 3); /* the calls are over, though */
}

TEST("reordered, dropped, unfinished")
{
	version = "130001";
	library = CUPTI_13;
	CU_ASSERT_EQUAL(world__case(run_reordered), 0);
	CU_ASSERT_EQUAL(world__case(run_dropped), 0);
	CU_ASSERT_EQUAL(world__case(run_unfinished), 0);
}

SUITE("cupti_records")
