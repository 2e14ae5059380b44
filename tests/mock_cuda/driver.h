/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The part of the driver's interface that the mock of libcuda has: names, arguments and numbers as in CUDA's cuda.h,
 * written from its documentation.
 */
#ifndef MOCK_DRIVER_H
#define MOCK_DRIVER_H

#include "mock_state.h"

typedef int CUresult;
#define CUDA_SUCCESS 0
#define CUDA_ERROR_INVALID_VALUE 1
#define CUDA_ERROR_OUT_OF_MEMORY 2

typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUstream_st *CUstream;

MOCK_API CUresult cuInit(unsigned int flags);

/* memory.c */
MOCK_API CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes);
MOCK_API CUresult cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned int flags);
MOCK_API CUresult cuMemFree_v2(CUdeviceptr ptr);
MOCK_API CUresult cuMemAllocAsync(CUdeviceptr *ptr, size_t bytes, CUstream stream);
MOCK_API CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream);
MOCK_API CUresult cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags);
MOCK_API CUresult cuMemFreeHost(void *ptr);
MOCK_API CUresult cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags);
MOCK_API CUresult cuMemHostUnregister(void *ptr);

/* virtual_memory.c */
MOCK_API CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
				      unsigned long long flags);
MOCK_API CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size);
MOCK_API CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const void *prop,
			      unsigned long long flags);
MOCK_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
MOCK_API CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
			   unsigned long long flags);
MOCK_API CUresult cuMemUnmap(CUdeviceptr ptr, size_t size);
MOCK_API CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const void *desc, size_t count);

#endif /* MOCK_DRIVER_H */
