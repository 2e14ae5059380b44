/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libcuda.so.1: two devices and their attributes; numbers are CUdevice_attribute's. */
#include <stdio.h>

#include "driver.h"
#include "mock_tools.h"

#define DEVICES 2

static CUresult check(int device)
{
	int error;

	if (!mock_driver__started())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (mock_cuda_must_fail("cuDevice", &error))
		return error;
	return device >= 0 && device < DEVICES ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *cnt)
{
	CUresult result = check(0);

	if (!result)
		*cnt = DEVICES;
	return result;
}

CUresult cuDeviceGet(int *device, int nr)
{
	CUresult result = check(nr);

	if (!result)
		*device = nr;
	return result;
}

CUresult cuDeviceGetName(char *name, int len, int device)
{
	CUresult result = check(device);

	if (!result)
		snprintf(name, (size_t)len, "Mock GPU %d", device);
	return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	CUresult result = check(device);

	if (!result)
		*bytes = MOCK_DEVICE_BYTES;
	return result;
}

CUresult cuDeviceGetAttribute(int *value, int what, int device)
{
	static const int values[][2] = {
		{ 1, 1024 },                     /* threads per block */
		{ 8, 49152 },                    /* shared memory per block */
		{ 10, 32 },                      /* warp size */
		{ 12, 65536 },                   /* registers per block */
		{ 13, 1410000 },                 /* clock, kHz */
		{ 16, 108 },                     /* multiprocessors */
		{ 36, 1215000 },                 /* memory clock, kHz */
		{ 37, 5120 },                    /* memory bus, bits */
		{ 39, 2048 },                    /* threads per multiprocessor */
		{ 75, 8 },                       /* compute capability */
		{ 76, 0 },       { 81, 167936 }, /* shared memory per multiprocessor */
		{ 82, 65536 },                   /* registers per multiprocessor */
		{ 106, 32 },                     /* blocks per multiprocessor */
	};
	CUresult result = check(device);

	for (size_t i = 0; i < sizeof(values) / sizeof(*values) && !result; i++) {
		if (values[i][0] != what)
			continue;
		*value = values[i][1];
		return CUDA_SUCCESS;
	}
	return result ? result : CUDA_ERROR_INVALID_VALUE;
}
