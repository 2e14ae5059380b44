/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Dispatch to the commands. The only file that turns a result into the process's exit code. */
#include <cjson/cJSON.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cmd.h"

const struct command commands[] = {
	{ &ps_usage, cmd_ps, "list the processes with PyTorch" },
	{ &attach_usage, cmd_attach, "trace a running PyTorch process" },
	{ &record_usage, cmd_record, "start a program and trace it from its first operator" },
	{ &sample_usage, cmd_sample, "record windows of running processes by a schedule" },
	{ &trigger_usage, cmd_trigger,
	  "open a window of a running ptbpf sample now, or at a given time" },
	{ &status_usage, cmd_status,
	  "show what running ptbpf sample do: targets, windows, cost, losses" },
	{ &report_usage, cmd_report, "print the table, memory report or GPU report of a capture" },
	{ &why_usage, cmd_why, "say where a step's time goes, and what to change" },
	{ &diff_usage, cmd_diff, "compare two captures: is a step slower, and why" },
	{ &export_usage, cmd_export, "convert a capture to another format" },
	{ &top_usage, cmd_top, "show what processes do now: operators, lines, threads, steps" },
	{ &dump_usage, cmd_dump, "print where each thread of a process is now" },
	{ &doctor_usage, cmd_doctor, "check what works on this machine and explain what does not" },
	{ NULL, NULL, NULL },
};

/* Of ptbpf sample and ptbpf top, for nobody else. */
static const struct command hidden[] = {
	{ &follow_usage, cmd_follow, NULL },
	{ &frames_usage, cmd_frames, NULL },
	{ NULL, NULL, NULL },
};

static void help(FILE *out)
{
	const struct command *c;

	fputs("ptbpf " PTBPF_VERSION ": a system profiler for PyTorch, from outside the process\n\n"
	      "usage: ptbpf COMMAND [options]\n\n"
	      "examples:\n"
	      "  ptbpf ps                              the processes with PyTorch\n"
	      "  sudo ptbpf attach 4242 -d 5s          five seconds of one: table and trace\n"
	      "  sudo ptbpf record -- python train.py  a program from its first operator on\n"
	      "  ptbpf report ptbpf-4242-*.ptb         the table again; needs no root\n\n"
	      "commands:\n",
	      out);
	for (c = commands; c->usage; c++) {
		fprintf(out, "  %-8s ", c->usage->name);
		help__text(out, c->summary, 11, 11);
	}
	fputs("\nptbpf COMMAND -h: its most needed options; --help: all of them. -V: the version.\n"
	      "Exit codes: 0 done, 1 failed or interrupted, 2 usage, 3 done but incomplete (the\n"
	      "last line says what is missing), 4 slower than diff --fail-above allows.\n",
	      out);
}

/* Another spelling of a command. */
static void say_unknown(const char *word)
{
	struct guess g = { .word = word, .len = strlen(word) };

	for (const struct command *c = commands; c->usage; c++)
		guess__try(&g, c->usage->name);
	if (g.best)
		pr_error("unknown command '%s'; did you mean %s?", word, g.best);
	else
		pr_error("unknown command '%s'; see 'ptbpf --help'", word);
}

static int run_command(const struct command *c, int argc, char **argv)
{
	int err = cancel__install(), code;

	if (err) {
		pr_error("cannot handle signals: %s", errstr(err));
		return EXIT_FAILED;
	}
	code = c->run(argc - 1, argv + 1);
	if (code == EXIT_FAILED && cancel__pending())
		pr_error("interrupted: %s", strsignal(cancel__pending()));
	return code;
}

static int dispatch(int argc, char **argv)
{
	const struct command *c;

	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		help(stdout);
		return EXIT_DONE;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("ptbpf " PTBPF_VERSION);
		return EXIT_DONE;
	}
	if (argc == 3 && !strcmp(argv[1], "--print-docs"))
		return docs__print(argv[2], stdout) ? EXIT_USAGE : EXIT_DONE;
	for (c = commands; c->usage; c++)
		if (!strcmp(argv[1], c->usage->name))
			return run_command(c, argc, argv);
	for (c = hidden; c->usage; c++)
		if (!strcmp(argv[1], c->usage->name))
			return run_command(c, argc, argv);
	say_unknown(argv[1]);
	return EXIT_USAGE;
}

/* No file that is opened later becomes standard output, where it would be written into. */
static void fill_closed(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	int code;

	fill_closed();
	log__set_terminal(terminal__columns(STDERR_FILENO), terminal__colour(STDERR_FILENO));
	cJSON_InitHooks(&(cJSON_Hooks){ xmalloc, free });

	/* a full disk or a closed pipe is an error of a write, not a reason to die half-way */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	code = dispatch(argc, argv);
	return std_out__end("the output", 0) ? EXIT_FAILED : code;
}
