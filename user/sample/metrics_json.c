/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See metrics.h: written by the process of the window, read by the daemon. */
#include "sample/metrics.h"

#include <stddef.h>
#include <stdlib.h>

#include "sample/daemon.h"

#define NUMBERS(field)                                                                             \
	offsetof(struct metrics_window, field), sizeof(((struct metrics_window *)0)->field) / 8

static const struct {
	const char *key;
	size_t offset, cnt; /* of uint64_t */
} numbers[] = {
	{ "window_ns", NUMBERS(window_ns) },
	{ "operators", NUMBERS(operators) },
	{ "cost_ns", NUMBERS(cost_ns) },
	{ "other_ns", NUMBERS(rest_ns) },
	{ "steps", NUMBERS(steps) },
	{ "step_ns", NUMBERS(step_ns) },
	{ "partial_steps", NUMBERS(partial_steps) },
	{ "rss", NUMBERS(rss) },
	{ "alloc_bytes", NUMBERS(alloc_bytes) },
	{ "device_bytes", NUMBERS(device_bytes) },
	{ "device_reserved_bytes", NUMBERS(device_reserved_bytes) },
	{ "minor_faults", NUMBERS(minor_faults) },
	{ "major_faults", NUMBERS(major_faults) },
	{ "wait_ns", NUMBERS(wait_ns) },
	{ "losses", NUMBERS(losses) },
};

static const struct {
	const char *key;
	size_t offset;
} flags[] = {
	{ "has_cost", offsetof(struct metrics_window, has_cost) },
	{ "has_memory", offsetof(struct metrics_window, has_memory) },
	{ "has_device_memory", offsetof(struct metrics_window, has_device_memory) },
	{ "has_faults", offsetof(struct metrics_window, has_faults) },
	{ "has_waits", offsetof(struct metrics_window, has_waits) },
};

#define COUNT(rows) (sizeof(rows) / sizeof(rows[0]))

static void put_numbers(struct jsonw *j, const struct metrics_window *w)
{
	for (size_t i = 0; i < COUNT(numbers); i++) {
		const uint64_t *v = (const void *)((const char *)w + numbers[i].offset);

		jsonw__key(j, numbers[i].key);
		jsonw__begin_arr(j);
		for (size_t k = 0; k < numbers[i].cnt; k++)
			jsonw__u64(j, v[k]);
		jsonw__end_arr(j);
	}
	for (size_t i = 0; i < COUNT(flags); i++) {
		jsonw__key(j, flags[i].key);
		jsonw__bool(j, *(const bool *)((const char *)w + flags[i].offset));
	}
}

void metrics_json__put(struct jsonw *j, const struct metrics_window *w)
{
	JSONW_OBJ(j, "metrics");
	put_numbers(j, w);
	JSONW_ARR(j, "self_time");
	for (uint32_t i = 0; i < w->op_cnt; i++) {
		jsonw__begin_obj(j);
		JSONW_STR(j, "name", w->ops[i].name);
		if (w->ops[i].uid != METRICS_NO_USER)
			JSONW_U64(j, "uid", w->ops[i].uid);
		JSONW_U64(j, "ns", w->ops[i].self_ns);
		jsonw__end_obj(j);
	}
	jsonw__end_arr(j);
	JSONW_ARR(j, "gpus");
	for (uint32_t i = 0; i < w->gpu_cnt; i++) {
		jsonw__begin_obj(j);
		JSONW_U64(j, "id", w->gpus[i].id);
		JSONW_U64(j, "busy_ns", w->gpus[i].busy_ns);
		jsonw__end_obj(j);
	}
	jsonw__end_arr(j);
	jsonw__end_obj(j);
}

static void get_numbers(const cJSON *m, struct metrics_window *w)
{
	const cJSON *item;

	for (size_t i = 0; i < COUNT(numbers); i++) {
		uint64_t *v = (void *)((char *)w + numbers[i].offset);
		size_t k = 0;

		cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(m, numbers[i].key))
		{
			if (k < numbers[i].cnt)
				v[k++] = line__number(item);
		}
	}
	for (size_t i = 0; i < COUNT(flags); i++)
		*(bool *)((char *)w + flags[i].offset) = line__bool(m, flags[i].key);
}

void metrics__add_line(struct metrics *m, const cJSON *line)
{
	const cJSON *tree = cJSON_GetObjectItemCaseSensitive(line, "metrics"), *item;
	struct metrics_window w = { .op_cnt = 0 };

	get_numbers(tree, &w);
	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(tree, "self_time"))
	{
		const char *name =
			cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"));
		bool owned = cJSON_HasObjectItem(item, "uid");

		metrics_window__op(&w, name ? name : METRICS_OTHER,
				   owned ? (uint32_t)line__u64(item, "uid") : METRICS_NO_USER,
				   line__u64(item, "ns"));
	}
	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(tree, "gpus"))
	{
		if (w.gpu_cnt < METRICS_GPUS)
			w.gpus[w.gpu_cnt++] = (struct metrics_gpu){ (uint32_t)line__u64(item, "id"),
								    line__u64(item, "busy_ns") };
	}
	metrics__add(m, &w);
	free(w.ops);
}
