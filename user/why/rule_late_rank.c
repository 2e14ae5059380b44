/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A rank that the others wait for; as report --skew concludes. */
#include "why/why_priv.h"

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	struct findings found = { .cnt = 0 };

	(void)state;
	rank_times__find(report, c->args, &found);
	why_cause__of_finding(out, &found, 0);
	why_cause__change(out, "give that rank less to do, or find what is slow there");
}

const struct why_rule rule_late_rank = {
	.name = "late_rank",
	.title = "a rank is late",
	.needs = WHY_RANKS,
	.report = &skew_report,
	.judge = judge,
};
