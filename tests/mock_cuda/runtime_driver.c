/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libcudart: finds the driver, keeps the last error of each thread. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "runtime.h"

static struct driver_functions entry;
static const int *listening; /* mock_cuda_listening; NULL: no driver yet */
static bool found;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread cudaError_t last_error;

static bool resolve(void *lib, const char *name, void *slot)
{
	void *found_at = dlsym(lib, name);

	memcpy(slot, &found_at, sizeof(found_at));
	return found_at != NULL;
}

static void load_driver(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	CUresult (*init)(unsigned int);

	found = lib && resolve(lib, "cuInit", &init) && !init(0) &&
		resolve(lib, "cuMemAlloc_v2", &entry.mem_alloc) &&
		resolve(lib, "cuMemAllocManaged", &entry.mem_alloc_managed) &&
		resolve(lib, "cuMemFree_v2", &entry.mem_free) &&
		resolve(lib, "cuMemAllocAsync", &entry.mem_alloc_async) &&
		resolve(lib, "cuMemFreeAsync", &entry.mem_free_async) &&
		resolve(lib, "cuMemHostAlloc", &entry.host_alloc) &&
		resolve(lib, "cuMemFreeHost", &entry.host_free) &&
		resolve(lib, "cuMemHostRegister_v2", &entry.host_register) &&
		resolve(lib, "cuMemHostUnregister", &entry.host_unregister) &&
		resolve(lib, "mock_cuda_must_fail", &entry.must_fail) &&
		resolve(lib, "mock_call_begin", &entry.call_begin) &&
		resolve(lib, "mock_call_end", &entry.call_end) &&
		resolve(lib, "cuDeviceGetCount", &entry.device_count);
#define X(name, args, names) found = found && resolve(lib, #name, &entry.name);
	DRIVER_EXEC_CALLS(X)
#undef X
	if (found)
		listening = dlsym(lib, "mock_cuda_listening");
}

const struct driver_functions *runtime__driver(void)
{
	pthread_once(&once, load_driver);
	return found ? &entry : NULL;
}

bool runtime__tools_listen(void)
{
	runtime__driver(); /* whose table has the tool's functions */
	return listening && __atomic_load_n(listening, __ATOMIC_ACQUIRE) > 0;
}

void runtime__report_begin(const char *call)
{
	entry.call_begin(MOCK_RUNTIME, call);
}

void runtime__report_end(cudaError_t error)
{
	entry.call_end(error);
}

cudaError_t runtime__begin(const char *call)
{
	const struct driver_functions *driver = runtime__driver();
	int wanted;

	if (!driver)
		return cudaErrorInitializationError;
	return driver->must_fail(call, &wanted) ? wanted : cudaSuccess;
}

void runtime__set_last_error(cudaError_t error)
{
	last_error = error;
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t error = last_error;

	last_error = cudaSuccess;
	return error;
}
