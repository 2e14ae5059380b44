/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The commands: one file each. A command gets its own argv (argv[0] is its name), returns an exit
 * code. */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include <stdio.h>

#include "cli/opts.h"

/* EXIT_ABOVE: diff --fail-above */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_INCOMPLETE = 3,
	EXIT_ABOVE = 4,
};

struct command {
	const struct cmd_usage *usage;
	int (*run)(int argc, char **argv);
	const char *summary; /* a few words, for the list of commands */
};
extern const struct command commands[]; /* ends with a row without usage */

extern const struct cmd_usage ps_usage, attach_usage, record_usage, sample_usage, trigger_usage,
	status_usage, report_usage, why_usage, diff_usage, export_usage, dump_usage, doctor_usage,
	top_usage, follow_usage, frames_usage;

int cmd_ps(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_sample(int argc, char **argv);
int cmd_trigger(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_follow(int argc, char **argv);
int cmd_frames(int argc, char **argv);

/* Man pages and shell completions, written from the same rows as --help; the build runs it once for
 * each. */

/* "man" (ptbpf.1), "man-attach" (ptbpf-attach.1) and so on for each command, "bash", "zsh", "fish".
 * -EINVAL, with a sentence, for anything else. */
int docs__print(const char *what, FILE *out);
int completion__print(const char *shell, FILE *out); /* -EINVAL: of no such shell */

/*
 * A configuration file: lines NAME=VALUE with the long options of a command, yes or no for one that
 * takes no value, each at most once. Blank lines and those that begin with # are skipped.
 */

struct conf;

/*
 * Reads the options into cfg, whose texts are those of *out. Refuses what users other than root,
 * the effective one and sudo's caller may have written, since a command in it runs with ptbpf's
 * rights. 0 or negative errno (reported, with file and line).
 */
int conf__read(const char *path, const struct cmd_usage *usage, void *cfg, struct conf **out);
/* For log__set_context(), valid until the next call: "FILE:LINE" of a value that was read; NULL: it
 * was not. */
const char *conf__where(struct conf *conf, const char *value);
void conf__free(struct conf *conf); /* NULL is fine */

#endif /* CLI_CMD_H */
