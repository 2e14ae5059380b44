/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Names of GPU activities as kineto writes them (libkineto cupti_strings.cpp, CuptiActivity.h), by the numbers
 * of cupti_activity.h; which calls of CUDA's API torch shows, and what they do. Knows no output format.
 */
#ifndef EXPORT_GPU_NAMES_H
#define EXPORT_GPU_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_NAME_MAX 96

/* CUpti_ActivityMemcpyKind: "HtoD", ... */
enum gpu_copy { GPU_COPY_HTOD = 1, GPU_COPY_DTOH = 2, GPU_COPY_DTOD = 8, GPU_COPY_HTOH = 9, GPU_COPY_PTOP = 10 };
#define GPU_COPY_KINDS 11
const char *gpu_name__copy_kind(uint32_t kind);
const char *gpu_name__memory_kind(uint32_t kind); /* CUpti_ActivityMemoryKind: "Pageable" */

/* CUpti_ActivitySynchronizationType */
enum gpu_sync_kind { GPU_SYNC_EVENT = 1, GPU_SYNC_STREAM_WAIT = 2, GPU_SYNC_STREAM = 3, GPU_SYNC_CONTEXT = 4 };
const char *gpu_name__sync(uint32_t what); /* "Stream Sync" */
const char *gpu_name__overhead(uint32_t what); /* CUpti_ActivityOverheadKind: "Buffer Flush" */
const char *gpu_name__cuda_copy(uint32_t kind); /* cudaMemcpyKind of a call: "HtoD"; "" if none */

/* "Memcpy HtoD (Pageable -> Device)", "Memset (Device)"; into buf of GPU_NAME_MAX bytes, which is returned. */
const char *gpu_name__memcpy(char *buf, uint32_t kind, uint32_t src, uint32_t dst);
const char *gpu_name__memset(char *buf, uint32_t kind);

/* Without CUPTI's version: "cudaMemcpyAsync_v3020" -> "cudaMemcpyAsync"; into buf, which is returned. */
const char *gpu_name__api(char *buf, size_t cap, const char *name);

/* What a call is, by its cleaned name. */
enum gpu_api_kind {
	GPU_API_OTHER,
	GPU_API_LAUNCH, /* of a kernel or a graph */
	GPU_API_COPY,
	GPU_API_FILL,
	GPU_API_SYNC,   /* the host waits for the GPU */
	GPU_API_WAIT,   /* a stream waits: cudaStreamWaitEvent */
	GPU_API_MAP,    /* of the driver: what torch shows of its virtual memory management */
	GPU_API_NEVER,  /* of the runtime: torch never records it */
};
enum gpu_api_kind gpu_name__api_kind(const char *name);
/* Puts work on the GPU: such a call is a launch, of which there is one per correlation. */
static inline bool gpu_api__is_launch(enum gpu_api_kind kind)
{
	return kind == GPU_API_LAUNCH || kind == GPU_API_COPY || kind == GPU_API_FILL;
}

#endif /* EXPORT_GPU_NAMES_H */
