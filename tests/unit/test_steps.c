/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ProfilerStep#N slices derived from optimizers, annotations and operators.
 * What small captures are read as is in tests/cases/steps.
 */
#include "base/job_vars.h"
#include "capture_builder.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 9000000
#define OPT "Optimizer.step#SGD.step"

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

static uint32_t steps_of(struct builder *b, const struct session_opts *opts)
{
	struct slice_log *log = slice_log__of(b, opts);
	uint32_t steps = (uint32_t)log->totals.steps;

	slice_log__free(log);
	return steps;
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

static const CU_TestInfo tests[] = {
	{ "named by the environment", named_by_environment },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("steps", tests);
}
