/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libcuda.so.1: launches, copies, fills, streams and events; see driver_exec.h. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver_exec.h"

#define LATENCY_NS 2000 /* from the call to the device */
#define CONTEXT 1

struct CUevent_st {
	uint32_t id;
	uint64_t at;
};

static struct CUstream_st default_stream = { .id = 7 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t device_end; /* of the last of all streams */
static uint32_t last_stream = 12, last_event;

struct CUstream_st *exec__stream(CUstream stream)
{
	return stream ? stream : &default_stream;
}

void exec__run(struct CUstream_st *s, struct mock_activity *a, uint64_t ns)
{
	uint64_t begin = mock_tools__now() + LATENCY_NS;

	pthread_mutex_lock(&lock);
	a->begin = s->end > begin ? s->end : begin;
	a->end = s->end = a->begin + ns;
	if (device_end < s->end)
		device_end = s->end;
	pthread_mutex_unlock(&lock);
	a->stream = s->id;
	a->context = CONTEXT;
	mock_tools__report(a);
}

void exec__add_node(CUgraph g, const struct mock_activity *a, const struct mock_activity *original)
{
	struct mock_activity *n = &g->nodes[g->cnt++];

	*n = *a;
	n->graph = g->id;
	n->node = (uint64_t)g->id << 32 | g->cnt;
	mock_tools__node_made(n, NULL);
	if (original) /* as CUPTI has it: such nodes are created as well as cloned */
		mock_tools__node_made(n, original);
}

void exec__put(CUstream stream, struct mock_activity *a, uint64_t ns)
{
	struct CUstream_st *s = exec__stream(stream);
	CUgraph g = s->capturing;

	if (!g)
		exec__run(s, a, ns);
	else if (g->cnt < MAX_NODES)
		exec__add_node(g, a, NULL);
}

void exec__wait_until(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };

	if (mock_tools__now() < ns)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static void synced(uint32_t kind, uint32_t stream, uint32_t event, uint64_t begin)
{
	struct mock_activity a = { .what = MOCK_SYNC,
				   .sync_kind = kind,
				   .stream = stream,
				   .event = event,
				   .context = CONTEXT,
				   .begin = begin,
				   .end = mock_tools__now() };

	mock_tools__report(&a);
}

/* ---- launches ---- */

CUresult work_cuModuleLoadData(CUmodule *module, const void *image)
{
	*module = (CUmodule)(uintptr_t)image;
	return image ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{
	CUfunction made = module && name ? calloc(1, sizeof(*made)) : NULL;

	if (!made)
		return CUDA_ERROR_INVALID_VALUE;
	strncpy(made->name, name, sizeof(made->name) - 1);
	*f = made;
	return CUDA_SUCCESS;
}

CUresult work_cuFuncGetName(const char **name, CUfunction f)
{
	*name = f ? f->name : NULL;
	return f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult launch(const char *call, CUfunction f, const unsigned int *dims,
		       unsigned int shared, CUstream stream)
{
	struct mock_activity a = { .what = MOCK_KERNEL, .shared = shared };
	int error;

	if (mock_cuda_must_fail(call, &error))
		return error;
	if (!f)
		return CUDA_ERROR_INVALID_VALUE;
	a.name = f->name;
	memcpy(a.grid, dims, sizeof(a.grid));
	memcpy(a.block, dims + 3, sizeof(a.block));
	exec__put(stream, &a, EXEC_KERNEL_NS);
	return CUDA_SUCCESS;
}

CUresult work_cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			     unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			     CUstream stream, void **params, void **extra)
{
	unsigned int dims[6] = { gx, gy, gz, bx, by, bz };

	(void)params;
	(void)extra;
	return launch("cuLaunchKernel", f, dims, shared, stream);
}

CUresult work_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
	(void)params;
	(void)extra;
	return config ? launch("cuLaunchKernelEx", f, &config->gridDimX, config->sharedMemBytes,
			       config->hStream) :
			CUDA_ERROR_INVALID_VALUE;
}

/* ---- copies and fills ---- */

enum { KIND_HTOD = 1, KIND_DTOH = 2, KIND_DTOD = 8, KIND_PTOP = 10 };
enum { MEMORY_PAGEABLE = 1, MEMORY_DEVICE = 3 };

static CUresult copy(const char *call, uint32_t kind, size_t bytes, CUstream stream, bool wait)
{
	struct mock_activity a = { .what = kind == KIND_PTOP ? MOCK_PEER : MOCK_MEMCPY,
				   .copy_kind = kind,
				   .bytes = bytes,
				   .dst_device = kind == KIND_PTOP };
	uint64_t begin = mock_tools__now();
	int error;

	if (mock_cuda_must_fail(call, &error))
		return error;
	a.src_kind = kind == KIND_HTOD ? MEMORY_PAGEABLE : MEMORY_DEVICE;
	a.dst_kind = kind == KIND_DTOH ? MEMORY_PAGEABLE : MEMORY_DEVICE;
	exec__put(stream, &a, EXEC_NS(bytes));
	if (wait) {
		exec__wait_until(exec__stream(stream)->end);
		synced(3, exec__stream(stream)->id, ~0u, begin);
	}
	return CUDA_SUCCESS;
}

CUresult work_cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
	return dst && src ? copy("cuMemcpyHtoD_v2", KIND_HTOD, bytes, NULL, true) :
			    CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes)
{
	return dst && src ? copy("cuMemcpyDtoH_v2", KIND_DTOH, bytes, NULL, true) :
			    CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
	return dst && src ? copy("cuMemcpyHtoDAsync_v2", KIND_HTOD, bytes, stream, false) :
			    CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return dst && src ? copy("cuMemcpyDtoHAsync_v2", KIND_DTOH, bytes, stream, false) :
			    CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return dst && src ? copy("cuMemcpyDtoDAsync_v2", KIND_DTOD, bytes, stream, false) :
			    CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from,
				size_t bytes, CUstream stream)
{
	(void)to;
	(void)from;
	return dst && src ? copy("cuMemcpyPeerAsync", KIND_PTOP, bytes, stream, false) :
			    CUDA_ERROR_INVALID_VALUE;
}

static CUresult fill(const char *call, CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream)
{
	struct mock_activity a = {
		.what = MOCK_MEMSET, .value = value, .bytes = bytes, .dst_kind = MEMORY_DEVICE
	};
	int error;

	if (mock_cuda_must_fail(call, &error))
		return error;
	if (!dst)
		return CUDA_ERROR_INVALID_VALUE;
	exec__put(stream, &a, EXEC_NS(bytes));
	return CUDA_SUCCESS;
}

CUresult work_cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t bytes)
{
	return fill("cuMemsetD8_v2", dst, value, bytes, NULL);
}

CUresult work_cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream)
{
	return fill("cuMemsetD8Async", dst, value, bytes, stream);
}

/* ---- streams and events ---- */

CUresult work_cuStreamCreate(CUstream *stream, unsigned int flags)
{
	CUstream s = calloc(1, sizeof(*s));

	(void)flags;
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->id = __atomic_add_fetch(&last_stream, 1, __ATOMIC_RELAXED);
	*stream = s;
	return CUDA_SUCCESS;
}

CUresult work_cuStreamDestroy_v2(CUstream stream)
{
	free(stream);
	return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuStreamSynchronize(CUstream stream)
{
	uint64_t begin = mock_tools__now();
	int error;

	if (mock_cuda_must_fail("cuStreamSynchronize", &error))
		return error;
	exec__wait_until(exec__stream(stream)->end);
	synced(3, exec__stream(stream)->id, ~0u, begin);
	return CUDA_SUCCESS;
}

CUresult work_cuCtxSynchronize(void)
{
	uint64_t begin = mock_tools__now();

	exec__wait_until(device_end);
	synced(4, ~0u, ~0u, begin);
	return CUDA_SUCCESS;
}

CUresult work_cuEventCreate(CUevent *event, unsigned int flags)
{
	CUevent e = calloc(1, sizeof(*e));

	(void)flags;
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->id = __atomic_add_fetch(&last_event, 1, __ATOMIC_RELAXED);
	*event = e;
	return CUDA_SUCCESS;
}

CUresult work_cuEventDestroy_v2(CUevent event)
{
	free(event);
	return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuEventRecord(CUevent event, CUstream stream)
{
	struct CUstream_st *s = exec__stream(stream);
	struct mock_activity a = { .what = MOCK_EVENT, .context = CONTEXT, .stream = s->id };

	if (!event)
		return CUDA_ERROR_INVALID_VALUE;
	event->at = s->end;
	a.event = event->id;
	a.begin = a.end = s->end;
	mock_tools__report(&a);
	return CUDA_SUCCESS;
}

CUresult work_cuEventSynchronize(CUevent event)
{
	uint64_t begin = mock_tools__now();

	if (!event)
		return CUDA_ERROR_INVALID_VALUE;
	exec__wait_until(event->at);
	synced(1, ~0u, event->id, begin);
	return CUDA_SUCCESS;
}

CUresult work_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	struct CUstream_st *s = exec__stream(stream);

	(void)flags;
	if (!event)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->end < event->at)
		s->end = event->at;
	synced(2, s->id, event->id, mock_tools__now());
	return CUDA_SUCCESS;
}
