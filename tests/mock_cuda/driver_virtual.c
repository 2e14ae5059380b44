/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libcuda.so.1: addresses, physical memory and the mapping of one onto the other (expandable segments). */
#include "driver.h"

static bool is_whole(unsigned long long n)
{
	return n && n % MOCK_GRANULARITY == 0;
}

CUresult work_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t align, CUdeviceptr at,
				  unsigned long long flags)
{
	int error;

	(void)align, (void)at;
	if (mock_cuda_must_fail("cuMemAddressReserve", &error))
		return error;
	if (!ptr || !is_whole(size) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*ptr = mock__reserve(size);
	return CUDA_SUCCESS;
}

CUresult work_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	int error;

	if (mock_cuda_must_fail("cuMemAddressFree", &error))
		return error;
	return ptr && is_whole(size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuMemCreate(CUmemHandle *handle, size_t size, const void *prop, unsigned long long flags)
{
	uint64_t made;
	int error;

	(void)prop;
	if (mock_cuda_must_fail("cuMemCreate", &error))
		return error;
	if (!handle || !is_whole(size) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	made = mock__new_handle(size);
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*handle = made;
	return CUDA_SUCCESS;
}

CUresult work_cuMemRelease(CUmemHandle handle)
{
	int error;

	if (mock_cuda_must_fail("cuMemRelease", &error))
		return error;
	return mock__drop_handle(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemHandle handle,
		       unsigned long long flags)
{
	int error;

	if (mock_cuda_must_fail("cuMemMap", &error))
		return error;
	return ptr && is_whole(size) && !offset && handle && !flags ? CUDA_SUCCESS :
								      CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	int error;

	if (mock_cuda_must_fail("cuMemUnmap", &error))
		return error;
	return ptr && is_whole(size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult work_cuMemSetAccess(CUdeviceptr ptr, size_t size, const void *desc, size_t count)
{
	int error;

	(void)desc;
	if (mock_cuda_must_fail("cuMemSetAccess", &error))
		return error;
	return ptr && is_whole(size) && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
