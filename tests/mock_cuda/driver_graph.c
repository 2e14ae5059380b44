/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libcuda.so.1: graphs, captured from a stream; each launch runs the nodes one after the other. */
#include <stdlib.h>

#include "driver_exec.h"

struct CUgraphExec_st {
	struct CUgraph_st graph;
};

static uint32_t last_graph;

CUresult work_cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	CUgraph g = stream && !stream->capturing ? calloc(1, sizeof(*g)) : NULL;

	(void)mode;
	if (!g)
		return CUDA_ERROR_INVALID_VALUE;
	g->id = __atomic_add_fetch(&last_graph, 1, __ATOMIC_RELAXED);
	stream->capturing = g;
	return CUDA_SUCCESS;
}

CUresult work_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	if (!stream || !stream->capturing)
		return CUDA_ERROR_INVALID_VALUE;
	*graph = stream->capturing;
	stream->capturing = NULL;
	return CUDA_SUCCESS;
}

CUresult work_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUgraphExec e = graph ? calloc(1, sizeof(*e)) : NULL;

	(void)flags;
	if (!e)
		return CUDA_ERROR_INVALID_VALUE;
	e->graph.id = __atomic_add_fetch(&last_graph, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < graph->cnt; i++)
		exec__add_node(&e->graph, &graph->nodes[i], &graph->nodes[i]);
	*exec = e;
	return CUDA_SUCCESS;
}

CUresult work_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	struct mock_activity a;
	int error;

	if (mock_cuda_must_fail("cuGraphLaunch", &error))
		return error;
	for (uint32_t i = 0; exec && i < exec->graph.cnt; i++) {
		a = exec->graph.nodes[i];
		exec__run(exec__stream(stream), &a,
			  a.what == MOCK_KERNEL ? EXEC_KERNEL_NS : EXEC_NS(a.bytes));
	}
	return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuGraphExecDestroy(CUgraphExec exec)
{
	free(exec);
	return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuGraphDestroy(CUgraph graph)
{
	free(graph);
	return graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
