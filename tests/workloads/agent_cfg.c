// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * agent_cfg PID: writes into the agent in PID what a tracer would before it requests anything, and nothing else.
 * For tests that raise the semaphores themselves.
 */
#include <stdio.h>
#include <stdlib.h>

#include "plan/plan.h"
#include "target/torch.h"

int main(int argc, char **argv)
{
	pid_t pid = argc == 2 ? atoi(argv[1]) : 0;
	enum torch_proc_why proc_why;
	struct torch_plan *plan;
	struct ptb_agent_cfg cfg;
	struct torch_proc *tp;
	struct proc_ops po;
	struct agent_lib al;
	char why[256] = "";

	if (pid <= 0 || torch_proc__open(pid, &tp, &proc_why))
		return 2;
	if (torch_plan__new(tp->libs, NULL, true, &plan))
		return 3;
	proc_ops__init(&po, tp, plan);
	proc_cfg__agent(&po, &cfg);
	proc_ops__free(&po);
	if (agent_lib__find(pid, &al, why, sizeof(why)) || agent_lib__configure(pid, &al, &cfg)) {
		fprintf(stderr, "%s\n", why);
		return 4;
	}
	printf("RecordFunction %u bytes %s, shapes %d %s\n", cfg.rf.size, plan->layout.no_rf_why,
	       cfg.tensor.shapes_on, plan->layout.no_shapes_why);
	agent_lib__clear(&al);
	torch_plan__free(plan);
	torch_proc__free(tp);
	return 0;
}
