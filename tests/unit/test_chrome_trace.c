/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* export/chrome_trace over a fake session: the text is parsed back and compared value by value. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "export/output.h"
#include "fake_session.h"
#include "json_keys.h"
#include "suite.h"

#define QUARTER_NS 7889238000000000ULL

static char dir[] = "/tmp/test_chrome_trace.XXXXXX";
static char path[256];
static char raw[1 << 20];

static struct output_args out;
static void *ct;
static struct session_sink sink;
static struct session_totals totals;

static void start_at(const char *name, struct session *s)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	out = (struct output_args){ .s = s, .path = path };
	totals = (struct session_totals){ 0 };
	CU_ASSERT_EQUAL_FATAL(chrome_output.open(&out, &ct), 0);
	sink = chrome_output.sink(ct);
}

static void start(struct session *s)
{
	start_at("t.json", s);
}

static void put(const struct slice *sl)
{
	CU_ASSERT_EQUAL_FATAL(sink.slice(sink.arg, sl), 0);
}

static cJSON *load(void)
{
	return load_json(path, raw, sizeof(raw));
}

static cJSON *finish(void)
{
	CU_ASSERT_EQUAL_FATAL(chrome_output.finish(ct, &out, &totals), 0);
	chrome_output.free(ct);
	return load();
}

/* nr-th event of a phase (and of a name, if given) */
static const cJSON *event(const cJSON *doc, const char *ph, const char *name, int nr)
{
	const cJSON *e;

	cJSON_ArrayForEach(e, get(doc, "traceEvents"))
	{
		if (strcmp(str(e, "ph"), ph) || (name && strcmp(str(e, "name"), name)))
			continue;
		if (!nr--)
			return e;
	}
	return NULL;
}

static void test_slice(void)
{
	struct session s = fake_session();
	struct slice sl = fake_slice(7, "aten::add", 5000001001ULL, 5000003501ULL);
	const cJSON *e, *args;
	cJSON *doc;

	start(&s);
	put(&sl);
	doc = finish();
	e = event(doc, "X", "aten::add", 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(e);
	CU_ASSERT_STRING_EQUAL(keys(e), "ph,cat,name,pid,tid,ts,dur,args");
	CU_ASSERT_STRING_EQUAL(str(e, "cat"), "cpu_op");
	CU_ASSERT_EQUAL(num(e, "pid"), 100);
	CU_ASSERT_EQUAL(num(e, "tid"), 100);
	args = get(e, "args");
	CU_ASSERT_STRING_EQUAL(keys(args), "External id,Record function id,Ev Idx");
	CU_ASSERT_EQUAL(num(args, "External id"), 7);
	CU_ASSERT_EQUAL(num(args, "Record function id"), 7);
	CU_ASSERT_EQUAL(num(args, "Ev Idx"), 6);
	/* base: the quarter before 1790900005 s; 42979000001 us later the slice */
	CU_ASSERT_PTR_NOT_NULL(strstr(raw, "\"baseTimeNanoseconds\": 1790857026000000000,"));
	CU_ASSERT_PTR_NOT_NULL(strstr(raw, "\"ts\": 42979000001.001, \"dur\": 2.500, \"args\": {"));
	cJSON_Delete(doc);
}

static void test_sequence(void)
{
	struct session s = fake_session();
	struct slice fwd = fake_slice(1, "aten::mm", 5000001000ULL, 5000002000ULL);
	struct slice bwd = fake_slice(2, "MmBackward0", 5000003000ULL, 5000004000ULL);
	struct fwdbwd fl = { .id = 1,
			     .fwd_tgid = 100,
			     .fwd_tid = 100,
			     .bwd_tid = 101,
			     .fwd_begin_ns = 5000001000ULL,
			     .bwd_begin_ns = 5000003000ULL };
	const cJSON *e;
	cJSON *doc;

	fwd.seq = 0;
	bwd.tid = 101;
	bwd.seq = 0;
	bwd.fwd_thread = 3;
	start(&s);
	put(&fwd);
	put(&bwd);
	CU_ASSERT_EQUAL(sink.flow(sink.arg, &fl), 0);
	doc = finish();
	e = get(event(doc, "X", "aten::mm", 0), "args");
	CU_ASSERT_STRING_EQUAL(keys(e),
			       "External id,Record function id,Sequence number,Fwd thread id,Ev Idx");
	CU_ASSERT_EQUAL(num(e, "Sequence number"), 0);
	CU_ASSERT_EQUAL(num(e, "Fwd thread id"), 0);
	CU_ASSERT_EQUAL(num(get(event(doc, "X", "MmBackward0", 0), "args"), "Fwd thread id"), 3);
	e = event(doc, "s", NULL, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(e);
	CU_ASSERT_STRING_EQUAL(keys(e), "ph,id,pid,tid,ts,cat,name");
	CU_ASSERT_STRING_EQUAL(str(e, "cat"), "fwdbwd");
	CU_ASSERT_STRING_EQUAL(str(e, "name"), "fwdbwd");
	CU_ASSERT_EQUAL(num(e, "tid"), 100);
	CU_ASSERT_EQUAL(num(e, "ts"), num(event(doc, "X", "aten::mm", 0), "ts"));
	e = event(doc, "f", NULL, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(e);
	CU_ASSERT_STRING_EQUAL(keys(e), "ph,id,pid,tid,ts,cat,name,bp");
	CU_ASSERT_STRING_EQUAL(str(e, "bp"), "e");
	CU_ASSERT_EQUAL(num(e, "tid"), 101);
	CU_ASSERT_EQUAL(num(e, "id"), 1);
	CU_ASSERT_EQUAL(num(e, "ts"), num(event(doc, "X", "MmBackward0", 0), "ts"));
	cJSON_Delete(doc);
}

static void test_marks(void)
{
	static const struct {
		uint32_t flag;
		const char *key;
		bool value;
	} rows[] = {
		{ SLICE_OPEN_AT_BEGIN, "ptbpf.open_at_attach", true },
		{ SLICE_UNFINISHED, "finished", false },
		{ SLICE_UNWOUND, "ptbpf.unwound", true },
		{ SLICE_END_LOST, "ptbpf.end_lost", true },
		{ SLICE_END_INFERRED, "ptbpf.end_inferred", true },
		{ SLICE_DERIVED, "ptbpf.derived", true },
		{ SLICE_NAME_CUT, "ptbpf.name_cut", true },
		{ SLICE_THREAD_EXIT, "ptbpf.thread_exit", true },
		{ SLICE_OTHER_THREAD_END, "ptbpf.other_thread_end", true },
		{ SLICE_TRUNCATED, "ptbpf.truncated", true },
	};
	const size_t n = sizeof(rows) / sizeof(rows[0]);
	struct session s = fake_session();
	uint32_t all = 0;
	cJSON *doc;

	start(&s);
	for (size_t i = 0; i <= n; i++) {
		struct slice sl =
			fake_slice(i + 1, "op", 5000000000ULL + i * 10, 5000000005ULL + i * 10);

		sl.cat = i & 1 ? SLICE_USER_ANNOTATION : SLICE_CPU_OP;
		sl.flags = i < n ? rows[i].flag : all;
		all |= sl.flags;
		put(&sl);
	}
	doc = finish();
	for (size_t i = 0; i < n; i++) {
		const cJSON *e = event(doc, "X", "op", (int)i), *args = get(e, "args");

		CU_ASSERT_STRING_EQUAL(str(e, "cat"), i & 1 ? "user_annotation" : "cpu_op");
		CU_ASSERT_EQUAL(cJSON_GetArraySize(args), 4);
		CU_ASSERT_EQUAL(cJSON_IsTrue(get(args, rows[i].key)), rows[i].value);
		CU_ASSERT_TRUE(cJSON_IsBool(get(args, rows[i].key)));
	}
	CU_ASSERT_EQUAL(cJSON_GetArraySize(get(event(doc, "X", "op", (int)n), "args")), 3 + (int)n);
	cJSON_Delete(doc);
}

static void test_document(void)
{
	struct session s = fake_session();
	const cJSON *e, *list;
	const char *id;
	cJSON *doc;

	start(&s);
	CU_ASSERT_EQUAL(sink.thread(sink.arg, 100, 100), 0);
	CU_ASSERT_EQUAL(sink.thread(sink.arg, 100, 123), 0);
	doc = finish();
	CU_ASSERT_STRING_EQUAL(keys(doc), "schemaVersion,deviceProperties,trace_id,host_name,"
					  "distributedInfo,ptbpf,displayTimeUnit,baseTimeNanoseconds,"
					  "traceEvents,ptbpf_totals,traceName");
	CU_ASSERT_EQUAL(num(doc, "schemaVersion"), 1);
	id = str(doc, "trace_id");
	CU_ASSERT_EQUAL(strlen(id), 32);
	CU_ASSERT_EQUAL(strspn(id, "0123456789ABCDEF"), 32);
	CU_ASSERT_STRING_EQUAL(str(doc, "host_name"), "box");
	CU_ASSERT_STRING_EQUAL(str(doc, "displayTimeUnit"), "ms");
	CU_ASSERT_STRING_EQUAL(str(doc, "traceName"), path);
	CU_ASSERT_PTR_NOT_NULL(strstr(raw, "\n\"distributedInfo\": {\"backend\": \"\", \"rank\": 0, "));
	e = event(doc, "M", "process_name", 0);
	CU_ASSERT_STRING_EQUAL(keys(e), "ph,name,ts,pid,tid,args");
	CU_ASSERT_STRING_EQUAL(str(get(e, "args"), "name"), "python");
	CU_ASSERT_EQUAL(num(e, "tid"), 0);
	CU_ASSERT(num(e, "ts") > 0);
	CU_ASSERT_STRING_EQUAL(str(get(event(doc, "M", "process_labels", 0), "args"), "labels"), "CPU");
	CU_ASSERT_EQUAL(num(get(event(doc, "M", "process_sort_index", 0), "args"), "sort_index"), 100);
	e = event(doc, "M", "thread_name", 1);
	CU_ASSERT_EQUAL(num(e, "tid"), 123);
	CU_ASSERT_STRING_EQUAL(str(get(e, "args"), "name"), "thread 123 (python)");
	CU_ASSERT_EQUAL(num(get(event(doc, "M", "thread_sort_index", 1), "args"), "sort_index"), 123);
	e = event(doc, "X", "PyTorch Profiler (0)", 0);
	CU_ASSERT_STRING_EQUAL(str(e, "cat"), "Trace");
	CU_ASSERT_STRING_EQUAL(str(e, "pid"), "Spans");
	CU_ASSERT_STRING_EQUAL(str(e, "tid"), "PyTorch Profiler");
	CU_ASSERT_EQUAL(num(e, "ts"), 42979000000.0);
	CU_ASSERT_EQUAL(num(e, "dur"), 1000000.0);
	CU_ASSERT_EQUAL(num(get(e, "args"), "Op count"), 0);
	CU_ASSERT_EQUAL(num(get(event(doc, "M", "process_sort_index", 1), "args"), "sort_index"),
			536870912);
	e = event(doc, "i", "Iteration Start: PyTorch Profiler", 0);
	CU_ASSERT_STRING_EQUAL(keys(e), "ph,s,name,pid,tid,ts");
	CU_ASSERT_STRING_EQUAL(str(e, "tid"), "Trace PyTorch Profiler");
	list = get(doc, "traceEvents");
	e = cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1);
	CU_ASSERT_STRING_EQUAL(str(e, "name"), "Record Window End");
	CU_ASSERT_STRING_EQUAL(str(e, "pid"), "");
	CU_ASSERT_EQUAL(num(e, "ts"), 42980000000.0);
	cJSON_Delete(doc);
}

/* The same capture always has the same id, another capture a different one. */
static void test_trace_id(void)
{
	struct session s = fake_session();
	char first[40];
	cJSON *doc;

	start(&s);
	doc = finish();
	snprintf(first, sizeof(first), "%s", str(doc, "trace_id"));
	cJSON_Delete(doc);
	start(&s);
	doc = finish();
	CU_ASSERT_STRING_EQUAL(str(doc, "trace_id"), first);
	cJSON_Delete(doc);
	s.info.begin_ns++;
	start(&s);
	doc = finish();
	CU_ASSERT_STRING_NOT_EQUAL(str(doc, "trace_id"), first);
	cJSON_Delete(doc);
}

/* A session with a value in every fact. */
static struct session rich_session(void)
{
	static struct session_refusal refusals[150];
	static const struct session_lost lost[] = {
		{ .begin_ns = 5500000000ULL, .end_ns = 5500250000ULL, .cnt = 42, .ring = 1 },
	};
	struct session s = fake_session();

	for (int i = 0; i < 150; i++)
		refusals[i] = (struct session_refusal){ .name = "at::_ops::x::call",
							.kind = i ? 99 : PTB_FUNC_OP,
							.reason = i ? 99 : PTB_REFUSE_NO_EXIT };
	s.info.refusals = refusals;
	s.info.refusal_cnt = 150;
	s.info.lost = lost;
	s.info.lost_cnt = 1;
	s.info.func_cnt = 2900;
	s.counters[PTB_CNT_RING_FULL] = 42;
	s.counters[PTB_CNT_HITS] = 1000;
	s.counters[PTB_CNT_COST_PS] = 750000;
	s.counters[PTB_CNT_PROBES] = 5800;
	s.counters[PTB_CNT_ATTACH_NS] = 31415926;
	s.meta[0].key = "torch";
	s.meta[0].json = "{\"version\": \"2.15.0\"}";
	s.meta[1].key = "activities";
	s.meta[1].json = "{broken \"json\"";
	return s;
}

static void check_losses(const cJSON *doc)
{
	const cJSON *p = get(doc, "ptbpf"), *e;

	CU_ASSERT_EQUAL(num(get(p, "loss"), "lost_records"), 42);
	CU_ASSERT_EQUAL(num(get(p, "loss"), "lost_intervals_ns"), 250000);
	e = cJSON_GetArrayItem(get(get(p, "loss"), "counters"), 1);
	CU_ASSERT_STRING_EQUAL(str(e, "name"), "RING_FULL");
	CU_ASSERT_EQUAL(num(e, "value"), 42);
	CU_ASSERT_TRUE(cJSON_IsTrue(get(e, "loss")));
	CU_ASSERT_STRING_EQUAL(str(e, "text"), "records lost: ring buffer full");
	e = event(doc, "i", "LOST records", 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(e);
	CU_ASSERT_STRING_EQUAL(str(e, "s"), "g");
	CU_ASSERT_EQUAL(num(e, "ts"), 42979500000.0);
	CU_ASSERT_EQUAL(num(get(e, "args"), "count"), 42);
	CU_ASSERT_EQUAL(num(get(e, "args"), "duration_us"), 250);
	p = get(doc, "ptbpf_totals");
	CU_ASSERT_EQUAL(num(get(p, "totals"), "slices"), 11);
	CU_ASSERT_TRUE(cJSON_IsFalse(get(p, "complete")));
	CU_ASSERT_PTR_NOT_NULL(strstr(str(p, "account"), "42 records lost: ring buffer full"));
}

static void test_facts(void)
{
	struct session s = rich_session();
	const cJSON *p, *e;
	cJSON *doc;

	start(&s);
	totals.slices = 11;
	totals.end_lost = 2;
	doc = finish();
	p = get(doc, "ptbpf");
	CU_ASSERT_STRING_EQUAL(str(p, "version"), PTBPF_VERSION);
	e = cJSON_GetArrayItem(get(p, "targets"), 0);
	CU_ASSERT_EQUAL(num(e, "pid"), 100);
	CU_ASSERT_STRING_EQUAL(str(e, "command_line"), "python train.py");
	CU_ASSERT_STRING_EQUAL(str(e, "executable"), "python3.11");
	CU_ASSERT_STRING_EQUAL(str(e, "source"), "kernel probes");
	CU_ASSERT_EQUAL(num(get(p, "window"), "duration_ns"), 1e9);
	CU_ASSERT_STRING_EQUAL(str(get(p, "window"), "stopped_by"), "duration reached");
	CU_ASSERT_EQUAL(num(get(p, "probes"), "attached"), 5800);
	CU_ASSERT_EQUAL(num(get(p, "probes"), "functions"), 2900);
	CU_ASSERT_EQUAL(num(get(p, "probes"), "attach_ms"), 31.416);
	CU_ASSERT_EQUAL(num(get(p, "refused"), "count"), 150);
	e = get(get(p, "refused"), "functions");
	CU_ASSERT_EQUAL(cJSON_GetArraySize(e), 100);
	CU_ASSERT_PTR_NOT_NULL(strstr(str(cJSON_GetArrayItem(e, 0), "reason"), "every return path"));
	CU_ASSERT_STRING_EQUAL(str(cJSON_GetArrayItem(e, 1), "reason"), "not known");
	CU_ASSERT_EQUAL(num(get(p, "cost"), "per_hit_ns"), 750);
	CU_ASSERT_EQUAL(num(get(p, "cost"), "estimated_total_ms"), 0.75);
	CU_ASSERT_EQUAL(num(get(p, "cost"), "percent_of_window"), 0.075);
	CU_ASSERT_STRING_EQUAL(str(get(get(p, "capture"), "torch"), "version"), "2.15.0");
	CU_ASSERT_STRING_EQUAL(str(get(p, "capture"), "activities"), "{broken \"json\""); /* as text */
	check_losses(doc);
	cJSON_Delete(doc);
}

static void test_rank(void)
{
	static const struct {
		const char *json, *expect;
	} rows[] = {
		{ "{\"backend\": \"\", \"rank\": 3, \"world_size\": 8}",
		  "{\"backend\": \"\", \"rank\": 3, \"world_size\": 8}" },
		{ "{\"rank\":1,\"world_size\":2}", "{\"backend\": \"\", \"rank\": 1, \"world_size\": 2}" },
		{ "{\"rank\": 8, \"world_size\": 8}",
		  "{\"backend\": \"\", \"rank\": 0, \"world_size\": 1}" },
		{ "{\"rank\": -1, \"world_size\": 8}",
		  "{\"backend\": \"\", \"rank\": 0, \"world_size\": 1}" },
		{ "{\"rank\": \"1\", \"world_size\": 8}",
		  "{\"backend\": \"\", \"rank\": 0, \"world_size\": 1}" },
		{ "[1]", "{\"backend\": \"\", \"rank\": 0, \"world_size\": 1}" },
		{ "no json", "{\"backend\": \"\", \"rank\": 0, \"world_size\": 1}" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct session s = fake_session();
		char line[128];

		s.meta[0].key = "distributedInfo";
		s.meta[0].json = rows[i].json;
		start(&s);
		cJSON_Delete(finish());
		snprintf(line, sizeof(line), "\n\"distributedInfo\": %s,\n", rows[i].expect);
		CU_ASSERT_PTR_NOT_NULL(strstr(raw, line));
	}
}

/* No name may break the document; printable ones come back unchanged. */
static void test_hostile_names(void)
{
	static const char *const names[] = {
		"quote \" backslash \\ slash /",
		"line\nbreak\r\ttab",
		"\x01\x1f\x7f",
		"gr\xc3\xb6\xc3\x9f \xf0\x9f\x98\x80",
		"",
		"</script>",
		"{\"rank\": 5}",
	};
	static const char *const broken[] = { "\xff\xfe", "cut \xe2\x82", "\xed\xa0\x80" };
	const struct session_process evil = {
		.tgid = 100, .comm = "a\"b\n", .cmdline = "\"rank\": 7\n\xff", .exe = "\\"
	};
	struct session s = fake_session();
	cJSON *doc;

	s.info.processes = &evil;
	s.comm = "x\"\\\n\xff";
	start(&s);
	sink.thread(sink.arg, 100, 100);
	for (uint64_t i = 0; i < 10; i++) {
		struct slice sl = fake_slice(i + 1, i < 7 ? names[i] : broken[i - 7],
					     5000000000ULL + i * 10, 5000000005ULL + i * 10);

		put(&sl);
	}
	doc = finish();
	for (uint64_t i = 0; i < 7; i++)
		CU_ASSERT_STRING_EQUAL(str(event(doc, "X", NULL, (int)i), "name"), names[i]);
	CU_ASSERT_STRING_EQUAL(str(event(doc, "X", NULL, 7), "name"), "\xc3\xbf\xc3\xbe"); /* U+00FF U+00FE */
	/* the one rank that a line-wise reader finds is ours */
	CU_ASSERT_PTR_NOT_NULL_FATAL(strstr(raw, "\"rank\": "));
	CU_ASSERT_PTR_EQUAL(strstr(raw, "\"rank\": "), strstr(raw, "\"rank\": 0, \"world_size\""));
	CU_ASSERT_PTR_NULL(strstr(raw, "\"rank\": 7"));
	cJSON_Delete(doc);
}

static void test_gzip(void)
{
	struct session s = fake_session();
	struct slice sl = fake_slice(1, "aten::add", 5000001001ULL, 5000003501ULL);
	static char plain[sizeof(raw)];

	start_at("same.json", &s);
	for (int i = 0; i < 100; i++)
		put(&sl);
	cJSON_Delete(finish());
	memcpy(plain, raw, sizeof(raw));
	*strstr(plain, "\"traceName\"") = '\0';
	start_at("same.json.gz", &s);
	for (int i = 0; i < 100; i++)
		put(&sl);
	cJSON_Delete(finish());
	CU_ASSERT_EQUAL(strncmp(raw, plain, strlen(plain)), 0);
}

/* A time before the base, or an end before its begin, becomes 0 as in torch, not a huge number. */
static void test_clamped_times(void)
{
	struct session s = fake_session();
	struct slice sl = fake_slice(1, "op", 5000000000ULL, 4000000000ULL);

	s.info.mono_to_unix_ns = (int64_t)QUARTER_NS; /* window 5 s after a base */
	start(&s);
	put(&sl);
	sl.begin_ns = 0;
	sl.end_ns = 1;
	s.info.mono_to_unix_ns = -1;
	put(&sl);
	cJSON_Delete(finish());
	CU_ASSERT_PTR_NOT_NULL(strstr(raw, "\"ts\": 5000000.000, \"dur\": 0.000,"));
	CU_ASSERT_PTR_NOT_NULL(strstr(raw, "\"ts\": 0.000, \"dur\": 0.001,"));
}

/* An error of the file reaches session__run() through the sink, and finish(). */
static void test_disk_full(void)
{
	struct session s = fake_session();
	struct slice sl = fake_slice(1, "aten::add", 5000001001ULL, 5000003501ULL);
	int err = 0;

	out = (struct output_args){ .s = &s, .path = "/dev/full" };
	CU_ASSERT_EQUAL_FATAL(chrome_output.open(&out, &ct), 0);
	sink = chrome_output.sink(ct);
	for (int i = 0; i < 100000 && !err; i++)
		err = sink.slice(sink.arg, &sl);
	CU_ASSERT_EQUAL(err, -ENOSPC);
	CU_ASSERT_EQUAL(chrome_output.finish(ct, &out, &totals), -ENOSPC);
	chrome_output.free(ct);
	CU_ASSERT_EQUAL(access("/dev/full.tmp", F_OK), -1);
	out.path = "/nonexistent/t.json";
	CU_ASSERT_EQUAL(chrome_output.open(&out, &ct), -ENOENT);
}

static void test_dropped(void)
{
	struct session s = fake_session();
	char tmp[300];

	start_at("dropped.json", &s);
	chrome_output.free(ct);
	snprintf(tmp, sizeof(tmp), "%s.tmp", path);
	CU_ASSERT_EQUAL(access(path, F_OK), -1);
	CU_ASSERT_EQUAL(access(tmp, F_OK), -1);
	chrome_output.free(NULL);
}

static void test_no_process(void)
{
	static const struct session_lost lost = { .begin_ns = 1, .end_ns = 2, .cnt = 1 };
	struct session s = { .info = { .sealed = true, .lost = &lost, .lost_cnt = 1 } };
	cJSON *doc;

	start(&s);
	doc = finish();
	CU_ASSERT_FALSE(has(doc, "WARNING"));
	CU_ASSERT_PTR_NOT_NULL(event(doc, "i", "Record Window End", 0));
	cJSON_Delete(doc);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "slice", test_slice },
		{ "sequence numbers and flows", test_sequence },
		{ "marks", test_marks },
		{ "document", test_document },
		{ "trace id", test_trace_id },
		{ "facts", test_facts },
		{ "rank", test_rank },
		{ "hostile names", test_hostile_names },
		{ "gzip", test_gzip },
		{ "clamped times", test_clamped_times },
		{ "disk full", test_disk_full },
		{ "dropped", test_dropped },
		{ "no process", test_no_process },
		CU_TEST_INFO_NULL,
	};
	char cmd[300];
	int rc;

	if (!mkdtemp(dir))
		return 1;
	rc = run_suite("chrome_trace", tests);
	snprintf(cmd, sizeof(cmd), "rm -r '%s'", dir);
	return system(cmd) || rc;
}
