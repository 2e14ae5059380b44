/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One pass: what is read is printed at once in torch's form. Names and types are copied with one
 * blank where torch puts one; some types are printed under another name. Default values are read as
 * torch reads them, which depends on the argument's type, and printed as torch prints an IValue
 * (aten/src/ATen/core/ivalue.cpp, c10::printQuotedString).
 *
 * Longer than 600 lines because the grammar's rules share one parser, whose functions have no other
 * user.
 */
#include "args/schema.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 8
#define LIST_MAX 64
#define NUMBER_MAX 48

struct parser {
	const char *at, *end;
	char *out;
	size_t cap, len;
	int32_t list_n; /* of the last type: N of "int[N]", -1 if none */
	uint32_t depth;
	bool bad;
};

/* ---- characters ---- */

static void put_text(struct parser *p, const char *s, size_t len)
{
	if (!p->out)
		return;
	if (len >= p->cap - p->len) {
		p->bad = true;
		return;
	}
	memcpy(p->out + p->len, s, len);
	p->len += len;
	p->out[p->len] = 0;
}

static void put_str(struct parser *p, const char *s)
{
	put_text(p, s, strlen(s));
}

static void skip_blanks(struct parser *p)
{
	while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t'))
		p->at++;
}

static bool peek(struct parser *p, const char *tok)
{
	size_t n = strlen(tok);

	skip_blanks(p);
	return (size_t)(p->end - p->at) >= n && !memcmp(p->at, tok, n);
}

static bool take(struct parser *p, const char *tok)
{
	if (!peek(p, tok))
		return false;
	p->at += strlen(tok);
	return true;
}

static void expect(struct parser *p, const char *tok)
{
	if (!take(p, tok))
		p->bad = true;
}

static bool is_word(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (!first && c >= '0' && c <= '9');
}

static size_t read_word(struct parser *p, const char **word)
{
	skip_blanks(p);
	*word = p->at;
	while (p->at < p->end && is_word(*p->at, p->at == *word))
		p->at++;
	return (size_t)(p->at - *word);
}

/* ---- types ---- */

static void keep_text(char *to, size_t cap, const char *from, size_t len)
{
	if (len >= cap)
		len = cap - 1;
	memcpy(to, from, len);
	to[len] = 0;
}

/* Types that the parser replaces, or whose own name is another. */
static const char *printed_name(const char *word, size_t len)
{
	static const char *const rows[][2] = {
		{ "Dimname", "str" }, /* StringType */
		{ "None", "NoneType" },
		{ "DeviceIndex", "int" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strlen(rows[i][0]) == len && !memcmp(rows[i][0], word, len))
			return rows[i][1];
	return NULL;
}

#define SETS_MAX 8

/* One side of an alias annotation: sets joined by '|'. torch keeps them in a hash set and prints
 * the last one first. Returns how many. */
static size_t read_sets(struct parser *p, const char **sets, size_t *lens)
{
	size_t n = 0;

	do {
		skip_blanks(p);
		if (n == SETS_MAX) {
			p->bad = true;
			return n;
		}
		if (peek(p, "*")) {
			sets[n] = p->at++;
			lens[n++] = 1;
		} else {
			lens[n] = read_word(p, &sets[n]);
			if (!lens[n])
				p->bad = true;
			n++;
		}
	} while (!p->bad && take(p, "|"));
	return n;
}

static void put_sets(struct parser *p, const char *const *sets, const size_t *lens, size_t n)
{
	for (size_t i = n; i; i--) {
		put_text(p, sets[i - 1], lens[i - 1]);
		if (i > 1)
			put_str(p, "|");
	}
}

/* "(a!)", "(a -> *)"; nothing if there is none. */
static void read_alias(struct parser *p, struct schema_arg *a)
{
	const char *sets[SETS_MAX];
	size_t lens[SETS_MAX], n;

	if (!take(p, "("))
		return;
	n = read_sets(p, sets, lens);
	if (p->bad)
		return;
	if (!a->set[0])
		keep_text(a->set, sizeof(a->set), sets[0], lens[0]);
	put_str(p, "(");
	put_sets(p, sets, lens, n);
	if (take(p, "!")) {
		a->written = true;
		put_str(p, "!");
	}
	if (take(p, "->")) {
		put_str(p, " -> ");
		n = read_sets(p, sets, lens);
		if (!p->bad)
			put_sets(p, sets, lens, n);
	}
	expect(p, ")");
	put_str(p, ")");
}

static void read_type(struct parser *p, struct schema_arg *a);

/* "(str, t)" and the arguments of Dict, Future, RRef. */
static void type_list(struct parser *p)
{
	struct schema_arg inner;

	if (++p->depth > DEPTH_MAX) {
		p->bad = true;
		return;
	}
	put_str(p, "(");
	while (!p->bad && !peek(p, ")")) {
		read_type(p, &inner);
		if (!take(p, ","))
			break;
		put_str(p, ", ");
	}
	expect(p, ")");
	put_str(p, ")");
	p->depth--;
}

static bool takes_types(const char *base)
{
	return !strcmp(base, "Dict") || !strcmp(base, "Future") || !strcmp(base, "RRef") ||
	       !strcmp(base, "Await");
}

static void base_type(struct parser *p, struct schema_arg *a)
{
	const char *word, *other;
	size_t len;

	if (take(p, "(")) {
		keep_text(a->base, sizeof(a->base), "tuple", 5);
		type_list(p);
		return;
	}
	len = read_word(p, &word);
	if (!len) {
		p->bad = true;
		return;
	}
	keep_text(a->base, sizeof(a->base), word, len);
	other = printed_name(word, len);
	if (other)
		put_str(p, other);
	else
		put_text(p, word, len);
	while (p->at < p->end && *p->at == '.' && take(p, ".")) { /* __torch__.classes.x.Y */
		len = read_word(p, &word);
		p->bad |= !len;
		put_str(p, ".");
		put_text(p, word, len);
	}
	if (takes_types(a->base) && take(p, "("))
		type_list(p);
}

/* "[2]": the count is printed as a number. */
static void sized(struct parser *p, struct schema_arg *a)
{
	const char *num = p->at;
	int64_t n = 0;

	while (p->at < p->end && *p->at >= '0' && *p->at <= '9' && n < INT32_MAX)
		n = n * 10 + (*p->at++ - '0');
	if (p->at == num || n >= INT32_MAX) {
		p->bad = true;
		return;
	}
	put_str(p, "[");
	put_text(p, num, (size_t)(p->at - num));
	put_str(p, "]");
	expect(p, "]");
	p->list_n = (int32_t)n;
	a->lists++;
}

static void read_type(struct parser *p, struct schema_arg *a)
{
	memset(a, 0, sizeof(*a));
	p->list_n = -1;
	base_type(p, a);
	read_alias(p, a);
	while (!p->bad) {
		if (take(p, "?")) {
			a->opt = true;
			put_str(p, "?");
			continue;
		}
		if (!take(p, "["))
			return;
		a->elem_opt = a->opt;
		a->opt = false;
		skip_blanks(p);
		if (take(p, "]")) {
			put_str(p, "[]");
			a->lists++;
		} else {
			sized(p, a);
		}
		if (a->lists > DEPTH_MAX)
			p->bad = true;
		read_alias(p, a);
	}
}

/* ---- default values ---- */

struct constant {
	enum { VALUE_NONE, VALUE_BOOL, VALUE_INT, VALUE_DOUBLE } kind;
	int64_t i;
	double d;
};

static void put_double(struct parser *p, double d)
{
	char text[64];
	int c = fpclassify(d);

	if ((c == FP_NORMAL || c == FP_ZERO) && fabs(d) < 1e10 && (double)(int64_t)d == d)
		snprintf(text, sizeof(text), "%s%" PRId64 ".", d == 0 && signbit(d) ? "-" : "",
			 (int64_t)d);
	else
		snprintf(text, sizeof(text), "%.17g", d);
	put_str(p, text);
}

static void put_constant(struct parser *p, const struct constant *v)
{
	char text[32];

	switch (v->kind) {
	case VALUE_NONE:
		put_str(p, "None");
		break;
	case VALUE_BOOL:
		put_str(p, v->i ? "True" : "False");
		break;
	case VALUE_INT:
		snprintf(text, sizeof(text), "%" PRId64, v->i);
		put_str(p, text);
		break;
	case VALUE_DOUBLE:
		put_double(p, v->d);
		break;
	}
}

/* ---- default values: texts ---- */

static void put_quoted_char(struct parser *p, uint8_t c)
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
	put_str(p, text);
}

/* What stands after a backslash (parse_string_literal.h); `end` is the closing quote's side. */
static uint8_t escaped(struct parser *p)
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

static void quoted_value(struct parser *p)
{
	char quote = *p->at++;

	put_str(p, "\"");
	while (!p->bad && p->at < p->end && *p->at != quote) {
		uint8_t c = (uint8_t)*p->at++;

		put_quoted_char(p, c == '\\' ? escaped(p) : c);
	}
	if (p->at >= p->end)
		p->bad = true;
	else
		p->at++;
	put_str(p, "\"");
}

/* ---- default values: numbers and names ---- */

/* Names of constants that stand for their number (function_schema_parser.cpp,
 * parseSingleConstant). */
static bool named_value(const char *word, size_t len, struct constant *v)
{
	static const struct {
		const char *name;
		struct constant v;
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

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strlen(rows[i].name) == len && !memcmp(rows[i].name, word, len)) {
			*v = rows[i].v;
			return true;
		}
	return false;
}

static void number_value(struct parser *p, const struct schema_arg *a, struct constant *v)
{
	bool is_float = !strcmp(a->base, "float") && !a->opt;
	char text[NUMBER_MAX], *end;
	size_t n = 0;

	if (take(p, "-"))
		text[n++] = '-';
	skip_blanks(p);
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
		*v = (struct constant){ .kind = VALUE_DOUBLE, .d = strtod(text, &end) };
		p->bad |= !isfinite(v->d);
	} else {
		*v = (struct constant){ .kind = VALUE_INT, .i = strtoll(text, &end, 10) };
		p->bad |= errno == ERANGE;
	}
	if (!n || *end || end == text)
		p->bad = true;
}

static void single_value(struct parser *p, const struct schema_arg *a, struct constant *v)
{
	const char *word;
	size_t len = read_word(p, &word);

	if (!len)
		number_value(p, a, v);
	else if (!named_value(word, len, v))
		p->bad = true;
}

/* ---- default values: lists ---- */

static void put_list(struct parser *p, const struct constant *v, size_t n)
{
	put_str(p, "[");
	for (size_t i = 0; i < n; i++) {
		if (i)
			put_str(p, ", ");
		put_constant(p, &v[i]);
	}
	put_str(p, "]");
}

/* "int[2] stride=1" is printed so even when it was written [1, 1]; other lists are written out. */
static bool shortened(const struct schema_arg *a, const struct constant *v, size_t n)
{
	if (n < 2 || a->opt || strcmp(a->base, "int"))
		return false;
	for (size_t i = 1; i < n; i++)
		if (v[i].i != v[0].i)
			return false;
	return true;
}

static void list_value(struct parser *p, const struct schema_arg *a)
{
	struct constant v[LIST_MAX];
	size_t n = 0;

	if (take(p, "[")) {
		while (!p->bad && !peek(p, "]")) {
			if (n == LIST_MAX) {
				p->bad = true;
				return;
			}
			single_value(p, a, &v[n++]);
			if (!take(p, ","))
				break;
		}
		p->bad |= !take(p, "]");
	} else {
		single_value(p, a, &v[0]);
		if (p->bad || v[0].kind == VALUE_NONE || p->list_n < 0) {
			if (!p->bad)
				put_constant(p, &v[0]);
			return;
		}
		n = (size_t)p->list_n;
		if (n > LIST_MAX) {
			p->bad = true;
			return;
		}
		for (size_t i = 1; i < n; i++)
			v[i] = v[0];
	}
	if (p->bad)
		return;
	if (shortened(a, v, n))
		put_constant(p, &v[0]);
	else
		put_list(p, v, n);
}

static void default_value(struct parser *p, const struct schema_arg *a)
{
	struct constant v;

	skip_blanks(p);
	if (p->at < p->end && (*p->at == '"' || *p->at == '\'')) {
		quoted_value(p);
	} else if (a->lists) {
		list_value(p, a);
	} else {
		single_value(p, a, &v);
		if (!p->bad)
			put_constant(p, &v);
	}
}

/* Skips it instead, as far as the comma or the bracket behind the argument: a running process may
 * have values of kinds that no text of a library has. */
static void skip_default(struct parser *p)
{
	char quote = 0;
	int depth = 0;

	for (; p->at < p->end; p->at++) {
		char c = *p->at;

		if (quote) {
			if (c == '\\' && p->at + 1 < p->end)
				p->at++;
			else if (c == quote)
				quote = 0;
		} else if (c == '"' || c == '\'') {
			quote = c;
		} else if (c == '(' || c == '[') {
			depth++;
		} else if ((c == ')' || c == ']') && depth) {
			depth--;
		} else if (!depth && (c == ')' || c == ']' || c == ',')) {
			return;
		}
	}
}

/* ---- arguments and results ---- */

static void read_argument(struct parser *p, struct schema_arg *a, bool is_return)
{
	const char *word;
	size_t len;

	read_type(p, a);
	len = p->bad ? 0 : read_word(p, &word);
	if (len) {
		put_str(p, " ");
		put_text(p, word, len);
	} else if (!is_return) {
		p->bad = true;
	}
	if (is_return || p->bad || !take(p, "="))
		return;
	a->has_default = true;
	put_str(p, "=");
	if (p->out)
		default_value(p, a);
	else
		skip_default(p);
}

static void read_arguments(struct parser *p, struct schema *s)
{
	bool more;

	expect(p, "(");
	put_str(p, "(");
	more = !peek(p, ")");
	while (more && !p->bad) {
		if (take(p, "...")) {
			s->vararg = true;
			put_str(p, "...");
		} else if (take(p, "*")) {
			if (!peek(p, ",")) /* it stands before an argument */
				p->bad = true;
			put_str(p, "*");
		} else if (s->arg_cnt == SCHEMA_ARGS_MAX) {
			p->bad = true;
		} else {
			read_argument(p, &s->args[s->arg_cnt], false);
			s->default_cnt += s->args[s->arg_cnt++].has_default;
		}
		more = take(p, ",");
		if (more)
			put_str(p, ", ");
	}
	expect(p, ")");
	put_str(p, ")");
}

static void read_returns(struct parser *p, struct schema *s)
{
	size_t at = p->len;
	bool tuple;

	if (take(p, "...")) {
		s->varret = true;
		put_str(p, "...");
		return;
	}
	tuple = take(p, "(");
	put_str(p, "(");
	while (!p->bad && !(tuple && peek(p, ")"))) {
		if (s->ret_cnt || s->varret)
			put_str(p, ", ");
		if (tuple && !s->varret && take(p, "...")) {
			s->varret = true;
			put_str(p, "...");
		} else if (s->ret_cnt == SCHEMA_ARGS_MAX) {
			p->bad = true;
		} else {
			read_argument(p, &s->rets[s->ret_cnt++], true);
		}
		if (!tuple || !take(p, ","))
			break;
	}
	if (tuple)
		expect(p, ")");
	put_str(p, ")");
	/* One result stands without brackets, unless it is a tuple itself. */
	if (!p->bad && p->out && s->ret_cnt + s->varret == 1 && p->out[at + 1] != '(') {
		memmove(p->out + at, p->out + at + 1, p->len - at);
		p->len -= 2;
		p->out[p->len] = 0;
	}
}

bool schema_text__parse(const char *text, size_t len, const char *name, struct schema *s, char *out,
			size_t cap)
{
	struct parser p = { .at = text, .end = text + len, .out = out, .cap = cap };

	s->arg_cnt = s->ret_cnt = s->default_cnt = 0;
	s->vararg = s->varret = false;
	if (out && !cap)
		return false;
	put_str(&p, name);
	read_arguments(&p, s);
	expect(&p, "->");
	put_str(&p, " -> ");
	if (!p.bad)
		read_returns(&p, s);
	skip_blanks(&p);
	return !p.bad && p.at == p.end;
}
