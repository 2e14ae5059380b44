/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Help from rows of options, and guesses at mistyped words; see opts.h. */
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/opts.h"

#define LEFT 26 /* columns of an option's names, with their margin */
#define NEAR 3  /* a word that is meant differs in a third of its letters at most */
#define WORD_MAX 64

/* ---- wrapped texts ---- */

void help__text(FILE *out, const char *text, int at, int hang)
{
	int columns = terminal__columns(STDOUT_FILENO);

	term_text__wrap(out, text, (size_t)(columns ? columns : terminal__assumed()), (size_t)at,
			(size_t)hang);
	fputc('\n', out);
}

/* ---- help ---- */

static bool any_is_basic(const struct opt_def *d)
{
	for (; !opts__is_end(d); d++)
		if (d->rank == OPT_BASIC)
			return true;
	return false;
}

/* What the help does not name of its values, NULL: nothing. */
static const char *more_values(const struct opt_def *d)
{
	const char *list = opts__choices(d);
	char word[WORD_MAX];
	size_t len;

	for (const char *at = list; at && *at; at += len + strspn(at + len, ", ")) {
		len = strcspn(at, ",");
		snprintf(word, sizeof(word), "%.*s", (int)len, at);
		if (!strstr(d->help, word))
			return list;
	}
	return NULL;
}

static void put_option(const struct opt_def *d, FILE *out)
{
	const char *values = more_values(d);
	char letter[4] = "   ", text[2048];
	int at;

	if (d->letter)
		snprintf(letter, sizeof(letter), "-%c,", d->letter);
	at = fprintf(out, "  %s --%s%s%.*s", letter, d->name, d->arg ? " " : "", opts__arg_len(d),
		     d->arg ? d->arg : "");
	fprintf(out, "%s%*s", at + 2 > LEFT ? "\n" : "", at + 2 > LEFT ? LEFT : LEFT - at, "");
	snprintf(text, sizeof(text), "%s%s%s%s%s", d->help, values ? "; one of: " : "",
		 values ? values : "", d->type == OPT_SWITCH ? "; off: --no-" : "",
		 d->type == OPT_SWITCH ? d->name : "");
	help__text(out, text, LEFT, LEFT);
}

/* Those that are shown, with the headings of groups that have any. */
static void put_options(const struct cmd_usage *usage, bool all, FILE *out)
{
	const char *heading = "options";

	for (const struct opt_def *d = usage->opts; !opts__is_end(d); d++) {
		if (d->type == OPT_GROUP) {
			heading = d->help;
		} else if (all || d->rank == OPT_BASIC) {
			if (heading)
				fprintf(out, "\n%s:\n", heading);
			heading = NULL;
			put_option(d, out);
		}
	}
}

bool opts__has_type(const struct cmd_usage *usage, bool all, enum opt_type type)
{
	for (const struct opt_def *d = usage->opts; !opts__is_end(d); d++)
		if (d->type == type && (all || d->rank == OPT_BASIC))
			return true;
	return false;
}

void opts__help(const struct cmd_usage *usage, bool all, FILE *out)
{
	bool short_form = any_is_basic(usage->opts);

	all |= !short_form;
	help__text(out, usage->synopsis, fprintf(out, "usage: ptbpf %s ", usage->name), 7);
	fputc('\n', out);
	help__text(out, usage->summary, 0, 0);
	if (usage->examples)
		fprintf(out, "\nexamples:\n%s", usage->examples);
	put_options(usage, all, out);
	fputc('\n', out);
	if (opts__has_type(usage, all, OPT_DURATION))
		help__text(out, "TIME: " OPTS_TIME ".", 0, 6);
	if (opts__has_type(usage, all, OPT_SIZE))
		help__text(out, "SIZE: " OPTS_SIZE ".", 0, 6);
	help__text(out,
		   !short_form ? "-h, --help: this help." :
		   all         ? "-h: the options that are needed most." :
				 "--help: all options.",
		   0, 6);
}

/* ---- guesses ---- */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Letters to insert, delete or replace (Levenshtein). */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t row[WORD_MAX + 1];

	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 0; i < a_len; i++) {
		size_t before = row[0]++;

		for (size_t j = 0; j < b_len; j++) {
			size_t replaced = before + (a[i] != b[j]);

			before = row[j + 1];
			row[j + 1] = least(replaced, least(before, row[j]) + 1);
		}
	}
	return row[b_len];
}

void guess__try(struct guess *g, const char *known)
{
	size_t len = strlen(known), n;

	if (g->len < 2 || g->len > WORD_MAX || len > WORD_MAX)
		return;
	/* the begin of a name stands for it */
	n = len > g->len && !memcmp(g->word, known, g->len) ? 1 :
							      distance(g->word, g->len, known, len);
	if (n > (len + 2) / NEAR || (g->best && n >= g->distance))
		return;
	g->best = known;
	g->distance = n;
}
