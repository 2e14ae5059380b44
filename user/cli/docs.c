/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See cmd.h. Man pages are in mdoc(7). */
#include "cli/cmd.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/log.h"

/* ---- roff ---- */

#define FILL 72 /* columns of a source line */

/* One word. What roff would read as an escape or, at the beginning of a line, as a request is
 * protected; the dashes of an option are ASCII's; f() of another program is plain text. */
static void put_word(const char *word, size_t len, bool first, FILE *out)
{
	if (first && len && (*word == '.' || *word == '\''))
		fputs("\\&", out);
	for (size_t i = 0; i < len; i++) {
		if (word[i] == '\\')
			fputs("\\e", out);
		else if (word[i] == '-' && (!i || !isalnum((unsigned char)word[i - 1])))
			fputs("\\-", out);
		else if (i && word[i] == '(')
			fputs("\\&(", out);
		else
			fputc(word[i], out);
	}
}

/* Filled text; each sentence begins a line, as mdoc asks for. */
static void put_text(const char *text, FILE *out)
{
	size_t column = 0, len;
	bool sentence = true;

	for (; *text; text += len) {
		text += strspn(text, " \n");
		len = strcspn(text, " \n");
		if (!len)
			break;
		if (column && (sentence || column + 1 + len > FILL)) {
			fputc('\n', out);
			column = 0;
		}
		if (column)
			fputc(' ', out);
		put_word(text, len, !column, out);
		column += len + 1;
		sentence = text[len - 1] == '.';
	}
	fputc('\n', out);
}

static void put_capital(const char *text, FILE *out)
{
	for (; *text; text++)
		fputc(*text >= 'a' && *text <= 'z' ? *text - 'a' + 'A' : *text, out);
}

/* Lines as they are, without the two blanks that --help puts before them. */
static void put_lines(const char *text, FILE *out)
{
	size_t len;

	fputs(".Bd -literal -offset indent\n", out);
	for (; *text; text += len + (text[len] == '\n')) {
		text += strspn(text, " ");
		len = strcspn(text, "\n");
		put_word(text, len, true, out);
		fputc('\n', out);
	}
	fputs(".Ed\n", out);
}

/* ---- a page ---- */

static void put_head(const char *command, const char *summary, FILE *out)
{
	fprintf(out, ".Dd %s\n.Dt PTBPF%s", PTBPF_DATE, command ? "-" : "");
	put_capital(command ? command : "", out);
	fprintf(out, " 1\n.Os\n.Sh NAME\n.Nm ptbpf%s%s\n.Nd %s\n", command ? "-" : "",
		command ? command : "", summary);
}

/* The command that follows `after` in the alphabet; "" comes before the first. NULL: none. */
static const char *next_command(const char *after)
{
	const struct command *c;
	const char *next = NULL;

	for (c = commands; c->usage; c++)
		if (strcmp(c->usage->name, after) > 0 &&
		    (!next || strcmp(c->usage->name, next) < 0))
			next = c->usage->name;
	return next;
}

static void put_see_also(const char *but, FILE *out)
{
	const char *name, *sep = but ? " ,\n" : "";

	fprintf(out, ".Sh SEE ALSO\n%s", but ? ".Xr ptbpf 1" : "");
	for (name = next_command(""); name; name = next_command(name))
		if (!but || strcmp(but, name) != 0) {
			fprintf(out, "%s.Xr ptbpf-%s 1", sep, name);
			sep = " ,\n";
		}
	fputc('\n', out);
}

static void put_exit_status(FILE *out)
{
	static const char *const meaning[] = {
		"Done.", "Failed, or interrupted before a result was complete.", "Wrong usage.",
		"Done, but something is missing; the last line on standard error says what."
	};

	fputs(".Sh EXIT STATUS\n.Bl -tag -width Ds -compact\n", out);
	for (size_t i = 0; i < sizeof(meaning) / sizeof(*meaning); i++) {
		fprintf(out, ".It %zu\n", i);
		put_text(meaning[i], out);
	}
	fputs(".El\n", out);
}

static void put_option(const struct opt_def *d, FILE *out)
{
	fputs(".It ", out);
	if (d->letter)
		fprintf(out, "Fl %c , ", d->letter);
	fprintf(out, "Fl -%s", d->name);
	if (d->type == OPT_SWITCH)
		fprintf(out, " , Fl -no-%s", d->name);
	fprintf(out, "%s%.*s\n", d->arg ? " Ar " : "", opts__arg_len(d), d->arg ? d->arg : "");
	put_text(d->help, out);
	if (d->type == OPT_CHOICE) {
		fputs(".Pp\nOne of:\n", out);
		put_text(opts__choices(d), out);
	}
}

static void put_options(const struct cmd_usage *usage, FILE *out)
{
	const struct opt_def *d;
	bool open = false;

	fputs(".Sh OPTIONS\n", out);
	for (d = usage->opts; !opts__is_end(d); d++) {
		if (d->type == OPT_GROUP)
			fprintf(out, "%s.Ss %s\n", open ? ".El\n" : "", d->help);
		if (d->type == OPT_GROUP || !open)
			fputs(".Bl -tag -width Ds\n", out);
		open = true;
		if (d->type != OPT_GROUP)
			put_option(d, out);
	}
	fputs(".It Fl h , Fl -help\nPrint a summary of the options.\n.El\n", out);
}

static void put_command_page(const struct command *c, FILE *out)
{
	put_head(c->usage->name, c->summary, out);
	fprintf(out, ".Sh SYNOPSIS\n.Nm ptbpf %s\n", c->usage->name);
	put_text(c->usage->synopsis, out);
	fputs(".Sh DESCRIPTION\n", out);
	put_text(c->usage->summary, out);
	put_options(c->usage, out);
	put_exit_status(out);
	if (c->usage->examples) {
		fputs(".Sh EXAMPLES\n", out);
		put_lines(c->usage->examples, out);
	}
	put_see_also(c->usage->name, out);
}

static void put_main_page(FILE *out)
{
	const struct command *c;

	put_head(NULL, "system profiler for PyTorch, from outside the process", out);
	fputs(".Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar options\n.Nm\n.Fl -help | -version\n.Sh DESCRIPTION\n.Nm\n",
	      out);
	put_text(
		"attaches to running PyTorch processes, which need no preparation and keep running. It records "
		"operators, shapes, annotations, autograd, memory and GPU work with uprobes and eBPF, and writes "
		"what torch.profiler writes: Chrome traces, Execution Traces, tables and memory timelines.",
		out);
	fputs(".Sh COMMANDS\n.Bl -tag -width Ds\n", out);
	for (c = commands; c->usage; c++) {
		fprintf(out, ".It Xr ptbpf-%s 1\n", c->usage->name);
		put_text(c->summary, out);
	}
	fputs(".El\n.Sh FILES\n.Bl -tag -width Ds\n.It Pa /var/cache/ptbpf\n", out);
	put_text("The cached analysis of libraries: which instructions are probed.", out);
	fputs(".El\n", out);
	put_exit_status(out);
	put_see_also(NULL, out);
}

/* ---- completions: commands, their options, and what is known of the options' values ---- */

/* The commands that read a capture. */
static bool reads_capture(const struct cmd_usage *usage)
{
	return !strncmp(usage->synopsis, "CAPTURE", strlen("CAPTURE"));
}

static bool reads_captures(const struct cmd_usage *usage)
{
	return !strncmp(usage->synopsis, "CAPTURE CAPTURE", strlen("CAPTURE CAPTURE"));
}

static bool is_file(const struct opt_def *d)
{
	return d->arg && !strcmp(d->arg, "FILE");
}

static bool is_pid(const struct opt_def *d)
{
	return d->arg && !strncmp(d->arg, "PID", strlen("PID"));
}

/* "a, b, c" as "a b c" */
static void put_words(const char *list, FILE *out)
{
	for (; *list; list++)
		if (*list != ',')
			fputc(*list, out);
}

/* Inside single quotes; characters of `special` are preceded by a backslash. */
static void put_quoted(const char *text, const char *special, FILE *out)
{
	for (; *text; text++) {
		if (*text == '\'') {
			fputs("'\\''", out);
			continue;
		}
		if (strchr(special, *text))
			fputc('\\', out);
		fputc(*text, out);
	}
}

/* ---- bash ---- */

static void bash_values(const struct cmd_usage *usage, FILE *out)
{
	const struct opt_def *d;

	for (d = usage->opts; !opts__is_end(d); d++) {
		if (d->type == OPT_GROUP || !opts__takes_value(d))
			continue;
		fprintf(out, "\t'%s --%s'", usage->name, d->name);
		if (d->letter)
			fprintf(out, "|'%s -%c'", usage->name, d->letter);
		if (d->type == OPT_CHOICE) {
			fputs(") words='", out);
			put_words(opts__choices(d), out);
			fputs("' ;;\n", out);
		} else if (is_pid(d)) {
			fputs(") words=$(cd /proc && echo [0-9]*) ;;\n", out);
		} else {
			fputs(is_file(d) ? ") compopt -o default; return ;;\n" : ") return ;;\n",
			      out);
		}
	}
}

static void bash_options(const struct cmd_usage *usage, FILE *out)
{
	const struct opt_def *d;

	fprintf(out, "\t%s' '*)\n\t\twords='--help", usage->name);
	for (d = usage->opts; !opts__is_end(d); d++) {
		if (d->type != OPT_GROUP)
			fprintf(out, " --%s", d->name);
		if (d->type == OPT_SWITCH)
			fprintf(out, " --no-%s", d->name);
	}
	fputs("'\n", out);
	if (reads_capture(usage) || usage->command)
		fputs("\t\t[[ $cur == -* ]] || { compopt -o default; return; }\n", out);
	fputs("\t\t;;\n", out);
}

static void put_bash(FILE *out)
{
	const struct command *c;

	fputs("# bash completion of ptbpf\n_ptbpf()\n{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= i\n"
	      "\tCOMPREPLY=()\n"
	      "\tif ((COMP_CWORD == 1)); then\n"
	      "\t\tCOMPREPLY=($(compgen -W '--help --version",
	      out);
	for (c = commands; c->usage; c++)
		fprintf(out, " %s", c->usage->name);
	fputs("' -- \"$cur\"))\n\t\treturn\n\tfi\n"
	      "\tfor ((i = 2; i < COMP_CWORD; i++)); do\n" /* a command line of another program */
	      "\t\t[[ ${COMP_WORDS[i]} == -- ]] && { compopt -o default; return; }\n"
	      "\tdone\n"
	      "\tif [[ $cur == = ]]; then\n\t\tcur=\n" /* bash splits --name=value at the sign */
	      "\telif [[ $prev == = ]]; then\n\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n\tfi\n"
	      "\tcase \"${COMP_WORDS[1]} $prev\" in\n",
	      out);
	for (c = commands; c->usage; c++)
		bash_values(c->usage, out);
	for (c = commands; c->usage; c++)
		bash_options(c->usage, out);
	fputs("\tesac\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -F _ptbpf ptbpf\n",
	      out);
}

/* ---- zsh ---- */

static void zsh_option(const struct opt_def *d, FILE *out)
{
	fputs(" \\\n\t\t\t", out);
	if (d->type == OPT_PIDS)
		fputs("'*'", out); /* may be repeated */
	else if (d->letter)
		fprintf(out, "'(-%c --%s)'", d->letter, d->name);
	if (d->letter)
		fprintf(out, "{-%c,--%s}'[", d->letter, d->name);
	else
		fprintf(out, "'--%s[", d->name);
	put_quoted(d->help, "[]\\", out);
	fputc(']', out);
	if (opts__takes_value(d)) {
		fprintf(out, ":%.*s:", opts__arg_len(d), d->arg);
		if (d->type == OPT_CHOICE) {
			fputc('(', out);
			put_words(opts__choices(d), out);
			fputc(')', out);
		} else {
			fputs(is_file(d) ? "_files" : is_pid(d) ? "_pids" : " ", out);
		}
	}
	fputc('\'', out);
	if (d->type == OPT_SWITCH)
		fprintf(out, " '--no-%s[not --%s]'", d->name, d->name);
}

static void put_zsh(FILE *out)
{
	const struct command *c;
	const struct opt_def *d;

	fputs("#compdef ptbpf\n_ptbpf() {\n"
	      "\tlocal curcontext=\"$curcontext\" state line\n"
	      "\tlocal -a commands=(\n",
	      out);
	for (c = commands; c->usage; c++) {
		fprintf(out, "\t\t'%s:", c->usage->name);
		put_quoted(c->summary, ":\\", out);
		fputs("'\n", out);
	}
	fputs("\t)\n\t_arguments -C '--help[print this help]' '--version[version]' "
	      "'1:command:->command' '*::argument:->argument'\n"
	      "\tcase $state in\n\tcommand) _describe command commands ;;\n\targument)\n\t\tcase $line[1] in\n",
	      out);
	for (c = commands; c->usage; c++) {
		fprintf(out,
			"\t\t%s) _arguments '(-h --help)'{-h,--help}'[print this "
			"help]'",
			c->usage->name);
		for (d = c->usage->opts; !opts__is_end(d); d++)
			if (d->type != OPT_GROUP)
				zsh_option(d, out);
		if (reads_capture(c->usage))
			fprintf(out, " \\\n\t\t\t'%c:capture:_files -g \"*.ptb\"'",
				reads_captures(c->usage) ? '*' : '1');
		if (c->usage->command)
			fputs(" \\\n\t\t\t'*:::command:_normal'", out);
		fputs(" ;;\n", out);
	}
	fputs("\t\tesac ;;\n\tesac\n}\n_ptbpf \"$@\"\n", out);
}

/* ---- fish ---- */

static void fish_option(const char *command, const struct opt_def *d, FILE *out)
{
	fprintf(out, "complete -c ptbpf -n '__fish_seen_subcommand_from %s' -l %s", command,
		d->name);
	if (d->letter)
		fprintf(out, " -s %c", d->letter);
	if (opts__takes_value(d) && is_file(d)) {
		fputs(" -r -F", out);
	} else if (opts__takes_value(d)) {
		fputs(" -x", out);
		if (d->type == OPT_CHOICE) {
			fputs(" -a '", out);
			put_words(opts__choices(d), out);
			fputc('\'', out);
		} else if (is_pid(d)) {
			fputs(" -a '(__fish_complete_pids)'", out);
		}
	}
	fputs(" -d '", out);
	put_quoted(d->help, "\\", out);
	fputs("'\n", out);
	if (d->type == OPT_SWITCH)
		fprintf(out,
			"complete -c ptbpf -n '__fish_seen_subcommand_from %s' -l no-%s -d 'not --%s'\n",
			command, d->name, d->name);
}

static void put_fish(FILE *out)
{
	const struct command *c;
	const struct opt_def *d;

	fputs("# fish completion of ptbpf\ncomplete -c ptbpf -f\n"
	      "complete -c ptbpf -n __fish_use_subcommand -l version -d 'version'\n"
	      "complete -c ptbpf -l help -s h -d 'summary of the options'\n",
	      out);
	for (c = commands; c->usage; c++) {
		fprintf(out, "complete -c ptbpf -n __fish_use_subcommand -a %s -d '",
			c->usage->name);
		put_quoted(c->summary, "\\", out);
		fputs("'\n", out);
		for (d = c->usage->opts; !opts__is_end(d); d++)
			if (d->type != OPT_GROUP)
				fish_option(c->usage->name, d, out);
		if (reads_capture(c->usage) || c->usage->command)
			fprintf(out, "complete -c ptbpf -n '__fish_seen_subcommand_from %s' -F\n",
				c->usage->name);
	}
}

static int print_completion(const char *shell, FILE *out)
{
	static const struct {
		const char *name;
		void (*put)(FILE *out);
	} shells[] = { { "bash", put_bash }, { "zsh", put_zsh }, { "fish", put_fish } };

	for (size_t i = 0; i < sizeof(shells) / sizeof(*shells); i++)
		if (!strcmp(shell, shells[i].name)) {
			shells[i].put(out);
			return 0;
		}
	return -EINVAL;
}

int docs__print(const char *what, FILE *out)
{
	const struct command *c;

	if (!strcmp(what, "man")) {
		put_main_page(out);
		return 0;
	}
	for (c = commands; c->usage; c++)
		if (!strncmp(what, "man-", 4) && !strcmp(what + 4, c->usage->name)) {
			put_command_page(c, out);
			return 0;
		}
	if (!print_completion(what, out))
		return 0;
	pr_error("--print-docs: '%s' is none of man, man-COMMAND, bash, zsh, fish", what);
	return -EINVAL;
}
