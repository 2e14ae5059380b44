/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory that grows; as report --memory concludes. */
#include "why/why_priv.h"

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	struct findings found = { .cnt = 0 };

	(void)state;
	mem_report__find(report, c->args, &found);
	why_cause__of_finding(out, &found, WHY_GROWTH_WEIGHT);
	why_cause__change(
		out,
		"drop what is kept: references in lists and closures, losses that are added up with their graph");
}

const struct why_rule rule_memory = {
	.name = "memory_growth",
	.title = "memory grows",
	.needs = WHY_MEMORY,
	.report = &memory_report,
	.judge = judge,
};
