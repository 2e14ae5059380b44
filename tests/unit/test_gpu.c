/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * GPU records on the host's clock, linked to launches, operators, annotations and steps.
 * What small captures are read as is in tests/cases/gpu.
 */
#include <stdlib.h>
#include <string.h>

#include "capture_builder.h"
#include "gpu_log.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define OFF 5000000000ULL /* CUPTI's time is ahead by so much */

static void pair(struct builder *b, uint64_t gpu, uint64_t mono, uint64_t err)
{
	struct ptb_gpu_clock r = { .gpu_ns = gpu, .mono_ns = mono, .err_ns = err };

	builder__ring_rec(b, &r.h, PTB_REC_GPU_CLOCK, sizeof(r), mono);
}

static void done(struct gpu_log *log, struct builder *b)
{
	gpu_log__free(log);
	builder__free(b);
}

/* A clock that is ahead and runs 20 ppm fast, read with noise: everything lies within the bound. */
static void drift(void)
{
	struct builder *b = builder__new(BEGIN, 4000000000ULL);
	uint32_t l = builder__name(b, "cudaLaunchKernel"), bad = 0;
	struct gpu_log *log;
	struct session *s;
	uint64_t bound;

	builder__meta(b, "gpu", "true");
	builder__thread(b, 10, 10);
	srandom(7);
	for (uint32_t i = 1; i < 40; i++) {
		uint64_t mono = 100000000ULL * i - 50000000, gpu = OFF + mono + mono / 50000;
		uint64_t err = i % 9 ? 50 : 400000; /* interrupted there */

		pair(b, gpu, mono + (uint64_t)random() % (2 * err) - err, err);
	}
	for (uint32_t i = 1; i < 3999; i++) {
		uint64_t mono = 1000000ULL * i, gpu = OFF + mono + mono / 50000;
		struct ptb_gpu_api r = { .begin = gpu, .end = gpu + 1000, .name = l, .correlation = i };

		builder__ring_rec(b, &r.h, PTB_REC_GPU_API, sizeof(r), mono);
	}
	s = builder__session(b, NULL);
	bound = session__info(s)->gpu_clock_err_ns;
	CU_ASSERT_TRUE(bound >= 50 && bound < 250);
	log = gpu_log__run(s);
	for (uint32_t i = 0; i < log->cnt; i++) {
		uint64_t want = 1000000ULL * log->v[i].correlation, got = log->v[i].begin_ns;

		bad += (got > want ? got - want : want - got) > bound;
	}
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT_TRUE(log->cnt >= 3997); /* the first is at the very begin of the window */
	done(log, b);
}

static const CU_TestInfo tests[] = {
	{ "offset and drift", drift },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("gpu", tests);
}
