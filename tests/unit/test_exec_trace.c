/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* export/exec_trace over a fake session: document, nodes, ids, attributes, what it refuses. */
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
#include "value_words.h"

#define T0 5000000000ULL

static char dir[] = "/tmp/test_exec_trace.XXXXXX";
static char path[256];
static char raw[1 << 20];

static void *et;
static struct session_sink sink;
static struct session_totals totals;

static struct session results_session(void)
{
	struct session s = fake_session();

	s.info.has_shapes = s.info.has_results = true;
	return s;
}

static int try_open(const char *name, struct session *s, uint32_t tgid)
{
	const struct output_args args = { .s = s, .path = path, .tgid = tgid };

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	totals = (struct session_totals){ 0 };
	return et_output.open(&args, &et);
}

static void start_at(const char *name, struct session *s, uint32_t tgid)
{
	CU_ASSERT_EQUAL_FATAL(try_open(name, s, tgid), 0);
	sink = et_output.sink(et);
}

static void start(struct session *s)
{
	start_at("t.json", s, 0);
}

static void put(const struct slice *sl)
{
	CU_ASSERT_EQUAL_FATAL(sink.slice(sink.arg, sl), 0);
}

#define THREAD_ID(tid) (2 * (tid) + 1)

static struct slice slice(uint64_t id, uint64_t parent, const char *name)
{
	struct slice sl = fake_slice(id, name, T0 + id, T0 + id + 1);
	static const struct value_words none;

	sl.parent = parent;
	sl.in = sl.out = vw__values(&none);
	return sl;
}

static cJSON *finish(void)
{
	CU_ASSERT_EQUAL_FATAL(et_output.finish(et, NULL, &totals), 0);
	et_output.free(et);
	return load_json(path, raw, sizeof(raw));
}

static const cJSON *node(const cJSON *doc, int i)
{
	const cJSON *nodes = get(doc, "nodes");

	if (i < 0)
		i += cJSON_GetArraySize(nodes);
	CU_ASSERT_PTR_NOT_NULL_FATAL(cJSON_GetArrayItem(nodes, i));
	return cJSON_GetArrayItem(nodes, i);
}

static const cJSON *find_attr(const cJSON *n, const char *name)
{
	const cJSON *a;

	cJSON_ArrayForEach(a, get(n, "attrs")) if (!strcmp(str(a, "name"), name)) return get(a, "value");
	return NULL;
}

static double attr(const cJSON *n, const char *name)
{
	const cJSON *v = find_attr(n, name);

	CU_ASSERT_TRUE_FATAL(cJSON_IsNumber(v));
	return v->valuedouble;
}

static const char *text_attr(const cJSON *n, const char *name)
{
	const cJSON *v = find_attr(n, name);

	return cJSON_IsString(v) ? v->valuestring : "absent";
}

static void expect_node(const cJSON *n, uint64_t id, uint64_t parent, const char *name)
{
	CU_ASSERT_EQUAL(num(n, "id"), (double)id);
	CU_ASSERT_EQUAL(num(n, "ctrl_deps"), (double)parent);
	CU_ASSERT_STRING_EQUAL(str(n, "name"), name);
}

static void test_empty(void)
{
	struct session s = results_session();
	cJSON *doc;

	start(&s);
	doc = finish();
	CU_ASSERT_STRING_EQUAL(str(doc, "schema"), "1.1.1-chakra.0.0.4");
	CU_ASSERT_EQUAL(num(doc, "pid"), 100);
	CU_ASSERT_EQUAL(num(doc, "start_ts"), 5000);
	CU_ASSERT_EQUAL(num(doc, "finish_ts"), 6000);
	CU_ASSERT_EQUAL(strlen(str(doc, "time")), strlen("2026-10-02 00:53:25"));
	CU_ASSERT_EQUAL(cJSON_GetArraySize(get(doc, "nodes")), 1);
	expect_node(node(doc, 0), 1, 1, "[pytorch|profiler|execution_trace|process]");
	CU_ASSERT_EQUAL(attr(node(doc, 0), "scope"), 7);
	CU_ASSERT_EQUAL(attr(node(doc, 0), "seq_id"), -1);
	CU_ASSERT_EQUAL(attr(node(doc, 0), "tid"), 0);
	CU_ASSERT_EQUAL(num(get(doc, "ptbpf_nodes"), "nodes"), 1);
	CU_ASSERT_TRUE(cJSON_IsTrue(get(get(doc, "ptbpf_totals"), "complete")));
	cJSON_Delete(doc);
}

/* Attributes in torch's order, the layout of its texts, one node per line. */
static void test_node_text(void)
{
	struct session s = results_session();
	struct value_words in = { .cnt = 0 }, out = { .cnt = 0 };
	struct slice sl = slice(7, 0, "aten::\"x\"\n");

	vw__int(&in, 5);
	vw__bool(&out, true);
	sl.in = vw__values(&in);
	sl.out = vw__values(&out);
	sl.seq = 12;
	sl.schema = "ns::x(str s=\"a\") -> bool";
	start(&s);
	put(&sl);
	cJSON_Delete(finish());
	CU_ASSERT_PTR_NOT_NULL(
		strstr(raw,
		       "\n{\"id\": 16, \"name\": \"aten::\\\"x\\\"\\n\", \"ctrl_deps\": 201, \"inputs\": {\"values\": [5], "
		       "\"shapes\": [[]], \"types\": [\"Int\"], \"strides\": [[]]}, \"outputs\": {\"values\": [true], "
		       "\"shapes\": [[]], \"types\": [\"Bool\"], \"strides\": [[]]}, \"attrs\": ["
		       "{\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": 7}, "
		       "{\"name\": \"fw_parent\", \"type\": \"uint64\", \"value\": 0}, "
		       "{\"name\": \"seq_id\", \"type\": \"int64\", \"value\": 12}, "
		       "{\"name\": \"scope\", \"type\": \"uint64\", \"value\": 0}, "
		       "{\"name\": \"tid\", \"type\": \"uint64\", \"value\": 1}, "
		       "{\"name\": \"fw_tid\", \"type\": \"uint64\", \"value\": 0}, "
		       "{\"name\": \"op_schema\", \"type\": \"string\", \"value\": \"ns::x(str s=\\\"a\\\") -> bool\"}, "
		       "{\"name\": \"kernel_backend\", \"type\": \"string\", \"value\": \"\"}, "
		       "{\"name\": \"kernel_file\", \"type\": \"string\", \"value\": \"\"}, "
		       "{\"name\": \"tensor_range\", \"type\": \"string\", \"value\": \"\"}]},\n"));
}

/* A thread's node is before its first one; a slice's parent is a slice or its thread. */
static void test_tree(void)
{
	struct session s = results_session();
	struct slice sl;
	cJSON *doc;

	start(&s);
	sl = slice(2, 1, "child");
	put(&sl);
	sl = slice(3, 0, "other");
	sl.tid = 105;
	put(&sl);
	sl = slice(1, 0, "parent");
	put(&sl);
	sl = slice(4, 0, "other again");
	sl.tid = 105;
	put(&sl);
	doc = finish();
	expect_node(node(doc, 0), THREAD_ID(100), 1, "[pytorch|profiler|execution_trace|thread]");
	expect_node(node(doc, 1), 6, 4, "child");
	expect_node(node(doc, 2), THREAD_ID(105), 1, "[pytorch|profiler|execution_trace|thread]");
	expect_node(node(doc, 3), 8, THREAD_ID(105), "other");
	expect_node(node(doc, 4), 4, THREAD_ID(100), "parent");
	expect_node(node(doc, 5), 10, THREAD_ID(105), "other again");
	expect_node(node(doc, 6), 1, 1, "[pytorch|profiler|execution_trace|process]");
	CU_ASSERT_EQUAL(attr(node(doc, 0), "tid"), 1);
	CU_ASSERT_EQUAL(attr(node(doc, 0), "rf_id"), 0);
	CU_ASSERT_EQUAL(attr(node(doc, 1), "tid"), 1);
	CU_ASSERT_EQUAL(attr(node(doc, 2), "tid"), 2);
	CU_ASSERT_EQUAL(attr(node(doc, 5), "tid"), 2);
	CU_ASSERT_EQUAL(num(get(doc, "ptbpf_nodes"), "threads"), 2);
	CU_ASSERT_EQUAL(num(get(doc, "ptbpf_nodes"), "nodes"), 7);
	cJSON_Delete(doc);
}

static void test_backward(void)
{
	struct session s = results_session();
	struct slice whole = slice(8, 0, "autograd::engine::evaluate_function: MulBackward0");
	struct slice own = slice(9, 8, "MulBackward0");
	cJSON *doc;

	whole.kind = PTB_FUNC_NODE;
	own.kind = PTB_FUNC_NODE_CALL;
	whole.seq = own.seq = 5;
	whole.fwd_thread = own.fwd_thread = 1;
	whole.fw_parent = own.fw_parent = 2;
	own.scope = 1;
	start(&s);
	put(&own);
	put(&whole);
	doc = finish();
	CU_ASSERT_EQUAL(attr(node(doc, 1), "seq_id"), 5);
	CU_ASSERT_EQUAL(attr(node(doc, 1), "fw_tid"), 1);
	CU_ASSERT_EQUAL(attr(node(doc, 1), "fw_parent"), 6);
	CU_ASSERT_EQUAL(attr(node(doc, 1), "scope"), 1);
	/* torch's observer gives the whole none of these, only kineto does */
	CU_ASSERT_EQUAL(attr(node(doc, 2), "seq_id"), -1);
	CU_ASSERT_EQUAL(attr(node(doc, 2), "fw_tid"), 0);
	CU_ASSERT_EQUAL(attr(node(doc, 2), "fw_parent"), 0);
	cJSON_Delete(doc);
}

static void test_notes(void)
{
	struct session s = results_session();
	struct value_words unknown = { .cnt = 0 };
	struct slice sl = slice(1, 0, "aten::a");
	cJSON *doc;

	vw__unknown(&unknown);
	start(&s);
	put(&sl); /* 1: without arguments */
	sl = slice(2, 0, "aten::b");
	sl.in.flags = sl.out.flags = 0;
	put(&sl);
	sl.id = 3;
	sl.flags = SLICE_UNFINISHED | SLICE_NAME_CUT; /* its results are not missing, there are none */
	put(&sl);
	sl = slice(4, 0, "label");
	sl.kind = PTB_FUNC_SCOPE;
	sl.in.flags = sl.out.flags = 0; /* has no arguments */
	put(&sl);
	sl = slice(5, 0, "aten::c");
	sl.in = vw__values(&unknown);
	sl.out.flags |= VALUES_CUT;
	put(&sl);
	sl = slice(6, 0, "partial step");
	sl.kind = PTB_FUNC_SCOPE;
	sl.flags = SLICE_DERIVED | SLICE_PARTIAL;
	put(&sl);
	sl = slice(7, 0, "aten::_foreach_mul_"); /* returns nothing */
	sl.schema = "aten::_foreach_mul_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()";
	sl.out.flags = 0;
	put(&sl);
	doc = finish();
	CU_ASSERT_STRING_EQUAL(text_attr(node(doc, 1), "ptbpf.note"), "absent");
	CU_ASSERT_STRING_EQUAL(text_attr(node(doc, 2), "ptbpf.note"), "no_inputs,no_outputs");
	CU_ASSERT_STRING_EQUAL(text_attr(node(doc, 3), "ptbpf.note"), "no_inputs,unfinished,name_cut");
	CU_ASSERT_STRING_EQUAL(text_attr(node(doc, 4), "ptbpf.note"), "absent");
	CU_ASSERT_STRING_EQUAL(text_attr(node(doc, 5), "ptbpf.note"), "unknown_values,cut_values");
	CU_ASSERT_STRING_EQUAL(text_attr(node(doc, 6), "ptbpf.note"), "derived,partial");
	CU_ASSERT_STRING_EQUAL(text_attr(node(doc, 7), "ptbpf.note"), "absent");
	CU_ASSERT_EQUAL(num(get(doc, "ptbpf_nodes"), "no_inputs"), 2);
	CU_ASSERT_EQUAL(num(get(doc, "ptbpf_nodes"), "no_outputs"), 1);
	CU_ASSERT_EQUAL(num(get(doc, "ptbpf_nodes"), "unknown_values"), 1);
	CU_ASSERT_EQUAL(num(get(doc, "ptbpf_nodes"), "cut_values"), 1);
	cJSON_Delete(doc);
}

/* et_replay runs every node that has a schema; the inputs of one that began before the window were not recorded. */
static void test_open_at_attach(void)
{
	struct session s = results_session();
	struct slice sl = slice(1, 0, "aten::a");
	cJSON *doc;

	start(&s);
	sl.schema = "aten::a(Tensor self) -> Tensor";
	put(&sl);
	sl.id = 2;
	sl.flags = SLICE_OPEN_AT_BEGIN;
	put(&sl);
	doc = finish();
	CU_ASSERT_STRING_EQUAL(text_attr(node(doc, 1), "op_schema"), "aten::a(Tensor self) -> Tensor");
	CU_ASSERT_STRING_EQUAL(text_attr(node(doc, 2), "op_schema"), "");
	CU_ASSERT_PTR_NOT_NULL(strstr(text_attr(node(doc, 2), "ptbpf.note"), "open_at_attach"));
	cJSON_Delete(doc);
}

/* A step's node is in the order of start, and its own id where files are joined. */
static void test_step_node(void)
{
	struct session s = results_session();
	struct slice sl = slice(1, 0, "aten::a"), step = slice(SESSION_STEP_ID, 0, "ProfilerStep#0");
	cJSON *doc;

	s.step_order = 2;
	start(&s);
	put(&sl);
	sl = slice(3, SESSION_STEP_ID, "aten::b");
	put(&sl);
	step.kind = PTB_FUNC_SCOPE;
	step.flags = SLICE_DERIVED;
	put(&step);
	doc = finish();
	expect_node(node(doc, 2), 8, 6, "aten::b");
	expect_node(node(doc, 3), 6, THREAD_ID(100), "ProfilerStep#0");
	CU_ASSERT_EQUAL(attr(node(doc, 3), "rf_id"), (double)SESSION_STEP_ID);
	cJSON_Delete(doc);
}

static void test_collective(void)
{
	struct session s = results_session();
	struct slice sl = slice(1, 0, "record_param_comms");
	cJSON *doc;

	start(&s);
	put(&sl);
	doc = finish();
	CU_ASSERT_STRING_EQUAL(text_attr(node(doc, 1), "debug"), "missing comms info");
	cJSON_Delete(doc);
}

/* Ids are those that the model gave, over slices, sides and threads. */
static void test_objects(void)
{
	struct session s = results_session();
	struct vw_tensor t = { .dtype = 6, .flags = PTB_VAL_F_IDS, .impl = 1 | 2ULL << 32, .storage = 0x1000 };
	struct value_words w = { .cnt = 0 };
	struct slice sl = slice(1, 0, "aten::a");
	cJSON *doc;

	vw__tensor(&w, &t);
	sl.in = sl.out = vw__values(&w);
	start(&s);
	put(&sl);
	sl.id = 2;
	sl.tid = 0x1000;
	put(&sl);
	doc = finish();
	for (int i = 1; i <= 3; i += 2) {
		const cJSON *in = get(get(node(doc, i), "inputs"), "values");
		const cJSON *out = get(get(node(doc, i), "outputs"), "values");

		CU_ASSERT_TRUE(cJSON_Compare(in, out, true));
		CU_ASSERT_EQUAL(cJSON_GetArrayItem(cJSON_GetArrayItem(in, 0), 0)->valueint, 8388611);
		CU_ASSERT_EQUAL(cJSON_GetArrayItem(cJSON_GetArrayItem(in, 0), 1)->valueint, 8388613);
	}
	CU_ASSERT_EQUAL(num(node(doc, 2), "id"), THREAD_ID(0x1000));
	CU_ASSERT_EQUAL(num(get(doc, "ptbpf_nodes"), "tensors"), 1);
	CU_ASSERT_EQUAL(num(get(doc, "ptbpf_nodes"), "storages"), 1);
	cJSON_Delete(doc);
}

static void test_processes(void)
{
	struct session s = results_session();
	struct session_process both[2] = { s.info.processes[0], s.info.processes[0] };
	struct slice sl = slice(1, 0, "of 200");
	cJSON *doc;

	both[1].tgid = 200;
	s.info.processes = both;
	s.info.process_cnt = 2;
	sl.tgid = 200;
	start_at("t.json", &s, 200);
	put(&sl);
	sl = slice(2, 0, "of 100");
	put(&sl);
	doc = finish();
	CU_ASSERT_EQUAL(num(doc, "pid"), 200);
	CU_ASSERT_EQUAL(cJSON_GetArraySize(get(doc, "nodes")), 3);
	expect_node(node(doc, 1), 4, THREAD_ID(100), "of 200");
	CU_ASSERT_EQUAL(num(get(doc, "ptbpf_nodes"), "other_processes"), 1);
	cJSON_Delete(doc);
	start(&s); /* the first if none is requested */
	put(&sl);
	doc = finish();
	CU_ASSERT_EQUAL(num(doc, "pid"), 100);
	expect_node(node(doc, 1), 6, THREAD_ID(100), "of 100");
	cJSON_Delete(doc);
	CU_ASSERT_EQUAL(try_open("other.json", &s, 300), -ESRCH);
	CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
}

static void test_no_process(void)
{
	struct session s = results_session();
	cJSON *doc;

	s.info.process_cnt = 0;
	start(&s);
	doc = finish();
	CU_ASSERT_EQUAL(num(doc, "pid"), 0);
	CU_ASSERT_EQUAL(cJSON_GetArraySize(get(doc, "nodes")), 1);
	cJSON_Delete(doc);
}

static void test_no_results(void)
{
	struct session s = fake_session();

	s.info.has_shapes = true;
	CU_ASSERT_EQUAL(try_open("none.json", &s, 0), -ENODATA);
	CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
	strcat(path, ".tmp");
	CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
}

static void test_gzip(void)
{
	struct session s = results_session();
	unsigned char magic[2] = { 0 };
	FILE *f;

	start_at("t.et.json.gz", &s, 0);
	cJSON_Delete(finish());
	f = fopen(path, "rb");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(fread(magic, 1, 2, f), 2);
	fclose(f);
	CU_ASSERT_EQUAL(magic[0], 0x1f);
	CU_ASSERT_EQUAL(magic[1], 0x8b);
}

static void test_disk_full(void)
{
	struct session s = results_session();
	struct slice sl = slice(1, 0, "aten::add");
	const struct output_args args = { .s = &s, .path = "/dev/full" };
	int err = 0;

	totals = (struct session_totals){ 0 };
	CU_ASSERT_EQUAL_FATAL(et_output.open(&args, &et), 0);
	sink = et_output.sink(et);
	for (int i = 0; i < 100000 && !err; i++, sl.id++)
		err = sink.slice(sink.arg, &sl);
	CU_ASSERT_EQUAL(err, -ENOSPC);
	CU_ASSERT_EQUAL(et_output.finish(et, &args, &totals), -ENOSPC);
	et_output.free(et);
}

static void test_dropped(void)
{
	struct session s = results_session();

	start_at("dropped.json", &s, 0);
	et_output.free(et);
	CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
	strcat(path, ".tmp");
	CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
	et_output.free(NULL);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "empty", test_empty },
		{ "text of a node", test_node_text },
		{ "tree", test_tree },
		{ "backward", test_backward },
		{ "notes", test_notes },
		{ "open at attach", test_open_at_attach },
		{ "a step's node", test_step_node },
		{ "collective", test_collective },
		{ "objects", test_objects },
		{ "processes", test_processes },
		{ "no process", test_no_process },
		{ "no results", test_no_results },
		{ "gzip", test_gzip },
		{ "disk full", test_disk_full },
		{ "dropped", test_dropped },
		CU_TEST_INFO_NULL,
	};
	char cmd[300];
	int rc;

	if (!mkdtemp(dir))
		return 1;
	rc = run_suite("exec_trace", tests);
	snprintf(cmd, sizeof(cmd), "rm -r '%s'", dir);
	return system(cmd) || rc;
}
