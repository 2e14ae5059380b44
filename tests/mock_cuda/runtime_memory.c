/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libcudart: memory; how calls are made is in runtime.h. */
#include "runtime.h"

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
RUNTIME_CALL(cudaMalloc, (void **ptr, size_t bytes), (ptr, bytes))

MOCK_WORK cudaError_t ask_cudaMallocManaged(void **ptr, size_t bytes, unsigned int flags)
{
	CUdeviceptr got = 0;
	CUresult result = runtime__driver()->mem_alloc_managed(&got, bytes, flags);

	return give_device(ptr, got, result);
}
RUNTIME_CALL(cudaMallocManaged, (void **ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags))

MOCK_WORK cudaError_t ask_cudaFree(void *ptr)
{
	return ptr ? runtime__driver()->mem_free((uintptr_t)ptr) : cudaSuccess;
}
RUNTIME_CALL(cudaFree, (void *ptr), (ptr))

MOCK_WORK cudaError_t ask_cudaMallocAsync(void **ptr, size_t bytes, CUstream stream)
{
	CUdeviceptr got = 0;
	CUresult result = runtime__driver()->mem_alloc_async(&got, bytes, stream);

	return give_device(ptr, got, result);
}
RUNTIME_CALL(cudaMallocAsync, (void **ptr, size_t bytes, CUstream stream), (ptr, bytes, stream))

MOCK_WORK cudaError_t ask_cudaFreeAsync(void *ptr, CUstream stream)
{
	return runtime__driver()->mem_free_async((uintptr_t)ptr, stream);
}
RUNTIME_CALL(cudaFreeAsync, (void *ptr, CUstream stream), (ptr, stream))

MOCK_WORK cudaError_t ask_cudaHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
	return runtime__driver()->host_alloc(ptr, bytes, flags);
}
RUNTIME_CALL(cudaHostAlloc, (void **ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags))

MOCK_WORK cudaError_t ask_cudaMallocHost(void **ptr, size_t bytes)
{
	return runtime__driver()->host_alloc(ptr, bytes, 0);
}
RUNTIME_CALL(cudaMallocHost, (void **ptr, size_t bytes), (ptr, bytes))

MOCK_WORK cudaError_t ask_cudaFreeHost(void *ptr)
{
	return runtime__driver()->host_free(ptr);
}
RUNTIME_CALL(cudaFreeHost, (void *ptr), (ptr))

MOCK_WORK cudaError_t ask_cudaHostRegister(void *ptr, size_t bytes, unsigned int flags)
{
	return runtime__driver()->host_register(ptr, bytes, flags);
}
RUNTIME_CALL(cudaHostRegister, (void *ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags))

MOCK_WORK cudaError_t ask_cudaHostUnregister(void *ptr)
{
	return runtime__driver()->host_unregister(ptr);
}
RUNTIME_CALL(cudaHostUnregister, (void *ptr), (ptr))
