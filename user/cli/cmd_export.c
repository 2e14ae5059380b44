/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf export: a capture in another format. Needs neither root nor the target. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/cmd.h"
#include "cli/opts.h"
#include "cli/outputs.h"
#include "cli/split_ranks.h"
#include "export/formats.h"
#include "export/stacks.h"

struct export_cfg {
	struct outputs out;
	const char *format, *output, *split;
	int pid;
};

static const struct opt_def export_opts[] = {
	{ OPT_CHOICE, 'f', "format", offsetof(struct export_cfg, format),
	  "FORMAT=chrome, et, memory, memory-raw, memory-html, stacks, threads, flamegraph",
	  "chrome: Chrome trace as Kineto writes it; et: Execution Trace; memory, memory-raw, memory-html: "
	  "memory timeline as numbers, events, page; stacks: Python stacks as torch's export_stacks() writes them; threads: where each thread was last (--sample-stacks); "
	  "flamegraph: a page with them" },
	{ OPT_STR, 'o', "output", offsetof(struct export_cfg, output), "FILE",
	  "file to write, gzip if it ends in .gz (default: CAPTURE with the format's suffix)" },
	{ OPT_INT, 'p', "pid", offsetof(struct export_cfg, pid), "PID",
	  "chrome, et, memory: the process to export (default: chrome: all of them; et, memory: the first in the capture)" },
	{ OPT_STR, 0, "split-ranks", offsetof(struct export_cfg, split), "DIR",
	  "chrome: a trace of each rank, DIR/rankN.pt.trace.json.gz" },
	{ OPT_STR, 0, "device", offsetof(struct export_cfg, out.timeline_device), "DEVICE",
	  "memory: the device to export (default: cuda:0 if anything was allocated there, else cpu)" },
	{ OPT_CHOICE, 0, "metric", offsetof(struct export_cfg, out.stacks_metric), "METRIC=" STACKS_METRICS,
	  "stacks: what to count (default: self_cpu_time_total, in us; of --sample-stacks sampled_cpu_time)" },
	{ OPT_STR, 0, "diff", offsetof(struct export_cfg, out.diff), "CAPTURE",
	  "flamegraph: a second capture, to compare with" },
	{ OPT_STR, 0, "step-on", offsetof(struct export_cfg, out.step_on), "NAME",
	  "end a ProfilerStep after each annotation or operator NAME (default: as recorded)" },
	{ OPT_FLAG, 0, "no-steps", offsetof(struct export_cfg, out.no_steps), NULL,
	  "do not derive ProfilerStep slices" },
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage export_usage = {
	.name = "export",
	.synopsis = "CAPTURE --format FORMAT [-o FILE]",
	.summary = "Converts a capture to another format. Operators have the same ids in every format.",
	.examples = "  ptbpf export run.ptb --format chrome -o run.pt.trace.json.gz\n"
		    "  ptbpf export job.ptb --format chrome --split-ranks traces\n"
		    "  ptbpf export run.ptb --format et -o run.et.json\n"
		    "  ptbpf export run.ptb --format memory-html -o run.memory.html\n"
		    "  ptbpf export run.ptb --format flamegraph -o run.html\n"
		    "  ptbpf export before.ptb --format flamegraph --diff after.ptb -o diff.html\n"
		    "  ptbpf export run.ptb --format stacks --metric self_cuda_time_total -o stacks.txt\n",
	.opts = export_opts,
};

static const struct export_format *find_format(const char *name)
{
	for (size_t i = 0; name && i < export_format_cnt; i++)
		if (!strcmp(export_formats[i].name, name))
			return &export_formats[i];
	pr_error("export: --format is required; the formats are:");
	for (size_t i = 0; i < export_format_cnt; i++)
		pr_error("  %-11s %s", export_formats[i].name, export_formats[i].summary);
	return NULL;
}

static void set_output(struct outputs *o, const struct export_format *format, const char *path)
{
	switch (format->kind) {
	case EXPORT_CHROME:
		o->trace = path;
		break;
	case EXPORT_ET:
		o->et = path;
		break;
	case EXPORT_TIMELINE:
		o->timeline = path;
		o->timeline_format = format->timeline;
		break;
	case EXPORT_STACKS:
		o->stacks = path;
		break;
	case EXPORT_THREADS:
		o->threads = path;
		break;
	case EXPORT_FLAMEGRAPH:
		o->flamegraph = path;
		break;
	}
}

int cmd_export(int argc, char **argv)
{
	struct export_cfg cfg = { .out.summary = true };
	struct outputs *o = &cfg.out;
	const struct export_format *format;
	char path[PATH_MAX];
	size_t len;
	int n = opts__parse(&export_usage, &cfg, argc, argv, &o->capture);

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	if (outputs__check("export", o))
		return EXIT_USAGE;
	if (cfg.pid < 0) {
		pr_error("export: %d is not a process id", cfg.pid);
		return EXIT_USAGE;
	}
	format = find_format(cfg.format);
	if (!format)
		return EXIT_USAGE;
	if ((o->stacks_metric && format->kind != EXPORT_STACKS) ||
	    (o->diff && format->kind != EXPORT_FLAMEGRAPH)) {
		pr_error("export: --%s is for --format %s", o->diff ? "diff" : "metric",
			 o->diff ? "flamegraph" : "stacks");
		return EXIT_USAGE;
	}
	if (cfg.split && (format->kind != EXPORT_CHROME || cfg.output || cfg.pid)) {
		pr_error("export: --split-ranks is for --format chrome, without --output and --pid");
		return EXIT_USAGE;
	}
	if (cfg.split)
		return split_ranks__write(o, cfg.split);
	len = strlen(o->capture);
	if (len > 4 && !strcmp(o->capture + len - 4, ".ptb"))
		len -= 4;
	snprintf(path, sizeof(path), "%.*s%s", (int)len, o->capture, format->suffix);
	o->pid = (uint32_t)cfg.pid;
	set_output(o, format, cfg.output ? cfg.output : path);
	return outputs__write(o);
}
