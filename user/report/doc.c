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

/* ---- text: pieces of lines ---- */

static void put(struct doc *d, int blanks, const char *text)
{
	d->used += (size_t)fprintf(d->out, "%*s", blanks, "");
	d->used += term_text__put(d->out, text, SIZE_MAX);
}

static void end_line(struct doc *d)
{
	fputc('\n', d->out);
	d->used = 0;
}

static void put_title(struct doc *d)
{
	if (!*d->title)
		return;
	fputc('\n', d->out);
	put(d, 0, d->title);
	end_line(d);
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

/* What is behind the last column, which begins at `begin`. */
static void put_below(struct doc *d, size_t begin)
{
	size_t width = term_text__width(d->below[0]) + term_text__width(d->below[1]);

	if (d->used + 1 + width > LINE) {
		end_line(d);
		put(d, (int)begin + 2, "");
	} else {
		put(d, 1, "");
	}
	put_cut(d, d->below[0], d->below[1], rest_of_line(d));
}

static void put_cells(struct doc *d, const char *const *cells)
{
	const struct doc_column *c = d->list->columns;
	int blanks = d->list->indent;
	size_t begin;

	for (uint32_t n = 0; c[n].key; n++) {
		const char *text = cells[n] ? cells[n] : "";
		int pad = abs(c[n].width) - (int)term_text__width(text);

		blanks += n ? 1 + (c[n].width <= 0) : 0;
		blanks += c[n].width > 0 && pad > 0 ? pad : 0;
		if (!*text && (c[n].width || !d->tail))
			continue;
		put(d, blanks, c[n].width ? text : "");
		begin = d->used;
		if (!c[n].width)
			put_cut(d, text, d->tail ? d->tail : "", rest_of_line(d));
		if (!c[n].width && d->below[0])
			put_below(d, begin);
		blanks = c[n].width < 0 && pad > 0 ? pad : 0;
	}
	end_line(d);
}

static void put_head(struct doc *d)
{
	const char *headings[DOC_COLUMNS_MAX] = { NULL };
	bool any = false;

	put_title(d);
	for (uint32_t n = 0; d->list->columns[n].key; n++) {
		headings[n] = d->list->columns[n].heading;
		any |= headings[n] != NULL;
	}
	if (any && !d->list->headed)
		put_cells(d, headings);
	d->list->headed = true;
}

static void forget(char **text)
{
	free(*text);
	*text = NULL;
}

/* Writes the open row, if that has not been done. */
static void put_row(struct doc *d)
{
	struct doc_list *l = d->list;

	if (!l->row || l->written || !l->columns)
		return;
	l->written = true;
	put_head(d);
	put_cells(d, (const char *const *)d->cells);
	for (uint32_t n = 0; l->columns[n].key; n++)
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

	if (!key || !l->row || l->written || !l->columns)
		return;
	for (uint32_t n = 0; l->columns[n].key; n++)
		if (!d->cells[n] && is_fact_of(l, &l->columns[n], key))
			d->cells[n] = strdup(text ? text : number_cell(&l->columns[n], v).text);
}

/* ---- facts ---- */

static bool is_text(const struct doc *d)
{
	return !d->opts->json;
}

/* Writes the key; false: the fact is of the text only. */
static bool json_key(struct doc *d, const char *key)
{
	if (is_text(d) || (key && *key == '.'))
		return false;
	if (key)
		jsonw__key(&d->w, key);
	return true;
}

void doc__u64(struct doc *d, const char *key, uint64_t v)
{
	if (is_text(d))
		set_cells(d, key, NULL, (double)v);
	else if (json_key(d, key))
		jsonw__u64(&d->w, v);
}

void doc__i64(struct doc *d, const char *key, int64_t v)
{
	if (is_text(d))
		set_cells(d, key, NULL, (double)v);
	else if (json_key(d, key))
		jsonw__i64(&d->w, v);
}

void doc__double(struct doc *d, const char *key, double v)
{
	if (is_text(d))
		set_cells(d, key, NULL, v);
	else if (json_key(d, key))
		jsonw__double(&d->w, v);
}

void doc__text(struct doc *d, const char *key, const char *text)
{
	if (is_text(d))
		set_cells(d, key, text, 0);
	else if (json_key(d, key))
		jsonw__str(&d->w, text);
}

void doc__bool(struct doc *d, const char *key, bool v)
{
	if (json_key(d, key))
		jsonw__bool(&d->w, v);
}

void doc__null(struct doc *d, const char *key)
{
	if (json_key(d, key))
		jsonw__null(&d->w);
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

void doc__tail(struct doc *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (is_text(d) && vasprintf(&d->tail, fmt, ap) < 0)
		d->tail = NULL;
	va_end(ap);
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
	if (is_text(d) && l->columns && l->shown < l->cnt) {
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
	l->written = false;
	if (!l->row) {
		close_list(d);
		return false;
	}
	if (l->of_json)
		jsonw__begin_row(&d->w);
	*i = l->next++;
	return true;
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
		end_line(d);
	}
	va_end(ap);
}

void doc__gap(struct doc *d)
{
	if (!is_text(d))
		return;
	put_row(d);
	end_line(d);
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
	doc__u64(d, "schema_version", 1);
	session_json__write(&d->w, s);
	session_json__write_totals(&d->w, session__info(s), totals);
	return 0;
}

static int finish_json(struct doc *d)
{
	int err;

	if (d->w.left_out)
		doc__u64(d, "not_written", d->w.left_out);
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
