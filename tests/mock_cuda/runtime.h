/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The part of the runtime's interface that the mock of libcudart has, written from CUDA's documentation, and
 * how it reaches the driver: as the real one by dlopen() at the first call, never by linking to it.
 */
#ifndef MOCK_RUNTIME_H
#define MOCK_RUNTIME_H

#include "driver.h"

typedef int cudaError_t;
#define cudaSuccess 0
#define cudaErrorInvalidValue 1
#define cudaErrorMemoryAllocation 2
#define cudaErrorInitializationError 3

struct driver_functions {
	CUresult (*mem_alloc)(CUdeviceptr *, size_t);
	CUresult (*mem_alloc_managed)(CUdeviceptr *, size_t, unsigned int);
	CUresult (*mem_free)(CUdeviceptr);
	CUresult (*mem_alloc_async)(CUdeviceptr *, size_t, CUstream);
	CUresult (*mem_free_async)(CUdeviceptr, CUstream);
	CUresult (*host_alloc)(void **, size_t, unsigned int);
	CUresult (*host_free)(void *);
	CUresult (*host_register)(void *, size_t, unsigned int);
	CUresult (*host_unregister)(void *);
	bool (*must_fail)(const char *, int *); /* of mock_state.h */
};

/* The driver's functions; NULL: there is no driver. */
const struct driver_functions *runtime__driver(void);
extern int runtime_tools; /* how many listen */
/* The thread's, until it is asked for. */
void runtime__set_last_error(cudaError_t error);

MOCK_API cudaError_t cudaMalloc(void **ptr, size_t bytes);
MOCK_API cudaError_t cudaMallocManaged(void **ptr, size_t bytes, unsigned int flags);
MOCK_API cudaError_t cudaFree(void *ptr);
MOCK_API cudaError_t cudaMallocAsync(void **ptr, size_t bytes, CUstream stream);
MOCK_API cudaError_t cudaFreeAsync(void *ptr, CUstream stream);
MOCK_API cudaError_t cudaHostAlloc(void **ptr, size_t bytes, unsigned int flags);
MOCK_API cudaError_t cudaMallocHost(void **ptr, size_t bytes);
MOCK_API cudaError_t cudaFreeHost(void *ptr);
MOCK_API cudaError_t cudaHostRegister(void *ptr, size_t bytes, unsigned int flags);
MOCK_API cudaError_t cudaHostUnregister(void *ptr);
MOCK_API cudaError_t cudaGetLastError(void);

#endif /* MOCK_RUNTIME_H */
