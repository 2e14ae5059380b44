/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Prints tables of given rows with ptbpf's own code, for a comparison with torch's. stdin: one JSON
 * object per line, {"sort_by": text or null, "row_limit": n, "rows": [[key, count, self_ns, total_ns,
 * input shapes, flops, bytes of memory: CPU, self, device, self, on a device, annotation, device ns: self,
 * total, frames of the stack, each but the last followed by a line feed]], "memory": bool, "device": bool}, what is behind
 * total_ns may be missing; stdout: each table, ended by a NUL byte.
 */
#include <cjson/cJSON.h>
#include <stdlib.h>

#include "report/report.h"

static double number_at(const cJSON *row, int i)
{
	const cJSON *v = cJSON_GetArrayItem(row, i);

	return cJSON_IsNumber(v) ? v->valuedouble : 0.0;
}

static int print_table(const cJSON *doc)
{
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(doc, "rows"), *item;
	uint32_t cnt = (uint32_t)cJSON_GetArraySize(list), i = 0;
	struct ka_row *rows = calloc(cnt + 1, sizeof(*rows));
	const struct output_args args = {
		.out = stdout,
		.sort_by = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(doc, "sort_by")),
		.row_limit = (int)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(doc, "row_limit")),
	};
	const struct table_opts opts = {
		.profile_memory = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(doc, "memory")),
		.device_time = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(doc, "device")),
	};
	int err;

	if (!rows)
		return -1;
	cJSON_ArrayForEach(item, list)
	{
		const char *key = cJSON_GetStringValue(cJSON_GetArrayItem(item, 0));
		const char *shapes = cJSON_GetStringValue(cJSON_GetArrayItem(item, 4));
		const char *stack = cJSON_GetStringValue(cJSON_GetArrayItem(item, 14));

		rows[i++] = (struct ka_row){ .key = key ? key : "",
					     .count = (uint64_t)number_at(item, 1),
					     .self_cpu_ns = (uint64_t)number_at(item, 2),
					     .cpu_total_ns = (uint64_t)number_at(item, 3),
					     .shapes = shapes ? shapes : "",
					     .stack = stack ? stack : "",
					     .flops = (uint64_t)number_at(item, 5),
					     .cpu_mem = (int64_t)number_at(item, 6),
					     .self_cpu_mem = (int64_t)number_at(item, 7),
					     .device_mem = (int64_t)number_at(item, 8),
					     .self_device_mem = (int64_t)number_at(item, 9),
					     .is_device = number_at(item, 10) > 0,
					     .is_annotation = number_at(item, 11) > 0,
					     .self_device_ns = (uint64_t)number_at(item, 12),
					     .device_total_ns = (uint64_t)number_at(item, 13) };
	}
	err = table__print(rows, cnt, &opts, &args);
	putchar('\0');
	free(rows);
	return err;
}

int main(void)
{
	char *line = NULL;
	size_t cap = 0;
	int err = 0;

	while (!err && getline(&line, &cap, stdin) > 0) {
		cJSON *doc = cJSON_Parse(line);

		err = doc ? print_table(doc) : -1;
		cJSON_Delete(doc);
	}
	free(line);
	return err ? 1 : 0;
}
