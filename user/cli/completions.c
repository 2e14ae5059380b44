/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completions of shells: commands, their options, and what is known of the options' values. */
#include <errno.h>
#include <string.h>

#include "cli/cmd.h"

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
			fputs(") words=$(_ptbpf_pids) ;;\n", out);
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
	if (usage->pids)
		fputs("\t\t[[ $cur == -* ]] || words=$(_ptbpf_pids)\n", out);
	if (reads_capture(usage) || usage->command)
		fputs("\t\t[[ $cur == -* ]] || { compopt -o default; return; }\n", out);
	fputs("\t\t;;\n", out);
}

static void put_bash(FILE *out)
{
	const struct command *c;

	fputs("# bash completion of ptbpf\n"
	      "_ptbpf_pids() { ptbpf ps --brief 2>/dev/null | cut -f1; }\n_ptbpf()\n{\n"
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
			fputs(is_file(d) ? "_files" : is_pid(d) ? "_ptbpf_pids" : " ", out);
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

	fputs("#compdef ptbpf\n_ptbpf_pids() {\n" /* with the script as the description */
	      "\tlocal -a pids=(\"${(@)${(f)\"$(ptbpf ps --brief 2>/dev/null)\"}/$'\\t'/:}\")\n"
	      "\t_describe process pids\n}\n_ptbpf() {\n"
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
		if (c->usage->pids)
			fputs(" \\\n\t\t\t'*:process:_ptbpf_pids'", out);
		if (c->usage->command)
			fputs(" \\\n\t\t\t'*:::command:_normal'", out);
		fputs(" ;;\n", out);
	}
	fputs("\t\tesac ;;\n\tesac\n}\n_ptbpf \"$@\"\n", out);
}

/* ---- fish ---- */

#define FISH_PIDS "(ptbpf ps --brief 2>/dev/null)" /* what follows the tab is the description */

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
			fputs(" -a '" FISH_PIDS "'", out);
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
		if (c->usage->pids)
			fprintf(out,
				"complete -c ptbpf -n '__fish_seen_subcommand_from %s' -a '" FISH_PIDS
				"'\n",
				c->usage->name);
		if (reads_capture(c->usage) || c->usage->command)
			fprintf(out, "complete -c ptbpf -n '__fish_seen_subcommand_from %s' -F\n",
				c->usage->name);
	}
}

int completion__print(const char *shell, FILE *out)
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
