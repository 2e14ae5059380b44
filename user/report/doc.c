/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Documents and their two renderers; see doc.h. */
#include "report/doc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/term_text.h"
#include "export/loss_account.h"
#include "export/session_json.h"

#define LINE 100      /* characters */
#define LAST_LEAST 20 /* that the last column has, however long the line */

/* ---- units ---- */

struct cell unit__ns(double v)
{
	return cell__duration(v > 0 ? (uint64_t)v : 0);
}

struct cell unit__bytes(double v)
{
	return cell__bytes(v);
}

struct cell unit__change(double v)
{
	return cell__change(v);
}

struct cell unit__count(double v)
{
	return cell__count(v > 0 ? (uint64_t)v : 0);
}

struct cell unit__share(double v)
{
	return cell__format("%.1f %%", 100 * v);
}

static bool is_text(const struct doc *d)
{
	return !d->opts->json;
}

/* ---- text: pieces of lines ---- */

static void put(struct doc *d, int blanks, const char *text)
{
	d->used += (size_t)fprintf(d->out, "%*s", blanks, "");
	d->used += term_text__put(d->out, text, SIZE_MAX);
}

void doc__end_line(struct doc *d)
{
	if (is_text(d))
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

/* ---- text: rows ---- */

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

/* The title and the headings, once. */
static void put_head(struct doc *d)
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

/* Writes the open row, if it has cells that are not written. */
static void put_row(struct doc *d)
{
	const struct doc_list *l = d->list;
	bool any = false;

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

/* The fact in all columns that show it: a text, or a number. */
static void set_cells(struct doc *d, const char *key, const char *text, double v)
{
	struct doc_list *l = d->list;

	if (!key || !l->row || !l->columns)
		return;
	for (uint32_t n = 0; l->columns[n].key; n++)
		if (!d->cells[n] && is_fact_of(l, &l->columns[n], key))
			d->cells[n] = strdup(text ? text : number_cell(&l->columns[n], v).text);
}

/* ---- facts ---- */

/* Writes the key; false: what it is of is of the text only. */
static bool json_key(struct doc *d, const char *key)
{
	if (is_text(d) || (key && *key == '.'))
		return false;
	if (key)
		jsonw__key(&d->w, key);
	return true;
}

#define MAKE(name, type, kind_, field)                                                             \
	struct doc_fact fact__##name(const char *key, type v)                                      \
	{                                                                                          \
		return (struct doc_fact){ .key = key, .kind = kind_, .field = v };                 \
	}
MAKE(u64, uint64_t, DOC_U64, u)
MAKE(i64, int64_t, DOC_I64, i)
MAKE(double, double, DOC_DOUBLE, d)
MAKE(bool, bool, DOC_BOOL, u)
MAKE(text, const char *, DOC_TEXT, text)

struct doc_fact fact__null(const char *key)
{
	return (struct doc_fact){ .key = key };
}

static void add_to_json(struct jsonw *w, const struct doc_fact *f)
{
	switch (f->kind) {
	case DOC_U64:
		jsonw__u64(w, f->u);
		break;
	case DOC_I64:
		jsonw__i64(w, f->i);
		break;
	case DOC_DOUBLE:
		jsonw__double(w, f->d);
		break;
	case DOC_BOOL:
		jsonw__bool(w, f->u);
		break;
	case DOC_TEXT:
		jsonw__str(w, f->text);
		break;
	default:
		jsonw__null(w);
	}
}

static void add_to_text(struct doc *d, const struct doc_fact *f)
{
	if (f->kind == DOC_TEXT)
		set_cells(d, f->key, f->text, 0);
	else if (f->kind != DOC_NULL)
		set_cells(d, f->key, NULL,
			  f->kind == DOC_DOUBLE ? f->d :
			  f->kind == DOC_I64    ? (double)f->i :
						  (double)f->u);
}

void doc__facts(struct doc *d, const struct doc_fact *facts, size_t cnt)
{
	for (const struct doc_fact *f = facts; f < facts + cnt; f++) {
		if (f->kind == DOC_NONE)
			continue;
		if (is_text(d))
			add_to_text(d, f);
		else if (json_key(d, f->key))
			add_to_json(&d->w, f);
	}
}

void doc__cell(struct doc *d, const char *key, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (is_text(d) && vasprintf(&text, fmt, ap) >= 0)
		set_cells(d, key, text, 0);
	va_end(ap);
	free(text);
}

void doc__tail(struct doc *d, const char *tail)
{
	if (is_text(d))
		d->tail = strdup(tail);
}

void doc__below(struct doc *d, const char *text, const char *tail)
{
	if (!is_text(d))
		return;
	d->below[0] = strdup(text);
	d->below[1] = strdup(tail);
}

void doc__object(struct doc *d, const char *key)
{
	d->list->object = key;
	if (json_key(d, key))
		jsonw__begin_obj(&d->w);
}

void doc__end(struct doc *d)
{
	d->list->object = NULL;
	if (!is_text(d))
		jsonw__end_obj(&d->w);
}

void doc__array(struct doc *d, const char *key)
{
	if (json_key(d, key))
		jsonw__begin_arr(&d->w);
}

void doc__end_array(struct doc *d)
{
	if (!is_text(d))
		jsonw__end_arr(&d->w);
}

void doc__break(struct doc *d)
{
	if (!is_text(d))
		jsonw__break(&d->w);
}

/* ---- lists ---- */

static void open_list(struct doc *d, const char *key, uint32_t cnt, uint32_t shown,
		      const struct doc_column *columns)
{
	int indent = d->list->indent;
	bool json = !is_text(d) && key && *key != '.';

	if (is_text(d))
		put_row(d);
	if (!cnt)
		*d->title = '\0';
	if (json) {
		jsonw__break(&d->w);
		jsonw__key(&d->w, key);
		jsonw__begin_arr(&d->w);
	}
	if (d->list == &d->lists[DOC_DEPTH - 1])
		abort(); /* no report is that deep */
	*++d->list = (struct doc_list){ .columns = columns,
					.cnt = cnt,
					.shown = json || is_text(d) ? shown : 0,
					.indent = *d->title ? 2 : indent,
					.of_json = json };
}

void doc__list(struct doc *d, const char *key, uint32_t cnt, const struct doc_column *columns)
{
	open_list(d, key, cnt, report__shown(cnt, d->opts->row_limit), columns);
}

void doc__all(struct doc *d, const char *key, uint32_t cnt, const struct doc_column *columns)
{
	open_list(d, key, cnt, cnt, columns);
}

static void close_list(struct doc *d)
{
	struct doc_list *l = d->list;

	if (l->of_json)
		jsonw__end_arr(&d->w);
	if (is_text(d) && d->torch) {
		put_head(d);
		put_torch_cells(d, NULL);
	} else if (is_text(d) && l->columns && l->shown < l->cnt) {
		put_head(d);
		fprintf(d->out, "  ... %u more (--row-limit)\n", l->cnt - l->shown);
	}
	d->list--;
}

bool doc__next(struct doc *d, uint32_t *i)
{
	struct doc_list *l = d->list;

	if (is_text(d))
		put_row(d);
	else if (l->row)
		jsonw__end_obj(&d->w);
	while (l->of_json && l->next < l->shown && jsonw__leave_out(&d->w))
		l->next++;
	l->row = l->next < l->shown;
	if (!l->row) {
		close_list(d);
		return false;
	}
	if (l->of_json)
		jsonw__begin_row(&d->w);
	else if (l->columns)
		put_head(d);
	*i = l->next++;
	return true;
}

void doc__next_line(struct doc *d)
{
	if (is_text(d))
		put_row(d);
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
	char *text = NULL;

	put_row(d);
	put_title(d);
	if (vasprintf(&text, fmt, ap) >= 0)
		put(d, 0, text);
	free(text);
}

void doc__say(struct doc *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (is_text(d))
		say(d, fmt, ap);
	va_end(ap);
}

void doc__line(struct doc *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (is_text(d)) {
		say(d, fmt, ap);
		doc__end_line(d);
	}
	va_end(ap);
}

void doc__gap(struct doc *d)
{
	if (is_text(d))
		put_row(d);
	doc__end_line(d);
}

void doc__cut(struct doc *d, const char *text, const char *tail, size_t max)
{
	if (is_text(d))
		put_cut(d, text, tail, max ? max : rest_of_line(d));
}

/* ---- the document ---- */

static int to_report(void *out, const void *data, size_t len)
{
	return cancel__pending() ? -ECANCELED : jsonw__to_stream(out, data, len);
}

int doc__begin(struct doc *d, FILE *out, const struct session *s, struct session_totals *totals,
	       const struct report_opts *opts)
{
	int err = 0;

	memset(d, 0, sizeof(*d));
	d->out = out;
	d->s = s;
	d->totals = totals;
	d->opts = opts;
	d->list = d->lists;
	errno = 0;
	if (!is_text(d))
		err = jsonw__init(&d->w, to_report, out, 64 * 1024);
	if (err || is_text(d))
		return err;
	d->w.max = session__info(s)->output_max;
	jsonw__begin_obj(&d->w);
	DOC(d, FACT("schema_version", 1));
	session_json__write(&d->w, s);
	session_json__write_totals(&d->w, session__info(s), totals);
	return 0;
}

static int finish_json(struct doc *d)
{
	int err;

	if (d->w.left_out)
		DOC(d, FACT("not_written", d->w.left_out));
	d->totals->not_written += d->w.left_out;
	jsonw__end_obj(&d->w);
	jsonw__newline(&d->w);
	err = jsonw__flush(&d->w);
	jsonw__free(&d->w);
	return err;
}

int doc__finish(struct doc *d)
{
	char lacks[2048];
	int err = 0;

	if (!is_text(d))
		err = finish_json(d);
	if (is_text(d) && d->s &&
	    loss_account__incomplete(session__info(d->s), d->totals, lacks, sizeof(lacks))) {
		doc__gap(d);
		doc__line(d, "The capture is incomplete and the figures are bounds: %s", lacks);
	}
	if (!err && (fflush(d->out) || ferror(d->out)))
		err = errno ? -errno : -EIO;
	return err;
}
