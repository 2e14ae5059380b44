/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libcudart: launches, copies, fills, streams, events and graphs; how calls are made is in runtime.h. */
#include <pthread.h>

#include "runtime.h"

#define MAX_FUNCTIONS 256

static struct {
	const void *host;
	const char *name;
	CUfunction f; /* made at the first launch */
} functions[MAX_FUNCTIONS];
static unsigned int function_cnt;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int current_device;

#define DRIVER runtime__driver()

/* ---- kernels ---- */

void **__cudaRegisterFatBinary(void *image)
{
	return image;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
			    int threads, void *tid, void *bid, void *block, void *grid, int *size)
{
	(void)handle;
	(void)device;
	(void)threads;
	(void)tid;
	(void)bid;
	(void)block;
	(void)grid;
	(void)size;
	pthread_mutex_lock(&lock);
	if (function_cnt < MAX_FUNCTIONS) {
		functions[function_cnt].host = host;
		functions[function_cnt++].name = name;
	}
	pthread_mutex_unlock(&lock);
}

static CUfunction function_of(const void *host)
{
	CUfunction f = NULL;
	CUmodule module;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < function_cnt && !f; i++) {
		if (functions[i].host != host)
			continue;
		if (!functions[i].f && !DRIVER->cuModuleLoadData(&module, host))
			DRIVER->cuModuleGetFunction(&functions[i].f, module, functions[i].name);
		f = functions[i].f;
	}
	pthread_mutex_unlock(&lock);
	return f;
}

MOCK_WORK cudaError_t ask_cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args,
					   size_t shared, CUstream stream)
{
	CUfunction f = function_of(func);

	if (!f)
		return cudaErrorInvalidDeviceFunction;
	return DRIVER->cuLaunchKernel(f, grid.x, grid.y, grid.z, block.x, block.y, block.z,
				      (unsigned int)shared, stream, args, NULL);
}
RUNTIME_CALL(cudaLaunchKernel,
	     (const void *func, dim3 grid, dim3 block, void **args, size_t shared, CUstream stream),
	     (func, grid, block, args, shared, stream))

MOCK_WORK cudaError_t ask_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func,
					      void **args)
{
	CUfunction f = function_of(func);
	CUlaunchConfig c;

	if (!f)
		return cudaErrorInvalidDeviceFunction;
	c = (CUlaunchConfig){ config->gridDim.x,
			      config->gridDim.y,
			      config->gridDim.z,
			      config->blockDim.x,
			      config->blockDim.y,
			      config->blockDim.z,
			      (unsigned int)config->dynamicSmemBytes,
			      config->stream,
			      NULL,
			      0 };
	return DRIVER->cuLaunchKernelEx(&c, f, args, NULL);
}
RUNTIME_CALL(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *func, void **args),
	     (config, func, args))

/* ---- devices ---- */

MOCK_WORK cudaError_t ask_cudaGetDeviceCount(int *cnt)
{
	return DRIVER->device_count(cnt);
}
RUNTIME_CALL(cudaGetDeviceCount, (int *cnt), (cnt))

MOCK_WORK cudaError_t ask_cudaGetDevice(int *device)
{
	*device = current_device;
	return cudaSuccess;
}
RUNTIME_CALL(cudaGetDevice, (int *device), (device))

MOCK_WORK cudaError_t ask_cudaSetDevice(int device)
{
	current_device = device;
	return cudaSuccess;
}
RUNTIME_CALL(cudaSetDevice, (int device), (device))

/* ---- copies: cudaMemcpyKind 1 to the device, 2 to the host, 3 on the device ---- */

MOCK_WORK cudaError_t ask_cudaMemcpy(void *dst, const void *src, size_t bytes, int kind)
{
	switch (kind) {
	case 1:
		return DRIVER->cuMemcpyHtoD_v2((uintptr_t)dst, src, bytes);
	case 2:
		return DRIVER->cuMemcpyDtoH_v2(dst, (uintptr_t)src, bytes);
	case 3:
		return DRIVER->cuMemcpyDtoDAsync_v2((uintptr_t)dst, (uintptr_t)src, bytes, NULL);
	}
	return cudaErrorInvalidValue;
}
RUNTIME_CALL(cudaMemcpy, (void *dst, const void *src, size_t bytes, int kind), (dst, src, bytes, kind))

MOCK_WORK cudaError_t ask_cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind,
					  CUstream stream)
{
	switch (kind) {
	case 1:
		return DRIVER->cuMemcpyHtoDAsync_v2((uintptr_t)dst, src, bytes, stream);
	case 2:
		return DRIVER->cuMemcpyDtoHAsync_v2(dst, (uintptr_t)src, bytes, stream);
	case 3:
		return DRIVER->cuMemcpyDtoDAsync_v2((uintptr_t)dst, (uintptr_t)src, bytes, stream);
	}
	return cudaErrorInvalidValue;
}
RUNTIME_CALL(cudaMemcpyAsync, (void *dst, const void *src, size_t bytes, int kind, CUstream stream),
	     (dst, src, bytes, kind, stream))

MOCK_WORK cudaError_t ask_cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from,
					      size_t bytes, CUstream stream)
{
	(void)to;
	(void)from;
	return DRIVER->cuMemcpyPeerAsync((uintptr_t)dst, NULL, (uintptr_t)src, NULL, bytes, stream);
}
RUNTIME_CALL(cudaMemcpyPeerAsync,
	     (void *dst, int to, const void *src, int from, size_t bytes, CUstream stream),
	     (dst, to, src, from, bytes, stream))

MOCK_WORK cudaError_t ask_cudaMemset(void *ptr, int value, size_t bytes)
{
	return DRIVER->cuMemsetD8_v2((uintptr_t)ptr, (unsigned char)value, bytes);
}
RUNTIME_CALL(cudaMemset, (void *ptr, int value, size_t bytes), (ptr, value, bytes))

MOCK_WORK cudaError_t ask_cudaMemsetAsync(void *ptr, int value, size_t bytes, CUstream stream)
{
	return DRIVER->cuMemsetD8Async((uintptr_t)ptr, (unsigned char)value, bytes, stream);
}
RUNTIME_CALL(cudaMemsetAsync, (void *ptr, int value, size_t bytes, CUstream stream),
	     (ptr, value, bytes, stream))

/* ---- what only asks the driver ---- */

/* clang-format off */
#define ASKS(name, args, names, driver_call, with)       \
	MOCK_WORK cudaError_t ask_##name args            \
	{                                                \
		return DRIVER->driver_call with;         \
	}                                                \
	RUNTIME_CALL(name, args, names)
/* clang-format on */

ASKS(cudaStreamCreate, (CUstream * stream), (stream), cuStreamCreate, (stream, 0))
ASKS(cudaStreamDestroy, (CUstream stream), (stream), cuStreamDestroy_v2, (stream))
ASKS(cudaStreamSynchronize, (CUstream stream), (stream), cuStreamSynchronize, (stream))
ASKS(cudaStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags),
     (stream, event, flags), cuStreamWaitEvent, (stream, event, flags))
ASKS(cudaDeviceSynchronize, (void), (), cuCtxSynchronize, ())
ASKS(cudaEventCreate, (CUevent * event), (event), cuEventCreate, (event, 0))
ASKS(cudaEventRecord, (CUevent event, CUstream stream), (event, stream), cuEventRecord, (event, stream))
ASKS(cudaEventSynchronize, (CUevent event), (event), cuEventSynchronize, (event))
ASKS(cudaEventDestroy, (CUevent event), (event), cuEventDestroy_v2, (event))
ASKS(cudaStreamBeginCapture, (CUstream stream, int mode), (stream, mode), cuStreamBeginCapture_v2,
     (stream, mode))
ASKS(cudaStreamEndCapture, (CUstream stream, CUgraph *graph), (stream, graph), cuStreamEndCapture,
     (stream, graph))
ASKS(cudaGraphInstantiate, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
     (exec, graph, flags), cuGraphInstantiateWithFlags, (exec, graph, flags))
ASKS(cudaGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream), cuGraphLaunch, (exec, stream))
ASKS(cudaGraphExecDestroy, (CUgraphExec exec), (exec), cuGraphExecDestroy, (exec))
ASKS(cudaGraphDestroy, (CUgraph graph), (graph), cuGraphDestroy, (graph))
