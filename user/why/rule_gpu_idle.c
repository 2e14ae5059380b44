/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A GPU that has nothing to do; as report --gpu concludes. */
#include "why/why_priv.h"

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	struct findings found = { .cnt = 0 };

	(void)state;
	gpu_report__find(report, c->args, &found);
	why_cause__of_finding(out, &found, 0);
	why_cause__change(
		out,
		"launch earlier: no waits for the GPU in the loop, larger batches, CUDA graphs");
}

const struct why_rule rule_gpu_idle = {
	.name = "gpu_idle",
	.title = "the GPU is idle",
	.needs = WHY_GPU,
	.report = &gpus_report,
	.judge = judge,
};
