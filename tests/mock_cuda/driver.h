/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The part of the driver's interface that the mock of libcuda has: names, arguments and numbers as in
 * CUDA's cuda.h, written from its documentation. As in the real library an exported function asks whether
 * the driver is still alive and jumps through a table, which tools may change.
 */
#ifndef MOCK_DRIVER_H
#define MOCK_DRIVER_H

#include "mock_state.h"

typedef int CUresult;
#define CUDA_SUCCESS 0
#define CUDA_ERROR_INVALID_VALUE 1
#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_DEINITIALIZED 4

typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemHandle; /* CUmemGenericAllocationHandle */
typedef struct CUstream_st *CUstream;

/* X(exported name, (arguments), (their names)); what does the work is work_NAME(). */
#define DRIVER_MEMORY_CALLS(X)                                                                  \
	X(cuMemAlloc_v2, (CUdeviceptr *ptr, size_t bytes), (ptr, bytes)) \
	X(cuMemAllocManaged, (CUdeviceptr *ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags)) \
	X(cuMemFree_v2, (CUdeviceptr ptr), (ptr)) \
	X(cuMemAllocAsync, (CUdeviceptr *ptr, size_t bytes, CUstream stream), (ptr, bytes, stream)) \
	X(cuMemFreeAsync, (CUdeviceptr ptr, CUstream stream), (ptr, stream)) \
	X(cuMemHostAlloc, (void **ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags)) \
	X(cuMemFreeHost, (void *ptr), (ptr)) \
	X(cuMemHostRegister_v2, (void *ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags)) \
	X(cuMemHostUnregister, (void *ptr), (ptr)) \
	X(cuMemAddressReserve, (CUdeviceptr *ptr, size_t size, size_t align, CUdeviceptr at, unsigned long long flags), (ptr, size, align, at, flags)) \
	X(cuMemAddressFree, (CUdeviceptr ptr, size_t size), (ptr, size)) \
	X(cuMemCreate, (CUmemHandle *handle, size_t size, const void *prop, unsigned long long flags), (handle, size, prop, flags)) \
	X(cuMemRelease, (CUmemHandle handle), (handle)) \
	X(cuMemMap, (CUdeviceptr ptr, size_t size, size_t offset, CUmemHandle handle, unsigned long long flags), (ptr, size, offset, handle, flags)) \
	X(cuMemUnmap, (CUdeviceptr ptr, size_t size), (ptr, size)) \
	X(cuMemSetAccess, (CUdeviceptr ptr, size_t size, const void *desc, size_t count), (ptr, size, desc, count))

#define X(name, args, names)       \
	MOCK_API CUresult name args; \
	CUresult work_##name args;
DRIVER_MEMORY_CALLS(X)
#undef X
MOCK_API CUresult cuInit(unsigned int flags);

#endif /* MOCK_DRIVER_H */
