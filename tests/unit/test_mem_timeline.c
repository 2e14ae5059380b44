/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* export/mem_timeline over a fake session: the three formats, devices, what it refuses. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "export/output.h"
#include "fake_session.h"
#include "suite.h"

#define T0 5000000000ULL
#define UNIX_US ((double)(1790900000000000000LL / 1000) + (double)(T0 / 1000))

static char dir[] = "/tmp/test_mem_timeline.XXXXXX";
static char path[256], raw[1 << 20];
static struct session s;
static struct session_totals totals;
static struct output_args args;
static void *mt;
static struct session_sink sink;

static int try_open(const struct output *format, const char *name, const char *device)
{
	args = (struct output_args){ .output = format, .s = &s, .path = path, .device = device };
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	totals = (struct session_totals){ 0 };
	return format->open(&args, &mt);
}

static void start(const struct output *format, const char *name, const char *device)
{
	s = fake_session();
	s.info.has_memory = true;
	CU_ASSERT_EQUAL_FATAL(try_open(format, name, device), 0);
	sink = timeline_output.sink(mt);
}

static void memory(uint64_t us, uint64_t addr, int64_t bytes, int device_type, const char *op)
{
	struct memory_block block = { .addr = addr, .bytes = (uint64_t)bytes, .op = op, .annotation = "" };
	struct memory_event ev = { .ts_ns = T0 + us * 1000,
				   .addr = addr,
				   .bytes = bytes,
				   .what = bytes > 0 ? MEMORY_ALLOC : MEMORY_FREE,
				   .device_type = device_type,
				   .device_index = device_type ? 0 : -1,
				   .at = { .tgid = 100, .tid = 100, .op = op, .annotation = "" },
				   .block = bytes > 0 ? &block : NULL };

	if (device_type) {
		ev.allocated = 4096;
		ev.reserved = 1 << 20;
	}
	CU_ASSERT_EQUAL_FATAL(sink.memory(sink.arg, &ev), 0);
}

static const char *finish(void)
{
	gzFile gz;
	int n;

	CU_ASSERT_EQUAL_FATAL(timeline_output.finish(mt, &args, &totals), 0);
	timeline_output.free(mt);
	gz = gzopen(path, "rb");
	CU_ASSERT_PTR_NOT_NULL_FATAL(gz);
	n = gzread(gz, raw, sizeof(raw) - 1);
	CU_ASSERT_FATAL(n > 0);
	raw[n] = '\0';
	gzclose(gz);
	return raw;
}

/* Two blocks; the second lives within the first. */
static void some_memory(void)
{
	memory(10, 0x1000, 100, 0, "aten::empty");
	memory(20, 0x2000, 50, 0, "aten::mul");
	memory(20, 0x3000, 8, 0, "aten::mul"); /* in the same microsecond */
	memory(30, 0x2000, -50, 0, "");
}

static double at(const cJSON *list, int i)
{
	return cJSON_GetArrayItem(list, i)->valuedouble;
}

static void test_json(void)
{
	cJSON *doc, *times, *sizes;

	start(&timeline_output, "t.json", NULL);
	some_memory();
	doc = cJSON_Parse(finish());
	CU_ASSERT_EQUAL_FATAL(cJSON_GetArraySize(doc), 2);
	times = cJSON_GetArrayItem(doc, 0);
	sizes = cJSON_GetArrayItem(doc, 1);
	CU_ASSERT_EQUAL_FATAL(cJSON_GetArraySize(times), 3);
	CU_ASSERT_EQUAL_FATAL(cJSON_GetArraySize(sizes), 3);
	CU_ASSERT_DOUBLE_EQUAL(at(times, 0), UNIX_US + 10, 0.1);
	CU_ASSERT_DOUBLE_EQUAL(at(times, 1), UNIX_US + 20, 0.1);
	CU_ASSERT_DOUBLE_EQUAL(at(times, 2), UNIX_US + 30, 0.1);
	for (int i = 0; i < 3; i++)
		CU_ASSERT_EQUAL_FATAL(cJSON_GetArraySize(cJSON_GetArrayItem(sizes, i)), 9);
	/* without tensors of operators all is unknown, the last */
	CU_ASSERT_EQUAL(at(cJSON_GetArrayItem(sizes, 0), 8), 100);
	CU_ASSERT_EQUAL(at(cJSON_GetArrayItem(sizes, 1), 8), 158);
	CU_ASSERT_EQUAL(at(cJSON_GetArrayItem(sizes, 2), 8), 108);
	CU_ASSERT_EQUAL(at(cJSON_GetArrayItem(sizes, 1), 0), 0);
	cJSON_Delete(doc);
}

static void row(const cJSON *doc, int i, double t, int action, int bytes)
{
	const cJSON *r = cJSON_GetArrayItem(doc, i);

	CU_ASSERT_EQUAL_FATAL(cJSON_GetArraySize(r), 4);
	CU_ASSERT_DOUBLE_EQUAL(at(r, 0), t, 1000);
	CU_ASSERT_EQUAL(at(r, 1), action);
	CU_ASSERT_EQUAL(at(r, 2), bytes);
	CU_ASSERT_EQUAL(at(r, 3), 7);
}

static void test_raw(void)
{
	cJSON *doc;

	start(&timeline_raw_output, "t.raw.json.gz", "cpu");
	some_memory();
	memory(40, 0x4000, -16, 0, ""); /* from before the window, by an allocator that reports its size */
	memory(50, 0x5000, INT64_MAX, 0, ""); /* no sizes at all */
	memory(60, 0x6000, INT64_MIN, 0, "");
	doc = cJSON_Parse(finish());
	CU_ASSERT_EQUAL_FATAL(cJSON_GetArraySize(doc), 6);
	row(doc, 0, -1, 1, 16);
	row(doc, 1, (UNIX_US + 10) * 1000, 2, 100);
	row(doc, 4, (UNIX_US + 30) * 1000, 4, -50);
	row(doc, 5, (UNIX_US + 40) * 1000, 4, -16);
	cJSON_Delete(doc);
}

/* The first GPU if it has blocks, else the CPU; another one on request. */
static void test_device(void)
{
	cJSON *doc;

	start(&timeline_raw_output, "d.json", NULL);
	memory(10, 0x1000, 100, 0, "");
	memory(20, 0x9000, 512, 1, "");
	doc = cJSON_Parse(finish());
	CU_ASSERT_EQUAL_FATAL(cJSON_GetArraySize(doc), 1);
	row(doc, 0, (UNIX_US + 20) * 1000, 2, 512);
	cJSON_Delete(doc);

	start(&timeline_raw_output, "d.json", "cpu");
	memory(10, 0x1000, 100, 0, "");
	memory(20, 0x9000, 512, 1, "");
	doc = cJSON_Parse(finish());
	CU_ASSERT_EQUAL_FATAL(cJSON_GetArraySize(doc), 1);
	row(doc, 0, (UNIX_US + 10) * 1000, 2, 100);
	cJSON_Delete(doc);

	start(&timeline_raw_output, "d.json", "cuda:1");
	memory(20, 0x9000, 512, 1, "");
	CU_ASSERT_EQUAL(timeline_output.finish(mt, &args, &totals), -ENODATA);
	timeline_output.free(mt);
}

/* Another process's memory is not in it. */
static void test_process(void)
{
	struct memory_event ev = { .ts_ns = T0,
				   .addr = 1,
				   .bytes = 1,
				   .what = MEMORY_ALLOC,
				   .device_index = -1,
				   .at = { .tgid = 200, .tid = 200, .op = "", .annotation = "" } };
	cJSON *doc;

	start(&timeline_raw_output, "p.json", NULL);
	CU_ASSERT_EQUAL(sink.memory(sink.arg, &ev), 0);
	memory(10, 0x1000, 100, 0, "");
	doc = cJSON_Parse(finish());
	CU_ASSERT_EQUAL(cJSON_GetArraySize(doc), 1);
	cJSON_Delete(doc);
}

/* One page: nothing from elsewhere, the names of the capture are no markup, the peak and its owners. */
static void test_html(void)
{
	const char *page, *owners;

	start(&timeline_html_output, "t.html", NULL);
	memory(10, 0x1000, 3 << 20, 1, "aten::<script>alert(1)</script>&\"'\x01\xff\xc3\xa9");
	memory(20, 0x2000, 1 << 20, 1, "aten::mul");
	memory(30, 0x2000, -(1 << 20), 1, "");
	page = finish();
	CU_ASSERT_PTR_NOT_NULL(strstr(page, "<title>Memory Timeline HTML</title>"));
	CU_ASSERT_PTR_NOT_NULL(strstr(page, "<h2>Memory on cuda:0</h2>"));
	CU_ASSERT_PTR_NOT_NULL(strstr(page, "Max memory allocated: 4.00 KiB")); /* the allocator's value */
	CU_ASSERT_PTR_NOT_NULL(strstr(page, "Max memory reserved: 1.00 MiB"));
	CU_ASSERT_PTR_NOT_NULL(strstr(page, "peak: 4.00 MiB"));
	CU_ASSERT_PTR_NOT_NULL(strstr(page, "Memory (MiB)"));
	CU_ASSERT_PTR_NOT_NULL(strstr(page, "Time (ms)"));
	CU_ASSERT_PTR_NULL(strstr(page, "http:"));
	CU_ASSERT_PTR_NULL(strstr(page, "https:"));
	CU_ASSERT_PTR_NULL(strstr(page, "alert(1)</script>"));
	owners = strstr(page, "<table id='owners'>");
	CU_ASSERT_PTR_NOT_NULL_FATAL(owners);
	CU_ASSERT_PTR_NOT_NULL(strstr(owners, "aten::&#60;script&#62;alert(1)&#60;/script&#62;&#38;&#34;&#39;&#65533;"
					      "&#255;\xc3\xa9</td><td>aten::&#60;script"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(owners,
		       "<td></td><td>Unknown</td><td class='n'>3.00 MiB</td><td class='n'>75.0 %"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(owners,
		       "<tr><td>aten::mul</td><td>aten::mul</td><td></td><td>Unknown</td><td class='n'>1.00 MiB"));
	CU_ASSERT_PTR_NOT_NULL(strstr(page, "</html>"));
}

/* Numbers beside an axis ("class='x'" or 'y'): 0, then one round number and its multiples. Returns how many. */
static int ticks(const char *page, const char *axis)
{
	double first = 0, value, unit;
	const char *at = page;
	int n = 0, end;

	while ((at = strstr(at, axis))) {
		at = strchr(at, '>') + 1;
		if (sscanf(at, "%lf</text>%n", &value, &end) != 1 || at[end - 1] != '>')
			continue;
		first = n == 1 ? value : first;
		CU_ASSERT_DOUBLE_EQUAL(value, n * first, 1e-9 * (1 + value));
		n++;
	}
	for (unit = 1e-9; unit * 9.99 < first; unit *= 10)
		;
	CU_ASSERT_TRUE(n < 2 || fabs(first / unit - 1) < 1e-6 || fabs(first / unit - 2) < 1e-6 ||
		       fabs(first / unit - 5) < 1e-6);
	return n;
}

/* For any size and time the numbers at the axes are round. */
static void test_html_ticks(void)
{
	int64_t bytes;
	uint64_t us;
	int n;

	for (bytes = 1, us = 7; bytes < 1LL << 41; bytes = bytes * 3 + 1, us = us * 2 + us / 7) {
		start(&timeline_html_output, "t.html", NULL);
		memory(1, 0x1000, bytes, 0, "aten::empty");
		memory(1 + us, 0x2000, bytes / 3 + 1, 0, "aten::empty");
		finish();
		n = ticks(raw, "class='x'");
		CU_ASSERT_TRUE(n >= 4 && n <= 9);
		n = ticks(raw, "class='y'");
		CU_ASSERT_TRUE(n >= 4 && n <= 9);
	}
}

/* One moment only: there is no span of time to divide by. */
static void test_html_moment(void)
{
	start(&timeline_html_output, "m.html", NULL);
	memory(10, 0x1000, 8, 0, "aten::empty");
	finish();
	CU_ASSERT_PTR_NOT_NULL(strstr(raw, "peak: 8 B"));
	CU_ASSERT_PTR_NULL(strstr(raw, "nan"));
	CU_ASSERT_PTR_NULL(strstr(raw, "inf"));
}

static void test_refusals(void)
{
	s = fake_session();
	s.info.has_memory = true;
	CU_ASSERT_EQUAL(try_open(&timeline_output, "no.json", "disk"), -EINVAL);
	CU_ASSERT_EQUAL(try_open(&timeline_output, "no.json", "cuda:x"), -EINVAL);
	CU_ASSERT_EQUAL(try_open(&timeline_output, "no.json", "cuda:"), -EINVAL);
	CU_ASSERT_EQUAL(try_open(&timeline_output, "no/dir.json", NULL), -ENOENT);
	start(&timeline_output, "empty.json", NULL);
	CU_ASSERT_EQUAL(timeline_output.finish(mt, &args, &totals), -ENODATA);
	timeline_output.free(mt);
	CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0); /* no file is left that means nothing */
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "json", test_json },
		{ "raw", test_raw },
		{ "device", test_device },
		{ "process", test_process },
		{ "html", test_html },
		{ "html of a moment", test_html_moment },
		{ "round numbers at the axes", test_html_ticks },
		{ "refusals", test_refusals },
		CU_TEST_INFO_NULL,
	};
	char cmd[300];
	int ret;

	if (!mkdtemp(dir))
		return 1;
	ret = run_suite("mem_timeline", tests);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd) ? 1 : ret;
}
