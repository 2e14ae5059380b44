/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf dump: where each thread of a process is, from a short recording of samples that leaves no
 * file. */
#include "base/guards.h"
#include "cli/cmd.h"
#include "cli/live.h"
#include "cli/which.h"

#define SAMPLES_HZ 99
#define DURATION_NS 2000000000ULL

static const struct opt_def dump_opts[] = {
	{ OPT_PIDS, 'p', "pid", offsetof(struct run_cfg, pids), "PID[,PID...]",
	  "the processes; also as words of their own" },
	{ OPT_FLAG, 0, "children", offsetof(struct run_cfg, rec.children), NULL,
	  "also their child processes (data loader workers, ranks)" },
	{ OPT_DURATION, 'd', "duration", offsetof(struct run_cfg, rec.duration_ns), "TIME",
	  "sample for this time (default: 2s)" },
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage dump_usage = {
	.name = "dump",
	.synopsis = "PID [options]",
	.summary =
		"Prints where each thread of a process is: Python functions with their lines, C++ functions, the\n"
		"operator that is open, and whether the thread ran, waited for a CPU or was blocked. The process needs\n"
		"Python, not PyTorch; no probe is placed, nothing is stopped and no file is written.",
	.examples = "  sudo ptbpf dump 4242\n"
		    "  sudo ptbpf dump --pid 4242 --children -d 5s > threads.txt\n",
	.opts = dump_opts,
	.pids = true,
};

int cmd_dump(int argc, char **argv)
{
	struct run_cfg cfg = { .rec = { .sample_hz = SAMPLES_HZ, .duration_ns = DURATION_NS },
			       .quiet = true,
			       .no_table = true };
	struct outputs_result result = { .incomplete = "" };
	struct live live = { .result = &result, .no_summary = true };
	int n = opts__parse(&dump_usage, &cfg, argc, argv, NULL), code;

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	if (!cfg.pids.cnt)
		return which__offer("dump");
	if (live__check(&cfg))
		return EXIT_USAGE;
	cfg.output = "";
	cfg.files[0] = (struct output_file){ .output = &threads_output, .path = OUTPUT_STDOUT };
	cfg.rec.native_stacks = true;
	stall__watch(EXIT_FAILED);
	code = attach__run(&cfg, &live);
	if (code == EXIT_INCOMPLETE && result.incomplete[0])
		outputs__say_incomplete(&result);
	return code;
}
