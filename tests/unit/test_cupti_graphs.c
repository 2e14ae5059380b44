/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Nodes of CUDA graphs as the agent records them, against the mock: each once, with its thread and time, and its copies. */
#include "cupti_world.h"

#include <pthread.h>
#include <sys/syscall.h>

#include "suite.h"

#define REQUEST AGENT_REQUEST(GPU)
#define REQUEST_GRAPHS (AGENT_REQUEST(GPU) | AGENT_REQUEST(GRAPHS))
#define RING 32768 /* nodes that fit until the agent's thread takes them */

static void load(void)
{
	setenv("MOCK_CUPTI_VERSION", version, 1);
	world__load(library);
}

static CUgraph capture(CUstream stream, size_t kernels)
{
	CUgraph graph;

	CHECK(!world.cudaStreamBeginCapture(stream, 0));
	for (size_t i = 0; i < kernels; i++)
		world__launch(stream);
	CHECK(!world.cudaStreamEndCapture(stream, &graph));
	return graph;
}

/* ---- what is recorded ---- */

TEST_VERSIONS("a graph is replayed")
{
	uint64_t before[4], node;
	const struct ptb_arec_graph_node *copy, *made;
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;
	void *device;

	load();
	CHECK(!world.cudaMalloc(&device, 4096));
	CHECK(!world.cudaStreamCreate(&stream));
	CHECK(world__start(REQUEST_GRAPHS) == 0);
	CHECK(ptbpf_agent_ctl.state & PTB_AGENT_GRAPHS_ON && world.mock_cupti_subscribed());
	CHECK(!world.cudaStreamBeginCapture(stream, 0));
	for (size_t i = 0; i < 3; i++) {
		before[i] = agent__mono_ns();
		world__launch(stream);
	}
	CHECK(!world.cudaMemsetAsync(device, 1, 4096, stream));
	before[3] = agent__mono_ns();
	CHECK(!world.cudaStreamEndCapture(stream, &graph));
	CHECK(!world.cudaGraphInstantiate(&exec, graph, 0));
	for (size_t i = 0; i < 4; i++)
		CHECK(!world.cudaGraphLaunch(exec, stream));
	CHECK(!world.cudaDeviceSynchronize());
	cupti__stop();
	CHECK(!(ptbpf_agent_ctl.state & PTB_AGENT_GRAPHS_ON) && !world.mock_cupti_subscribed());
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) == 12 && emitted__count(PTB_REC_GPU_MEMSET) == 4);
	CHECK(emitted__count(PTB_REC_GPU_GRAPH_NODE) == 12); /* 4, and each copy as a node and as a copy */
	for (size_t i = 0; i < 12; i++) {
		node = emitted__nth(PTB_REC_GPU_KERNEL, i)->u.kernel.graph_node;
		copy = emitted__node(node, true);
		CHECK(copy && copy->node == node);
		made = emitted__node(copy->original, false);
		CHECK(made && made->tid == (uint32_t)syscall(SYS_gettid));
		CHECK(made->mono_ns >= before[i % 3] && made->mono_ns <= before[i % 3 + 1]);
	}
	copy = emitted__node(emitted__nth(PTB_REC_GPU_MEMSET, 0)->u.memory.graph_node, true);
	CHECK(copy && emitted__node(copy->original, false)->mono_ns >= before[2]);
	CHECK(!emitted_drops && emitted__notes(PTB_GPU_ERROR) == 0);
}

TEST_VERSIONS("only what is requested")
{
	CUstream stream;

	load();
	CHECK(!world.cudaStreamCreate(&stream));
	CHECK(world__start(REQUEST) == 0);
	CHECK(!world.mock_cupti_subscribed() && !(ptbpf_agent_ctl.state & PTB_AGENT_GRAPHS_ON));
	capture(stream, 3);
	CHECK(world__start(REQUEST_GRAPHS) == 0); /* requested later */
	CHECK(world.mock_cupti_subscribed());
	capture(stream, 2);
	CHECK(world__start(REQUEST) == 0); /* and withdrawn */
	CHECK(!world.mock_cupti_subscribed());
	capture(stream, 3);
	cupti__stop();
	capture(stream, 3);
	CHECK(emitted__count(PTB_REC_GPU_GRAPH_NODE) == 2);
	emitted__forget();
	CHECK(world__start(REQUEST_GRAPHS) == 0); /* another tracer */
	capture(stream, 4);
	cupti__tick();
	CHECK(emitted__count(PTB_REC_GPU_GRAPH_NODE) == 4);
	cupti__stop();
	CHECK(emitted__count(PTB_REC_GPU_GRAPH_NODE) == 4);
}

/* ---- many ---- */

#define THREADS 6
#define GRAPHS 40
#define NODES 100

static void *capture_some(void *tid)
{
	CUstream stream;

	*(uint32_t *)tid = (uint32_t)syscall(SYS_gettid);
	CHECK(!world.cudaStreamCreate(&stream));
	for (size_t i = 0; i < GRAPHS; i++)
		CHECK(!world.cudaGraphDestroy(capture(stream, NODES)));
	return NULL;
}

TEST_VERSIONS("threads")
{
	pthread_t threads[THREADS];
	uint32_t tids[THREADS];
	size_t cnt[THREADS] = { 0 };

	load();
	CHECK(world__start(REQUEST_GRAPHS) == 0);
	for (size_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, capture_some, &tids[i]));
	for (size_t i = 0; i < 50; i++) {
		usleep(500);
		cupti__tick();
	}
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	cupti__stop();
	CHECK(emitted__count(PTB_REC_GPU_GRAPH_NODE) == THREADS * GRAPHS * NODES && !emitted_drops);
	for (size_t i = 0; i < emitted_cnt; i++)
		for (size_t n = 0; n < THREADS; n++)
			cnt[n] += emitted[i].kind == PTB_REC_GPU_GRAPH_NODE &&
				  emitted[i].node.tid == tids[n];
	for (size_t n = 0; n < THREADS; n++)
		CHECK(cnt[n] == GRAPHS * NODES);
}

/* More than the ring has: counted, and those behind the next round are recorded again. */
static void run_too_many(void)
{
	size_t captured = 0;
	CUstream stream;

	load();
	CHECK(!world.cudaStreamCreate(&stream));
	CHECK(world__start(REQUEST_GRAPHS) == 0);
	for (; captured < RING + 1000; captured += 250)
		CHECK(!world.cudaGraphDestroy(capture(stream, 250)));
	cupti__tick();
	CHECK(emitted__count(PTB_REC_GPU_GRAPH_NODE) == RING && emitted_drops == captured - RING);
	capture(stream, 5);
	cupti__stop();
	CHECK(emitted__count(PTB_REC_GPU_GRAPH_NODE) == RING + 5 && emitted_drops == captured - RING);
}

TEST("more than fit")
{
	version = "22";
	library = CUPTI_12;
	CU_ASSERT_EQUAL(world__case(run_too_many), 0);
}

/* ---- others, errors ---- */

static void request(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = NULL;
	*size = *records = 0;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context;
	(void)stream;
	(void)buffer;
	(void)size;
	(void)valid;
}

/* Another profiler starts: what the agent holds is given back, what was captured until then is recorded. */
static void run_yields(void)
{
	CUstream stream;

	load();
	CHECK(!world.cudaStreamCreate(&stream));
	CHECK(world__start(REQUEST_GRAPHS) == 0);
	capture(stream, 7);
	CHECK(!world.cuptiActivityRegisterCallbacks(request, complete));
	cupti__tick();
	CHECK(ptbpf_agent_ctl.gpu_why == PTB_AGENT_WHY_CUPTI_IN_USE && !world.mock_cupti_subscribed());
	CHECK(!(ptbpf_agent_ctl.state & PTB_AGENT_GRAPHS_ON));
	CHECK(emitted__count(PTB_REC_GPU_GRAPH_NODE) == 7);
}

/* Callbacks cannot be had: activities are recorded all the same. */
static void run_refused(void)
{
	CUstream stream;

	setenv("MOCK_CUPTI_FAIL", "cuptiEnableCallback:1", 1);
	load();
	CHECK(!world.cudaStreamCreate(&stream));
	CHECK(world__start(REQUEST_GRAPHS) == 0);
	CHECK(ptbpf_agent_ctl.state & PTB_AGENT_GPU_ON && !(ptbpf_agent_ctl.state & PTB_AGENT_GRAPHS_ON));
	CHECK(!world.mock_cupti_subscribed());
	capture(stream, 3);
	world__launch(stream);
	CHECK(!world.cudaDeviceSynchronize());
	cupti__stop();
	CHECK(emitted__notes(PTB_GPU_ERROR) == 1 && emitted__count(PTB_REC_GPU_GRAPH_NODE) == 0);
	CHECK(emitted__count(PTB_REC_GPU_KERNEL) == 1);
}

/* Nodes whose ids CUPTI does not give are counted. */
static void run_no_ids(void)
{
	CUstream stream;

	setenv("MOCK_CUPTI_FAIL", "cuptiGetGraphNodeId:1", 1);
	load();
	CHECK(!world.cudaStreamCreate(&stream));
	CHECK(world__start(REQUEST_GRAPHS) == 0);
	capture(stream, 3);
	cupti__stop();
	CHECK(emitted__count(PTB_REC_GPU_GRAPH_NODE) == 0 && emitted_drops == 3);
}

TEST("others, errors")
{
	version = "22";
	library = CUPTI_12;
	CU_ASSERT_EQUAL(world__case(run_yields), 0);
	CU_ASSERT_EQUAL(world__case(run_refused), 0);
	CU_ASSERT_EQUAL(world__case(run_no_ids), 0);
}

SUITE("cupti_graphs")
