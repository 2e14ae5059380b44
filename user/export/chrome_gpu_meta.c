/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a Chrome trace says of CUDA before its events: the devices (libkineto DeviceProperties.cpp) and the
 * versions, where the capture knows them.
 */
#include "export/chrome_priv.h"

#include <cjson/cJSON.h>

#include "export/gpu_occupancy.h"

static void put_device(struct jsonw *w, const struct session *s, const struct ptb_gpu_device *d)
{
	jsonw__break(w);
	jsonw__begin_obj(w);
	JSONW_U64(w, "id", d->id);
	JSONW_STR(w, "name", session__name(s, d->name));
	JSONW_U64(w, "totalGlobalMem", d->memory_bytes);
	JSONW_U64(w, "computeMajor", d->major);
	JSONW_U64(w, "computeMinor", d->minor);
	JSONW_U64(w, "maxThreadsPerBlock", d->max_threads_per_block);
	JSONW_U64(w, "maxThreadsPerMultiprocessor", (uint64_t)d->max_warps_per_sm * d->warp_size);
	JSONW_U64(w, "regsPerBlock", d->regs_per_block);
	JSONW_U64(w, "warpSize", d->warp_size);
	JSONW_U64(w, "sharedMemPerBlock", d->shared_per_block);
	JSONW_U64(w, "numSms", d->sm_cnt);
	JSONW_U64(w, "regsPerMultiprocessor", d->regs_per_sm);
	JSONW_U64(w, "sharedMemPerBlockOptin", gpu_device__shared_optin(d));
	JSONW_U64(w, "sharedMemPerMultiprocessor", d->shared_per_sm);
	jsonw__end_obj(w);
}

void chrome_gpu__devices(struct jsonw *w, const struct session *s)
{
	const struct session_info *info = session__info(s);
	uint32_t i;

	jsonw__begin_arr(w);
	for (i = 0; i < info->device_cnt; i++)
		put_device(w, s, info->devices[i]);
	jsonw__end_arr(w);
}

/* Of the first process whose agent recorded it. */
static double version_of(const cJSON *agents, const char *key)
{
	const cJSON *a;

	cJSON_ArrayForEach(a, agents)
	{
		const cJSON *v = cJSON_GetObjectItemCaseSensitive(a, key);

		if (cJSON_IsNumber(v) && v->valuedouble >= 1 && v->valuedouble < 1e9)
			return v->valuedouble;
	}
	return 0;
}

void chrome_gpu__versions(struct jsonw *w, const struct session *s)
{
	static const char *const keys[] = { "cupti_version", "cuda_runtime_version",
					    "cuda_driver_version" };
	const char *json = session__meta(s, "agent");
	cJSON *agents = json ? cJSON_Parse(json) : NULL;
	size_t i;

	for (i = 0; session__info(s)->has_gpu && i < sizeof(keys) / sizeof(keys[0]); i++) {
		double v = cJSON_IsArray(agents) ? version_of(agents, keys[i]) : 0;

		if (v < 1)
			continue;
		jsonw__break(w);
		jsonw__key(w, keys[i]);
		jsonw__u64(w, (uint64_t)v);
	}
	cJSON_Delete(agents);
}
