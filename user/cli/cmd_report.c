/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf report: the table of a capture. Needs neither root nor the target. */
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "cli/cmd.h"
#include "cli/opts.h"
#include "cli/outputs.h"
#include "report/line_report.h"

struct report_cfg {
	struct outputs out;
	const char *by;
};

static const struct opt_def report_opts[] = {
	{ OPT_CHOICE, 0, "sort-by", offsetof(struct report_cfg, out.sort_by), "KEY=" OUTPUTS_SORT_KEYS,
	  "order of the rows; none: order of first appearance (default: as recorded, else " OUTPUTS_SORTED
	  ")" },
	{ OPT_INT, 0, "row-limit", offsetof(struct report_cfg, out.row_limit), "N",
	  "rows, -1: all (default: as recorded, else 100; of --by: 25; of each list of --memory, --gpu and --skew: 10)" },
	{ OPT_SWITCH, 0, "group-by-input-shape", offsetof(struct report_cfg, out.by_shape), NULL,
	  "one row per operator and input shape (needs --record-shapes in the recording)" },
	{ OPT_INT, 0, "group-by-stack-n", offsetof(struct report_cfg, out.group_by_stack_n), "N",
	  "one row per operator and the N innermost frames of its Python stack (needs --with-stack in the "
	  "recording)" },
	{ OPT_CHOICE, 0, "by", offsetof(struct report_cfg, by), "WHAT=line, module, operator",
	  "line: what operators did by the line of Python that called them: time, GPU time, memory, page faults "
	  "(needs --with-stack in the recording); module: by the nn.Module that they ran in (needs --with-modules); operator: "
	  "samples by the operator that was open (needs --sample-stacks with --activities cpu, and the agent)" },
	{ OPT_FLAG, 0, "all-lines", offsetof(struct report_cfg, out.all_lines), NULL,
	  "--by line: lines of installed code have rows, too; else they count as the line that called them" },
	{ OPT_SWITCH, 0, "with-flops", offsetof(struct report_cfg, out.with_flops), NULL,
	  "a column of floating point operations, as torch counts them (needs --record-shapes in "
	  "the recording)" },
	{ OPT_FLAG, 0, "memory", offsetof(struct report_cfg, out.memory), NULL,
	  "memory report: peak, leaks, live blocks by operator, page faults and stalls in the kernel" },
	{ OPT_FLAG, 0, "gpu", offsetof(struct report_cfg, out.gpu), NULL,
	  "GPU report: utilization, idle time by cause, top kernels, copies, launches, gaps" },
	{ OPT_FLAG, 0, "skew", offsetof(struct report_cfg, out.skew), NULL,
	  "report of several ranks: which one the others wait for, since which step, in what; who waited for whom" },
	{ OPT_SWITCH, 0, "exact-memory", offsetof(struct report_cfg, out.exact_memory), NULL,
	  "memory columns: count only what the operator's thread allocates (torch: all threads)" },
	{ OPT_FLAG, 0, "json", offsetof(struct report_cfg, out.json), NULL, "print JSON instead of text" },
	{ OPT_STR, 0, "step-on", offsetof(struct report_cfg, out.step_on), "NAME",
	  "end a ProfilerStep after each annotation or operator NAME (default: as recorded)" },
	{ OPT_FLAG, 0, "no-steps", offsetof(struct report_cfg, out.no_steps), NULL,
	  "do not derive ProfilerStep slices" },
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage report_usage = {
	.name = "report",
	.synopsis = "CAPTURE [options]",
	.summary = "Prints the operator table of a capture, as torch.profiler's key_averages().table() does; with\n"
		   "--by line lines of Python code, with --by module modules, with --by operator samples, with --memory the memory report, with --gpu the GPU report, with --skew a comparison of ranks. Options that were given to the recording\n"
		   "(--step-on, --group-by-input-shape, ...) are the defaults.",
	.examples = "  ptbpf report run.ptb --sort-by cpu_time_total --row-limit 10\n"
		    "  ptbpf report run.ptb --group-by-input-shape --with-flops\n"
		    "  ptbpf report run.ptb --by line\n"
		    "  ptbpf report run.ptb --by module --sort-by cuda_time_total\n"
		    "  ptbpf report run.ptb --by operator\n"
		    "  ptbpf report run.ptb --group-by-stack-n 5\n"
		    "  ptbpf report run.ptb --memory\n"
		    "  ptbpf report run.ptb --gpu\n"
		    "  ptbpf report job.ptb --skew\n"
		    "  ptbpf report run.ptb --json | jq '.rows[0]'\n",
	.opts = report_opts,
};

int cmd_report(int argc, char **argv)
{
	struct report_cfg cfg = { .out = { .summary = true, .row_limit = OUTPUTS_ROWS_DEFAULT } };
	struct outputs *o = &cfg.out;
	int n = opts__parse(&report_usage, &cfg, argc, argv, &o->capture);

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	if (outputs__check("report", o))
		return EXIT_USAGE;
	o->lines = cfg.by;
	if (o->memory + o->gpu + o->skew + o->lines > 1) {
		pr_error("report: --memory, --gpu, --skew and --by exclude each other");
		return EXIT_USAGE;
	}
	o->table = !o->memory && !o->gpu && !o->skew && !o->lines;
	if (o->group_by_stack_n < 0 || (o->group_by_stack_n && !o->table)) {
		pr_error("report: --group-by-stack-n is a number of frames, for the table of operators");
		return EXIT_USAGE;
	}
	o->modules = o->lines && !strcmp(cfg.by, "module");
	o->operators = o->lines && !strcmp(cfg.by, "operator");
	if (o->all_lines && (!o->lines || o->modules || o->operators)) {
		pr_error("report: --all-lines is for --by line");
		return EXIT_USAGE;
	}
	if (o->lines && o->sort_by && strcmp(o->sort_by, OUTPUTS_UNSORTED) != 0 &&
	    !line_report__is_sort_key(o->sort_by)) {
		pr_error("report: --by %s cannot be sorted by %s", cfg.by, o->sort_by);
		return EXIT_USAGE;
	}
	return outputs__write(o);
}
