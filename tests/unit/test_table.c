/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The table of operators where it cannot be written, or only in part. Layout, numbers and order are
 * in tests/cases/report; byte equality with torch itself is tests/torch/same_table.py.
 */
#include <cjson/cJSON.h>
#include <errno.h>

#include "report/report.h"
#include "fake_session.h"
#include "json_keys.h"
#include "suite.h"

/* As JSON, if there is a session. */
static int print_to(FILE *f, const struct ka_row *rows, uint32_t cnt, const struct session *s,
		    struct session_totals *t)
{
	const struct output_args args = { .s = s, .out = f, .json = s, .row_limit = -1 };
	const struct table_opts opts = { 0 };

	return table__print(rows, cnt, &opts, &args, t);
}

static const struct ka_row three[] = {
	{ .key = "a", .count = 2, .cpu_total_ns = 3000, .self_cpu_ns = 1000 },
	{ .key = "c", .count = 1, .cpu_total_ns = 2000, .self_cpu_ns = 2000 },
	{ .key = "b", .count = 2, .cpu_total_ns = 1234567890, .self_cpu_ns = 1500 },
};

static void test_full_stream(void)
{
	struct session s = fake_session();
	struct session_totals t = { 0 };
	FILE *f = fopen("/dev/full", "w");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(print_to(f, three, 3, NULL, NULL), -ENOSPC);
	fclose(f);
	f = fopen("/dev/full", "w");
	CU_ASSERT_EQUAL(print_to(f, three, 3, &s, &t), -ENOSPC);
	fclose(f);
}

/* A row for which the document has no room is counted. */
static void test_json_limit(void)
{
	struct session s = fake_session();
	struct session_totals t = { 0 };
	cJSON *doc;
	char text[16384];
	FILE *f = fmemopen(text, sizeof(text), "w");

	s.info.output_max = 1;
	CU_ASSERT_EQUAL(print_to(f, three, 3, &s, &t), 0);
	fclose(f);
	doc = cJSON_Parse(text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(doc);
	CU_ASSERT_EQUAL(cJSON_GetArraySize(get(doc, "rows")), 0);
	CU_ASSERT_EQUAL(get(doc, "row_count")->valueint, 3);
	CU_ASSERT_EQUAL(get(doc, "not_written")->valueint, (int)t.not_written);
	CU_ASSERT_EQUAL(t.not_written, 3 + s.info.process_cnt);
	cJSON_Delete(doc);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "full stream", test_full_stream },
		{ "largest size", test_json_limit },
		CU_TEST_INFO_NULL,
	};

	return run_suite("table", tests);
}
