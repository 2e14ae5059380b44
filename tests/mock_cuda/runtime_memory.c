/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libcudart: memory. As in the real library an exported function asks whether a tool listens and hands its
 * arguments on to one that does the work: it sees to it that there is a driver, calls what asks the driver
 * and stores the result, and keeps the error.
 */
#include "runtime.h"

int runtime_tools; /* CUPTI, later */

MOCK_WORK bool tools_listen(void)
{
	return __atomic_load_n(&runtime_tools, __ATOMIC_ACQUIRE) > 0;
}

MOCK_WORK void tell_tools(const char *call)
{
	__asm__ volatile("" : : "r"(call) : "memory");
}

/* 0, or what the call returns without being made. */
MOCK_WORK cudaError_t begin(const char *call)
{
	const struct driver_functions *driver = runtime__driver();
	int wanted;

	if (!driver)
		return cudaErrorInitializationError;
	return driver->must_fail(call, &wanted) ? wanted : cudaSuccess;
}

/* A call: what it asks of the driver is ask_NAME(). */
#define CALL(name, args, names)                             \
	MOCK_WORK cudaError_t work_##name args              \
	{                                                   \
		cudaError_t error = begin(#name);           \
                                                            \
		if (!error)                                 \
			error = ask_##name names;           \
		if (error)                                  \
			runtime__set_last_error(error);     \
		return error;                               \
	}                                                   \
                                                            \
	cudaError_t name args                               \
	{                                                   \
		cudaError_t error;                          \
                                                            \
		if (!tools_listen())                        \
			return work_##name names;           \
		tell_tools(#name);                          \
		error = work_##name names;                  \
		tell_tools(#name);                          \
		return error;                               \
	}

static cudaError_t give_device(void **ptr, CUdeviceptr got, CUresult result)
{
	if (!result)
		*ptr = (void *)(uintptr_t)got;
	return result;
}

MOCK_WORK cudaError_t ask_cudaMalloc(void **ptr, size_t bytes)
{
	CUdeviceptr got = 0;
	CUresult result;

	if (!ptr)
		return cudaErrorInvalidValue;
	result = bytes ? runtime__driver()->mem_alloc(&got, bytes) : CUDA_SUCCESS;
	return give_device(ptr, got, result);
}
CALL(cudaMalloc, (void **ptr, size_t bytes), (ptr, bytes))

MOCK_WORK cudaError_t ask_cudaMallocManaged(void **ptr, size_t bytes, unsigned int flags)
{
	CUdeviceptr got = 0;
	CUresult result = runtime__driver()->mem_alloc_managed(&got, bytes, flags);

	return give_device(ptr, got, result);
}
CALL(cudaMallocManaged, (void **ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags))

MOCK_WORK cudaError_t ask_cudaFree(void *ptr)
{
	return ptr ? runtime__driver()->mem_free((uintptr_t)ptr) : cudaSuccess;
}
CALL(cudaFree, (void *ptr), (ptr))

MOCK_WORK cudaError_t ask_cudaMallocAsync(void **ptr, size_t bytes, CUstream stream)
{
	CUdeviceptr got = 0;
	CUresult result = runtime__driver()->mem_alloc_async(&got, bytes, stream);

	return give_device(ptr, got, result);
}
CALL(cudaMallocAsync, (void **ptr, size_t bytes, CUstream stream), (ptr, bytes, stream))

MOCK_WORK cudaError_t ask_cudaFreeAsync(void *ptr, CUstream stream)
{
	return runtime__driver()->mem_free_async((uintptr_t)ptr, stream);
}
CALL(cudaFreeAsync, (void *ptr, CUstream stream), (ptr, stream))

MOCK_WORK cudaError_t ask_cudaHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
	return runtime__driver()->host_alloc(ptr, bytes, flags);
}
CALL(cudaHostAlloc, (void **ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags))

MOCK_WORK cudaError_t ask_cudaMallocHost(void **ptr, size_t bytes)
{
	return runtime__driver()->host_alloc(ptr, bytes, 0);
}
CALL(cudaMallocHost, (void **ptr, size_t bytes), (ptr, bytes))

MOCK_WORK cudaError_t ask_cudaFreeHost(void *ptr)
{
	return runtime__driver()->host_free(ptr);
}
CALL(cudaFreeHost, (void *ptr), (ptr))

MOCK_WORK cudaError_t ask_cudaHostRegister(void *ptr, size_t bytes, unsigned int flags)
{
	return runtime__driver()->host_register(ptr, bytes, flags);
}
CALL(cudaHostRegister, (void *ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags))

MOCK_WORK cudaError_t ask_cudaHostUnregister(void *ptr)
{
	return runtime__driver()->host_unregister(ptr);
}
CALL(cudaHostUnregister, (void *ptr), (ptr))
