/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Documents, and what of them is JSON; see report.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "export/facts_json.h"
#include "report/report_priv.h"

static bool is_text(const struct doc *d)
{
	return !d->args->json;
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
		doc_text__set(d, f->key, f->text, 0);
	else if (f->kind != DOC_NULL)
		doc_text__set(d, f->key, NULL,
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

	doc_text__row(d);
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
	if (is_text(d) && columns)
		doc_text__open_list(d);
}

void doc__list(struct doc *d, const char *key, uint32_t cnt, const struct doc_column *columns)
{
	open_list(d, key, cnt, report__shown(cnt, d->args->row_limit), columns);
}

void doc__all(struct doc *d, const char *key, uint32_t cnt, const struct doc_column *columns)
{
	open_list(d, key, cnt, cnt, columns);
}

bool doc__next(struct doc *d, uint32_t *i)
{
	struct doc_list *l = d->list;

	doc_text__row(d);
	if (l->row && !is_text(d))
		jsonw__end_obj(&d->w);
	l->row = l->next < l->shown;
	if (!l->row) {
		if (l->of_json)
			jsonw__end_arr(&d->w);
		if (is_text(d))
			doc_text__close_list(d);
		d->list--;
		return false;
	}
	if (l->of_json)
		jsonw__begin_row(&d->w);
	else if (l->columns)
		doc_text__head(d);
	*i = l->next++;
	return true;
}

void doc__next_line(struct doc *d)
{
	doc_text__row(d);
}

/* ---- the document ---- */

void doc__begin(struct doc *d, const struct output_args *args)
{
	*d = (struct doc){ .out = args->out ? args->out : stdout, .args = args };
	d->list = d->lists;
	errno = 0;
	if (is_text(d)) {
		d->line = xmemstream(&d->line_text, &d->line_len);
		return;
	}
	jsonw__init(&d->w, jsonw__to_stream, d->out, 64 * 1024);
	jsonw__begin_obj(&d->w);
	DOC(d, FACT("schema_version", 1));
	if (!args->s || args->embedded)
		return;
	session_json__write(&d->w, args->s);
	session_json__write_totals(&d->w, session__info(args->s), args->totals);
}

static int finish_json(struct doc *d)
{
	int err;

	jsonw__end_obj(&d->w);
	jsonw__newline(&d->w);
	err = jsonw__flush(&d->w);
	jsonw__free(&d->w);
	return err;
}

int doc__finish(struct doc *d)
{
	const struct session *s = d->args->s;
	char lacks[2048];
	int err = 0;

	if (!is_text(d))
		err = finish_json(d);
	else if (s && !d->no_losses &&
		 loss_account__incomplete(session__info(s), d->args->totals, lacks,
					  sizeof(lacks))) {
		doc__gap(d);
		doc__style(d, DOC_ALERT);
		doc__line(d, "The capture is incomplete and the figures are bounds: %s", lacks);
	}
	if (is_text(d)) {
		fclose(d->line);
		free(d->line_text);
	}
	if (!d->args->out)
		return std_out__end("the report", err);
	if (!err && (fflush(d->out) || ferror(d->out)))
		err = errno ? -errno : -EIO;
	return err;
}
