/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf report: the table of a capture. Needs neither root nor the target. */
#include <stddef.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "cli/opts.h"
#include "cli/outputs.h"
#include "report/report.h"

struct report_cfg {
	struct outputs out;
	bool memory, gpu, skew, sched, quiet;
	const char *by;
};

static const struct opt_def report_opts[] = {
	{ OPT_CHOICE, 0, "sort-by", offsetof(struct report_cfg, out.args.sort_by),
	  "KEY=" OUTPUTS_SORT_KEYS,
	  "order of the rows; none: order of first appearance (default: as recorded, else " OUTPUTS_SORTED
	  ")",
	  OPT_BASIC },
	{ OPT_INT, 0, "row-limit", offsetof(struct report_cfg, out.args.row_limit), "N",
	  "rows, -1: all (default: as recorded, else 100; of --by: 25; of each list of --memory, --gpu, --skew and --sched: 10)",
	  OPT_BASIC },
	{ OPT_CHOICE, 0, "table", offsetof(struct report_cfg, out.table), "FORM=" OUTPUTS_TABLES,
	  OUTPUTS_TABLE_HELP },
	{ OPT_SWITCH, 0, "group-by-input-shape", offsetof(struct report_cfg, out.args.by_shape),
	  NULL, "one row per operator and input shape (needs --record-shapes in the recording)",
	  OPT_BASIC },
	{ OPT_INT, 0, "group-by-stack-n", offsetof(struct report_cfg, out.args.group_by_stack_n),
	  "N",
	  "one row per operator and the N innermost frames of its Python stack (needs --with-stack in the "
	  "recording)" },
	{ OPT_CHOICE, 0, "by", offsetof(struct report_cfg, by), "WHAT=line, module, operator",
	  "line: what operators did by the line of Python that called them: time, GPU time, memory, page faults "
	  "(needs --with-stack in the recording); module: by the nn.Module that they ran in (needs --with-modules); operator: "
	  "samples by the operator that was open (needs --sample-stacks with --activities cpu, and the agent)",
	  OPT_BASIC },
	{ OPT_FLAG, 0, "all-lines", offsetof(struct report_cfg, out.args.all_lines), NULL,
	  "--by line: lines of installed code have rows, too; else they count as the line that called them" },
	{ OPT_SWITCH, 0, "with-flops", offsetof(struct report_cfg, out.args.with_flops), NULL,
	  "a column of floating point operations, as torch counts them (needs --record-shapes in "
	  "the recording)" },
	{ OPT_FLAG, 0, "memory", offsetof(struct report_cfg, memory), NULL,
	  "memory report: peak, leaks, live blocks by operator, page faults and stalls in the Linux kernel",
	  OPT_BASIC },
	{ OPT_FLAG, 0, "gpu", offsetof(struct report_cfg, gpu), NULL,
	  "GPU report: utilization, idle time by cause, top GPU kernels, copies, launches, gaps",
	  OPT_BASIC },
	{ OPT_FLAG, 0, "skew", offsetof(struct report_cfg, skew), NULL,
	  "report of several ranks: which one the others wait for, since which step, in what; who waited for whom",
	  OPT_BASIC },
	{ OPT_FLAG, 0, "sched", offsetof(struct report_cfg, sched), NULL,
	  "report of threads: how long each ran, and what it waited for: a CPU, the GIL, locks, I/O (needs --sched in the recording)",
	  OPT_BASIC },
	{ OPT_SWITCH, 0, "exact-memory", offsetof(struct report_cfg, out.args.exact_memory), NULL,
	  "memory columns: count only what the operator's thread allocates (torch: all threads)" },
	{ OPT_FLAG, 0, "json", offsetof(struct report_cfg, out.args.json), NULL,
	  "print JSON instead of text", OPT_BASIC },
	QUIET_OPT(report_cfg),
	READING_OPTS(report_cfg),
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage report_usage = {
	.name = "report",
	.synopsis = "CAPTURE... [options]",
	.summary =
		"Prints the operator table of a capture, as torch.profiler's key_averages().table() does; with\n"
		"--by lines of Python code, modules or samples, with --memory, --gpu or --skew (of ranks) another report.\n"
		"Several captures, of ranks and machines, are read as one session on one time axis. Options that were given to the recording\n"
		"(--step-on, --group-by-input-shape, ...) are the defaults.",
	.examples = "  ptbpf report run.ptb --sort-by cpu_time_total --row-limit 10\n"
		    "  ptbpf report run.ptb --group-by-input-shape --with-flops\n"
		    "  ptbpf report run.ptb --by line\n"
		    "  ptbpf report run.ptb --by module --sort-by cuda_time_total\n"
		    "  ptbpf report run.ptb --by operator\n"
		    "  ptbpf report run.ptb --group-by-stack-n 5\n"
		    "  ptbpf report run.ptb --memory\n"
		    "  ptbpf report run.ptb --when forward\n"
		    "  ptbpf report run.ptb --gpu\n"
		    "  ptbpf report rank*.ptb --skew\n"
		    "  ptbpf report run.ptb --json | jq '.rows[0]'\n",
	.opts = report_opts,
};

/* NULL (reported): more than one. */
static const struct output *choose_report(const struct report_cfg *cfg)
{
	const struct {
		bool on;
		const struct output *report;
	} list[] = { { cfg->memory, &memory_report },
		     { cfg->gpu, &gpus_report },
		     { cfg->skew, &skew_report },
		     { cfg->sched, &sched_report },
		     { cfg->by && !strcmp(cfg->by, "line"), &lines_report },
		     { cfg->by && !strcmp(cfg->by, "module"), &modules_report },
		     { cfg->by && !strcmp(cfg->by, "operator"), &sampled_operators_report } };
	const struct output *report = NULL;

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		if (list[i].on && report) {
			pr_error(
				"report: --memory, --gpu, --skew, --sched and --by exclude each other");
			return NULL;
		}
		if (list[i].on)
			report = list[i].report;
	}
	return report ? report : &operators_report;
}

int cmd_report(int argc, char **argv)
{
	struct report_cfg cfg = { .out = { .summary = OUTPUTS_IF_MISSING,
					   .args.row_limit = OUTPUT_ROWS_DEFAULT } };
	struct outputs *o = &cfg.out;
	const struct output_args *a = &o->args;
	const char *paths[LIMIT_CAPTURES];
	struct opt_words words = { .list = paths, .max = LIMIT_CAPTURES };
	int n = opts__parse(&report_usage, &cfg, argc, argv, &words);

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	log__set_quiet(cfg.quiet);
	if (outputs__take(o, "report", &words))
		return EXIT_USAGE;
	o->report = choose_report(&cfg);
	if (!o->report)
		return EXIT_USAGE;
	if (o->when && cfg.skew) {
		pr_error("report: --skew compares whole steps: it excludes --when");
		return EXIT_USAGE;
	}
	if (a->group_by_stack_n < 0 || (a->group_by_stack_n && o->report != &operators_report)) {
		pr_error(
			"report: --group-by-stack-n is a number of frames, for the table of operators");
		return EXIT_USAGE;
	}
	if (a->all_lines && o->report != &lines_report) {
		pr_error("report: --all-lines is for --by line");
		return EXIT_USAGE;
	}
	if (cfg.by && a->sort_by && strcmp(a->sort_by, OUTPUTS_UNSORTED) != 0 &&
	    !report__is_sort_key(o->report, a->sort_by)) {
		pr_error("report: --by %s cannot be sorted by %s", cfg.by, a->sort_by);
		return EXIT_USAGE;
	}
	return outputs__write(o);
}
