/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Calls of CUDA's API by name; see gpu_text.h. */
#include "export/gpu_text.h"

#include <string.h>

const char *gpu_api__copy_kind(uint32_t kind)
{
	static const char *const texts[] = { "HtoH", "HtoD", "DtoH", "DtoD" };

	return kind < sizeof(texts) / sizeof(texts[0]) ? texts[kind] : "";
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

enum gpu_api_kind gpu_api__kind(const char *name)
{
	static const char *const never[] = { "cudaGetDevice",
					     "cudaSetDevice",
					     "cudaGetLastError",
					     "cudaEventCreate",
					     "cudaEventCreateWithFlags",
					     "cudaEventDestroy",
					     NULL };
	static const char *const map[] = { "cuMemCreate",
					   "cuMemMap",
					   "cuMemUnmap",
					   "cuMemRelease",
					   "cuMemExportToShareableHandle",
					   "cuMemImportFromShareableHandle",
					   NULL };
	static const struct {
		const char *prefix;
		enum gpu_api_kind kind;
	} verbs[] = {
		/* the first that fits */
		{ "LaunchHostFunc", GPU_API_OTHER },
		{ "Launch", GPU_API_LAUNCH },
		{ "GraphLaunch", GPU_API_LAUNCH },
		{ "Memcpy", GPU_API_COPY },
		{ "Memset", GPU_API_FILL },
		{ "StreamWaitEvent", GPU_API_WAIT },
		{ "StreamSynchronize", GPU_API_SYNC },
		{ "DeviceSynchronize", GPU_API_SYNC },
		{ "EventSynchronize", GPU_API_SYNC },
		{ "CtxSynchronize", GPU_API_SYNC },
		{ "ThreadSynchronize", GPU_API_SYNC },
	};
	const char *verb = begins(name, "cuda") ? name + 4 : begins(name, "cu") ? name + 2 : name;

	if (!*name)
		return GPU_API_UNNAMED;
	if (is_one_of(name, never))
		return GPU_API_NEVER;
	if (is_one_of(name, map))
		return GPU_API_MAP;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (begins(verb, verbs[i].prefix))
			return verbs[i].kind;
	return GPU_API_OTHER;
}
