/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See cmd.h. Man pages are in mdoc(7); their sections that are no options are in man_pages.h. */
#include "cli/cmd.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/log.h"
#include "cli/man_pages.h"

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
	/* groff's headline would begin with "BSD" */
	fprintf(out, ".Dd %s\n.ds doc-volume-operating-system ptbpf\n.Dt PTBPF%s", PTBPF_DATE,
		command ? "-" : "");
	put_capital(command ? command : "", out);
	fprintf(out, " 1\n.Os ptbpf " PTBPF_VERSION "\n.Sh NAME\n.Nm ptbpf%s%s\n.Nd %s\n",
		command ? "-" : "", command ? command : "", summary);
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

/* Is it the command of one of the words "attach record", or the main page? */
static bool concerns(const struct man_row *row, const char *command)
{
	size_t len;

	for (const char *at = row->commands; command && *at; at += len + (at[len] == ' ')) {
		len = strcspn(at, " ");
		if (len == strlen(command) && !memcmp(at, command, len))
			return true;
	}
	return !command || !*row->commands;
}

/* command: of its page; NULL: the main one. */
static void put_sections(const struct man_row *rows, size_t cnt, const char *command, FILE *out)
{
	const char *section = NULL;

	for (size_t i = 0; i < cnt; i++) {
		if (!concerns(&rows[i], command))
			continue;
		if (!section || strcmp(section, rows[i].section) != 0)
			fprintf(out, "%s.Sh %s\n.Bl -tag -width Ds\n", section ? ".El\n" : "",
				rows[i].section);
		section = rows[i].section;
		fputs(".It ", out);
		put_text(rows[i].tag, out);
		put_text(rows[i].text, out);
	}
	if (section)
		fputs(".El\n", out);
}

#define PUT_SECTIONS(rows, command, out)                                                           \
	put_sections(rows, sizeof(rows) / sizeof(*(rows)), command, out)

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
	fputs(".It Fl h\nPrint the options that are needed most.\n"
	      ".It Fl -help\nPrint all options.\n.El\n",
	      out);
	if (opts__has_type(usage, true, OPT_DURATION))
		fputs(".Pp\nTIME: " OPTS_TIME ".\n", out);
	if (opts__has_type(usage, true, OPT_SIZE))
		fputs(".Pp\nSIZE: " OPTS_SIZE ".\n", out);
}

static void put_command_page(const struct command *c, FILE *out)
{
	put_head(c->usage->name, c->summary, out);
	fprintf(out, ".Sh SYNOPSIS\n.Nm ptbpf %s\n", c->usage->name);
	put_text(c->usage->synopsis, out);
	fputs(".Sh DESCRIPTION\n", out);
	put_text(c->usage->summary, out);
	put_options(c->usage, out);
	PUT_SECTIONS(man_reading, c->usage->name, out);
	PUT_SECTIONS(man_around, c->usage->name, out);
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
	fputs(".El\n", out);
	PUT_SECTIONS(man_reading, NULL, out);
	PUT_SECTIONS(man_around, NULL, out);
	put_see_also(NULL, out);
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
	if (!completion__print(what, out))
		return 0;
	pr_error("--print-docs: '%s' is none of man, man-COMMAND, bash, zsh, fish", what);
	return -EINVAL;
}
