/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which files a recording makes: those that options name, or that are made by default. */
#define LOG_DOMAIN "live"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/new_file.h"
#include "base/text.h"
#include "cli/live.h"

/* Options that name a file of a format, or of the one of two whose suffix it has. */
static const struct {
	size_t offset; /* in struct run_cfg */
	const char *option, *suffix;
	const struct output *output;
	const char *other_suffix; /* NULL: there is one only */
	const struct output *other;
} file_options[] = {
	{ offsetof(struct run_cfg, trace), "trace", ".json", &chrome_output, ".pftrace",
	  &perfetto_output },
	{ offsetof(struct run_cfg, et), "et", ".json", &et_output },
	{ offsetof(struct run_cfg, flamegraph), "flamegraph", ".html", &flamegraph_output },
	{ offsetof(struct run_cfg, page), "html", ".html", &page_output },
	{ offsetof(struct run_cfg, threads), "threads", ".txt", &threads_output },
};
#define FILE_OPTIONS (sizeof(file_options) / sizeof(*file_options))

static bool ends_with(const char *text, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && !strncmp(text + len - n, end, n);
}

/* Has its name the suffix, with or without ".gz", or none at all? */
static bool fits(const char *path, const char *suffix)
{
	const char *name = path__base(path);
	size_t len = strlen(name);

	if (!strchr(*name ? name + 1 : name, '.'))
		return true;
	return ends_with(name, ends_with(name, len, ".gz") ? len - 3 : len, suffix);
}

/* 0 or -EINVAL (reported): it is no file, or another one's. */
static int check_name(const struct run_cfg *cfg, const char *option, const char *path)
{
	bool other = cfg->output && path != cfg->output && !strcmp(path, cfg->output);

	for (const struct output_file *f = cfg->files; f->path; f++)
		other |= !strcmp(path, f->path);
	if (other)
		pr_error("--%s '%s': another option names this file", option, path);
	else if (!strcmp(path, OUTPUT_STDOUT))
		pr_error("--%s %s: only ptbpf export writes a file to standard output", option,
			 path);
	else
		return 0;
	return -EINVAL;
}

/* Of little use without Python's stacks, or of none. */
static bool shows_stacks(const struct output *output)
{
	return output == &flamegraph_output || output == &pprof_output ||
	       output == &speedscope_output || output->needs & NEEDS_STACKS;
}

/* 0 or -EINVAL (reported). */
static int add_file(struct run_cfg *cfg, const char *option, const struct output *output,
		    const char *path)
{
	struct output_file *f = cfg->files;

	if (check_name(cfg, option, path))
		return -EINVAL;
	while (f->path)
		f++;
	*f = (struct output_file){ .output = output, .path = path };
	/* what it cannot be made without is recorded */
	if (output == &et_output)
		cfg->execution_trace = true;
	if (output->needs & NEEDS_ALLOCATIONS)
		cfg->rec.memory = true;
	if (shows_stacks(output) && !cfg->rec.sample_hz)
		cfg->rec.stacks = true;
	if (!(output->needs & NEEDS_SAMPLES))
		return 0;
	cfg->rec.native_stacks = true;
	if (!cfg->rec.sample_hz)
		pr_error("--%s %s needs --sample-stacks", option, path);
	return cfg->rec.sample_hz ? 0 : -EINVAL;
}

/* The capture, or a file of the format whose suffix it has. */
static int take_output(struct run_cfg *cfg)
{
	const char *path = cfg->output;
	const struct file_output *f;
	size_t stem;

	if (!path)
		return 0;
	if (fits(path, ".ptb"))
		return check_name(cfg, "output", path);
	f = file_output__of_path(path, &stem);
	if (f) {
		cfg->output = NULL;
		return add_file(cfg, "output", f->output, path);
	}
	pr_error(
		"--output '%s': a capture ends in .ptb, a trace in .json, .json.gz or .pftrace, an Execution Trace in "
		".et.json, a page in .html, a flame graph in .flamegraph.html",
		path);
	return -EINVAL;
}

static int take_option(struct run_cfg *cfg, size_t i)
{
	const char *path = *(const char **)((char *)cfg + file_options[i].offset);
	const char *suffix = file_options[i].suffix, *other = file_options[i].other_suffix;

	if (!path)
		return 0;
	if (fits(path, suffix))
		return add_file(cfg, file_options[i].option, file_options[i].output, path);
	if (other && fits(path, other))
		return add_file(cfg, file_options[i].option, file_options[i].other, path);
	pr_error("--%s '%s': its name ends in %s or %s.gz%s%s", file_options[i].option, path,
		 suffix, suffix, other ? ", or in " : "", other ? other : "");
	return -EINVAL;
}

int live_files__check(struct run_cfg *cfg)
{
	int err = take_output(cfg);

	for (size_t i = 0; i < FILE_OPTIONS && !err; i++)
		err = take_option(cfg, i);
	return err;
}

/*
 * No file is named: ptbpf-PID-TIME.ptb and, where no other report is wanted, its trace, with
 * --execution-trace also its Execution Trace. The capture: only what is named. Other files: those,
 * and the capture beside the first.
 */
void live_files__choose(struct live *live, const struct run_cfg *cfg, pid_t pid)
{
	struct output_file *files = live->files;
	char stamp[32] = "";
	time_t now = time(NULL);
	struct tm tm;
	size_t stem;

	memcpy(files, cfg->files, sizeof(cfg->files));
	if (cfg->output) {
		snprintf(live->capture, sizeof(live->capture), "%s", cfg->output);
		return;
	}
	if (files->path) {
		file_output__of_path(files->path, &stem);
		snprintf(live->capture, sizeof(live->capture), "%.*s.ptb", (int)stem, files->path);
		return;
	}
	if (localtime_r(&now, &tm))
		strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	snprintf(live->capture, sizeof(live->capture), "ptbpf-%d-%s.ptb", pid, stamp);
	if (cfg->report)
		return;
	snprintf(live->trace, sizeof(live->trace), "ptbpf-%d-%s.pt.trace.json.gz", pid, stamp);
	*files++ = (struct output_file){ .output = &chrome_output, .path = live->trace };
	if (!cfg->execution_trace)
		return;
	snprintf(live->et, sizeof(live->et), "ptbpf-%d-%s.et.json", pid, stamp);
	*files = (struct output_file){ .output = &et_output, .path = live->et };
}

int live_files__can_write(const struct live *live)
{
	int err = 0;

	for (const struct output_file *f = live->files; f->path && !err; f++)
		if (strcmp(f->path, OUTPUT_STDOUT) != 0)
			err = new_file__check(f->path, NEW_FILE_ANY);
	return err;
}
