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
	put_u64(w, "id", d->id);
	put_str(w, "name", session__name(s, d->name));
	put_u64(w, "totalGlobalMem", d->memory_bytes);
	put_u64(w, "computeMajor", d->major);
	put_u64(w, "computeMinor", d->minor);
	put_u64(w, "maxThreadsPerBlock", d->max_threads_per_block);
	put_u64(w, "maxThreadsPerMultiprocessor", (uint64_t)d->max_warps_per_sm * d->warp_size);
	put_u64(w, "regsPerBlock", d->regs_per_block);
	put_u64(w, "warpSize", d->warp_size);
	put_u64(w, "sharedMemPerBlock", d->shared_per_block);
	put_u64(w, "numSms", d->sm_cnt);
	put_u64(w, "regsPerMultiprocessor", d->regs_per_sm);
	put_u64(w, "sharedMemPerBlockOptin", gpu_device__shared_optin(d));
	put_u64(w, "sharedMemPerMultiprocessor", d->shared_per_sm);
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
