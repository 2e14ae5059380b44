/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The content of control records about operators and the capture: schemas, key sets, what was recorded. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "capture_builder.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 9000000

static const struct session_keys keys = { .autograd = 0x10, .nested = 0x20 };

static void schemas(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f.Tensor"), g = builder__op(b, "aten::g");
	uint32_t box = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true);
	static const char *const names[] = { "aten::f.Tensor", "mine::h", "mine::none", "aten::g" };
	static const char *const want[] = { "aten::f.Tensor(Tensor self) -> Tensor",
					    "mine::h() -> ()", "", "aten::g() -> int" };
	struct slice_log *log;

	builder__schema(b, f, want[0]);
	for (uint32_t i = 0; i < 4; i++)
		builder__opdef(b, 1, 0x10 + i, names[i], false);
	builder__opdef_schema(b, 1, 0x11, want[1]);
	builder__opdef_schema(b, 2, 0x12, "of another process");
	builder__opdef_schema(b, 1, 0x13, want[3]);
	builder__keys(b, 1, &keys);
	for (uint32_t i = 0; i < 4; i++) {
		builder__boxed(b, box, 2000000 + i * 1000, 0x9000, 0x10 + i);
		builder__exit(b, box, 2000100 + i * 1000, 0x8f00);
	}
	builder__enter(b, f, 2005000, 0x9000);
	builder__exit(b, f, 2005100, 0x8f00);
	builder__enter(b, g, 2006000, 0x9000);
	builder__exit(b, g, 2006100, 0x8f00);
	builder__thread(b, 2, 2);
	builder__enter(b, g, 2006000, 0x9000);
	builder__exit(b, g, 2006100, 0x8f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_STRING_EQUAL(slice_log__must(log, "aten::f", 0)->schema, want[0]); /* by its name */
	CU_ASSERT_STRING_EQUAL(slice_log__must(log, "mine::h", 0)->schema, want[1]);
	CU_ASSERT_STRING_EQUAL(slice_log__must(log, "mine::none", 0)->schema, "");
	CU_ASSERT_STRING_EQUAL(slice_log__must(log, "aten::f", 1)->schema, want[0]);
	CU_ASSERT_STRING_EQUAL(slice_log__must(log, "aten::g", 1)->schema, want[3]);
	CU_ASSERT_EQUAL(slice_log__must(log, "aten::g", 0)->keys->nested, 0x20);
	for (uint32_t i = 0; i < log->cnt; i++)
		CU_ASSERT_EQUAL(log->slices[i].keys->autograd, log->slices[i].tgid == 1 ? 0x10 : 0);
	slice_log__done(log, b);
}

static void opdef(struct builder *b, uint64_t ts, const char *name, uint32_t flags)
{
	struct ptb_addr_name a = { .h = { .len = sizeof(a), .kind = PTB_REC_OPDEF, .ts_ns = ts, .tgid = 1 },
				   .addr = 0x10,
				   .name = builder__name(b, name),
				   .flags = flags };

	builder__raw(b, &a.h);
}

/* An address that was several operators' in turn: each call has the name of the one that was there then. */
static void lives(void)
{
	static const char *const want[] = { "mine::a", "mine::b", "mine::c", "operator 0x10", "mine::e" };
	struct builder *b = builder__new(BEGIN, END);
	uint32_t box = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true);
	struct slice_log *log;

	opdef(b, 1000, "mine::a", 0);
	opdef(b, 4000000, "mine::c", PTB_OPDEF_GONE); /* of another CPU's ring */
	opdef(b, 3000000, "mine::b", PTB_OPDEF_GONE);
	opdef(b, 3500000, "mine::c", 0);
	opdef(b, 2000000, "mine::a", PTB_OPDEF_GONE);
	opdef(b, 5000000, "", PTB_OPDEF_GONE); /* its name could not be read */
	opdef(b, 5000100, "mine::e", 0);
	builder__opdef_schema(b, 1, 0x10, "mine::e() -> ()");
	for (uint32_t i = 0; i < 5; i++) {
		builder__boxed(b, box, 1500000 + i * 1000000, 0x9000, 0x10);
		builder__exit(b, box, 1500100 + i * 1000000, 0x8f00);
	}
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL_FATAL(log->cnt, 5);
	for (uint32_t i = 0; i < 5; i++) {
		CU_ASSERT_STRING_EQUAL(log->slices[i].name, want[i]);
		CU_ASSERT_STRING_EQUAL(log->slices[i].schema, i == 4 ? "mine::e() -> ()" : "");
	}
	slice_log__done(log, b);
	b = builder__new(BEGIN, END); /* left, and nothing is known of what came after */
	box = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true);
	opdef(b, 1000, "mine::a", 0);
	opdef(b, 2000000, "mine::a", PTB_OPDEF_GONE);
	builder__boxed(b, box, 2500000, 0x9000, 0x10);
	builder__exit(b, box, 2500100, 0x8f00);
	log = slice_log__run(builder__session(b, NULL));
	CU_ASSERT_STRING_EQUAL(log->slices[0].name, "operator 0x10");
	slice_log__done(log, b);
}

static void modes(void)
{
	static const char *const meta[] = { NULL, "\"names\"", "\"shapes\"", "\"full\"" };

	for (uint32_t i = 0; i < 4; i++) {
		struct builder *b = builder__new(BEGIN, END);
		const struct session_info *info;

		if (meta[i])
			builder__meta(b, "args", meta[i]);
		info = session__info(builder__session(b, NULL));
		CU_ASSERT_EQUAL(info->has_shapes, i >= 2);
		CU_ASSERT_EQUAL(info->has_results, i == 3);
		builder__free(b);
	}
}

/* Of each process its own, the last one that was recorded; one of a process that is not known is dropped. */
static void jobs(void)
{
	struct builder *b = builder__new(BEGIN, END);
	const struct session_info *info;

	builder__process(b, 1, "python", "python3", 0);
	builder__process(b, 2, "python", "python3", 0);
	builder__process(b, 3, "python", "python3", 0);
	builder__unprobed(b, 2, BEGIN + 50);
	builder__job(b, 1, "{\"ns_pid\": 1}");
	builder__job(b, 2, "{\"ns_pid\": 2}");
	builder__job(b, 2, "{\"ns_pid\": 3}");
	builder__job(b, 9, "{}");
	info = session__info(builder__session(b, NULL));
	CU_ASSERT_EQUAL_FATAL(info->process_cnt, 3);
	CU_ASSERT_STRING_EQUAL(info->processes[0].job, "{\"ns_pid\": 1}");
	CU_ASSERT_STRING_EQUAL(info->processes[1].job, "{\"ns_pid\": 3}");
	CU_ASSERT_STRING_EQUAL(info->processes[2].job, "");
	CU_ASSERT_EQUAL(info->processes[0].unprobed_ns, 0);
	CU_ASSERT_EQUAL(info->processes[1].unprobed_ns, BEGIN + 50);
	builder__free(b);
}

/* Beyond the limit of a recording a name is cut where it is read, except as a schema. The last value of a META record counts. */
static void long_names(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t box = builder__func(b, "callBoxed", PTB_FUNC_BOXED, true);
	char text[LIMIT_NAME_BYTES + 11], cut[LIMIT_NAME_BYTES + 4];
	const struct session_process *p;
	struct slice_log *log;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	snprintf(cut, sizeof(cut), "%.*s...", LIMIT_NAME_BYTES, text);
	builder__process(b, 1, text, text + 10, 0);
	builder__opdef(b, 1, 0x10, "mine::f", false);
	builder__opdef_schema(b, 1, 0x10, text);
	builder__meta(b, "version", "1");
	builder__meta(b, "host", "\"h\"");
	builder__meta(b, "version", "2");
	builder__boxed(b, box, 2000000, 0x9000, 0x10);
	builder__exit(b, box, 2000100, 0x8f00);
	log = slice_log__of(b, NULL);
	CU_ASSERT_STRING_EQUAL(slice_log__must(log, "mine::f", 0)->schema, text);
	p = session__process(builder__session(b, NULL), 1);
	CU_ASSERT_PTR_NOT_NULL_FATAL(p);
	CU_ASSERT_STRING_EQUAL(p->comm, cut);
	CU_ASSERT_STRING_EQUAL(p->exe, text + 10); /* as long as it may be */
	CU_ASSERT_PTR_NULL(session__process(builder__session(b, NULL), 2));
	CU_ASSERT_STRING_EQUAL(session__meta(builder__session(b, NULL), "version"), "2");
	CU_ASSERT_PTR_NULL(session__meta(builder__session(b, NULL), "kernel"));
	slice_log__done(log, b);
}

static const CU_TestInfo tests[] = {
	{ "schemas and keys", schemas },
	{ "an address of several operators", lives },
	{ "modes", modes },
	{ "jobs", jobs },
	{ "long names", long_names },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("facts", tests);
}
