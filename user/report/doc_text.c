/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Documents as text: sentences, and rows of columns. All of it does nothing in a document that is
 * JSON.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "report/report_priv.h"

#define LINE 100      /* characters */
#define LAST_LEAST 20 /* that the last column has, however long the line */

/* ---- pieces of lines ---- */

static void put(struct doc *d, int blanks, const char *text)
{
	d->used += (size_t)fprintf(d->out, "%*s", blanks, "");
	d->used += term_text__put(d->out, text, SIZE_MAX);
}

void doc__end_line(struct doc *d)
{
	if (d->args->json)
		return;
	fputc('\n', d->out);
	d->used = 0;
}

static void put_title(struct doc *d)
{
	if (!*d->title)
		return;
	fputc('\n', d->out);
	put(d, 0, d->title);
	doc__end_line(d);
	*d->title = '\0';
}

static size_t rest_of_line(const struct doc *d)
{
	return d->used + LAST_LEAST < LINE ? LINE - d->used : LAST_LEAST;
}

static void put_cut(struct doc *d, const char *text, const char *tail, size_t max)
{
	size_t room = term_text__width(tail);

	room = room > max / 2 ? max / 2 : room;
	d->used += cell__put_text(d->out, text, max - room);
	d->used += cell__put_text(d->out, tail, room);
}

/* ---- rows ---- */

static void put_last(struct doc *d, const char *text)
{
	size_t begin = d->used, width;

	put_cut(d, text, d->tail ? d->tail : "", rest_of_line(d));
	if (!d->below[0])
		return;
	width = term_text__width(d->below[0]) + term_text__width(d->below[1]);
	if (d->used + 1 + width > LINE) {
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
		int pad = abs(c->width) - (int)term_text__width(text);

		pad = pad > 0 ? pad : 0;
		for (int i = 0; !cells && i < pad; i++)
			fputc('-', d->out);
		if (cells)
			put(d, c->width > 0 ? pad : 0, text);
		put(d, cells && c->width < 0 ? pad + 2 : 2, "");
		cells += cells != NULL;
	}
	doc__end_line(d);
}

static void put_cells(struct doc *d, char *const *cells)
{
	int blanks = d->list->indent;

	if (d->torch) {
		put_torch_cells(d, cells);
		return;
	}
	for (const struct doc_column *c = d->list->columns; c->key; c++, cells++) {
		const char *text = *cells ? *cells : "";
		int pad = abs(c->width) - (int)term_text__width(text);

		pad = pad > 0 ? pad : 0;
		blanks += c == d->list->columns ? 0 : c->width > 0 ? 1 : 2;
		blanks += c->width > 0 ? pad : 0;
		if (*text) {
			put(d, blanks, c->width ? text : "");
			blanks = 0;
		}
		if (*text && !c->width)
			put_last(d, text);
		blanks += c->width < 0 ? pad : 0;
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
		fprintf(d->out, "  ... %u more (--row-limit)\n", l->cnt - l->shown);
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
