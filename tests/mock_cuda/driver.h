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
typedef struct CUevent_st *CUevent;
typedef struct CUfunc_st *CUfunction;
typedef struct CUmod_st *CUmodule;
typedef struct CUctx_st *CUcontext;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
#define CUDA_ERROR_NOT_INITIALIZED 3
#define CUDA_ERROR_NOT_FOUND 500

typedef struct {
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	CUstream hStream;
	const void *attrs;
	unsigned int numAttrs;
} CUlaunchConfig;

/* X(exported name, (arguments), (their names)); what does the work is work_NAME(). */
/* clang-format off */
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

#define DRIVER_EXEC_CALLS(X)                                                                    \
	X(cuLaunchKernel, (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params, void **extra), (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra)) \
	X(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction f, void **params, void **extra), (config, f, params, extra)) \
	X(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t bytes), (dst, src, bytes)) \
	X(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t bytes), (dst, src, bytes)) \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream), (dst, src, bytes, stream)) \
	X(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream), (dst, src, bytes, stream)) \
	X(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream), (dst, src, bytes, stream)) \
	X(cuMemcpyPeerAsync, (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes, CUstream stream), (dst, to, src, from, bytes, stream)) \
	X(cuMemsetD8_v2, (CUdeviceptr dst, unsigned char value, size_t bytes), (dst, value, bytes)) \
	X(cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream), (dst, value, bytes, stream)) \
	X(cuStreamCreate, (CUstream *stream, unsigned int flags), (stream, flags)) \
	X(cuStreamDestroy_v2, (CUstream stream), (stream)) \
	X(cuStreamSynchronize, (CUstream stream), (stream)) \
	X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags), (stream, event, flags)) \
	X(cuCtxSynchronize, (void), ()) \
	X(cuEventCreate, (CUevent *event, unsigned int flags), (event, flags)) \
	X(cuEventRecord, (CUevent event, CUstream stream), (event, stream)) \
	X(cuEventSynchronize, (CUevent event), (event)) \
	X(cuEventDestroy_v2, (CUevent event), (event)) \
	X(cuStreamBeginCapture_v2, (CUstream stream, int mode), (stream, mode)) \
	X(cuStreamEndCapture, (CUstream stream, CUgraph *graph), (stream, graph)) \
	X(cuGraphInstantiateWithFlags, (CUgraphExec *exec, CUgraph graph, unsigned long long flags), (exec, graph, flags)) \
	X(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream)) \
	X(cuGraphExecDestroy, (CUgraphExec exec), (exec)) \
	X(cuGraphDestroy, (CUgraph graph), (graph)) \
	X(cuModuleLoadData, (CUmodule *module, const void *image), (module, image)) \
	X(cuModuleGetFunction, (CUfunction *f, CUmodule module, const char *name), (f, module, name)) \
	X(cuFuncGetName, (const char **name, CUfunction f), (name, f))
/* clang-format on */

#define DRIVER_CALLS(X) DRIVER_MEMORY_CALLS(X) DRIVER_EXEC_CALLS(X)

/* clang-format off */
#define X(name, args, names)       \
	MOCK_API CUresult name args; \
	CUresult work_##name args;
/* clang-format on */
DRIVER_CALLS(X)
#undef X

/* No tool sees these. */
MOCK_API CUresult cuDeviceGetCount(int *cnt);
MOCK_API CUresult cuDeviceGet(int *device, int nr);
MOCK_API CUresult cuDeviceGetName(char *name, int len, int device);
MOCK_API CUresult cuDeviceTotalMem_v2(size_t *bytes, int device);
MOCK_API CUresult cuDeviceGetAttribute(int *value, int what, int device);
MOCK_API CUresult cuInit(unsigned int flags);

#endif /* MOCK_DRIVER_H */
