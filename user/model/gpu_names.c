/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Names of kernels, of API calls and of what has no name of its own, as Kineto shows them (kineto
 * libkineto/src/cupti_strings.cpp, CuptiActivity.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/gpu_priv.h"

const char *gpu__kernel_name(struct facts *f, const char *raw)
{
	char *text = !strncmp(raw, "_Z", 2) ? demangle(raw, NULL) : NULL;
	const char *name = facts__intern(f, text ? text : raw, strlen(text ? text : raw));

	free(text);
	return name;
}

/* "cudaMemcpyAsync_v3020": kineto's table of callbacks shows it without the version. */
const char *gpu__api_name(struct facts *f, const char *raw)
{
	size_t len = strlen(raw), digits = 0;

	while (digits < len && raw[len - 1 - digits] >= '0' && raw[len - 1 - digits] <= '9')
		digits++;
	if (digits >= 4 && len > digits + 2 && raw[len - digits - 1] == 'v' &&
	    raw[len - digits - 2] == '_')
		len -= digits + 2;
	return facts__intern(f, raw, len);
}

/* cupti_activity.h: CUpti_ActivityMemoryKind */
static const char *memory_kind(uint32_t kind)
{
	static const char *const names[] = { "Unknown",       "Pageable",      "Pinned",
					     "Device",        "Array",         "Managed",
					     "Device Static", "Managed Static" };

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : names[0];
}

/* cupti_activity.h: CUpti_ActivityMemcpyKind */
static const char *copy_kind(uint32_t kind)
{
	static const char *const names[] = { "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
					     "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP" };

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : names[0];
}

/* cupti_activity.h: CUpti_ActivitySynchronizationType */
static const char *sync_name(uint32_t what)
{
	static const char *const names[] = { "Unknown", "Event Sync", "Stream Wait Event",
					     "Stream Sync", "Context Sync" };

	return what < sizeof(names) / sizeof(names[0]) ? names[what] : names[0];
}

/* cupti_activity.h: CUpti_ActivityOverheadKind: the driver's are small numbers, CUPTI's in the
 * upper half */
static const char *overhead_name(uint32_t what)
{
	static const char *const names[] = { "Unknown",
					     "Buffer Flush",
					     "Instrumentation",
					     "Resource",
					     "Runtime Triggered Module Loading",
					     "Lazy Function Loading",
					     "Command Buffer Full",
					     "Activity Buffer Request",
					     "UVM Activity Init" };

	if (what == 1)
		return "Driver Compiler";
	return what & 0xffff || what >> 16 >= sizeof(names) / sizeof(names[0]) ? names[0] :
										 names[what >> 16];
}

const char *gpu__work_name(struct facts *f, const struct ptb_rec_hdr *rec)
{
	const struct ptb_gpu_memory *m = (const void *)rec;
	char buf[96];

	switch (rec->kind) {
	case PTB_REC_GPU_MEMCPY:
		snprintf(buf, sizeof(buf), "Memcpy %s (%s -> %s)", copy_kind(m->copy_kind),
			 memory_kind(m->src_kind), memory_kind(m->dst_kind));
		break;
	case PTB_REC_GPU_MEMSET:
		snprintf(buf, sizeof(buf), "Memset (%s)", memory_kind(m->dst_kind));
		break;
	case PTB_REC_GPU_SYNC:
		return sync_name(((const struct ptb_gpu_sync *)(const void *)rec)->what);
	case PTB_REC_GPU_OVERHEAD:
		return overhead_name(((const struct ptb_gpu_overhead *)(const void *)rec)->what);
	case PTB_REC_GPU_EVENT:
		return "cudaEvent";
	default:
		return "";
	}
	return facts__intern(f, buf, strlen(buf));
}
