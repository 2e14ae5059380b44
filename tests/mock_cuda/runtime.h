/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The part of the runtime's interface that the mock of libcudart has, written from CUDA's documentation, and
 * how it reaches the driver: as the real one by dlopen() at the first call, never by linking to it.
 */
#ifndef MOCK_RUNTIME_H
#define MOCK_RUNTIME_H

#include "driver.h"
#include "mock_tools.h"

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
	bool (*must_fail)(const char *, int *);             /* of mock_state.h */
	void (*call_begin)(enum mock_domain, const char *); /* of mock_tools.h */
	void (*call_end)(int);
	CUresult (*device_count)(int *);
#define X(name, args, names) CUresult(*name) args;
	DRIVER_EXEC_CALLS(X)
#undef X
};

/* The driver's functions; NULL: there is no driver. */
const struct driver_functions *runtime__driver(void);

/*
 * As in the real library, an exported function checks whether there is a tool and passes its arguments to a function
 * that does the work: it loads the driver, calls ask_NAME(), which calls the driver and stores the result, and keeps
 * the error.
 */
bool runtime__tools_listen(void);
void runtime__report_begin(const char *call);
void runtime__report_end(cudaError_t error);
/* 0, or what the call returns without being made. */
cudaError_t runtime__begin(const char *call);

/* clang-format off */
#define RUNTIME_CALL(name, args, names)                     \
	MOCK_WORK cudaError_t work_##name args              \
	{                                                   \
		cudaError_t error = runtime__begin(#name);  \
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
		if (!runtime__tools_listen())               \
			return work_##name names;           \
		runtime__report_begin(#name);                 \
		error = work_##name names;                  \
		runtime__report_end(error);                   \
		return error;                               \
	}
/* clang-format on */
/* The thread's, until it is read. */
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

/* ---- runtime_exec.c ---- */

#define cudaErrorInvalidDeviceFunction 98

typedef struct {
	unsigned int x, y, z;
} dim3;

typedef struct {
	dim3 gridDim, blockDim;
	size_t dynamicSmemBytes;
	CUstream stream;
	const void *attrs;
	unsigned int numAttrs;
} cudaLaunchConfig_t;

/* What nvcc's constructors call: which kernel a host function launches. */
MOCK_API void **__cudaRegisterFatBinary(void *image);
MOCK_API void __cudaRegisterFatBinaryEnd(void **handle);
MOCK_API void __cudaUnregisterFatBinary(void **handle);
MOCK_API void __cudaRegisterFunction(void **handle, const char *host, char *device,
				     const char *name, int threads, void *tid, void *bid,
				     void *block, void *grid, int *size);

MOCK_API cudaError_t cudaGetDeviceCount(int *cnt);
MOCK_API cudaError_t cudaGetDevice(int *device);
MOCK_API cudaError_t cudaSetDevice(int device);
MOCK_API cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args,
				      size_t shared, CUstream stream);
MOCK_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args);
MOCK_API cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, int kind);
MOCK_API cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, CUstream stream);
MOCK_API cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t bytes,
					 CUstream stream);
MOCK_API cudaError_t cudaMemset(void *ptr, int value, size_t bytes);
MOCK_API cudaError_t cudaMemsetAsync(void *ptr, int value, size_t bytes, CUstream stream);
MOCK_API cudaError_t cudaStreamCreate(CUstream *stream);
MOCK_API cudaError_t cudaStreamDestroy(CUstream stream);
MOCK_API cudaError_t cudaStreamSynchronize(CUstream stream);
MOCK_API cudaError_t cudaStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
MOCK_API cudaError_t cudaDeviceSynchronize(void);
MOCK_API cudaError_t cudaEventCreate(CUevent *event);
MOCK_API cudaError_t cudaEventRecord(CUevent event, CUstream stream);
MOCK_API cudaError_t cudaEventSynchronize(CUevent event);
MOCK_API cudaError_t cudaEventDestroy(CUevent event);
MOCK_API cudaError_t cudaStreamBeginCapture(CUstream stream, int mode);
MOCK_API cudaError_t cudaStreamEndCapture(CUstream stream, CUgraph *graph);
MOCK_API cudaError_t cudaGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
MOCK_API cudaError_t cudaGraphLaunch(CUgraphExec exec, CUstream stream);
MOCK_API cudaError_t cudaGraphExecDestroy(CUgraphExec exec);
MOCK_API cudaError_t cudaGraphDestroy(CUgraph graph);

#endif /* MOCK_RUNTIME_H */
