/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The difference as Markdown for a pull request: the verdict, and tables of what it is made of. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "diff/diff_priv.h"

#define NAME_TEXT 1024
#define NAME_COLUMNS 160
/* A part that takes and changes less of a step is not worth a row. */
#define PART_SHARE 0.005

/* A foreign text as code: nothing in it is markup, and it ends no cell of a table. */
static void put_code(FILE *f, const char *text)
{
	char *plain;
	size_t len;
	FILE *mem = xmemstream(&plain, &len);

	term_text__put(mem, text, NAME_COLUMNS);
	fclose(mem);
	fputc('`', f);
	for (const char *p = plain; *p; p++)
		if (*p == '|')
			fputs("\\|", f);
		else
			fputc(*p == '`' ? '\'' : *p, f);
	fputs(*plain ? "`" : " `", f);
	free(plain);
}

static void put_figures(FILE *f, const struct diff_interval *in)
{
	fprintf(f, " | %s | %s | %s |", unit__ns(in->a).text, unit__ns(in->b).text,
		diff__signed_ns(in->diff).text);
	if (isfinite(in->low))
		fprintf(f, " %s to %s |\n", diff__signed_ns(in->low).text,
			diff__signed_ns(in->high).text);
	else
		fputs(" |\n", f);
}

static void put_cause(FILE *f, const struct diff *d, const struct diff_cause *c)
{
	char name[NAME_TEXT];

	fputs(d->shifts ? "| **differs:** " : "| **cause:** ", f);
	if (c->place)
		put_code(f, diff_place__path(d, c->place, name, sizeof(name)));
	else
		put_code(f, diff_part__name(c->part));
	if (c->total)
		fputs(" and what it calls", f);
	put_figures(f, &c->in);
}

static void put_parts(FILE *f, const struct diff *d)
{
	const struct diff_rows *v = &d->views[DIFF_PARTS];

	fputs("| a step | before | after | change | 95 % |\n|:--|--:|--:|--:|--:|\n| **step (mean)**",
	      f);
	put_figures(f, &d->whole);
	for (uint32_t i = 0; i < d->cause_cnt; i++)
		put_cause(f, d, &d->causes[i]);
	for (uint32_t i = 0; i < v->row_cnt; i++) {
		const struct diff_interval *in = &v->rows[i].in;

		if (fmax(fabs(in->diff), fmax(in->a, in->b)) < PART_SHARE * d->whole.a)
			continue;
		fprintf(f, "| %s", diff_part__name(v->rows[i].key));
		put_figures(f, in);
	}
	fputc('\n', f);
}

static void put_configuration(FILE *f, const struct diff *d)
{
	if (!d->config_cnt)
		return;
	fputs("| differs | before | after |\n|:--|:--|:--|\n", f);
	for (uint32_t i = 0; i < d->config_cnt; i++) {
		fprintf(f, "| %s | ", d->configs[i].what);
		put_code(f, d->configs[i].value[DIFF_A]);
		fputs(" | ", f);
		put_code(f, d->configs[i].value[DIFF_B]);
		fputs(" |\n", f);
	}
	fputc('\n', f);
}

static void put_heading(FILE *f, const struct diff *d)
{
	fprintf(f, "### %s%s", diff__heading(d->verdict).text,
		d->by_own ? ", but for its waits for a CPU" : "");
	if (d->judged)
		fprintf(f, ": %s", diff__effect(d, &d->answer).text);
	fputs("\n\n", f);
	if (!*d->reason)
		return;
	put_code(f, d->reason);
	fputs("\n\n", f);
}

static void put_steps(FILE *f, const struct diff *d)
{
	for (uint32_t side = 0; side < DIFF_SIDES; side++) {
		const struct diff_side *ds = &d->side[side];
		uint32_t cnt = diff_side__steps(ds, d->by_later).cnt;

		fprintf(f, "%s: ", side == DIFF_A ? "Before" : ", after");
		put_code(f, ds->name);
		fprintf(f, ", %u steps%s", cnt, ds->lacks[0] ? ", incomplete" : "");
	}
	fputs(". Means of steps, with intervals from a block bootstrap over them (`ptbpf diff`).\n",
	      f);
}

int diff_markdown__put(struct diff *d)
{
	put_heading(stdout, d);
	if (d->judged)
		put_parts(stdout, d);
	put_configuration(stdout, d);
	put_steps(stdout, d);
	return std_out__end("the report", 0);
}
