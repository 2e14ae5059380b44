/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A report is a document: facts that have a key, lists of rows, sentences. It is written once, by the calls below, and
 * rendered as it is written, so that its length takes no memory. JSON has the facts and the lists with a key; text has
 * the sentences, and of lists the columns. A fact or list whose key is NULL or begins with '.' is of the text only.
 */
#ifndef REPORT_DOC_H
#define REPORT_DOC_H

#include "base/jsonw.h"
#include "report/report_out.h"

/* A column of a list in text. The list ends with a row of zeroes. */
struct doc_column {
	const char *key;     /* of a row's fact; "self.ns": of one in its object "self" */
	const char *heading; /* NULL in all columns: they have none */
	int width;           /* < 0: to the left; 0: the rest of the line, as the last column */
	struct cell (*unit)(double v); /* how a number is shown; NULL: as a whole number */
	double whole;                  /* what the number is shown as a share of; 0: as it is */
};

struct cell unit__ns(double v);     /* "1.234 ms" */
struct cell unit__bytes(double v);  /* "1.5 GiB" */
struct cell unit__change(double v); /* "+1.5 GiB" */
struct cell unit__count(double v);  /* "140.5 k" */
struct cell unit__share(double v);  /* 0.125: "12.5 %" */

#define DOC_DEPTH 8
#define DOC_COLUMNS_MAX 40

struct doc {
	FILE *out;
	const struct session *s; /* NULL: the document is of none */
	struct session_totals *totals;
	const struct report_opts *opts;
	bool torch; /* the text's lists are laid out as torch lays out its table; set before them */
	struct jsonw w;
	struct doc_list { /* those that are open; the first one stands for the document */
		const struct doc_column *columns;
		const char *object; /* of its row, that is open */
		uint32_t cnt, shown, next;
		int indent;
		bool row, headed, of_json;
	} lists[DOC_DEPTH], *list;
	char *cells[DOC_COLUMNS_MAX]; /* of the row, until it is written */
	char *tail, *below[2];
	char title[256]; /* "": none that waits for its list */
	size_t used;     /* characters of the open line */
};

/* 0 or negative errno. doc__finish() frees what it needs. */
int doc__begin(struct doc *d, FILE *out, const struct session *s, struct session_totals *totals,
	       const struct report_opts *opts);
/* Says what the capture lacks, and adds to the totals what the document had no room for. 0 or negative errno. */
int doc__finish(struct doc *d);

/* ---- facts: members of the innermost object; without a key elements of an array ---- */

struct doc_fact {
	const char *key;
	enum { DOC_NULL, DOC_U64, DOC_I64, DOC_DOUBLE, DOC_BOOL, DOC_TEXT, DOC_NONE } kind;
	union {
		uint64_t u;
		int64_t i;
		double d;
		const char *text;
	};
};

struct doc_fact fact__u64(const char *key, uint64_t v);
struct doc_fact fact__i64(const char *key, int64_t v);
struct doc_fact fact__double(const char *key, double v); /* NaN: null */
struct doc_fact fact__bool(const char *key, bool v);
struct doc_fact fact__text(const char *key, const char *text);
struct doc_fact fact__null(const char *key);
#define FACT(key, v)                                                                               \
	_Generic((v),                                                                              \
		bool: fact__bool,                                                                  \
		uint32_t: fact__u64,                                                               \
		uint64_t: fact__u64,                                                               \
		int32_t: fact__i64,                                                                \
		int64_t: fact__i64,                                                                \
		double: fact__double,                                                              \
		char *: fact__text,                                                                \
		const char *: fact__text)(key, v)
#define NO_FACT ((struct doc_fact){ .kind = DOC_NONE })

void doc__facts(struct doc *d, const struct doc_fact *facts, size_t cnt);
/* DOC(d, FACT("count", n), FACT("ns", ns)); */
#define DOC(d, ...)                                                                                \
	doc__facts(d, (const struct doc_fact[]){ __VA_ARGS__ },                                    \
		   sizeof((const struct doc_fact[]){ __VA_ARGS__ }) / sizeof(struct doc_fact))
/* A fact of the text. */
__attribute__((format(printf, 3, 4))) void doc__cell(struct doc *d, const char *key,
						     const char *fmt, ...);
/* Behind the text of the last column; up to half of the room is kept for it. */
void doc__tail(struct doc *d, const char *tail);
/* Behind both, or on a line below where they leave no room. */
void doc__below(struct doc *d, const char *text, const char *tail);

void doc__object(struct doc *d, const char *key);
void doc__end(struct doc *d);
void doc__array(struct doc *d, const char *key); /* of values */
void doc__end_array(struct doc *d);
void doc__break(struct doc *d); /* JSON: the next key begins a line */

/* ---- lists ---- */

/*
 * Rows are objects: for (uint32_t i; doc__next(d, &i);) { facts of row i }. A row's cells come before its own lists and
 * sentences. columns: NULL: none in text. doc__list() has as many rows as the user wants of each list, doc__all() all.
 */
void doc__list(struct doc *d, const char *key, uint32_t cnt, const struct doc_column *columns);
void doc__all(struct doc *d, const char *key, uint32_t cnt, const struct doc_column *columns);
bool doc__next(struct doc *d, uint32_t *i);
void doc__next_line(struct doc *d); /* the row's cells from here on stand in a further line of it */

/* ---- sentences ---- */

/* Above what follows, with an empty line before it; a list without rows has none. */
__attribute__((format(printf, 2, 3))) void doc__title(struct doc *d, const char *fmt, ...);
/* A piece of a line, a whole line. Texts of others are escaped. */
__attribute__((format(printf, 2, 3))) void doc__say(struct doc *d, const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void doc__line(struct doc *d, const char *fmt, ...);
void doc__end_line(struct doc *d);
void doc__gap(struct doc *d); /* an empty line */
/* A text with its tail in at most `max` characters, 0: in the rest of the line; cut as in a last column. */
void doc__cut(struct doc *d, const char *text, const char *tail, size_t max);

#endif /* REPORT_DOC_H */
