/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Numbers of calls and their names with versions, from cupti_runtime_cbid.h and cupti_driver_cbid.h. */
#include <string.h>

#include "cupti_mock.h"

static const struct {
	uint32_t cbid;
	const char *name;
} runtime[] = {
	{ 3, "cudaGetDeviceCount_v3020" }, { 10, "cudaGetLastError_v3020" }, { 16, "cudaSetDevice_v3020" },
	{ 17, "cudaGetDevice_v3020" }, { 20, "cudaMalloc_v3020" }, { 22, "cudaFree_v3020" },
	{ 25, "cudaMallocHost_v3020" }, { 26, "cudaFreeHost_v3020" }, { 27, "cudaHostAlloc_v3020" },
	{ 31, "cudaMemcpy_v3020" }, { 41, "cudaMemcpyAsync_v3020" }, { 49, "cudaMemset_v3020" },
	{ 51, "cudaMemsetAsync_v3020" }, { 129, "cudaStreamCreate_v3020" }, { 131, "cudaStreamSynchronize_v3020" },
	{ 133, "cudaEventCreate_v3020" }, { 135, "cudaEventRecord_v3020" }, { 136, "cudaEventDestroy_v3020" },
	{ 137, "cudaEventSynchronize_v3020" }, { 147, "cudaStreamWaitEvent_v3020" },
	{ 152, "cudaHostRegister_v4000" }, { 153, "cudaHostUnregister_v4000" },
	{ 161, "cudaMemcpyPeerAsync_v4000" }, { 165, "cudaDeviceSynchronize_v3020" },
	{ 201, "cudaStreamDestroy_v5050" }, { 206, "cudaMallocManaged_v6000" }, { 211, "cudaLaunchKernel_v7000" },
	{ 311, "cudaGraphLaunch_v10000" }, { 313, "cudaGraphExecDestroy_v10000" },
	{ 314, "cudaGraphDestroy_v10000" }, { 315, "cudaStreamBeginCapture_v10000" },
	{ 319, "cudaStreamEndCapture_v10000" }, { 373, "cudaMallocAsync_v11020" },
	{ 375, "cudaFreeAsync_v11020" }, { 430, "cudaLaunchKernelExC_v11060" },
	{ 443, "cudaGraphInstantiate_v12000" },
}, driver[] = {
	{ 1, "cuInit" }, { 4, "cuDeviceGetCount" }, { 17, "cuCtxSynchronize" }, { 19, "cuModuleLoadData" },
	{ 23, "cuModuleGetFunction" }, { 38, "cuMemFreeHost" }, { 39, "cuMemHostAlloc" },
	{ 118, "cuEventCreate" }, { 119, "cuEventRecord" }, { 121, "cuEventSynchronize" },
	{ 124, "cuStreamCreate" }, { 126, "cuStreamSynchronize" }, { 216, "cuMemsetD8Async" },
	{ 243, "cuMemAlloc_v2" }, { 245, "cuMemFree_v2" }, { 249, "cuMemsetD8_v2" },
	{ 276, "cuMemcpyHtoD_v2" }, { 277, "cuMemcpyHtoDAsync_v2" }, { 278, "cuMemcpyDtoH_v2" },
	{ 279, "cuMemcpyDtoHAsync_v2" }, { 281, "cuMemcpyDtoDAsync_v2" }, { 295, "cuStreamWaitEvent" },
	{ 302, "cuMemHostUnregister" }, { 307, "cuLaunchKernel" }, { 319, "cuMemcpyPeerAsync" },
	{ 325, "cuEventDestroy_v2" }, { 326, "cuStreamDestroy_v2" }, { 371, "cuMemAllocManaged" },
	{ 379, "cuMemHostRegister_v2" }, { 514, "cuGraphLaunch" }, { 547, "cuMemAddressReserve" },
	{ 548, "cuMemAddressFree" }, { 549, "cuMemCreate" }, { 550, "cuMemRelease" }, { 551, "cuMemMap" },
	{ 552, "cuMemUnmap" }, { 553, "cuMemSetAccess" }, { 598, "cuMemAllocAsync" }, { 600, "cuMemFreeAsync" },
	{ 652, "cuLaunchKernelEx" }, { 718, "cuFuncGetName" },
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* The name up to "_v" and at least four digits. */
static bool is_call(const char *versioned, const char *name, enum mock_domain domain)
{
	size_t len = strlen(name);

	if (domain == MOCK_DRIVER)
		return !strcmp(versioned, name);
	return !strncmp(versioned, name, len) && !strncmp(versioned + len, "_v", 2) &&
	       strlen(versioned + len) >= 6;
}

uint32_t mock_cupti__cbid(enum mock_domain domain, const char *name)
{
	size_t cnt = domain == MOCK_RUNTIME ? COUNT(runtime) : COUNT(driver);

	for (size_t i = 0; i < cnt; i++)
		if (is_call(domain == MOCK_RUNTIME ? runtime[i].name : driver[i].name, name, domain))
			return domain == MOCK_RUNTIME ? runtime[i].cbid : driver[i].cbid;
	return 0;
}

CUptiResult cuptiGetCallbackName(uint32_t domain, uint32_t cbid, const char **name)
{
	CUptiResult err = mock_cupti__enter("cuptiGetCallbackName");
	size_t cnt = domain == MOCK_RUNTIME ? COUNT(runtime) :
		     domain == MOCK_DRIVER  ? COUNT(driver) :
					      0;

	for (size_t i = 0; i < cnt && !err; i++) {
		if ((domain == MOCK_RUNTIME ? runtime[i].cbid : driver[i].cbid) != cbid)
			continue;
		*name = domain == MOCK_RUNTIME ? runtime[i].name : driver[i].name;
		return CUPTI_SUCCESS;
	}
	return err ? err : CUPTI_ERROR_INVALID_PARAMETER;
}
