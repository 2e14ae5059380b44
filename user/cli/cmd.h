/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The commands: one file each. A command gets its own argv (argv[0] is its name), returns an exit code. */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include "cli/opts.h"

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INCOMPLETE = 3 };

struct command {
	const struct cmd_usage *usage;
	int (*run)(int argc, char **argv);
	const char *summary; /* a few words, for the list of commands */
};
extern const struct command commands[]; /* ends with a row without usage */

extern const struct cmd_usage attach_usage, record_usage, sample_usage, trigger_usage, status_usage,
	report_usage, export_usage, doctor_usage, follow_usage;

int cmd_attach(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_sample(int argc, char **argv);
int cmd_trigger(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_follow(int argc, char **argv);

#endif /* CLI_CMD_H */
