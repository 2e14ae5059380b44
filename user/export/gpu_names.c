/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Names of GPU activities; see gpu_names.h. */
#include "export/gpu_names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(texts, nr) ((nr) < sizeof(texts) / sizeof((texts)[0]) && (texts)[nr] ? (texts)[nr] : "Unknown")

const char *gpu_name__copy_kind(uint32_t kind)
{
	static const char *const texts[GPU_COPY_KINDS] = { NULL,   "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
							   "AtoD", "DtoA", "DtoD", "HtoH", "PtoP" };

	return TEXT_OF(texts, kind);
}

const char *gpu_name__memory_kind(uint32_t kind)
{
	static const char *const texts[] = { NULL,    "Pageable", "Pinned",        "Device",
					     "Array", "Managed",  "Device Static", "Managed Static" };

	return TEXT_OF(texts, kind);
}

const char *gpu_name__sync(uint32_t what)
{
	static const char *const texts[] = { NULL, "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync" };

	return TEXT_OF(texts, what);
}

/* The driver's kinds are small numbers, CUPTI's are in the upper half. */
const char *gpu_name__overhead(uint32_t what)
{
	static const char *const texts[] = { NULL,
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
	return what & 0xffff ? "Unknown" : TEXT_OF(texts, what >> 16);
}

const char *gpu_name__cuda_copy(uint32_t kind)
{
	static const char *const texts[] = { "HtoH", "HtoD", "DtoH", "DtoD" };

	return kind < sizeof(texts) / sizeof(texts[0]) ? texts[kind] : "";
}

const char *gpu_name__memcpy(char *buf, uint32_t kind, uint32_t src, uint32_t dst)
{
	snprintf(buf, GPU_NAME_MAX, "Memcpy %s (%s -> %s)", gpu_name__copy_kind(kind), gpu_name__memory_kind(src),
		 gpu_name__memory_kind(dst));
	return buf;
}

const char *gpu_name__memset(char *buf, uint32_t kind)
{
	snprintf(buf, GPU_NAME_MAX, "Memset (%s)", gpu_name__memory_kind(kind));
	return buf;
}

#define VERSION_DIGITS 4 /* "_v2" is part of a name of the driver API */

const char *gpu_name__api(char *buf, size_t cap, const char *name)
{
	size_t len, i;

	snprintf(buf, cap, "%s", name);
	len = strlen(buf);
	for (i = len; i && isdigit((unsigned char)buf[i - 1]); i--)
		;
	if (len - i >= VERSION_DIGITS && i > 2 && buf[i - 1] == 'v' && buf[i - 2] == '_')
		buf[i - 2] = '\0';
	return buf;
}

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* Kineto's own lists: CuptiCbidRegistry.cpp. */
static bool is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (!strcmp(name, *list))
			return true;
	return false;
}

enum gpu_api_kind gpu_name__api_kind(const char *name)
{
	static const char *const never[] = { "cudaGetDevice",   "cudaSetDevice",           "cudaGetLastError",
					     "cudaEventCreate", "cudaEventCreateWithFlags", "cudaEventDestroy", NULL };
	static const char *const map[] = { "cuMemCreate",  "cuMemMap",
					   "cuMemUnmap",   "cuMemRelease",
					   "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle", NULL };
	const char *verb = begins(name, "cuda") ? name + 4 : begins(name, "cu") ? name + 2 : name;

	if (is_one_of(name, never))
		return GPU_API_NEVER;
	if (is_one_of(name, map))
		return GPU_API_MAP;
	if (begins(verb, "Launch") && !begins(verb, "LaunchHostFunc"))
		return GPU_API_LAUNCH;
	if (begins(verb, "GraphLaunch"))
		return GPU_API_LAUNCH;
	if (begins(verb, "Memcpy"))
		return GPU_API_COPY;
	if (begins(verb, "Memset"))
		return GPU_API_FILL;
	if (begins(verb, "StreamWaitEvent"))
		return GPU_API_WAIT;
	if (begins(verb, "StreamSynchronize") || begins(verb, "DeviceSynchronize") ||
	    begins(verb, "EventSynchronize") || begins(verb, "CtxSynchronize") || begins(verb, "ThreadSynchronize"))
		return GPU_API_SYNC;
	return GPU_API_OTHER;
}
