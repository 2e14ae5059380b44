/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf report: the table of a capture. Needs neither root nor the target. */
#include <stddef.h>

#include "base/log.h"
#include "cli/cmd.h"
#include "cli/opts.h"
#include "cli/outputs.h"

static const struct opt_def report_opts[] = {
	{ OPT_CHOICE, 0, "sort-by", offsetof(struct outputs, sort_by), "KEY=" OUTPUTS_SORT_KEYS,
	  "order of the rows; none: order of first appearance (default: as recorded, else " OUTPUTS_SORTED
	  ")" },
	{ OPT_INT, 0, "row-limit", offsetof(struct outputs, row_limit), "N",
	  "rows, -1: all (default: as recorded, else 100; of each list of --memory and --gpu: 10)" },
	{ OPT_SWITCH, 0, "group-by-input-shape", offsetof(struct outputs, by_shape), NULL,
	  "one row per operator and input shape (needs --record-shapes in the recording)" },
	{ OPT_SWITCH, 0, "with-flops", offsetof(struct outputs, with_flops), NULL,
	  "a column of floating point operations, as torch counts them (needs --record-shapes in "
	  "the recording)" },
	{ OPT_FLAG, 0, "memory", offsetof(struct outputs, memory), NULL,
	  "memory report: peak, leaks, live blocks by operator, page faults and stalls in the kernel" },
	{ OPT_FLAG, 0, "gpu", offsetof(struct outputs, gpu), NULL,
	  "GPU report: utilization, idle time by cause, top kernels, copies, launches, gaps" },
	{ OPT_SWITCH, 0, "exact-memory", offsetof(struct outputs, exact_memory), NULL,
	  "memory columns: count only what the operator's thread allocates (torch: all threads)" },
	{ OPT_FLAG, 0, "json", offsetof(struct outputs, json), NULL, "print JSON instead of text" },
	{ OPT_STR, 0, "step-on", offsetof(struct outputs, step_on), "NAME",
	  "end a ProfilerStep after each annotation or operator NAME (default: as recorded)" },
	{ OPT_FLAG, 0, "no-steps", offsetof(struct outputs, no_steps), NULL,
	  "do not derive ProfilerStep slices" },
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage report_usage = {
	.name = "report",
	.synopsis = "CAPTURE [options]",
	.summary = "Prints the operator table of a capture, as torch.profiler's key_averages().table() does; with\n"
		   "--memory the memory report, with --gpu the GPU report. Options that were given to the recording\n"
		   "(--step-on, --group-by-input-shape, ...) are the defaults.",
	.examples = "  ptbpf report run.ptb --sort-by cpu_time_total --row-limit 10\n"
		    "  ptbpf report run.ptb --group-by-input-shape --with-flops\n"
		    "  ptbpf report run.ptb --memory\n"
		    "  ptbpf report run.ptb --gpu\n"
		    "  ptbpf report run.ptb --json | jq '.rows[0]'\n",
	.opts = report_opts,
};

int cmd_report(int argc, char **argv)
{
	struct outputs o = { .summary = true, .row_limit = OUTPUTS_ROWS_DEFAULT };
	int n = opts__parse(&report_usage, &o, argc, argv, &o.capture);

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	if (outputs__check("report", &o))
		return EXIT_USAGE;
	if (o.memory && o.gpu) {
		pr_error("report: --memory and --gpu exclude each other");
		return EXIT_USAGE;
	}
	o.table = !o.memory && !o.gpu;
	return outputs__write(&o);
}
