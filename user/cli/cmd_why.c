/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ptbpf why: the verdict on a capture, which needs neither root nor the target, or on a running
 * process, of which it records what the rules need.
 */
#include <stddef.h>

#include "base/guards.h"
#include "base/limits.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "cli/live.h"
#include "probe/probe_set.h"
#include "why/why.h"

#define SAMPLES_HZ 99
#define DURATION_NS 10000000000ULL
/* Without --max-overhead operators are recorded for so many steps, of fewer there is hardly a
 * share, or as long where there are none; */
#define LEAST_STEPS 10
#define UNLIMITED_NS 1000000000ULL
#define LEAST_NS 100000000ULL /* with it as long */

struct why_cfg {
	struct outputs out;
	struct run_cfg run;
	const char *max_overhead;
	bool quiet;
};

static const struct opt_def why_opts[] = {
	{ OPT_GROUP, 0, "", 0, NULL, "a running process" },
	{ OPT_PIDS, 'p', "pid", offsetof(struct why_cfg, run.pids), "PID[,PID...]",
	  "in place of a capture: records these processes, and keeps the capture", OPT_BASIC },
	{ OPT_FLAG, 0, "children", offsetof(struct why_cfg, run.rec.children), NULL,
	  "also their child processes (data loader workers, ranks)", OPT_BASIC },
	{ OPT_DURATION, 'd', "duration", offsetof(struct why_cfg, run.rec.duration_ns), "TIME",
	  "record for this time (default: 10s)", OPT_BASIC },
	{ OPT_STR, 0, "max-overhead", offsetof(struct why_cfg, max_overhead), "PERCENT",
	  "end the recording of operators when it has cost a process this share of -d; off: no limit (default: " MAX_OVERHEAD
	  ", but not before ten steps, for at most 1 s)",
	  OPT_BASIC },
	{ OPT_FLAG, 0, "with-stack", offsetof(struct why_cfg, run.rec.stacks), NULL,
	  "record lines of Python, too: causes have them, at a higher cost to the process",
	  OPT_BASIC },
	{ OPT_STR, 'o', "output", offsetof(struct why_cfg, run.output), "FILE",
	  "the capture, .ptb (default: ptbpf-PID-TIME.ptb)", OPT_BASIC },
	{ OPT_GROUP, 0, "", 0, NULL, "the verdict" },
	{ OPT_FLAG, 0, "json", offsetof(struct why_cfg, out.args.json), NULL,
	  "print JSON instead of text", OPT_BASIC },
	{ OPT_STR, 0, "step-on", offsetof(struct why_cfg, out.step_on), "NAME",
	  "end a ProfilerStep after each annotation or operator NAME (default: as recorded)" },
	{ OPT_CHOICE, 0, "table", offsetof(struct why_cfg, out.table), "FORM=" OUTPUTS_TABLES,
	  OUTPUTS_TABLE_HELP },
	QUIET_OPT(why_cfg),
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage why_usage = {
	.name = "why",
	.synopsis = "CAPTURE... | --pid PID [options]",
	.summary =
		"Says where the time of a training step goes, which causes cost most of it, and for each one thing\n"
		"to change. A cause that costs less than 5% of a step is not named. A rule that lacks what it needs\n"
		"says so. Of a running process it records operators, what threads wait for, samples, and GPU activities\n"
		"where the process has the agent.",
	.examples = "  sudo ptbpf why --pid 4242\n"
		    "  ptbpf why run.ptb\n"
		    "  ptbpf why run.ptb --json | jq '.causes[0]'\n",
	.opts = why_opts,
};

/* What it does not record is said by the verdict, too, where a rule lacks it. */
static void say_choice(const struct run_cfg *run)
{
	pr_info("records operators%s%s, samples, GPU activities if there is an agent, for %.3g s; no "
		"memory of tensors",
		run->rec.stacks ? " with their lines" : "",
		run->rec.sched ? ", what threads wait for" : "",
		(double)run->rec.duration_ns / 1e9);
}

static int of_processes(struct why_cfg *cfg)
{
	struct run_cfg *run = &cfg->run;
	struct outputs_result result;
	struct live live = { .result = &result };
	double share;

	run->report = &why_report;
	run->json = cfg->out.args.json;
	run->step_on = cfg->out.step_on;
	run->table = cfg->out.table;
	run->quiet = cfg->quiet;
	run->row_limit = OUTPUT_ROWS_DEFAULT;
	run->rec.sched = probe_set__can_sched();
	run->rec.with_samples = SAMPLES_HZ;
	if (!run->rec.duration_ns)
		run->rec.duration_ns = DURATION_NS;
	run->rec.unlimited_ns = cfg->max_overhead ? LEAST_NS : UNLIMITED_NS;
	run->rec.least_steps = cfg->max_overhead ? 0 : LEAST_STEPS;
	run->rec.least_steps_on = SESSION_STEP_ON;
	run->rec.limit_ops = true;
	run->rec.called_ops = true;
	if (live__parse_overhead("why", cfg->max_overhead ? cfg->max_overhead : MAX_OVERHEAD,
				 &share) ||
	    live__check(run))
		return EXIT_USAGE;
	run->max_cost_ns = (uint64_t)(share * (double)run->rec.duration_ns);
	say_choice(run);
	stall__watch(EXIT_FAILED);
	return attach__run(run, &live);
}

int cmd_why(int argc, char **argv)
{
	struct why_cfg cfg = { .out = { .summary = OUTPUTS_IF_MISSING,
					.report = &why_report,
					.args.row_limit = OUTPUT_ROWS_DEFAULT } };
	const char *paths[LIMIT_CAPTURES];
	struct opt_words words = { .list = paths, .max = LIMIT_CAPTURES };
	int n = opts__parse(&why_usage, &cfg, argc, argv, &words);

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	log__set_quiet(cfg.quiet);
	if (cfg.run.pids.cnt && words.cnt) {
		pr_error("why: a capture and --pid exclude each other");
		return EXIT_USAGE;
	}
	if (cfg.run.pids.cnt)
		return of_processes(&cfg);
	if (cfg.run.rec.duration_ns || cfg.run.output || cfg.run.rec.children ||
	    cfg.run.rec.stacks || cfg.max_overhead) {
		pr_error("why: -d, -o, --children, --max-overhead and --with-stack are for --pid");
		return EXIT_USAGE;
	}
	if (outputs__take(&cfg.out, "why", &words))
		return EXIT_USAGE;
	return outputs__write(&cfg.out);
}
