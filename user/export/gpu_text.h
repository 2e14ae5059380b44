/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Names of CUDA calls, and the occupancy of kernels. */
#ifndef EXPORT_GPU_TEXT_H
#define EXPORT_GPU_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "ptb_event.h"

/*
 * What a call of CUDA's API is, by its name: which ones put work on a GPU, which wait for it, which
 * torch shows. Knows no output format.
 */

enum gpu_api_kind {
	GPU_API_OTHER,
	GPU_API_LAUNCH, /* of a kernel or a graph */
	GPU_API_COPY,
	GPU_API_FILL,
	GPU_API_SYNC,    /* the host waits for the GPU */
	GPU_API_WAIT,    /* a stream waits: cudaStreamWaitEvent */
	GPU_API_MAP,     /* of the driver: what torch shows of its virtual memory management */
	GPU_API_NEVER,   /* of the runtime: torch never records it */
	GPU_API_UNNAMED, /* its name is not known: a launch if there is work with its number */
};
enum gpu_api_kind gpu_api__kind(const char *name);
/* Puts work on the GPU: such a call is a launch, of which there is one per correlation. */
static inline bool gpu_api__is_launch(enum gpu_api_kind kind)
{
	return kind == GPU_API_LAUNCH || kind == GPU_API_COPY || kind == GPU_API_FILL;
}

/* cudaMemcpyKind of a call: "HtoD"; "" if none. */
const char *gpu_api__copy_kind(uint32_t kind);

/* CUpti_ActivitySynchronizationType (cupti_activity.h) */
enum gpu_sync_kind { GPU_SYNC_EVENT = 1, GPU_SYNC_STREAM_WAIT = 2, GPU_SYNC_STREAM = 3 };

/*
 * How many blocks of a kernel fit on a multiprocessor, by the rules of NVIDIA's occupancy
 * calculator (CUDA programming guide, "Features and Technical Specifications"; cuda_occupancy.h).
 * Knows no output format.
 */

/* What the number of blocks is limited by; as kineto names and orders them. */
#define GPU_LIMIT_WARPS 0x01u
#define GPU_LIMIT_REGS 0x02u
#define GPU_LIMIT_SMEM 0x04u
#define GPU_LIMIT_BLOCKS 0x08u
#define GPU_LIMIT_BARRIERS 0x10u

struct gpu_occupancy {
	uint32_t active_blocks; /* per multiprocessor; 0: cannot run by these rules */
	uint32_t limits;        /* GPU_LIMIT_* */
	/* blocks; INT32_MAX: no limit */
	uint32_t by_regs, by_shared, by_warps, by_blocks, by_barriers;
	uint32_t regs_per_block, shared_per_block; /* as they are allocated */
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

#endif /* EXPORT_GPU_TEXT_H */
