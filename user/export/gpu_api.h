/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a call of CUDA's API is, by its name: which ones put work on a GPU, which wait for it, which torch shows.
 * Knows no output format.
 */
#ifndef EXPORT_GPU_API_H
#define EXPORT_GPU_API_H

#include <stdbool.h>
#include <stdint.h>

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

#endif /* EXPORT_GPU_API_H */
