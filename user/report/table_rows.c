/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Sort keys and sums of the table; see table_rows.h. Rules: pytorch torch/autograd/profiler_util.py. */
#include "report/table_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

double table_rows__us(uint64_t ns)
{
	return (double)ns / 1000.0;
}

/* Each returns <0, 0, >0 as a's attribute is less than, equal to or greater than b's. */
static int cmp_double(double a, double b)
{
	return (a > b) - (a < b);
}

static int cmp_u64(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static double average_us(const struct ka_row *r, uint64_t total_ns)
{
	return r->count ? table_rows__us(total_ns) / (double)r->count : 0.0;
}

static int cmp_self(const struct ka_row *a, const struct ka_row *b)
{
	return cmp_u64(a->self_cpu_ns, b->self_cpu_ns);
}

static int cmp_total(const struct ka_row *a, const struct ka_row *b)
{
	return cmp_u64(a->cpu_total_ns, b->cpu_total_ns);
}

static int cmp_avg(const struct ka_row *a, const struct ka_row *b)
{
	return cmp_double(average_us(a, a->cpu_total_ns), average_us(b, b->cpu_total_ns));
}

static int cmp_self_device(const struct ka_row *a, const struct ka_row *b)
{
	return cmp_u64(a->self_device_ns, b->self_device_ns);
}

static int cmp_device(const struct ka_row *a, const struct ka_row *b)
{
	return cmp_u64(a->device_total_ns, b->device_total_ns);
}

static int cmp_device_avg(const struct ka_row *a, const struct ka_row *b)
{
	return cmp_double(average_us(a, a->device_total_ns), average_us(b, b->device_total_ns));
}

static int cmp_count(const struct ka_row *a, const struct ka_row *b)
{
	return cmp_u64(a->count, b->count);
}

static int cmp_flops(const struct ka_row *a, const struct ka_row *b)
{
	return cmp_u64(a->flops, b->flops);
}

static int cmp_i64(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int cmp_cpu_mem(const struct ka_row *a, const struct ka_row *b)
{
	return cmp_i64(a->cpu_mem, b->cpu_mem);
}

static int cmp_self_cpu_mem(const struct ka_row *a, const struct ka_row *b)
{
	return cmp_i64(a->self_cpu_mem, b->self_cpu_mem);
}

static int cmp_device_mem(const struct ka_row *a, const struct ka_row *b)
{
	return cmp_i64(a->device_mem, b->device_mem);
}

static int cmp_self_device_mem(const struct ka_row *a, const struct ka_row *b)
{
	return cmp_i64(a->self_device_mem, b->self_device_mem);
}

static int cmp_key(const struct ka_row *a, const struct ka_row *b)
{
	return strcmp(a->key, b->key); /* bytes of UTF-8 sort as code points, as Python's str */
}

static const struct sort_key {
	const char *name; /* of TABLE_SORT_KEYS */
	int (*cmp)(const struct ka_row *a, const struct ka_row *b);
} sort_keys[] = {
	{ "self_cpu_time_total", cmp_self },
	{ "cpu_time_total", cmp_total },
	{ "cpu_time", cmp_avg },
	{ "self_cuda_time_total", cmp_self_device },
	{ "cuda_time_total", cmp_device },
	{ "cuda_time", cmp_device_avg },
	{ "self_device_time_total", cmp_self_device },
	{ "device_time_total", cmp_device },
	{ "device_time", cmp_device_avg },
	{ "count", cmp_count },
	{ "key", cmp_key },
	{ "flops", cmp_flops },
	{ "cpu_memory_usage", cmp_cpu_mem },
	{ "self_cpu_memory_usage", cmp_self_cpu_mem },
	{ "cuda_memory_usage", cmp_device_mem },
	{ "self_cuda_memory_usage", cmp_self_device_mem },
	{ "device_memory_usage", cmp_device_mem },
	{ "self_device_memory_usage", cmp_self_device_mem },
};

#define SORT_KEY_CNT (sizeof(sort_keys) / sizeof(sort_keys[0]))

static const struct sort_key *find_key(const char *name)
{
	size_t i;

	for (i = 0; i < SORT_KEY_CNT; i++)
		if (!strcmp(sort_keys[i].name, name))
			return &sort_keys[i];
	return NULL;
}

bool table__is_sort_key(const char *key)
{
	return find_key(key);
}

static int cmp_rows(const void *pa, const void *pb, void *arg)
{
	const struct ka_row *a = *(const struct ka_row *const *)pa;
	const struct ka_row *b = *(const struct ka_row *const *)pb;
	const struct sort_key *key = arg;
	int c = key->cmp(b, a); /* descending */

	return c ? c : (a > b) - (a < b); /* both point into one array: its order breaks ties */
}

const struct ka_row **table_rows__sorted(const struct ka_row *rows, uint32_t cnt,
					 const struct table_opts *opts)
{
	const struct sort_key *key = opts->sort_by ? find_key(opts->sort_by) : NULL;
	const struct ka_row **list = calloc(cnt ? cnt : 1, sizeof(*list));
	uint32_t i;

	if (!list)
		return NULL;
	for (i = 0; i < cnt; i++)
		list[i] = &rows[i];
	if (key)
		qsort_r(list, cnt, sizeof(*list), cmp_rows, (void *)(uintptr_t)key);
	return list;
}

uint32_t table_rows__shown(uint32_t cnt, const struct table_opts *opts)
{
	return opts->row_limit < 0 || (uint32_t)opts->row_limit > cnt ? cnt : (uint32_t)opts->row_limit;
}

struct table_sums table_rows__sums(const struct ka_row *const *rows, uint32_t cnt)
{
	struct table_sums sums = { 0.0, 0.0 };
	uint32_t i;

	for (i = 0; i < cnt; i++) {
		sums.self_cpu += table_rows__us(rows[i]->self_cpu_ns);
		if (rows[i]->is_device && !rows[i]->is_annotation)
			sums.device += table_rows__us(rows[i]->self_device_ns);
	}
	return sums;
}
