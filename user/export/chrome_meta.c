/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Top-level keys of a Chrome trace: torch's own in torch's order, then ptbpf's. What is known before
 * the first slice stands before traceEvents (streaming consumers stop there), what only a whole pass
 * yields stands in "ptbpf_totals" after it, so that the trace is written in one pass.
 */
#include "export/chrome_priv.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export/session_json.h"

/* A quarter of a year: kineto counts from the last multiple, so that a double holds ns and the files of
 * all hosts share one base (libkineto output_json.cpp, ChromeTraceBaseTime). */
#define QUARTER_S 7889238ULL

struct chrome_clock chrome_clock__init(const struct session_info *info)
{
	int64_t unix_ns = (int64_t)info->begin_ns + info->mono_to_unix_ns;
	uint64_t s = unix_ns > 0 ? (uint64_t)unix_ns / 1000000000ULL : 0;

	return (struct chrome_clock){ .base_unix_ns = s / QUARTER_S * QUARTER_S * 1000000000ULL,
				      .mono_to_unix_ns = info->mono_to_unix_ns };
}

uint64_t chrome_clock__rel(const struct chrome_clock *c, uint64_t mono_ns)
{
	int64_t ns = (int64_t)(mono_ns + (uint64_t)c->mono_to_unix_ns - c->base_unix_ns);

	return ns > 0 ? (uint64_t)ns : 0;
}

uint64_t chrome_clock__in_window(const struct chrome_clock *c, const struct session_info *info,
				 uint64_t mono_ns)
{
	if (mono_ns > info->end_ns)
		mono_ns = info->end_ns;
	return chrome_clock__rel(c, mono_ns < info->begin_ns ? info->begin_ns : mono_ns);
}

static uint64_t mix64(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9ULL;
	return h ^ h >> 32;
}

/*
 * 32 upper-case hex digits as torch's, but the same for each export of one capture: host, first
 * process and the window's begin make it; version digit 8 of RFC 9562, "custom".
 */
static void make_trace_id(const struct session_info *info, const char *host, char out[33])
{
	uint64_t unix_ns = info->begin_ns + (uint64_t)info->mono_to_unix_ns;
	uint64_t hi = mix64(0x7074627066ULL, unix_ns), lo = mix64(0x747261636532ULL, info->begin_ns);

	if (info->process_cnt) {
		hi = mix64(hi, info->processes[0].tgid);
		lo = mix64(lo, info->processes[0].start_ns ^ info->processes[0].tgid);
	}
	for (; *host; host++) {
		hi = mix64(hi, (unsigned char)*host);
		lo = mix64(lo, hi);
	}
	hi = (hi & ~0xf000ULL) | 0x8000;
	lo = (lo & ~(3ULL << 62)) | 2ULL << 62;
	snprintf(out, 33, "%016" PRIX64 "%016" PRIX64, hi, lo);
}

/*
 * Some consumers take rank 0 for every file without a rank and let them overwrite each other, so it is
 * always here: that of the capture's "distributedInfo" ({"backend", "rank", "world_size"}), else 0 of 1.
 */
static void write_rank(struct jsonw *w, const struct session *s)
{
	const char *json = session__meta(s, "distributedInfo");
	cJSON *tree = json ? cJSON_Parse(json) : NULL;
	const cJSON *backend = cJSON_GetObjectItemCaseSensitive(tree, "backend");
	const cJSON *rank = cJSON_GetObjectItemCaseSensitive(tree, "rank");
	const cJSON *world = cJSON_GetObjectItemCaseSensitive(tree, "world_size");
	bool good = cJSON_IsNumber(rank) && cJSON_IsNumber(world) && rank->valueint >= 0 &&
		    world->valueint > rank->valueint;

	jsonw__break(w);
	JSONW_OBJ(w, "distributedInfo");
	JSONW_STR(w, "backend", good && cJSON_IsString(backend) ? backend->valuestring : "");
	JSONW_I64(w, "rank", good ? rank->valueint : 0);
	JSONW_I64(w, "world_size", good ? world->valueint : 1);
	jsonw__end_obj(w);
	cJSON_Delete(tree);
}

void chrome_meta__head(struct jsonw *w, const struct session *s, const struct chrome_opts *opts,
		       const struct chrome_clock *clock)
{
	const char *host = opts->host_name ? opts->host_name : "";
	char trace_id[33];

	make_trace_id(session__info(s), host, trace_id);
	jsonw__begin_obj(w);
	jsonw__break(w);
	JSONW_U64(w, "schemaVersion", 1);
	jsonw__break(w);
	jsonw__key(w, "deviceProperties");
	chrome_gpu__devices(w, s);
	jsonw__break(w);
	JSONW_STR(w, "trace_id", trace_id);
	if (session__info(s)->has_memory) {
		jsonw__break(w);
		JSONW_U64(w, "profile_memory", 1);
	}
	if (session__info(s)->has_shapes) {
		jsonw__break(w);
		JSONW_U64(w, "record_shapes", 1);
	}
	chrome_gpu__versions(w, s);
	jsonw__break(w);
	JSONW_STR(w, "host_name", host);
	write_rank(w, s);
	jsonw__break(w);
	JSONW_OBJ(w, "ptbpf");
	session_json__write(w, s, opts->tool_version);
	jsonw__end_obj(w);
	jsonw__break(w);
	JSONW_STR(w, "displayTimeUnit", "ms");
	jsonw__break(w);
	JSONW_U64(w, "baseTimeNanoseconds", clock->base_unix_ns);
	jsonw__break(w);
	JSONW_ARR(w, "traceEvents");
}

static void write_gpu_totals(struct jsonw *w, const struct chrome_gpu_totals *t)
{
	JSONW_OBJ(w, "gpu");
	JSONW_U64(w, "work", t->work);
	JSONW_U64(w, "calls", t->calls);
	JSONW_U64(w, "calls_not_shown", t->hidden);
	JSONW_U64(w, "calls_clipped", t->clipped);
	JSONW_U64(w, "calls_clipped_beyond_clock_error", t->clipped_more);
	JSONW_U64(w, "calls_left_out", t->left_out);
	JSONW_U64(w, "flows", t->flows);
	JSONW_U64(w, "annotations", t->annotations);
	JSONW_U64(w, "synchronisations", t->syncs);
	JSONW_U64(w, "events", t->events);
	JSONW_U64(w, "overheads", t->overheads);
	jsonw__end_obj(w);
}

void chrome_meta__tail(struct jsonw *w, const struct session_info *info,
		       const struct session_totals *totals, const struct chrome_gpu_totals *gpu,
		       const char *trace_name)
{
	jsonw__newline(w);
	jsonw__end_arr(w);
	jsonw__break(w);
	JSONW_OBJ(w, "ptbpf_totals");
	session_json__write_totals(w, info, totals);
	if (info->has_gpu || info->has_cuda_calls)
		write_gpu_totals(w, gpu);
	jsonw__end_obj(w);
	jsonw__break(w);
	JSONW_STR(w, "traceName", trace_name ? trace_name : "");
	jsonw__newline(w);
	jsonw__end_obj(w);
	jsonw__newline(w);
}
