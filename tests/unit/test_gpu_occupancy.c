/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Blocks per multiprocessor: known cases by hand, and, where CUDA's headers are at hand (CUDA_OCCUPANCY_H), every
 * number against NVIDIA's own calculator over random kernels on all kinds of device.
 */
#include <limits.h>
#include <string.h>

#include "export/gpu_text.h"
#include "suite.h"

#ifdef CUDA_OCCUPANCY_H
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <cuda_occupancy.h>
#pragma GCC diagnostic pop
#endif

struct model_row {
	uint32_t major, minor, warps, blocks, shared_kib;
};

/* CUDA programming guide, technical specifications per compute capability. */
static const struct model_row models[] = {
	{ 5, 0, 64, 32, 64 },   { 5, 2, 64, 32, 96 },   { 6, 0, 64, 32, 64 },
	{ 6, 1, 64, 32, 96 },   { 7, 0, 64, 32, 96 },   { 7, 5, 32, 16, 64 },
	{ 8, 0, 64, 32, 164 },  { 8, 6, 48, 16, 100 },  { 8, 9, 48, 24, 100 },
	{ 9, 0, 64, 32, 228 },  { 10, 0, 64, 32, 228 }, { 10, 3, 64, 32, 228 },
	{ 12, 0, 48, 24, 100 },
};
#define MODELS (sizeof(models) / sizeof(models[0]))

static struct ptb_gpu_device device(const struct model_row *m)
{
	return (struct ptb_gpu_device){
		.major = m->major,
		.minor = m->minor,
		.sm_cnt = 80,
		.warp_size = 32,
		.max_threads_per_block = 1024,
		.max_warps_per_sm = m->warps,
		.max_blocks_per_sm = m->blocks,
		.shared_per_block = 48 << 10,
		.shared_per_sm = m->shared_kib << 10,
		.regs_per_block = 65536,
		.regs_per_sm = 65536,
	};
}

TEST("known")
{
	struct ptb_gpu_device h100 = device(&models[9]);
	struct gpu_launch l = { .threads = 256, .regs = 32 };
	struct gpu_occupancy o;
	char text[GPU_LIMITS_MAX];

	CU_ASSERT_TRUE(gpu_occupancy__of(&h100, &l, &o));
	CU_ASSERT_EQUAL(o.active_blocks, 8); /* 64 warps, 8 a block; 65536 registers, 8192 a block */
	CU_ASSERT_STRING_EQUAL(gpu_occupancy__limits(text, o.limits), "WARPS|REGS");
	CU_ASSERT_EQUAL(o.regs_per_block, 8192);
	CU_ASSERT_EQUAL(o.shared_per_block, 1024); /* the system's own */
	CU_ASSERT_EQUAL(o.by_barriers, INT32_MAX);
	l = (struct gpu_launch){ .threads = 128, .regs = 168, .dynamic_shared = 200 << 10 };
	CU_ASSERT_TRUE(gpu_occupancy__of(&h100, &l, &o));
	CU_ASSERT_EQUAL(o.active_blocks, 1); /* it ran: it has opted in to more than 48 KiB */
	CU_ASSERT_STRING_EQUAL(gpu_occupancy__limits(text, o.limits), "SMEM");
	l = (struct gpu_launch){ .threads = 32, .regs = 16 };
	CU_ASSERT_TRUE(gpu_occupancy__of(&h100, &l, &o));
	CU_ASSERT_EQUAL(o.active_blocks, 32);
	CU_ASSERT_STRING_EQUAL(gpu_occupancy__limits(text, o.limits), "BLOCKS");
	l.threads = 1025;
	CU_ASSERT_TRUE(gpu_occupancy__of(&h100, &l, &o));
	CU_ASSERT_EQUAL(o.active_blocks, 0);
	CU_ASSERT_EQUAL(gpu_device__shared_optin(&h100), 227 << 10);
	CU_ASSERT_STRING_EQUAL(gpu_occupancy__limits(text, 0), "none");
	CU_ASSERT_STRING_EQUAL(gpu_occupancy__limits(text, 0x1f), "WARPS|REGS|SMEM|BLOCKS|BARRIERS");
}

/* Nothing is computed from unknown numbers. */
TEST("unknown")
{
	struct ptb_gpu_device d = device(&models[9]);
	struct gpu_launch l = { .threads = 256, .regs = 32 };
	struct gpu_occupancy o;

	CU_ASSERT_FALSE(gpu_occupancy__of(NULL, &l, &o));
	d.regs_per_sm = 0;
	CU_ASSERT_FALSE(gpu_occupancy__of(&d, &l, &o));
	d = device(&models[9]);
	d.major = 2;
	CU_ASSERT_FALSE(gpu_occupancy__of(&d, &l, &o));
	d = device(&models[9]);
	l.threads = 0;
	CU_ASSERT_FALSE(gpu_occupancy__of(&d, &l, &o));
	l = (struct gpu_launch){ .threads = UINT32_MAX,
				 .regs = UINT32_MAX,
				 .static_shared = UINT32_MAX,
				 .dynamic_shared = UINT32_MAX };
	CU_ASSERT_TRUE(gpu_occupancy__of(&d, &l, &o)); /* hostile numbers overflow nothing */
	CU_ASSERT_EQUAL(o.active_blocks, 0);
}

#ifdef CUDA_OCCUPANCY_H
static cudaOccError nvidia(const struct ptb_gpu_device *d, const struct gpu_launch *l, cudaOccResult *r)
{
	cudaOccDeviceProp p = { 0 };
	cudaOccFuncAttributes a = { 0 };
	cudaOccDeviceState state = { .carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT };

	p.computeMajor = (int)d->major;
	p.computeMinor = (int)d->minor;
	p.maxThreadsPerBlock = (int)d->max_threads_per_block;
	p.maxThreadsPerMultiprocessor = (int)(d->max_warps_per_sm * d->warp_size);
	p.regsPerBlock = (int)d->regs_per_block;
	p.regsPerMultiprocessor = (int)d->regs_per_sm;
	p.warpSize = (int)d->warp_size;
	p.sharedMemPerBlock = d->shared_per_block;
	p.sharedMemPerMultiprocessor = d->shared_per_sm;
	p.numSms = (int)d->sm_cnt;
	p.sharedMemPerBlockOptin = gpu_device__shared_optin(d);
	p.reservedSharedMemPerBlock = d->major >= 8 ? 1024 : 0;
	a.maxThreadsPerBlock = INT_MAX;
	a.numRegs = (int)l->regs;
	a.sharedSizeBytes = l->static_shared;
	a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
	a.maxDynamicSharedSizeBytes = l->dynamic_shared;
	return cudaOccMaxActiveBlocksPerMultiprocessor(r, &p, &a, &state, (int)l->threads,
						       l->dynamic_shared);
}

TEST("NVIDIA's own")
{
	uint64_t seed = 7;
	uint32_t different = 0;

	for (uint32_t i = 0; i < MODELS; i++) {
		struct ptb_gpu_device d = device(&models[i]);

		for (uint32_t n = 0; n < 20000; n++) {
			struct gpu_launch l;
			struct gpu_occupancy o;
			cudaOccResult r = { 0 };

			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			l.threads = (uint32_t)(seed >> 33) % 1100 + 1;
			l.regs = (uint32_t)(seed >> 20) % 260;
			l.static_shared = (uint32_t)(seed >> 40) % 5 ? (uint32_t)(seed >> 30) % 4096 : 0;
			l.dynamic_shared =
				(uint32_t)(seed >> 45) % 3 ? 0 : (uint32_t)(seed >> 10) % (240 << 10);
			CU_ASSERT_TRUE_FATAL(gpu_occupancy__of(&d, &l, &o));
			CU_ASSERT_EQUAL_FATAL(nvidia(&d, &l, &r), CUDA_OCC_SUCCESS);
			different += (int)o.active_blocks != r.activeBlocksPerMultiprocessor ||
				     (int)o.by_regs != r.blockLimitRegs ||
				     (int)o.by_shared != r.blockLimitSharedMem ||
				     (int)o.by_warps != r.blockLimitWarps ||
				     (int)o.by_blocks != r.blockLimitBlocks ||
				     (int)o.by_barriers != r.blockLimitBarriers ||
				     (int)o.regs_per_block != r.allocatedRegistersPerBlock ||
				     o.shared_per_block != r.allocatedSharedMemPerBlock ||
				     o.limits != (r.limitingFactors & 0x1f);
		}
	}
	CU_ASSERT_EQUAL(different, 0);
}
#endif

SUITE("gpu_occupancy")
