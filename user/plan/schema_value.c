/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Default values of arguments: read as torch reads them, which depends on the argument's type, and
 * printed as torch prints an IValue (aten/src/ATen/core/ivalue.cpp, c10::printQuotedString).
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/schema_priv.h"

#define LIST_MAX 64
#define NUMBER_MAX 48

struct value {
	enum { VALUE_NONE, VALUE_BOOL, VALUE_INT, VALUE_DOUBLE } kind;
	int64_t i;
	double d;
};

static void put_double(struct schema_parser *p, double d)
{
	char text[64];
	int c = fpclassify(d);

	if ((c == FP_NORMAL || c == FP_ZERO) && fabs(d) < 1e10 && (double)(int64_t)d == d)
		snprintf(text, sizeof(text), "%s%" PRId64 ".", d == 0 && signbit(d) ? "-" : "",
			 (int64_t)d);
	else
		snprintf(text, sizeof(text), "%.17g", d);
	schema_puts(p, text);
}

static void put_value(struct schema_parser *p, const struct value *v)
{
	char text[32];

	switch (v->kind) {
	case VALUE_NONE:
		schema_puts(p, "None");
		break;
	case VALUE_BOOL:
		schema_puts(p, v->i ? "True" : "False");
		break;
	case VALUE_INT:
		snprintf(text, sizeof(text), "%" PRId64, v->i);
		schema_puts(p, text);
		break;
	case VALUE_DOUBLE:
		put_double(p, v->d);
		break;
	}
}

/* ---- texts ---- */

static void put_quoted_char(struct schema_parser *p, uint8_t c)
{
	static const char plain[] = "\\\'\"\a\b\f\n\r\t\v", as[] = "\\\'\"abfnrtv";
	const char *at = c ? strchr(plain, c) : NULL;
	char text[8];

	if (at)
		snprintf(text, sizeof(text), "\\%c", as[at - plain]);
	else if (c >= 0x20 && c < 0x7f)
		snprintf(text, sizeof(text), "%c", c);
	else
		snprintf(text, sizeof(text), "\\%03o", c);
	schema_puts(p, text);
}

/* What stands after a backslash (parse_string_literal.h); `end` is the closing quote's side. */
static uint8_t escaped(struct schema_parser *p)
{
	static const char name[] = "\\\'\"abfnrtv", is[] = "\\\'\"\a\b\f\n\r\t\v";
	uint32_t i, code = 0;
	const char *at;
	char c;

	if (p->at >= p->end) {
		p->bad = true;
		return 0;
	}
	c = *p->at;
	at = c ? strchr(name, c) : NULL;
	if (at) {
		p->at++;
		return (uint8_t)is[at - name];
	}
	for (i = 0; i < 3 && p->at < p->end && *p->at >= '0' && *p->at <= '7'; i++)
		code = code * 8 + (uint32_t)(*p->at++ - '0');
	if (!i || code > 0xff)
		p->bad = true;
	return (uint8_t)code;
}

static void quoted(struct schema_parser *p)
{
	char quote = *p->at++;

	schema_puts(p, "\"");
	while (!p->bad && p->at < p->end && *p->at != quote) {
		uint8_t c = (uint8_t)*p->at++;

		put_quoted_char(p, c == '\\' ? escaped(p) : c);
	}
	if (p->at >= p->end)
		p->bad = true;
	else
		p->at++;
	schema_puts(p, "\"");
}

/* ---- numbers and names ---- */

/* Names of constants that stand for their number (function_schema_parser.cpp, parseSingleConstant). */
static bool named(const char *word, size_t len, struct value *v)
{
	static const struct {
		const char *name;
		struct value v;
	} rows[] = {
		{ "None", { .kind = VALUE_NONE } },
		{ "True", { .kind = VALUE_BOOL, .i = 1 } },
		{ "False", { .kind = VALUE_BOOL } },
		{ "true", { .kind = VALUE_BOOL, .i = 1 } },
		{ "false", { .kind = VALUE_BOOL } },
		{ "float", { .kind = VALUE_INT, .i = 6 } },     /* ScalarType::Float */
		{ "long", { .kind = VALUE_INT, .i = 4 } },      /* ScalarType::Long */
		{ "strided", { .kind = VALUE_INT } },           /* Layout::Strided */
		{ "Mean", { .kind = VALUE_INT, .i = 1 } },      /* Reduction::Mean */
		{ "contiguous_format", { .kind = VALUE_INT } }, /* MemoryFormat::Contiguous */
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strlen(rows[i].name) == len && !memcmp(rows[i].name, word, len)) {
			*v = rows[i].v;
			return true;
		}
	return false;
}

static void number(struct schema_parser *p, const struct schema_arg *a, struct value *v)
{
	bool is_float = !strcmp(a->base, "float") && !a->opt;
	char text[NUMBER_MAX], *end;
	size_t n = 0;

	if (schema_take(p, "-"))
		text[n++] = '-';
	schema_skip_blanks(p);
	while (p->at < p->end && n + 1 < sizeof(text)) {
		char c = *p->at;
		bool sign = (c == '-' || c == '+') && n && text[n - 1] == 'e';

		if (!((c >= '0' && c <= '9') || c == '.' || c == 'e' || sign))
			break;
		text[n++] = c;
		p->at++;
	}
	text[n] = 0;
	errno = 0;
	if (is_float || strpbrk(text, ".e")) {
		*v = (struct value){ .kind = VALUE_DOUBLE, .d = strtod(text, &end) };
	} else {
		*v = (struct value){ .kind = VALUE_INT, .i = strtoll(text, &end, 10) };
		p->bad |= errno == ERANGE;
	}
	if (!n || *end || end == text)
		p->bad = true;
}

static void single(struct schema_parser *p, const struct schema_arg *a, struct value *v)
{
	const char *word;
	size_t len = schema_word(p, &word);

	if (!len)
		number(p, a, v);
	else if (!named(word, len, v))
		p->bad = true;
}

/* ---- lists ---- */

static void put_list(struct schema_parser *p, const struct value *v, size_t n)
{
	size_t i;

	schema_puts(p, "[");
	for (i = 0; i < n; i++) {
		if (i)
			schema_puts(p, ", ");
		put_value(p, &v[i]);
	}
	schema_puts(p, "]");
}

/* "int[2] stride=1" is printed so even when it was written [1, 1]; other lists are written out. */
static bool shortened(const struct schema_arg *a, const struct value *v, size_t n)
{
	size_t i;

	if (n < 2 || a->opt || strcmp(a->base, "int"))
		return false;
	for (i = 1; i < n; i++)
		if (v[i].i != v[0].i)
			return false;
	return true;
}

static void list(struct schema_parser *p, const struct schema_arg *a)
{
	struct value v[LIST_MAX];
	size_t n = 0, i;

	if (schema_take(p, "[")) {
		while (!p->bad && !schema_peek(p, "]")) {
			if (n == LIST_MAX) {
				p->bad = true;
				return;
			}
			single(p, a, &v[n++]);
			if (!schema_take(p, ","))
				break;
		}
		p->bad |= !schema_take(p, "]");
	} else {
		single(p, a, &v[0]);
		if (p->bad || v[0].kind == VALUE_NONE || p->list_n < 0) {
			if (!p->bad)
				put_value(p, &v[0]);
			return;
		}
		n = (size_t)p->list_n;
		if (n > LIST_MAX) {
			p->bad = true;
			return;
		}
		for (i = 1; i < n; i++)
			v[i] = v[0];
	}
	if (p->bad)
		return;
	if (shortened(a, v, n))
		put_value(p, &v[0]);
	else
		put_list(p, v, n);
}

void schema_value(struct schema_parser *p, const struct schema_arg *a)
{
	struct value v;

	schema_skip_blanks(p);
	if (p->at < p->end && (*p->at == '"' || *p->at == '\'')) {
		quoted(p);
	} else if (a->lists) {
		list(p, a);
	} else {
		single(p, a, &v);
		if (!p->bad)
			put_value(p, &v);
	}
}
