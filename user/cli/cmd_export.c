/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf export: a capture in another format. Needs neither root nor the target. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "cli/opts.h"
#include "cli/outputs.h"

struct export_cfg {
	struct outputs out;
	const char *format, *output, *split;
	bool quiet;
	int pid;
};

#define FIRST_NAME(row, name, suffixes, help) name
#define NAME(row, name, suffixes, help) ", " name
#define FIRST_HELP(row, name, suffixes, help) name ": " help
#define HELP(row, name, suffixes, help) "; " name ": " help

static const struct opt_def export_opts[] = {
	{ OPT_CHOICE, 'f', "format", offsetof(struct export_cfg, format),
	  "FORMAT=" FILE_OUTPUTS(FIRST_NAME, NAME),
	  FILE_OUTPUTS(FIRST_HELP,
		       HELP) " (default: the one whose suffix --output has, else chrome)",
	  OPT_BASIC },
	{ OPT_STR, 'o', "output", offsetof(struct export_cfg, output), "FILE",
	  "file to write, gzip if it ends in .gz; -: standard output (default: CAPTURE with the format's suffix)",
	  OPT_BASIC },
	{ OPT_INT, 'p', "pid", offsetof(struct export_cfg, pid), "PID",
	  "chrome, perfetto, et, memory: the process to export (default: chrome, perfetto: all of them; et, memory: the first in the capture)",
	  OPT_BASIC },
	{ OPT_STR, 0, "split-ranks", offsetof(struct export_cfg, split), "DIR",
	  "chrome: a trace of each rank, DIR/rankN.pt.trace.json.gz", OPT_BASIC },
	{ OPT_SWITCH, 0, "overload-names", offsetof(struct export_cfg, out.args.overload_names),
	  NULL,
	  "chrome, perfetto: operators with their overloads (aten::add.Tensor), as torch's capture_overload_names (default: as recorded)" },
	{ OPT_STR, 0, "device", offsetof(struct export_cfg, out.args.device), "DEVICE",
	  "memory: the device to export (default: cuda:0 if anything was allocated there, else cpu)" },
	{ OPT_CHOICE, 0, "metric", offsetof(struct export_cfg, out.args.metric),
	  "METRIC=" STACKS_METRICS,
	  "stacks: what to count (default: self_cpu_time_total, in us; of --sample-stacks sampled_cpu_time)",
	  OPT_BASIC },
	{ OPT_STR, 0, "diff", offsetof(struct export_cfg, out.args.diff), "CAPTURE",
	  "flamegraph: a second capture, to compare with", OPT_BASIC },
	QUIET_OPT(export_cfg),
	READING_OPTS(export_cfg),
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage export_usage = {
	.name = "export",
	.synopsis = "CAPTURE... [options]",
	.summary =
		"Converts a capture to another format. Operators have the same ids in every format. Several captures, of ranks and\n"
		"machines, are read as one session on one time axis.",
	.examples =
		"  ptbpf export run.ptb -o run.pt.trace.json.gz\n"
		"  ptbpf export rank*.ptb -o job.pt.trace.json.gz\n"
		"  ptbpf export rank*.ptb --format chrome --split-ranks traces\n"
		"  ptbpf export run.ptb --format et\n"
		"  ptbpf export run.ptb -o run.memory.html\n"
		"  ptbpf export run.ptb -o run.html   a page with everything\n"
		"  ptbpf export run.ptb -o run.flamegraph.html\n"
		"  ptbpf export before.ptb --diff after.ptb -o diff.flamegraph.html\n"
		"  ptbpf export run.ptb -f stacks --metric self_cuda_time_total -o stacks.txt\n",
	.opts = export_opts,
};

/* As --format says, else the suffix of --output; NULL (reported): it is nobody's. */
static const struct file_output *choose_format(const struct export_cfg *cfg)
{
	const struct file_output *format = file_output__find(cfg->format ? cfg->format : "chrome");
	size_t stem;

	if (cfg->output && !cfg->format)
		format = file_output__of_path(cfg->output, &stem);
	if (format)
		return format;
	pr_error("export: '%s' has the suffix of no format; give one of these with --format:",
		 cfg->output);
	for (const struct file_output *f = file_outputs; f->output; f++)
		pr_error("  %-11s %s: %s", f->name, f->suffixes, f->help);
	return NULL;
}

int cmd_export(int argc, char **argv)
{
	struct export_cfg cfg = { .out.summary = OUTPUTS_IF_MISSING };
	struct outputs *o = &cfg.out;
	const struct file_output *format;
	char path[PATH_MAX];
	size_t len;
	const char *paths[LIMIT_CAPTURES];
	struct opt_words words = { .list = paths, .max = LIMIT_CAPTURES };
	int n = opts__parse(&export_usage, &cfg, argc, argv, &words);

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	log__set_quiet(cfg.quiet);
	if (outputs__take(o, "export", &words))
		return EXIT_USAGE;
	if (cfg.pid < 0) {
		pr_error("export: %d is not a process id", cfg.pid);
		return EXIT_USAGE;
	}
	format = choose_format(&cfg);
	if (!format)
		return EXIT_USAGE;
	if ((o->args.metric && format->output != &stacks_output) ||
	    (o->args.diff && format->output != &flamegraph_output)) {
		pr_error("export: --%s is for --format %s", o->args.diff ? "diff" : "metric",
			 o->args.diff ? "flamegraph" : "stacks");
		return EXIT_USAGE;
	}
	if (o->when && format->output == &page_output) {
		pr_error("export: --format html is of the whole capture: it excludes --when");
		return EXIT_USAGE;
	}
	if (o->args.diff && o->when) {
		pr_error("export: --diff and --when exclude each other");
		return EXIT_USAGE;
	}
	o->args.headline = &memory_headline;
	if (cfg.split && (format->output != &chrome_output || cfg.output || cfg.pid)) {
		pr_error(
			"export: --split-ranks is for --format chrome, without --output and --pid");
		return EXIT_USAGE;
	}
	if (cfg.split)
		return split_ranks__write(o, cfg.split);
	if (!cfg.output && words.cnt > 1) {
		pr_error("export: --output is required for several captures");
		return EXIT_USAGE;
	}
	len = strlen(paths[0]);
	if (len > 4 && !strcmp(paths[0] + len - 4, ".ptb"))
		len -= 4;
	snprintf(path, sizeof(path), "%.*s%.*s", (int)len, paths[0],
		 (int)strcspn(format->suffixes, " "), format->suffixes);
	o->files[0] = (struct output_file){ .output = format->output,
					    .path = cfg.output ? cfg.output : path,
					    .tgid = (uint32_t)cfg.pid };
	return outputs__write(o);
}
