/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ProfilerStep#N slices derived from optimizers, annotations and operators. */
#include "base/job_vars.h"
#include "capture_builder.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 9000000
#define OPT "Optimizer.step#SGD.step"
#define PARTIAL "partial step"

/* One iteration from ts on: an operator, then an optimizer's step; 1000 ns. */
static void iteration(struct builder *b, uint32_t f, uint64_t ts, const char *opt)
{
	builder__enter(b, f, ts + 100, 0x9000);
	builder__exit(b, f, ts + 200, 0x8f00);
	builder__annotate(b, ts + 300, 0x9000, 0x77, opt);
	builder__enter(b, f, ts + 400, 0x8000);
	builder__exit(b, f, ts + 500, 0x7f00);
	builder__scope_end(b, ts + 600, 0x9000, 0x77);
}

static void optimizer(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	const struct slice *s0, *s1, *s2;
	struct slice_log *log;

	builder__thread(b, 10, 11); /* an autograd thread: no steps */
	builder__enter(b, f, 1999000, 0x9000);
	builder__exit(b, f, 1999100, 0x8f00);
	builder__thread(b, 10, 10);
	iteration(b, f, 2000000, OPT);
	iteration(b, f, 2001000, OPT);
	builder__enter(b, f, 2003000, 0x9000);
	builder__exit(b, f, 2003100, 0x8f00);
	log = slice_log__of(b, NULL);
	s0 = slice_log__must(log, PARTIAL, 0);
	s1 = slice_log__must(log, "ProfilerStep#0", 0);
	s2 = slice_log__must(log, PARTIAL, 1);
	CU_ASSERT_EQUAL(s0->begin_ns, BEGIN);
	CU_ASSERT_EQUAL(s0->end_ns, 2000603);
	CU_ASSERT_EQUAL(s1->begin_ns, s0->end_ns + 3);
	CU_ASSERT_EQUAL(s1->end_ns, 2001603);
	CU_ASSERT_EQUAL(s2->end_ns, END);
	CU_ASSERT_EQUAL(s0->flags, SLICE_DERIVED | SLICE_PARTIAL);
	CU_ASSERT_EQUAL(s2->flags, SLICE_DERIVED | SLICE_PARTIAL | SLICE_UNFINISHED);
	CU_ASSERT_EQUAL(s0->id, SESSION_STEP_ID);
	CU_ASSERT_EQUAL(s1->id, SESSION_STEP_ID - 1);
	CU_ASSERT_EQUAL(s0->cat, SLICE_USER_ANNOTATION);
	CU_ASSERT_EQUAL(s0->tid, 10);
	CU_ASSERT_EQUAL(slice_log__child_cnt(log, s0), 2);
	CU_ASSERT_EQUAL(slice_log__nth(log, OPT, 0)->parent, s0->id);
	CU_ASSERT_EQUAL(slice_log__nth(log, OPT, 1)->parent, s1->id);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::f", 5)->parent, s2->id);
	CU_ASSERT_EQUAL(slice_log__nth(log, "aten::f", 0)->parent, 0);
	CU_ASSERT_EQUAL(log->totals.steps, 3);
	CU_ASSERT_EQUAL(log->totals.annotations, 2);
	slice_log__done(log, b);
}

static void switched_off(void)
{
	struct builder *b = builder__new(BEGIN, END);
	struct session_opts opts = { .no_steps = true };
	struct slice_log *log;

	iteration(b, builder__op(b, "aten::f"), 2000000, OPT);
	log = slice_log__of(b, &opts);
	CU_ASSERT_EQUAL(log->totals.steps, 0);
	CU_ASSERT_EQUAL(log->cnt, 3);
	slice_log__done(log, b);
}

/* Nothing happens after the last boundary: no empty step. */
static void no_empty_step(void)
{
	struct builder *b = builder__new(BEGIN, END);
	struct slice_log *log;

	iteration(b, builder__op(b, "aten::f"), 2000000, OPT);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->totals.steps, 1);
	CU_ASSERT_PTR_NULL(slice_log__nth(log, PARTIAL, 1));
	slice_log__done(log, b);
}

/* The user's own annotation around an iteration is inside the step, whole. */
static void enclosing_annotation(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	const struct slice *a;
	struct slice_log *log;

	builder__annotate(b, 2000000, 0xa000, 0x1, "## iteration ##");
	iteration(b, f, 2000000, OPT);
	builder__enter(b, f, 2000700, 0x9000);
	builder__exit(b, f, 2000800, 0x8f00);
	builder__scope_end(b, 2000900, 0xa000, 0x1);
	builder__annotate(b, 2001000, 0xa000, 0x1, "## iteration ##");
	builder__scope_end(b, 2001900, 0xa000, 0x1);
	log = slice_log__of(b, NULL);
	a = slice_log__get(log, "## iteration ##");
	CU_ASSERT_EQUAL(a->flags, 0);
	CU_ASSERT_EQUAL(a->parent, slice_log__nth(log, PARTIAL, 0)->id);
	CU_ASSERT_EQUAL(slice_log__nth(log, PARTIAL, 0)->end_ns, 2000903);
	CU_ASSERT_EQUAL(slice_log__nth(log, "## iteration ##", 1)->parent,
			slice_log__nth(log, PARTIAL, 1)->id);
	CU_ASSERT_EQUAL(log->totals.truncated_annotations, 0);
	slice_log__done(log, b);
}

/* Two optimizers in one iteration (as in a GAN): the first one seen counts. */
static void two_optimizers(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *log;

	for (uint64_t ts = 2000000; ts < 2006000; ts += 2000) {
		iteration(b, f, ts, OPT);
		iteration(b, f, ts + 1000, "Optimizer.step#Adam.step");
	}
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->totals.steps, 4);
	CU_ASSERT_EQUAL(slice_log__child_cnt(log, slice_log__get(log, "ProfilerStep#0")), 4);
	slice_log__done(log, b);
}

static void step_on(const char *name, uint32_t want)
{
	struct builder *b = builder__new(BEGIN, END);
	struct session_opts opts = { .step_on = name };
	uint32_t f = builder__op(b, "aten::f.out");
	struct slice_log *log;

	iteration(b, f, 2000000, "batch");
	iteration(b, f, 2001000, "batch");
	log = slice_log__of(b, &opts);
	CU_ASSERT_EQUAL(log->totals.steps, want);
	slice_log__done(log, b);
}

static void named_by_user(void)
{
	step_on("batch", 2);
	step_on("aten::f", 4);
	step_on("aten::f.out", 4);
	step_on("aten::f.Tensor", 0);
	step_on("Optimizer", 0);
	step_on("bat", 0);
}

/* torch.profiler's own schedule runs in the target: its steps are the steps. */
static void own_steps(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *log;

	builder__annotate(b, 2000000, 0xa000, 0x1, "ProfilerStep#7");
	iteration(b, f, 2000100, OPT);
	builder__scope_end(b, 2000900, 0xa000, 0x1);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->totals.steps, 0);
	CU_ASSERT_PTR_NOT_NULL(slice_log__get(log, "ProfilerStep#7"));
	CU_ASSERT_PTR_NULL(slice_log__get(log, "ProfilerStep#0"));
	slice_log__done(log, b);
}

/* An operator was open at the window's begin: inside the first step. */
static void open_at_begin(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	const struct slice *s0;
	struct slice_log *log;

	builder__enter(b, f, 1500000, 0x6000);
	builder__exit(b, f, 1500100, 0x5f00);
	builder__exit(b, g, 1600000, 0x6500);
	iteration(b, f, 2000000, OPT);
	log = slice_log__of(b, NULL);
	s0 = slice_log__get(log, PARTIAL);
	CU_ASSERT_EQUAL(slice_log__get(log, "aten::g")->parent, s0->id);
	CU_ASSERT_EQUAL(slice_log__child_cnt(log, slice_log__get(log, "aten::g")), 1);
	CU_ASSERT_EQUAL(slice_log__child_cnt(log, s0), 3);
	slice_log__done(log, b);
}

/* A process that joined later begins its first step when it is watched. */
static void later_process(void)
{
	struct builder *b = builder__new(BEGIN, END);
	struct slice_log *log;

	builder__process(b, 20, "python", "python3", 1800000);
	builder__thread(b, 20, 20);
	iteration(b, builder__op(b, "aten::f"), 2000000, OPT);
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(slice_log__get(log, PARTIAL)->begin_ns, 1800000);
	slice_log__done(log, b);
}

/* Every operator and annotation of a is in b under the same id, and no step has the id of one. */
static void same_ids(const struct slice_log *a, const struct slice_log *b)
{
	uint32_t joined = 0, own = 0;

	for (uint32_t i = 0; i < a->cnt; i++) {
		const struct slice *x = &a->slices[i];

		own += !(x->flags & SLICE_DERIVED);
		for (uint32_t k = 0; k < b->cnt; k++) {
			const struct slice *y = &b->slices[k];

			if (x->id != y->id)
				continue;
			CU_ASSERT_EQUAL(x->flags & SLICE_DERIVED, y->flags & SLICE_DERIVED);
			if (x->flags & SLICE_DERIVED)
				continue;
			joined++;
			CU_ASSERT_STRING_EQUAL(x->name, y->name);
			CU_ASSERT_EQUAL(x->tid, y->tid);
			if (!(x->flags & SLICE_OPEN_AT_BEGIN)) /* that one begins where the step does */
				CU_ASSERT_TRUE(x->begin_ns < y->begin_ns + 50 &&
					       y->begin_ns < x->begin_ns + 50);
		}
	}
	CU_ASSERT_EQUAL(joined, own);
}

/* Ids belong to the records, independent of the definition of steps. */
static void ids_belong_to_records(void)
{
	static const struct session_opts opts[] = {
		{ 0 },
		{ .no_steps = true },
		{ .step_on = "aten::f" },
		{ .step_on = "batch" },
		{ .step_on = "aten::g" },
	};
	struct slice_log *logs[sizeof(opts) / sizeof(opts[0])];
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	size_t n = sizeof(opts) / sizeof(opts[0]);

	builder__thread(b, 10, 10);
	builder__enter(b, f, 1500000, 0x6000);
	builder__exit(b, f, 1500100, 0x5f00);
	builder__exit(b, g, 1600000, 0x6500); /* open at attach */
	for (uint64_t ts = 2000000; ts < 2008000; ts += 2000) {
		iteration(b, f, ts, OPT);
		builder__thread(b, 10, 11);
		iteration(b, g, ts + 50, ts % 4000 ? "batch" : "Optimizer.step#Adam.step");
		builder__thread(b, 10, 10);
		iteration(b, f, ts + 1000, "batch");
	}
	builder__enter(b, g, 2009000, 0x9000);
	for (size_t i = 0; i < n; i++) {
		logs[i] = slice_log__of(b, &opts[i]);
		CU_ASSERT_EQUAL(logs[i]->totals.steps > 0, !opts[i].no_steps);
	}
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++)
			same_ids(logs[i], logs[k]);
	for (size_t i = 0; i < n; i++)
		slice_log__free(logs[i]);
	builder__free(b);
}

static uint32_t steps_of(struct builder *b, const struct session_opts *opts)
{
	struct slice_log *log = slice_log__of(b, opts);
	uint32_t steps = (uint32_t)log->totals.steps;

	slice_log__free(log);
	return steps;
}

/* Options of the recording are the default of later reports. */
static void options_of_the_recording(void)
{
	const struct session_opts none = { .no_steps = true }, batch = { .step_on = "batch" },
				  optimizer_opts = { .step_on = "Optimizer.step" };
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");

	builder__meta(b, "step_on", "\"aten::f\"");
	iteration(b, f, 2000000, OPT);
	iteration(b, f, 2001000, "batch");
	CU_ASSERT_EQUAL(steps_of(b, NULL), 4);
	CU_ASSERT_EQUAL(steps_of(b, &none), 0);
	CU_ASSERT_EQUAL(steps_of(b, &batch), 1);
	CU_ASSERT_EQUAL(steps_of(b, &optimizer_opts), 2);
	builder__free(b);

	b = builder__new(BEGIN, END);
	builder__meta(b, "no_steps", "true");
	iteration(b, builder__op(b, "aten::f"), 2000000, OPT);
	CU_ASSERT_EQUAL(steps_of(b, NULL), 0);
	CU_ASSERT_EQUAL(steps_of(b, &optimizer_opts), 1);
	builder__free(b);

	b = builder__new(BEGIN, END); /* a capture is a foreign file */
	builder__meta(b, "step_on", "\"\\x\n[");
	iteration(b, builder__op(b, "aten::f"), 2000000, OPT);
	CU_ASSERT_EQUAL(steps_of(b, NULL), 1);
	builder__free(b);
}

/* The process of the capture's job record names the annotation: how many of the two iterations end a step? */
static uint32_t steps_by_job(const char *job, const struct session_opts *opts, const char *meta_step_on)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), steps;

	builder__process(b, 10, "python", "python3", BEGIN);
	builder__job(b, 10, job);
	builder__thread(b, 10, 10);
	if (meta_step_on)
		builder__meta(b, "step_on", meta_step_on);
	iteration(b, f, 2000000, "batch");
	iteration(b, f, 2001000, OPT);
	iteration(b, f, 2002000, "batch");
	builder__enter(b, f, 2003000, 0x9000);
	steps = steps_of(b, opts);
	builder__free(b);
	return steps;
}

#define STEP_ON(text) "{\"environment\": {\"PTBPF_STEP_ON\": " text "}}"

static void named_by_environment(void)
{
	const struct session_opts none = { .no_steps = true }, op = { .step_on = "aten::f" };
	char longest[JOB_TEXT_MAX + 100];

	CU_ASSERT_EQUAL(steps_by_job("{}", NULL, NULL), 2);
	CU_ASSERT_EQUAL(steps_by_job(STEP_ON("\"batch\""), NULL, NULL), 3);
	CU_ASSERT_EQUAL(steps_by_job(STEP_ON("\"Optimizer.step\""), NULL, NULL), 2);
	CU_ASSERT_EQUAL(steps_by_job(STEP_ON("\"bat\""), NULL, NULL), 0);
	/* operators are for the command line alone, which wins, whether it was the recording's or is the report's */
	CU_ASSERT_EQUAL(steps_by_job(STEP_ON("\"aten::f\""), NULL, NULL), 0);
	CU_ASSERT_EQUAL(steps_by_job(STEP_ON("\"batch\""), &op, NULL), 7);
	CU_ASSERT_EQUAL(steps_by_job(STEP_ON("\"batch\""), &none, NULL), 0);
	CU_ASSERT_EQUAL(steps_by_job(STEP_ON("\"batch\""), NULL, "\"Optimizer.step\""), 2);
	/* no names */
	CU_ASSERT_EQUAL(steps_by_job(STEP_ON("\"\""), NULL, NULL), 2);
	CU_ASSERT_EQUAL(steps_by_job(STEP_ON("7"), NULL, NULL), 2);
	CU_ASSERT_EQUAL(steps_by_job(STEP_ON("[\"batch\"]"), NULL, NULL), 2);
	CU_ASSERT_EQUAL(steps_by_job("{\"environment\": \"PTBPF_STEP_ON=batch\"}", NULL, NULL), 2);
	CU_ASSERT_EQUAL(steps_by_job("{\"PTBPF_STEP_ON\": \"batch\"}", NULL, NULL), 2);
	CU_ASSERT_EQUAL(steps_by_job("{\"environment\": {\"PTBPF_STEP_ON\": \"batch\"", NULL, NULL), 2);
	for (int over = 0; over < 2; over++) {
		snprintf(longest, sizeof(longest), STEP_ON("\"%0*d\""), JOB_TEXT_MAX + over, 0);
		CU_ASSERT_EQUAL(steps_by_job(longest, NULL, NULL), over ? 2 : 0);
	}
}

/* Each process has its own; of one that announces steps itself it decides nothing. */
static void named_by_environments(void)
{
	static const char *const jobs[] = { STEP_ON("\"batch\""), STEP_ON("\"epoch\""),
					    STEP_ON("\"batch\"") };
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	const struct session_info *info;
	struct slice_log *log;
	struct session *s;

	for (uint32_t i = 0; i < 3; i++) {
		uint32_t pid = 10 * (i + 1);

		builder__process(b, pid, "python", "python3", BEGIN);
		builder__job(b, pid, jobs[i]);
		builder__thread(b, pid, pid);
		if (i == 2)
			builder__annotate(b, 2000000, 0xa000, 0x1, "ProfilerStep#7");
		iteration(b, f, 2000100, "batch");
		iteration(b, f, 2001100, "epoch");
		iteration(b, f, 2002100, "batch");
		builder__enter(b, f, 2004000, 0x9000);
	}
	log = slice_log__of(b, NULL);
	CU_ASSERT_EQUAL(log->totals.steps, 3 + 2);
	CU_ASSERT_EQUAL(slice_log__must(log, "ProfilerStep#0", 0)->tgid, 10);
	slice_log__free(log);
	s = builder__session(b, NULL);
	info = session__info(s);
	CU_ASSERT_STRING_EQUAL(info->processes[0].step_on, "batch");
	CU_ASSERT_STRING_EQUAL(info->processes[1].step_on, "epoch");
	CU_ASSERT_PTR_NULL(info->processes[2].step_on);
	builder__free(b);
}

/* Readers of traces take the first and the last ProfilerStep for whole ones. */
static void partial_steps(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	const struct slice *s0, *s1, *begin, *end;
	struct slice_log *log;

	for (uint32_t i = 0; i < 3; i++)
		iteration(b, f, 2000000 + 1000 * i, OPT);
	builder__annotate(b, 2003300, 0x9000, 0x77, OPT); /* the window ends in it */
	log = slice_log__of(b, NULL);
	begin = slice_log__must(log, PARTIAL, 0);
	s0 = slice_log__must(log, "ProfilerStep#0", 0);
	s1 = slice_log__must(log, "ProfilerStep#1", 0);
	end = slice_log__must(log, PARTIAL, 1);
	CU_ASSERT_PTR_NULL(slice_log__get(log, "ProfilerStep#2"));
	CU_ASSERT_EQUAL(begin->begin_ns, BEGIN);
	CU_ASSERT_EQUAL(begin->end_ns, 2000603);
	CU_ASSERT_EQUAL(s0->begin_ns, begin->end_ns + 3);
	CU_ASSERT_EQUAL(s1->begin_ns, s0->end_ns + 3);
	CU_ASSERT_EQUAL(s1->end_ns, 2002603);
	CU_ASSERT_EQUAL(begin->flags, SLICE_DERIVED | SLICE_PARTIAL);
	CU_ASSERT_EQUAL(s0->flags, SLICE_DERIVED);
	CU_ASSERT_EQUAL(s1->flags, SLICE_DERIVED);
	CU_ASSERT_EQUAL(end->flags, SLICE_DERIVED | SLICE_PARTIAL | SLICE_UNFINISHED);
	CU_ASSERT_EQUAL(log->totals.steps, 4);
	CU_ASSERT_EQUAL(log->totals.partial_steps, 2);
	slice_log__done(log, b);
}

/* Execution Traces are read in order of their nodes' ids: a step's lies between those of what was before and in it. */
static void order_of_steps(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct session *s;
	struct slice_log *log;

	for (uint32_t i = 0; i < 4; i++) {
		builder__thread(b, 10, 10);
		iteration(b, f, 2000000 + 1000 * i, OPT);
		builder__thread(b, 10, 11);
		iteration(b, f, 2000005 + 1000 * i, OPT);
	}
	s = builder__session(b, NULL);
	log = slice_log__run(s);
	CU_ASSERT_EQUAL(log->totals.steps, 8);
	for (uint32_t i = 0; i < log->cnt; i++) {
		const struct slice *x = &log->slices[i];

		for (uint32_t k = 0; k < log->cnt; k++) {
			const struct slice *y = &log->slices[k];

			CU_ASSERT_TRUE(i == k || session__order(s, x->id) != session__order(s, y->id));
			if (x->flags & SLICE_DERIVED && x->tid == y->tid)
				CU_ASSERT_EQUAL(x->begin_ns < y->begin_ns,
						session__order(s, x->id) < session__order(s, y->id));
		}
	}
	slice_log__done(log, b);
}

/* Marks that count themselves are one mark, however they are recorded; another name, or another text behind '#', is not. */
static void numbered(void)
{
	struct builder *b = builder__new(BEGIN, END);
	const struct session_opts opts = { .step_on = "train" };
	uint32_t f = builder__op(b, "aten::f");
	struct slice_log *log;

	builder__thread(b, 10, 10);
	iteration(b, f, 2000000, "train#8");
	iteration(b, f, 2001000, "train#9");
	iteration(b, f, 2002000, "train#more");
	iteration(b, f, 2003000, "train#1more");
	iteration(b, f, 2004000, "train");
	iteration(b, f, 2005000, "train#10");
	iteration(b, f, 2006000, "trains#11");
	log = slice_log__of(b, &opts);
	CU_ASSERT_EQUAL(log->totals.steps, 4);
	CU_ASSERT_EQUAL(log->totals.partial_steps, 2);
	CU_ASSERT_EQUAL(slice_log__must(log, "ProfilerStep#0", 0)->end_ns, 2001603);
	CU_ASSERT_EQUAL(slice_log__must(log, "ProfilerStep#1", 0)->end_ns, 2005603);
	slice_log__done(log, b);
}

static const CU_TestInfo tests[] = {
	{ "optimizer", optimizer },
	{ "switched off", switched_off },
	{ "no empty step", no_empty_step },
	{ "enclosing annotation", enclosing_annotation },
	{ "two optimizers", two_optimizers },
	{ "named by the user", named_by_user },
	{ "the target's own steps", own_steps },
	{ "open at the window's begin", open_at_begin },
	{ "a later process", later_process },
	{ "ids belong to records, not to options", ids_belong_to_records },
	{ "options of the recording", options_of_the_recording },
	{ "named by the environment", named_by_environment },
	{ "named by environments", named_by_environments },
	{ "partial steps", partial_steps },
	{ "order of steps", order_of_steps },
	{ "numbered", numbered },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("steps", tests);
}
