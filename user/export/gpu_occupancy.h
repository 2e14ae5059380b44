/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How many blocks of a kernel fit on a multiprocessor, by the rules of NVIDIA's occupancy calculator (CUDA
 * programming guide, "Features and Technical Specifications"; cuda_occupancy.h). Knows no output format.
 */
#ifndef EXPORT_GPU_OCCUPANCY_H
#define EXPORT_GPU_OCCUPANCY_H

#include <stdbool.h>
#include <stdint.h>

#include "ptb_event.h"

/* What the number of blocks is limited by; as kineto names and orders them. */
#define GPU_LIMIT_WARPS 0x01u
#define GPU_LIMIT_REGS 0x02u
#define GPU_LIMIT_SMEM 0x04u
#define GPU_LIMIT_BLOCKS 0x08u
#define GPU_LIMIT_BARRIERS 0x10u

struct gpu_occupancy {
	uint32_t active_blocks; /* per multiprocessor; 0: cannot run by these rules */
	uint32_t limits;        /* GPU_LIMIT_* */
	uint32_t by_regs, by_shared, by_warps, by_blocks, by_barriers; /* blocks; INT32_MAX: no limit */
	uint32_t regs_per_block, shared_per_block;                     /* as they are allocated */
};

/* What a kernel asks for. */
struct gpu_launch {
	uint32_t threads; /* per block */
	uint32_t regs;    /* per thread */
	uint32_t static_shared, dynamic_shared;
};

/* False when the device's properties do not suffice. */
bool gpu_occupancy__of(const struct ptb_gpu_device *d, const struct gpu_launch *l,
		       struct gpu_occupancy *out);

/* Shared memory that a block may have, by default and when its kernel asks for more (opt in). */
uint32_t gpu_device__shared_optin(const struct ptb_gpu_device *d);

/* "WARPS|REGS", "none"; into buf of GPU_LIMITS_MAX bytes, which is returned. */
#define GPU_LIMITS_MAX 64
const char *gpu_occupancy__limits(char *buf, uint32_t limits);

#endif /* EXPORT_GPU_OCCUPANCY_H */
