/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* metrics: sums over windows, which names operators get, and the text, line by line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample/metrics.h"
#include "suite.h"

static struct metrics m;
static struct metrics_window w;

static void clear_window(void)
{
	free(w.ops);
	memset(&w, 0, sizeof(w));
}

static void begin(void)
{
	clear_window();
	memset(&m, 0, sizeof(m));
	m.version = "1.2.3";
}

static char *render(bool openmetrics)
{
	size_t len = 0;
	char *text = metrics__text(&m, openmetrics, &len);

	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	CU_ASSERT_EQUAL(strlen(text), len);
	return text;
}

static bool has_line(const char *text, const char *line)
{
	size_t n = strlen(line);

	for (const char *at = text; (at = strstr(at, line)); at += n)
		if ((at == text || at[-1] == '\n') && at[n] == '\n')
			return true;
	fprintf(stderr, "no line '%s' in:\n%s", line, text);
	return false;
}

#define HAS(line) CU_ASSERT(has_line(text, line))

/* What is there before the first window. */
TEST("before the first window")
{
	static const char expected[] =
		"# TYPE ptbpf_build info\n"
		"# HELP ptbpf_build Version of ptbpf.\n"
		"ptbpf_build_info{version=\"1.2.3\"} 1\n"
		"# TYPE process_start_time_seconds gauge\n"
		"# UNIT process_start_time_seconds seconds\n"
		"# HELP process_start_time_seconds Unix time at which ptbpf sample began.\n"
		"process_start_time_seconds 1790000000.000000005\n"
		"# TYPE ptbpf_cpu_seconds counter\n"
		"# UNIT ptbpf_cpu_seconds seconds\n"
		"# HELP ptbpf_cpu_seconds Processor time of ptbpf itself, recording and exporting included.\n"
		"ptbpf_cpu_seconds_total 0.070000000\n"
		"# TYPE ptbpf_windows counter\n"
		"# HELP ptbpf_windows Windows by their result.\n"
		"ptbpf_windows_total{result=\"complete\"} 0\n"
		"ptbpf_windows_total{result=\"incomplete\"} 0\n"
		"ptbpf_windows_total{result=\"skipped\"} 2\n"
		"ptbpf_windows_total{result=\"failed\"} 0\n"
		"# TYPE ptbpf_window_seconds counter\n";
	char *text;

	begin();
	m.start_unix_ns = 1790000000000000005;
	m.cpu_ns = 70000000;
	m.windows[METRICS_SKIPPED] = 2;
	text = render(true);
	CU_ASSERT_NSTRING_EQUAL(text, expected, strlen(expected));
	CU_ASSERT_STRING_EQUAL(text + strlen(text) - 6, "# EOF\n");
	CU_ASSERT_PTR_NULL(strstr(text, "ptbpf_gpu"));
	CU_ASSERT_PTR_NULL(strstr(text, "faults"));
	CU_ASSERT_PTR_NULL(strstr(text, "last_window"));
	HAS("ptbpf_losses_total{reason=\"ring_full\"} 0");
	CU_ASSERT_PTR_NULL(strstr(text, "_ns\""));
	free(text);
}

/* The same in Prometheus's own format: families are named as their samples are. */
TEST("Prometheus's format")
{
	char *text;

	begin();
	text = render(false);
	HAS("# HELP ptbpf_build_info Version of ptbpf.");
	HAS("# TYPE ptbpf_build_info gauge");
	HAS("# TYPE ptbpf_windows_total counter");
	HAS("# TYPE ptbpf_step_duration_seconds histogram");
	CU_ASSERT_PTR_NULL(strstr(text, "# UNIT"));
	CU_ASSERT_PTR_NULL(strstr(text, "# EOF"));
	free(text);
}

TEST("histogram of steps")
{
	char *text;

	begin();
	metrics_window__step(&w, 1000000); /* a bound is in its bucket */
	metrics_window__step(&w, 1000001);
	metrics_window__step(&w, 61000000000);
	metrics__add(&m, &w);
	metrics__add(&m, &w);
	text = render(true);
	HAS("ptbpf_step_duration_seconds_bucket{le=\"0.001\"} 2");
	HAS("ptbpf_step_duration_seconds_bucket{le=\"0.0025\"} 4");
	HAS("ptbpf_step_duration_seconds_bucket{le=\"60.0\"} 4");
	HAS("ptbpf_step_duration_seconds_bucket{le=\"+Inf\"} 6");
	HAS("ptbpf_step_duration_seconds_count 6");
	HAS("ptbpf_step_duration_seconds_sum 122.004000002");
	free(text);
}

TEST("values")
{
	char *text;

	begin();
	w.window_ns = 2000000000;
	w.operators = 7;
	w.has_cost = w.has_memory = w.has_faults = w.has_device_memory = true;
	w.cost_ns = 10000000;
	w.rss[PTB_RSS_ANON] = 100;
	w.rss[PTB_RSS_FILE] = 20;
	w.rss[PTB_RSS_SWAP] = 1;
	w.alloc_bytes[0] = 64;
	w.device_bytes = 5;
	w.device_reserved_bytes = 6;
	w.minor_faults = 3;
	w.gpu_cnt = 2;
	w.gpus[0] = (struct metrics_gpu){ .id = 1, .busy_ns = 500000000 };
	w.gpus[1] = (struct metrics_gpu){ .id = 4 };
	w.losses[PTB_CNT_RING_FULL] = 9;
	m.begin_unix_ns = 1;
	metrics__add(&m, &w);
	w.gpus[0].id = 4;
	w.gpu_cnt = 1;
	metrics__add(&m, &w);
	text = render(true);
	HAS("ptbpf_window_seconds_total 4.000000000");
	HAS("ptbpf_operators_total 14");
	HAS("ptbpf_overhead_seconds_total 0.020000000");
	HAS("ptbpf_last_window_overhead_ratio 0.005");
	HAS("ptbpf_resident_memory_bytes{kind=\"anon\"} 100");
	HAS("ptbpf_resident_memory_bytes{kind=\"file\"} 20");
	HAS("ptbpf_allocated_bytes_total{device=\"cpu\"} 128");
	HAS("ptbpf_allocated_bytes_total{device=\"accelerator\"} 0");
	HAS("ptbpf_accelerator_allocated_memory_bytes 5");
	HAS("ptbpf_accelerator_reserved_memory_bytes 6");
	HAS("ptbpf_page_faults_total{kind=\"minor\"} 6");
	HAS("ptbpf_gpu_busy_seconds_total{gpu=\"1\"} 0.500000000");
	HAS("ptbpf_gpu_busy_seconds_total{gpu=\"4\"} 0.500000000");
	HAS("ptbpf_last_window_gpu_busy_ratio{gpu=\"4\"} 0.25");
	HAS("ptbpf_losses_total{reason=\"ring_full\"} 18");
	CU_ASSERT_PTR_NULL(strstr(text, "ratio{gpu=\"1\"}"));
	free(text);
}

/* A counter never goes back. */
TEST("bytes")
{
	begin();
	w.alloc_bytes[0] = metrics__sum(INT64_MAX, INT64_MAX);
	w.alloc_bytes[1] = metrics__sum(w.alloc_bytes[0], INT64_MAX);
	CU_ASSERT(w.alloc_bytes[0] == UINT64_MAX - 1 && w.alloc_bytes[1] == UINT64_MAX);
	metrics__add(&m, &w);
	metrics__add(&m, &w);
	CU_ASSERT(m.sum.alloc_bytes[0] == UINT64_MAX && m.sum.alloc_bytes[1] == UINT64_MAX);
}

/* Operators PREFIX::first... of one user, the first ones with most time. */
static void put_ops(const char *prefix, uint32_t uid, unsigned int first, unsigned int cnt)
{
	char name[32];

	for (unsigned int i = first; i < first + cnt; i++) {
		snprintf(name, sizeof(name), "%s::%u", prefix, i);
		metrics_window__op(&w, name, uid, uid * 10000 - i);
	}
}

static void add_window(unsigned int first, unsigned int cnt)
{
	clear_window();
	put_ops("op", 1, first, cnt);
	metrics__add(&m, &w);
}

static unsigned int names_of(const char *prefix)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < m.op_cnt; i++)
		n += !strncmp(m.ops[i].op.name, prefix, strlen(prefix));
	return n;
}

static uint64_t all_time(void)
{
	uint64_t sum = m.sum.rest_ns;

	for (unsigned int i = 0; i < m.op_cnt; i++)
		sum += m.ops[i].op.self_ns;
	return sum;
}

/* One user's process has had a hundred names with more time in many windows: another's come all the same. */
TEST("one user's names leave room for another's")
{
	uint64_t sum;

	begin();
	for (unsigned int k = 0; k < 20; k++) {
		clear_window();
		put_ops("loud", 2, 0, 100);
		metrics__add(&m, &w);
	}
	CU_ASSERT_EQUAL(names_of("loud::"), METRICS_OPS);
	for (unsigned int k = 0; k < 20; k++) {
		clear_window();
		put_ops("loud", 2, 100 * k, 100);
		put_ops("quiet", 1, 0, 20);
		sum = all_time();
		metrics__add(&m, &w);
		CU_ASSERT(all_time() > sum);
	}
	CU_ASSERT_EQUAL(names_of("quiet::"), 20);
	CU_ASSERT_EQUAL(names_of("loud::"), METRICS_OPS - 20);
	clear_window();
	put_ops("quiet", 2, 0, 20); /* a name that several use is nobody's */
	metrics__add(&m, &w);
	for (unsigned int i = 0; i < m.op_cnt; i++)
		CU_ASSERT(strncmp(m.ops[i].op.name, "quiet", 5) != 0 ||
			  m.ops[i].op.uid == METRICS_NO_USER);
}

/* What has had no time for longest goes, and its time is among the others. */
TEST("names without time go")
{
	begin();
	for (unsigned int i = 0; i < METRICS_OPS; i += 10)
		add_window(i, 10);
	add_window(0, 1);
	add_window(100, 9);
	CU_ASSERT_EQUAL(m.op_cnt, METRICS_OPS);
	CU_ASSERT_STRING_EQUAL(m.ops[0].op.name, "op::0");
	CU_ASSERT_EQUAL(m.ops[0].op.self_ns, 2 * 10000);
	CU_ASSERT_EQUAL(names_of("op::10"), 1 + 9); /* and op::10 itself */
	for (unsigned int i = 1; i < 10; i++)
		CU_ASSERT_EQUAL(m.ops[i].op.self_ns, 10000 - 99 - i);
	CU_ASSERT_EQUAL(m.sum.rest_ns, 9 * 10000 - 45);
}

/* No time of an operator is lost, those with most time get the names, and one that has time in a
 * window keeps its name in it. */
TEST("names of operators")
{
	uint64_t expected = 0;

	begin();
	for (unsigned int i = 0; i < 20; i++)
		add_window(0, 200);
	CU_ASSERT_EQUAL(m.op_cnt, METRICS_OPS);
	for (unsigned int i = 0; i < METRICS_OPS; i++)
		CU_ASSERT_EQUAL(m.ops[i].op.self_ns, 20 * (uint64_t)(10000 - i));
	for (unsigned int i = 0; i < 200; i++)
		expected += 20 * (10000 - i);
	CU_ASSERT_EQUAL(all_time(), expected);
}

TEST("texts of others")
{
	char name[300], *text;

	begin();
	metrics_window__op(&w, "a\"b\\c\nd\x01\xff", 1, 5);
	metrics_window__op(&w, METRICS_OTHER, 1, 7);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	metrics_window__op(&w, name, 1, 1);
	name[sizeof(name) - 2] = 'y';
	metrics_window__op(&w, name, 1, 1);
	metrics__add(&m, &w);
	text = render(true);
	HAS("ptbpf_operator_self_seconds_total{operator=\"a\\\"b\\\\c?d??\"} 0.000000005");
	HAS("ptbpf_operator_self_seconds_total{operator=\"other\"} 0.000000007");
	name[METRICS_OP_NAME - 1] = '\0';
	CU_ASSERT_EQUAL(m.op_cnt, 2);
	CU_ASSERT_STRING_EQUAL(m.ops[1].op.name, name);
	CU_ASSERT_EQUAL(m.ops[1].op.self_ns, 2);
	free(text);
}

SUITE("metrics")
