/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Documents as text: sentences, and rows of columns. All of it does nothing in a document that is
 * JSON.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "report/report_priv.h"

#define LINE 100      /* columns, where there is no terminal */
#define LAST_LEAST 20 /* that the last column has, however long the line */
#define TEXT_LEAST 16 /* that a column of texts is cut to at most, */
#define TEXT_FAIR 32  /* and to which before another column goes */
#define HANG_MAX 24   /* how far the lines below a sentence's first one are indented at most */
#define DROPPED INT_MIN

static size_t line_width(const struct doc *d)
{
	return d->args->columns ? (size_t)d->args->columns : LINE;
}

/* ---- lines ---- */

/* How far the rest of a sentence is indented: as what follows its first words and blanks. */
static size_t hanging(const char *text)
{
	size_t lead = strspn(text, " ");
	const char *at = strstr(text + lead, "  ");
	size_t hang = at ? (size_t)(at - text) + strspn(at, " ") : SIZE_MAX;

	return hang <= HANG_MAX ? hang : lead + 2;
}

static void write_line(struct doc *d, const char *text)
{
	size_t hang = hanging(text), columns = line_width(d);

	if (d->args->columns)
		term_text__wrap(d->out, text, columns, 0, hang > columns / 2 ? 2 : hang);
	else
		fputs(text, d->out);
}

void doc__end_line(struct doc *d)
{
	static const char *const styles[] = {
		[DOC_PLAIN] = "",
		[DOC_HEADING] = "\033[1m",
		[DOC_TOP] = "\033[36m",
		[DOC_ALERT] = "\033[31m",
	};
	const char *style = d->args->colour ? styles[d->style] : "";

	if (d->args->json)
		return;
	fflush(d->line);
	d->line_text[ftell(d->line)] = '\0';
	fputs(style, d->out);
	write_line(d, d->line_text);
	fputs(*style ? "\033[0m\n" : "\n", d->out);
	rewind(d->line);
	d->used = 0;
	d->style = DOC_PLAIN;
}

void doc__style(struct doc *d, enum doc_style style)
{
	d->style = style;
}

/* ---- pieces of lines ---- */

static void put(struct doc *d, int blanks, const char *text)
{
	d->used += (size_t)fprintf(d->line, "%*s", blanks, "");
	d->used += term_text__put(d->line, text, SIZE_MAX);
}

static void put_title(struct doc *d)
{
	if (!*d->title)
		return;
	doc__end_line(d);
	put(d, 0, d->title);
	doc__style(d, DOC_HEADING);
	doc__end_line(d);
	*d->title = '\0';
}

static size_t rest_of_line(const struct doc *d)
{
	return d->used + LAST_LEAST < line_width(d) ? line_width(d) - d->used : LAST_LEAST;
}

static void put_cut(struct doc *d, const char *text, const char *tail, size_t max)
{
	size_t room = term_text__width(tail);

	room = room > max / 2 ? max / 2 : room;
	d->used += cell__put_text(d->line, text, max - room);
	d->used += cell__put_text(d->line, tail, room);
}

/* ---- columns ---- */

static bool is_last(const struct doc_column *c)
{
	return !c[1].key;
}

/* Of a text, or the number of its columns that stay whatever happens. */
static int least(const struct doc_column *c, int width, int text_least)
{
	if (width == DROPPED)
		return 0;
	if (!width || (width == -1 && is_last(c)))
		return text_least > LAST_LEAST ? text_least : LAST_LEAST;
	return width < 0 && -width > text_least ? text_least : abs(width);
}

/* Columns that the list's rows take if each text is cut to so many. */
static int sum_of(const struct doc_list *l, int text_least)
{
	int sum = l->indent;

	for (uint32_t n = 0; l->columns[n].key; n++)
		if (l->widths[n] != DROPPED)
			sum += least(&l->columns[n], l->widths[n], text_least) +
			       (!n                      ? 0 :
				l->columns[n].width > 0 ? 1 :
							  2);
	return sum;
}

/* The column that goes first, -1: all that are left stay. */
static int first_to_go(const struct doc_list *l)
{
	int best = -1;

	for (uint32_t n = 0; l->columns[n].key; n++)
		if (l->columns[n].drop && l->widths[n] != DROPPED &&
		    (best < 0 || l->columns[n].drop > l->columns[best].drop))
			best = (int)n;
	return best;
}

/* Makes the list's rows as wide as the terminal at most. */
void doc_text__open_list(struct doc *d)
{
	struct doc_list *l = d->list;
	int columns = d->args->columns, text_least = TEXT_FAIR, room, go;

	for (uint32_t n = 0; l->columns[n].key; n++)
		l->widths[n] = l->columns[n].width;
	if (!columns || d->torch)
		return;
	while (sum_of(l, TEXT_FAIR) > columns && (go = first_to_go(l)) >= 0)
		l->widths[go] = DROPPED;
	while (text_least > TEXT_LEAST && sum_of(l, text_least) > columns)
		text_least--;
	room = columns - sum_of(l, text_least);
	for (uint32_t n = 0; l->columns[n].key; n++) {
		const struct doc_column *c = &l->columns[n];
		int min = least(c, l->widths[n], text_least), max = -l->widths[n];

		if (c->width >= 0 || l->widths[n] == DROPPED || max <= min)
			continue;
		l->widths[n] = max - min > room && room >= 0 ? -min - room : room < 0 ? -min : -max;
		room -= -l->widths[n] - min;
	}
}

/* ---- rows ---- */

static void put_last(struct doc *d, const char *text)
{
	size_t begin = d->used, width;

	put_cut(d, text, d->tail ? d->tail : "", rest_of_line(d));
	if (!d->below[0])
		return;
	width = term_text__width(d->below[0]) + term_text__width(d->below[1]);
	if (d->used + 1 + width > line_width(d)) {
		doc__end_line(d);
		put(d, (int)begin + 2, "");
	} else {
		put(d, 1, "");
	}
	put_cut(d, d->below[0], d->below[1], rest_of_line(d));
}

/* As torch lays out a table: all columns end in two blanks. cells: NULL: dashes. */
static void put_torch_cells(struct doc *d, char *const *cells)
{
	for (const struct doc_column *c = d->list->columns; c->key; c++) {
		const char *text = cells && *cells ? *cells : "";
		int pad = abs(c->width) - (int)utf8__chars(text);

		pad = pad > 0 ? pad : 0;
		for (int i = 0; !cells && i < pad; i++)
			fputc('-', d->line);
		if (cells)
			put(d, c->width > 0 ? pad : 0, text);
		put(d, cells && c->width < 0 ? pad + 2 : 2, "");
		cells += cells != NULL;
	}
	doc__end_line(d);
}

/* A text that is longer than its column would move what follows. */
static void put_cell(struct doc *d, int blanks, const char *text, int width)
{
	put(d, blanks, "");
	if (d->args->columns && width < -1)
		put_cut(d, text, "", (size_t)-width);
	else
		put(d, 0, text);
}

static void put_cells(struct doc *d, char *const *cells)
{
	const struct doc_column *columns = d->list->columns;
	int blanks = d->list->indent;

	if (d->torch) {
		put_torch_cells(d, cells);
		return;
	}
	for (uint32_t n = 0; columns[n].key; n++) {
		const char *text = cells[n] ? cells[n] : "";
		int width = d->list->widths[n], pad;

		if (width == DROPPED)
			continue;
		pad = abs(width) - (int)term_text__width(text);
		if (width == -1 && d->args->columns && is_last(&columns[n]))
			width = 0;
		pad = pad > 0 ? pad : 0;
		blanks += !n ? 0 : columns[n].width > 0 ? 1 : 2;
		blanks += width > 0 ? pad : 0;
		if (*text) {
			put_cell(d, blanks, width ? text : "", width);
			blanks = 0;
		}
		if (*text && !width)
			put_last(d, text);
		blanks += width < 0 ? pad : 0;
	}
	doc__end_line(d);
}

void doc_text__head(struct doc *d)
{
	char *headings[DOC_COLUMNS_MAX] = { NULL };
	bool any = false;

	if (d->list->headed)
		return;
	d->list->headed = true;
	put_title(d);
	for (uint32_t n = 0; d->list->columns[n].key; n++) {
		headings[n] = (char *)(uintptr_t)d->list->columns[n].heading;
		any |= headings[n] != NULL;
	}
	if (d->torch)
		put_torch_cells(d, NULL);
	if (any)
		doc__style(d, DOC_HEADING);
	if (any)
		put_cells(d, headings);
	if (d->torch)
		put_torch_cells(d, NULL);
}

static void forget(char **text)
{
	free(*text);
	*text = NULL;
}

void doc_text__row(struct doc *d)
{
	const struct doc_list *l = d->list;
	bool any = false;

	if (d->args->json)
		return;
	for (uint32_t n = 0; l->row && l->columns && l->columns[n].key; n++)
		any |= d->cells[n] != NULL;
	if (any && l->next == 1 && l == &d->lists[1] && d->style == DOC_PLAIN)
		doc__style(d, DOC_TOP);
	if (any)
		put_cells(d, d->cells);
	for (uint32_t n = 0; n < DOC_COLUMNS_MAX; n++)
		forget(&d->cells[n]);
	forget(&d->tail);
	forget(&d->below[0]);
	forget(&d->below[1]);
}

static bool is_fact_of(const struct doc_list *l, const struct doc_column *c, const char *key)
{
	size_t n = l->object ? strlen(l->object) : 0;

	if (!n)
		return !strcmp(c->key, key);
	return !strncmp(c->key, l->object, n) && c->key[n] == '.' && !strcmp(c->key + n + 1, key);
}

static struct cell number_cell(const struct doc_column *c, double v)
{
	if (c->whole > 0)
		return unit__share(v / c->whole);
	return c->unit ? c->unit(v) : cell__format("%.0f", v);
}

void doc_text__set(struct doc *d, const char *key, const char *text, double v)
{
	struct doc_list *l = d->list;

	if (!key || !l->row || !l->columns)
		return;
	for (uint32_t n = 0; l->columns[n].key; n++)
		if (!d->cells[n] && is_fact_of(l, &l->columns[n], key))
			d->cells[n] = xstrdup(text ? text : number_cell(&l->columns[n], v).text);
}

void doc_text__close_list(struct doc *d)
{
	const struct doc_list *l = d->list;

	if (!l->columns || (l->shown == l->cnt && !d->torch))
		return;
	doc_text__head(d);
	if (d->torch)
		put_torch_cells(d, NULL);
	else
		doc__line(d, "  ... %u more (--row-limit)", l->cnt - l->shown);
}

void doc__cell(struct doc *d, const char *key, const char *fmt, ...)
{
	char *text;
	va_list ap;

	if (d->args->json)
		return;
	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	doc_text__set(d, key, text, 0);
	free(text);
}

void doc__tail(struct doc *d, const char *tail)
{
	if (!d->args->json)
		d->tail = xstrdup(tail);
}

void doc__below(struct doc *d, const char *text, const char *tail)
{
	if (d->args->json)
		return;
	d->below[0] = xstrdup(text);
	d->below[1] = xstrdup(tail);
}

/* ---- sentences ---- */

void doc__title(struct doc *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d->title, sizeof(d->title), fmt, ap);
	va_end(ap);
}

static void say(struct doc *d, const char *fmt, va_list ap)
{
	char *text = xvasprintf(fmt, ap);

	doc_text__row(d);
	put_title(d);
	put(d, 0, text);
	free(text);
}

void doc__say(struct doc *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!d->args->json)
		say(d, fmt, ap);
	va_end(ap);
}

void doc__line(struct doc *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!d->args->json)
		say(d, fmt, ap);
	va_end(ap);
	doc__end_line(d);
}

void doc__gap(struct doc *d)
{
	doc_text__row(d);
	doc__end_line(d);
}

void doc__cut(struct doc *d, const char *text, const char *tail, size_t max)
{
	if (!d->args->json)
		put_cut(d, text, tail, max ? max : rest_of_line(d));
}
