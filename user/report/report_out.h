/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What reports share: their options, cells and lists of those for people, the frame of JSON documents. Knows no report. */
#ifndef REPORT_REPORT_OUT_H
#define REPORT_REPORT_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/jsonw.h"
#include "model/session.h"

struct report_opts {
	int row_limit; /* rows of each list, -1: all */
	bool json;
};

/* Rows of a list that are shown. */
static inline uint32_t report__shown(uint32_t cnt, int row_limit)
{
	return row_limit >= 0 && (uint32_t)row_limit < cnt ? (uint32_t)row_limit : cnt;
}

/* ---- text ---- */

/* A short text by value: cell__bytes(v).text may be used until the end of the expression. */
struct cell {
	char text[48];
};
__attribute__((format(printf, 1, 2))) struct cell cell__format(const char *fmt, ...);
struct cell cell__bytes(double v);       /* "1.5 GiB" */
struct cell cell__count(uint64_t v);     /* "140.5 k" */
struct cell cell__change(double v);      /* "+1.5 GiB" */
struct cell cell__duration(uint64_t ns); /* "1.234 ms" */

/* The target's text, escaped (base/term_text.h), in at most `max` characters, "..." where it is cut; returns how many. */
size_t cell__put_text(FILE *out, const char *text, size_t max);

#define REPORT_LINE 100 /* columns */
/* The last cell of a row that has `used` columns so far, in at least `least` columns. */
void cell__put_last(FILE *out, const char *text, size_t used, size_t least);

/* An empty line and the title of a list. */
__attribute__((format(printf, 2, 3))) void report__title(FILE *out, const char *fmt, ...);
/* Below a list: how many rows are not shown. */
void report__put_rest(FILE *out, uint32_t shown, uint32_t cnt);
/* At the end: what the capture lacks. */
void report__put_incomplete(FILE *out, const struct session_info *info,
			    const struct session_totals *totals);
/* 0, or the negative errno of what was written since errno was set to 0. */
int report__flush(FILE *out);

/* ---- JSON ---- */

/* Opens the document, an object that begins with its version and the session's facts. 0 or negative errno. */
int report_json__begin(struct jsonw *w, FILE *out, const struct session *s,
		       const struct session_totals *totals);
/* Ends and frees it, and adds to the totals what jsonw__leave_out() left out. 0 or negative errno. */
int report_json__end(struct jsonw *w, FILE *out, struct session_totals *totals);
/* Opens a list of rows, on a line of its own. */
#define REPORT_JSON_LIST(w, key) (jsonw__break(w), JSONW_ARR(w, key))

#endif /* REPORT_REPORT_OUT_H */
