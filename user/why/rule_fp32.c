/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Matrix products in float32 on a GPU that has TF32: torch.profiler's FP32MatMulPattern. Names of
 * the kernels of cuBLAS, cuDNN and CUTLASS say in what they compute.
 */
#include <string.h>

#include "why/why_priv.h"

#define TF32_SINCE 8 /* compute capability: Ampere */

struct state {
	uint64_t cnt, ns;
};

static void take_gpu(const struct why_thread *t, const struct gpu_slice *g, void *state)
{
	static const char *const names[] = { "sgemm", "f32f32_f32f32_f32", "simt_s" };
	struct state *st = state;

	if (g->what != GPU_KERNEL || !g->props || g->props->major < TF32_SINCE ||
	    strstr(g->name, "1688gemm") || (t->whole_cnt && g->at.step < 0))
		return;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strstr(g->name, names[i])) {
			st->cnt++;
			st->ns += g->end_ns - g->begin_ns;
			return;
		}
}

/* The backward pass launches its kernels in threads of its own. */
static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	struct state all = { .cnt = 0 };
	const struct why_thread *t;
	const struct state *st;

	(void)state;
	(void)report;
	for (uint32_t i = 0; (t = why__thread_nr(c->w, i)); i++) {
		st = why__state(c->w, t->tgid, t->tid, &rule_fp32_matmul);
		if (st && t->tgid == c->t.tgid) {
			all.cnt += st->cnt;
			all.ns += st->ns;
		}
	}
	why_cause__costs(c, out, all.ns);
	why_cause__evidence(out, "%s matrix products%s are computed in full float32: %s on the GPU",
			    cell__count(all.cnt / c->steps).text, why__per(c),
			    unit__ns((double)out->step_ns).text);
	why_cause__change(
		out, "torch.set_float32_matmul_precision(\"high\"), which uses TF32, or autocast");
	why_cause__next(out, "ptbpf report %s --gpu", c->args->capture);
}

const struct why_rule rule_fp32_matmul = {
	.name = "fp32_matmul",
	.title = "matrix products in full float32",
	.needs = WHY_GPU,
	.state = sizeof(struct state),
	.gpu = take_gpu,
	.judge = judge,
};
