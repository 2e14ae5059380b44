/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf merge: several captures as one. Needs neither root nor the targets. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "cli/opts.h"
#include "ranks/merge.h"

struct merge_cfg {
	const char *output, *align;
};

static const struct opt_def merge_opts[] = {
	{ OPT_STR, 'o', "output", offsetof(struct merge_cfg, output), "FILE",
	  "capture to write (required)" },
	{ OPT_CHOICE, 0, "align", offsetof(struct merge_cfg, align), "BY=clocks, collectives",
	  "collectives: where collectives contradict a machine's clock, its times are moved; clocks (default): "
	  "a warning says by how much" },
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage merge_usage = {
	.name = "merge",
	.synopsis = "CAPTURE CAPTURE... -o FILE",
	.summary = "Joins captures of several ranks and machines on one time axis. The result is a capture: report and\n"
		   "export read it.",
	.examples = "  ptbpf merge rank0.ptb rank1.ptb -o job.ptb\n"
		    "  ptbpf merge host*.ptb --align collectives -o job.ptb\n"
		    "  ptbpf report job.ptb\n"
		    "  ptbpf export job.ptb --format chrome --split-ranks traces\n",
	.opts = merge_opts,
};

int cmd_merge(int argc, char **argv)
{
	const char *paths[LIMIT_MERGE_INPUTS];
	struct opt_words words = { .list = paths, .max = LIMIT_MERGE_INPUTS };
	struct merge_cfg cfg = { .output = NULL };
	struct merge_opts opts = { .paths = paths };
	uint64_t left_out;
	int n = opts__parse_words(&merge_usage, &cfg, argc, argv, &words);

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	if (words.cnt < 2 || !cfg.output) {
		pr_error("merge: at least two captures and --output are required; see 'ptbpf merge --help'");
		return EXIT_USAGE;
	}
	opts.path_cnt = words.cnt;
	opts.output = cfg.output;
	opts.by_collectives = cfg.align && !strcmp(cfg.align, "collectives");
	if (merge__run(&opts, &left_out))
		return EXIT_FAILED;
	if (!left_out)
		return EXIT_DONE;
	fprintf(stderr,
		"ptbpf: incomplete: %llu records left out: damaged, or of kinds that this version does not know\n",
		(unsigned long long)left_out);
	return EXIT_INCOMPLETE;
}
