/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* export/table: layout, numbers, order, hostile names; the JSON form. Byte equality with torch itself
 * is tests/torch/same_table.py. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "fake_session.h"
#include "json_keys.h"
#include "suite.h"

static char text[16384];

struct how {
	const char *sort_by;
	int row_limit;
	bool profile_memory, device_time;
};

/* As JSON, if there is a session. */
static int print_to(FILE *f, const struct ka_row *rows, uint32_t cnt, const struct how *how,
		    const struct session *s, struct session_totals *t)
{
	const struct output_args args = {
		.s = s, .out = f, .json = s, .sort_by = how->sort_by, .row_limit = how->row_limit
	};
	const struct table_opts opts = { .profile_memory = how->profile_memory,
					 .device_time = how->device_time };

	return table__print(rows, cnt, &opts, &args, t);
}

static const char *print_with(const struct ka_row *rows, uint32_t cnt, const struct how *opts)
{
	FILE *f = fmemopen(text, sizeof(text), "w");

	memset(text, 0, sizeof(text));
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(print_to(f, rows, cnt, opts, NULL, NULL), 0);
	fclose(f);
	return text;
}

static const char *print(const struct ka_row *rows, uint32_t cnt, const char *sort_by, int limit)
{
	struct how opts = { .sort_by = sort_by, .row_limit = limit };

	return print_with(rows, cnt, &opts);
}

/* Keys in the order printed, one letter each: names in these tests are one letter. */
static const char *order(const struct ka_row *rows, uint32_t cnt, const char *sort_by, int limit)
{
	static char keys[64];
	char *line, *save = NULL;
	int n = 0, nr = 0;

	print(rows, cnt, sort_by, limit);
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (nr++ >= 3 && line[0] == ' ')
			keys[n++] = line[strspn(line, " ")];
	}
	keys[n] = '\0';
	return keys;
}

static const struct ka_row three[] = {
	{ .key = "a", .count = 2, .cpu_total_ns = 3000, .self_cpu_ns = 1000 },
	{ .key = "c", .count = 1, .cpu_total_ns = 2000, .self_cpu_ns = 2000 },
	{ .key = "b", .count = 2, .cpu_total_ns = 1234567890, .self_cpu_ns = 1500 },
};

static const struct ka_row with_shapes[] = {
	{ .key = "a", .count = 1, .cpu_total_ns = 1000, .self_cpu_ns = 1000, .shapes = "[[2, 3], []]", .flops = 7 },
	{ .key = "b", .count = 1, .cpu_total_ns = 900, .self_cpu_ns = 900, .shapes = "[]" },
};

static void test_layout(void)
{
	static const char expect[] =
		"-----  ------------  ------------  ------------  ------------  ------------  ------------  \n"
		" Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  \n"
		"-----  ------------  ------------  ------------  ------------  ------------  ------------  \n"
		"    a        22.22%       1.000us        66.67%       3.000us       1.500us             2  \n"
		"    c        44.44%       2.000us        44.44%       2.000us       2.000us             1  \n"
		"    b        33.33%       1.500us  27434842.00%        1.235s     617.284ms             2  \n"
		"-----  ------------  ------------  ------------  ------------  ------------  ------------  \n"
		"Self CPU time total: 4.500us\n";

	CU_ASSERT_STRING_EQUAL(print(three, 3, NULL, -1), expect);
	CU_ASSERT_STRING_EQUAL(print(three, 0, NULL, -1), ""); /* as torch */
}

/* Both columns that depend on the rows; shapes are cut at 80 characters, without dots. */
static void test_shapes_and_flops(void)
{
	static const struct ka_row rows[] = {
		{ .key = "a",
		  .count = 1,
		  .cpu_total_ns = 1000,
		  .self_cpu_ns = 1000,
		  .shapes = "[[2, 3], []]",
		  .flops = 1234567 },
		{ .key = "b", .count = 1, .cpu_total_ns = 1000, .self_cpu_ns = 1000, .shapes = "[]" },
		{ .key = "c", .count = 1, .cpu_total_ns = 1000, .self_cpu_ns = 1000, .shapes = "[]", .flops = 98765432100 },
	};
	static const char expect[] =
		"-----  ------------  ------------  ------------  ------------  ------------  ------------  "
		"----------------  ------------  \n"
		" Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  "
		"    Input Shapes  Total MFLOPs  \n"
		"-----  ------------  ------------  ------------  ------------  ------------  ------------  "
		"----------------  ------------  \n"
		"    a        33.33%       1.000us        33.33%       1.000us       1.000us             1  "
		"    [[2, 3], []]         1.235  \n"
		"    b        33.33%       1.000us        33.33%       1.000us       1.000us             1  "
		"              []            --  \n"
		"    c        33.33%       1.000us        33.33%       1.000us       1.000us             1  "
		"              []     98765.432  \n"
		"-----  ------------  ------------  ------------  ------------  ------------  ------------  "
		"----------------  ------------  \n"
		"Self CPU time total: 3.000us\n";
	char shapes[100], want[100];
	struct ka_row wide = { .key = "a", .count = 1, .cpu_total_ns = 1, .self_cpu_ns = 1, .shapes = shapes };

	CU_ASSERT_STRING_EQUAL(print(rows, 3, NULL, -1), expect);
	CU_ASSERT_PTR_NULL(strstr(print(&rows[1], 1, NULL, -1), "Input Shapes")); /* none has any */
	CU_ASSERT_STRING_EQUAL(order(rows, 3, "flops", -1), "cab");
	memset(shapes, '1', sizeof(shapes) - 1);
	shapes[sizeof(shapes) - 1] = '\0';
	snprintf(want, sizeof(want), "  %.80s  \n", shapes);
	CU_ASSERT_PTR_NOT_NULL(strstr(print(&wide, 1, NULL, -1), want));
}

static void test_order(void)
{
	CU_ASSERT_STRING_EQUAL(order(three, 3, NULL, -1), "acb");
	CU_ASSERT_STRING_EQUAL(order(three, 3, "self_cpu_time_total", -1), "cba");
	CU_ASSERT_STRING_EQUAL(order(three, 3, "cpu_time_total", -1), "bac");
	CU_ASSERT_STRING_EQUAL(order(three, 3, "cpu_time", -1), "bca");
	CU_ASSERT_STRING_EQUAL(order(three, 3, "count", -1), "abc"); /* stable */
	CU_ASSERT_STRING_EQUAL(order(three, 3, "key", -1), "cba");
}

static void test_row_limit(void)
{
	CU_ASSERT_STRING_EQUAL(order(three, 3, "key", 2), "cb");
	CU_ASSERT_STRING_EQUAL(order(three, 3, "key", 0), "");
	CU_ASSERT_STRING_EQUAL(order(three, 3, "key", 100), "cba");
	print(three, 3, "key", 1); /* shares and the sum are of all rows */
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "44.44%"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "Self CPU time total: 4.500us\n"));
}

static void test_sort_keys(void)
{
	char *list = strdup(TABLE_SORT_KEYS), *key, *save = NULL;
	int n = 0;

	for (key = strtok_r(list, ", ", &save); key; key = strtok_r(NULL, ", ", &save), n++)
		CU_ASSERT_TRUE(table__is_sort_key(key));
	CU_ASSERT(n >= 5);
	CU_ASSERT_FALSE(table__is_sort_key(""));
	CU_ASSERT_FALSE(table__is_sort_key("name"));
	free(list);
}

/* A zero sum has no shares, a zero count no average. */
static void test_zeroes(void)
{
	static const struct ka_row rows[] = { { .key = "a" } };

	print(rows, 1, NULL, -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "           NaN       0.000us           NaN       0.000us       "
					    "0.000us             0  \n"));
}

static void test_name_width(void)
{
	char name[80];
	struct ka_row row = { .key = name, .count = 1, .cpu_total_ns = 1, .self_cpu_ns = 1 };

	for (int len = 45; len < 70; len++) {
		char expect[128];
		char *line;

		memset(name, 'n', (size_t)len);
		name[len] = '\0';
		if (len >= 52)
			snprintf(expect, sizeof(expect), "%.52s...  ", name);
		else
			snprintf(expect, sizeof(expect), "%*s  ", len + 4 < 55 ? len + 4 : 55, name);
		print(&row, 1, NULL, -1);
		line = strchr(strchr(strchr(text, '\n') + 1, '\n') + 1, '\n') + 1;
		CU_ASSERT_EQUAL(strncmp(line, expect, strlen(expect)), 0);
	}
}

/* Characters count, not bytes; what could steer a terminal or break the line does not get out. */
static void test_hostile_names(void)
{
	static const struct ka_row rows[] = {
		{ .key = "gr\xc3\xb6\xc3\x9f", .count = 1, .cpu_total_ns = 1, .self_cpu_ns = 1 },
		{ .key = "x\x1b[31m\n\x7f", .count = 1, .cpu_total_ns = 1, .self_cpu_ns = 1 },
		{ .key = "\xff\xc2\x9b\xe2\x82", .count = 1, .cpu_total_ns = 1, .self_cpu_ns = 1 },
	};

	print(rows, 3, NULL, -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\n        gr\xc3\xb6\xc3\x9f        33.33%"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\n    x?[31m??        33.33%"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\n        ????        33.33%"));
	CU_ASSERT_PTR_NULL(strchr(text, 0x1b));
}

static void test_memory(void)
{
	static const char cpu[] =
		"\n    a       100.00%       1.000us       100.00%       1.000us       1.000us"
		"       1.50 KB       -1023 B             1  \n";
	static const char both[] =
		"       1.50 KB       -1023 B      -1.00 GB       1.00 MB             1  \n";
	struct ka_row row = { .key = "a",
			      .count = 1,
			      .cpu_total_ns = 1000,
			      .self_cpu_ns = 1000,
			      .cpu_mem = 1536,
			      .self_cpu_mem = -1023,
			      .device_mem = -(1LL << 30) };
	struct how opts = { .row_limit = -1, .profile_memory = true };

	print_with(&row, 1, &opts);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "CPU time avg       CPU Mem  Self CPU Mem    # of Calls  \n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, cpu));
	row.self_device_mem = 1 << 20;
	print_with(&row, 1, &opts);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(text, "  Self CPU Mem      CUDA Mem  Self CUDA Mem    # of Calls  \n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, both));
	opts.profile_memory = false;
	print_with(&row, 1, &opts);
	CU_ASSERT_PTR_NULL(strstr(text, "Mem"));
}

/* GPU work in all: 400 us; what operators launched and annotations' shares are no part of it. */
static const struct ka_row gpu_rows[] = {
	{ .key = "a",
	  .count = 2,
	  .cpu_total_ns = 1000,
	  .self_cpu_ns = 1000,
	  .self_device_ns = 300000,
	  .device_total_ns = 500000 },
	{ .key = "k",
	  .count = 4,
	  .is_device = true,
	  .self_device_ns = 400000,
	  .device_total_ns = 400000,
	  .category = "kernel" },
	{ .key = "n",
	  .count = 1,
	  .is_device = true,
	  .is_annotation = true,
	  .self_device_ns = 900000,
	  .device_total_ns = 900000 },
};

static void test_device(void)
{
	static const char head[] =
		"CPU time avg     Self CUDA   Self CUDA %    CUDA total  CUDA time avg    # of Calls  \n";
	static const char a[] =
		"     300.000us        75.00%     500.000us     250.000us             2  \n";
	static const char k[] =
		"     400.000us       100.00%     400.000us     100.000us             4  \n";
	struct how opts = { .row_limit = -1, .device_time = true };

	print_with(gpu_rows, 3, &opts);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, head));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, a));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, k));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nSelf CUDA time total: 400.000us\n"));
	CU_ASSERT_STRING_EQUAL(order(gpu_rows, 3, "self_cuda_time_total", -1), "nka");
	CU_ASSERT_STRING_EQUAL(order(gpu_rows, 3, "cuda_time_total", -1), "nak");
	CU_ASSERT_STRING_EQUAL(order(gpu_rows, 3, "device_time_total", -1), "nak");
	CU_ASSERT_STRING_EQUAL(order(gpu_rows, 3, "cuda_time", -1), "nak");
	print_with(&three[0], 1, &opts); /* no GPU time in any row */
	CU_ASSERT_PTR_NULL(strstr(text, "CUDA"));
	opts.device_time = false;
	print_with(gpu_rows, 3, &opts);
	CU_ASSERT_PTR_NULL(strstr(text, "CUDA"));
}

static void test_memory_order(void)
{
	static const struct ka_row rows[] = {
		{ .key = "a", .cpu_mem = -5, .self_cpu_mem = 3, .device_mem = 1, .self_device_mem = 2 },
		{ .key = "b", .cpu_mem = 7, .self_cpu_mem = -3, .device_mem = 3, .self_device_mem = 1 },
		{ .key = "c", .cpu_mem = 0, .self_cpu_mem = 9, .device_mem = 2, .self_device_mem = 3 },
	};

	CU_ASSERT_STRING_EQUAL(order(rows, 3, "cpu_memory_usage", -1), "bca");
	CU_ASSERT_STRING_EQUAL(order(rows, 3, "self_cpu_memory_usage", -1), "cab");
	CU_ASSERT_STRING_EQUAL(order(rows, 3, "cuda_memory_usage", -1), "bca");
	CU_ASSERT_STRING_EQUAL(order(rows, 3, "device_memory_usage", -1), "bca");
	CU_ASSERT_STRING_EQUAL(order(rows, 3, "self_cuda_memory_usage", -1), "cab");
	CU_ASSERT_STRING_EQUAL(order(rows, 3, "self_device_memory_usage", -1), "cab");
}

static void test_full_stream(void)
{
	struct how opts = { .row_limit = -1 };
	struct session s = fake_session();
	struct session_totals t = { 0 };
	FILE *f = fopen("/dev/full", "w");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(print_to(f, three, 3, &opts, NULL, NULL), -ENOSPC);
	fclose(f);
	f = fopen("/dev/full", "w");
	CU_ASSERT_EQUAL(print_to(f, three, 3, &opts, &s, &t), -ENOSPC);
	fclose(f);
}

/* A row for which the document has no room is counted. */
static void test_json_limit(void)
{
	struct how opts = { .row_limit = -1 };
	struct session s = fake_session();
	struct session_totals t = { 0 };
	cJSON *doc;
	FILE *f = fmemopen(text, sizeof(text), "w");

	s.info.output_max = 1;
	CU_ASSERT_EQUAL(print_to(f, three, 3, &opts, &s, &t), 0);
	fclose(f);
	doc = cJSON_Parse(text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(doc);
	CU_ASSERT_EQUAL(cJSON_GetArraySize(get(doc, "rows")), 0);
	CU_ASSERT_EQUAL(get(doc, "row_count")->valueint, 3);
	CU_ASSERT_EQUAL(get(doc, "not_written")->valueint, (int)t.not_written);
	CU_ASSERT_EQUAL(t.not_written, 3 + s.info.process_cnt);
	cJSON_Delete(doc);
}

static void test_json_memory(void)
{
	static const struct ka_row rows[] = {
		{ .key = "a", .count = 1, .cpu_mem = -5, .self_cpu_mem = 1LL << 50, .device_mem = 2, .self_device_mem = 3 },
		{ .key = "[memory]", .count = 1, .is_instant = true },
	};
	struct how opts = { .row_limit = -1, .profile_memory = true };
	struct session_totals t = { 0 };
	struct session s = fake_session();
	const cJSON *row;
	cJSON *doc;
	FILE *f;

	for (;; opts.profile_memory = false) {
		f = fmemopen(text, sizeof(text), "w");
		CU_ASSERT_EQUAL(print_to(f, rows, 2, &opts, &s, &t), 0);
		fclose(f);
		doc = cJSON_Parse(text);
		CU_ASSERT_PTR_NOT_NULL_FATAL(doc);
		row = cJSON_GetArrayItem(get(doc, "rows"), 0);
		if (!opts.profile_memory)
			break;
		CU_ASSERT_EQUAL(get(row, "cpu_mem_bytes")->valuedouble, -5.0);
		CU_ASSERT_EQUAL(get(row, "self_cpu_mem_bytes")->valuedouble, (double)(1LL << 50));
		CU_ASSERT_EQUAL(get(row, "device_mem_bytes")->valuedouble, 2.0);
		CU_ASSERT_EQUAL(get(row, "self_device_mem_bytes")->valuedouble, 3.0);
		row = cJSON_GetArrayItem(get(doc, "rows"), 1);
		CU_ASSERT_STRING_EQUAL(get(row, "category")->valuestring, "cpu_instant_event");
		cJSON_Delete(doc);
	}
	CU_ASSERT_PTR_NULL(cJSON_GetObjectItemCaseSensitive(row, "cpu_mem_bytes"));
	cJSON_Delete(doc);
}

static void test_json_device(void)
{
	struct how opts = { .row_limit = -1, .device_time = true };
	struct session_totals t = { 0 };
	struct session s = fake_session();
	FILE *f = fmemopen(text, sizeof(text), "w");
	const cJSON *row;
	cJSON *doc;

	CU_ASSERT_EQUAL(print_to(f, gpu_rows, 3, &opts, &s, &t), 0);
	fclose(f);
	doc = cJSON_Parse(text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(doc);
	row = cJSON_GetArrayItem(get(doc, "rows"), 0);
	CU_ASSERT_STRING_EQUAL(get(row, "category")->valuestring, "cpu_op");
	CU_ASSERT_EQUAL(get(row, "self_device_ns")->valuedouble, 300000.0);
	CU_ASSERT_EQUAL(get(row, "self_device_percent")->valuedouble, 75.0);
	CU_ASSERT_EQUAL(get(row, "device_total_ns")->valuedouble, 500000.0);
	CU_ASSERT_EQUAL(get(row, "device_avg_ns")->valuedouble, 250000.0);
	row = cJSON_GetArrayItem(get(doc, "rows"), 1);
	CU_ASSERT_STRING_EQUAL(get(row, "category")->valuestring, "kernel");
	cJSON_Delete(doc);
}

static void test_json(void)
{
	struct how opts = { .sort_by = "cpu_time_total", .row_limit = 2 };
	struct session s = fake_session();
	struct session_totals t = { .slices = 5, .ops = 4, .annotations = 1, .end_lost = 1 };
	FILE *f = fmemopen(text, sizeof(text), "w");
	const cJSON *row;
	cJSON *doc;

	s.counters[PTB_CNT_HITS] = 2000;
	s.counters[PTB_CNT_COST_PS] = 800500;
	CU_ASSERT_EQUAL(print_to(f, three, 3, &opts, &s, &t), 0);
	fclose(f);
	doc = cJSON_Parse(text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(doc);
	CU_ASSERT_EQUAL(get(doc, "schema_version")->valueint, 1);
	CU_ASSERT_EQUAL(get(doc, "row_count")->valueint, 3);
	CU_ASSERT_STRING_EQUAL(get(doc, "sort_by")->valuestring, "cpu_time_total");
	CU_ASSERT_EQUAL(cJSON_GetArraySize(get(doc, "rows")), 2);
	row = cJSON_GetArrayItem(get(doc, "rows"), 0);
	CU_ASSERT_STRING_EQUAL(get(row, "key")->valuestring, "b");
	CU_ASSERT_EQUAL(get(row, "count")->valueint, 2);
	CU_ASSERT_EQUAL(get(row, "cpu_total_ns")->valueint, 1234567890);
	CU_ASSERT_EQUAL(get(row, "self_cpu_ns")->valueint, 1500);
	CU_ASSERT_DOUBLE_EQUAL(get(row, "cpu_avg_ns")->valuedouble, 617283945.0, 0.0);
	CU_ASSERT_DOUBLE_EQUAL(get(row, "self_cpu_percent")->valuedouble, 100.0 / 3, 1e-9);
	CU_ASSERT_EQUAL(get(get(doc, "totals"), "slices")->valueint, 5);
	CU_ASSERT_TRUE(cJSON_IsFalse(get(doc, "complete")));
	CU_ASSERT_PTR_NOT_NULL(strstr(get(doc, "account")->valuestring, "1 slice whose end"));
	CU_ASSERT_DOUBLE_EQUAL(get(get(doc, "cost"), "per_hit_ns")->valuedouble, 800.5, 0.0);
	CU_ASSERT_DOUBLE_EQUAL(get(get(doc, "cost"), "estimated_total_ms")->valuedouble, 1.601, 0.0);
	CU_ASSERT_DOUBLE_EQUAL(get(get(doc, "cost"), "percent_of_window")->valuedouble, 0.16, 0.0);
	CU_ASSERT_FALSE(cJSON_HasObjectItem(row, "input_shapes"));
	CU_ASSERT_FALSE(cJSON_HasObjectItem(row, "flops"));
	cJSON_Delete(doc);
	f = fmemopen(text, sizeof(text), "w");
	CU_ASSERT_EQUAL(print_to(f, with_shapes, 2, &opts, &s, &t), 0);
	fclose(f);
	doc = cJSON_Parse(text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(doc);
	row = cJSON_GetArrayItem(get(doc, "rows"), 0);
	CU_ASSERT_STRING_EQUAL(get(row, "input_shapes")->valuestring, "[[2, 3], []]");
	CU_ASSERT_EQUAL(get(row, "flops")->valueint, 7);
	row = cJSON_GetArrayItem(get(doc, "rows"), 1);
	CU_ASSERT_STRING_EQUAL(get(row, "input_shapes")->valuestring, "[]");
	CU_ASSERT_EQUAL(get(row, "flops")->valueint, 0);
	cJSON_Delete(doc);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "layout", test_layout },
		{ "shapes and operations", test_shapes_and_flops },
		{ "order", test_order },
		{ "row limit", test_row_limit },
		{ "sort keys", test_sort_keys },
		{ "zeroes", test_zeroes },
		{ "name width", test_name_width },
		{ "hostile names", test_hostile_names },
		{ "columns of memory", test_memory },
		{ "columns of GPU time", test_device },
		{ "order by memory", test_memory_order },
		{ "full stream", test_full_stream },
		{ "JSON", test_json },
		{ "largest size", test_json_limit },
		{ "JSON with memory", test_json_memory },
		{ "JSON with GPU time", test_json_device },
		CU_TEST_INFO_NULL,
	};

	return run_suite("table", tests);
}
