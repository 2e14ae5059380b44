/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libcudart: memory. Each call asks the driver; what comes through the first argument is only written on success. */
#include "runtime.h"

/* The driver for a call that is not told to fail; else *error is what it returns. */
static const struct driver_entry *begin(const char *call, cudaError_t *error)
{
	const struct driver_entry *driver = runtime__driver();
	int wanted;

	if (!driver) {
		*error = cudaErrorInitializationError;
		return NULL;
	}
	if (driver->must_fail(call, &wanted)) {
		*error = runtime__result(wanted);
		return NULL;
	}
	return driver;
}

cudaError_t cudaMalloc(void **ptr, size_t bytes)
{
	const struct driver_entry *driver;
	CUdeviceptr got;
	cudaError_t error;

	driver = begin("cudaMalloc", &error);
	if (!driver)
		return error;
	if (!ptr)
		return runtime__result(cudaErrorInvalidValue);
	if (!bytes) {
		*ptr = NULL;
		return cudaSuccess;
	}
	error = runtime__result(driver->mem_alloc(&got, bytes));
	if (error)
		return error;
	*ptr = (void *)(uintptr_t)got;
	return cudaSuccess;
}

cudaError_t cudaMallocManaged(void **ptr, size_t bytes, unsigned int flags)
{
	const struct driver_entry *driver;
	CUdeviceptr got;
	cudaError_t error;

	driver = begin("cudaMallocManaged", &error);
	if (!driver)
		return error;
	error = runtime__result(driver->mem_alloc_managed(&got, bytes, flags));
	if (!error)
		*ptr = (void *)(uintptr_t)got;
	return error;
}

cudaError_t cudaFree(void *ptr)
{
	const struct driver_entry *driver;
	cudaError_t error;

	driver = begin("cudaFree", &error);
	if (!driver)
		return error;
	return ptr ? runtime__result(driver->mem_free((uintptr_t)ptr)) : cudaSuccess;
}

cudaError_t cudaMallocAsync(void **ptr, size_t bytes, CUstream stream)
{
	const struct driver_entry *driver;
	CUdeviceptr got;
	cudaError_t error;

	driver = begin("cudaMallocAsync", &error);
	if (!driver)
		return error;
	error = runtime__result(driver->mem_alloc_async(&got, bytes, stream));
	if (!error)
		*ptr = (void *)(uintptr_t)got;
	return error;
}

cudaError_t cudaFreeAsync(void *ptr, CUstream stream)
{
	const struct driver_entry *driver;
	cudaError_t error;

	driver = begin("cudaFreeAsync", &error);
	return driver ? runtime__result(driver->mem_free_async((uintptr_t)ptr, stream)) : error;
}

static cudaError_t host_alloc(const char *call, void **ptr, size_t bytes, unsigned int flags)
{
	const struct driver_entry *driver;
	cudaError_t error;

	driver = begin(call, &error);
	return driver ? runtime__result(driver->host_alloc(ptr, bytes, flags)) : error;
}

cudaError_t cudaHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
	return host_alloc("cudaHostAlloc", ptr, bytes, flags);
}

cudaError_t cudaMallocHost(void **ptr, size_t bytes)
{
	return host_alloc("cudaMallocHost", ptr, bytes, 0);
}

cudaError_t cudaFreeHost(void *ptr)
{
	const struct driver_entry *driver;
	cudaError_t error;

	driver = begin("cudaFreeHost", &error);
	return driver ? runtime__result(driver->host_free(ptr)) : error;
}

cudaError_t cudaHostRegister(void *ptr, size_t bytes, unsigned int flags)
{
	const struct driver_entry *driver;
	cudaError_t error;

	driver = begin("cudaHostRegister", &error);
	return driver ? runtime__result(driver->host_register(ptr, bytes, flags)) : error;
}

cudaError_t cudaHostUnregister(void *ptr)
{
	const struct driver_entry *driver;
	cudaError_t error;

	driver = begin("cudaHostUnregister", &error);
	return driver ? runtime__result(driver->host_unregister(ptr)) : error;
}
