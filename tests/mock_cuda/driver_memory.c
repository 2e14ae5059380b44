/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libcuda.so.1: device and pinned memory. */
#include <stdlib.h>

#include "driver.h"

static CUresult give(CUdeviceptr *ptr, size_t bytes)
{
	uint64_t addr;

	if (!ptr || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	addr = mock__take(bytes);
	if (!addr)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ptr = addr;
	return CUDA_SUCCESS;
}

static CUresult take_back(CUdeviceptr ptr)
{
	if (!ptr)
		return CUDA_SUCCESS;
	return mock__give_back(ptr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	int error;

	if (mock_cuda_must_fail("cuMemAlloc_v2", &error))
		return error;
	return give(ptr, bytes);
}

CUresult work_cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned int flags)
{
	int error;

	if (mock_cuda_must_fail("cuMemAllocManaged", &error))
		return error;
	if (flags == 0 || flags > 3)
		return CUDA_ERROR_INVALID_VALUE;
	return give(ptr, bytes);
}

CUresult work_cuMemFree_v2(CUdeviceptr ptr)
{
	int error;

	if (mock_cuda_must_fail("cuMemFree_v2", &error))
		return error;
	return take_back(ptr);
}

CUresult work_cuMemAllocAsync(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	int error;

	(void)stream;
	if (mock_cuda_must_fail("cuMemAllocAsync", &error))
		return error;
	return give(ptr, bytes);
}

CUresult work_cuMemFreeAsync(CUdeviceptr ptr, CUstream stream)
{
	int error;

	(void)stream;
	if (mock_cuda_must_fail("cuMemFreeAsync", &error))
		return error;
	return take_back(ptr);
}

CUresult work_cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
	int error;

	(void)flags;
	if (mock_cuda_must_fail("cuMemHostAlloc", &error))
		return error;
	if (!ptr || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*ptr = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
	return *ptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult work_cuMemFreeHost(void *ptr)
{
	int error;

	if (mock_cuda_must_fail("cuMemFreeHost", &error))
		return error;
	free(ptr);
	return CUDA_SUCCESS;
}

CUresult work_cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags)
{
	int error;

	(void)flags;
	if (mock_cuda_must_fail("cuMemHostRegister_v2", &error))
		return error;
	return ptr && bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuMemHostUnregister(void *ptr)
{
	int error;

	if (mock_cuda_must_fail("cuMemHostUnregister", &error))
		return error;
	return ptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
