/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One pass: what is read is printed at once in torch's form. Names and types are copied with one blank
 * where torch puts one; some types are printed under another name; defaults are values, so they go
 * through schema_value.c.
 */
#include "plan/schema_text.h"

#include <stdlib.h>
#include <string.h>

#include "plan/schema_priv.h"

/* ---- characters ---- */

void schema_out(struct schema_parser *p, const char *s, size_t len)
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

void schema_puts(struct schema_parser *p, const char *s)
{
	schema_out(p, s, strlen(s));
}

void schema_skip_blanks(struct schema_parser *p)
{
	while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t'))
		p->at++;
}

bool schema_peek(struct schema_parser *p, const char *tok)
{
	size_t n = strlen(tok);

	schema_skip_blanks(p);
	return (size_t)(p->end - p->at) >= n && !memcmp(p->at, tok, n);
}

bool schema_take(struct schema_parser *p, const char *tok)
{
	if (!schema_peek(p, tok))
		return false;
	p->at += strlen(tok);
	return true;
}

static void expect(struct schema_parser *p, const char *tok)
{
	if (!schema_take(p, tok))
		p->bad = true;
}

static bool is_word(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (!first && c >= '0' && c <= '9');
}

size_t schema_word(struct schema_parser *p, const char **word)
{
	schema_skip_blanks(p);
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
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strlen(rows[i][0]) == len && !memcmp(rows[i][0], word, len))
			return rows[i][1];
	return NULL;
}

#define SETS_MAX 8

/* One side of an alias annotation: sets joined by '|'. torch keeps them in a hash set and prints the
 * last one first. Returns how many. */
static size_t read_sets(struct schema_parser *p, const char **sets, size_t *lens)
{
	size_t n = 0;

	do {
		schema_skip_blanks(p);
		if (n == SETS_MAX) {
			p->bad = true;
			return n;
		}
		if (schema_peek(p, "*")) {
			sets[n] = p->at++;
			lens[n++] = 1;
		} else {
			lens[n] = schema_word(p, &sets[n]);
			if (!lens[n])
				p->bad = true;
			n++;
		}
	} while (!p->bad && schema_take(p, "|"));
	return n;
}

static void put_sets(struct schema_parser *p, const char *const *sets, const size_t *lens, size_t n)
{
	size_t i;

	for (i = n; i; i--) {
		schema_out(p, sets[i - 1], lens[i - 1]);
		if (i > 1)
			schema_puts(p, "|");
	}
}

/* "(a!)", "(a -> *)"; nothing if there is none. */
static void alias(struct schema_parser *p, struct schema_arg *a)
{
	const char *sets[SETS_MAX];
	size_t lens[SETS_MAX], n;

	if (!schema_take(p, "("))
		return;
	n = read_sets(p, sets, lens);
	if (p->bad)
		return;
	if (!a->set[0])
		keep_text(a->set, sizeof(a->set), sets[0], lens[0]);
	schema_puts(p, "(");
	put_sets(p, sets, lens, n);
	if (schema_take(p, "!")) {
		a->written = true;
		schema_puts(p, "!");
	}
	if (schema_take(p, "->")) {
		schema_puts(p, " -> ");
		n = read_sets(p, sets, lens);
		if (!p->bad)
			put_sets(p, sets, lens, n);
	}
	expect(p, ")");
	schema_puts(p, ")");
}

static void type(struct schema_parser *p, struct schema_arg *a);

/* "(str, t)" and the arguments of Dict, Future, RRef. */
static void type_list(struct schema_parser *p)
{
	struct schema_arg inner;

	if (++p->depth > SCHEMA_DEPTH_MAX) {
		p->bad = true;
		return;
	}
	schema_puts(p, "(");
	while (!p->bad && !schema_peek(p, ")")) {
		type(p, &inner);
		if (!schema_take(p, ","))
			break;
		schema_puts(p, ", ");
	}
	expect(p, ")");
	schema_puts(p, ")");
	p->depth--;
}

static bool takes_types(const char *base)
{
	return !strcmp(base, "Dict") || !strcmp(base, "Future") || !strcmp(base, "RRef") ||
	       !strcmp(base, "Await");
}

static void base_type(struct schema_parser *p, struct schema_arg *a)
{
	const char *word, *other;
	size_t len;

	if (schema_take(p, "(")) {
		keep_text(a->base, sizeof(a->base), "tuple", 5);
		type_list(p);
		return;
	}
	len = schema_word(p, &word);
	if (!len) {
		p->bad = true;
		return;
	}
	keep_text(a->base, sizeof(a->base), word, len);
	other = printed_name(word, len);
	if (other)
		schema_puts(p, other);
	else
		schema_out(p, word, len);
	while (p->at < p->end && *p->at == '.' && schema_take(p, ".")) { /* __torch__.classes.x.Y */
		len = schema_word(p, &word);
		p->bad |= !len;
		schema_puts(p, ".");
		schema_out(p, word, len);
	}
	if (takes_types(a->base) && schema_take(p, "("))
		type_list(p);
}

/* "[2]": the count is printed as a number. */
static void sized(struct schema_parser *p, struct schema_arg *a)
{
	const char *num = p->at;
	int64_t n = 0;

	while (p->at < p->end && *p->at >= '0' && *p->at <= '9' && n < INT32_MAX)
		n = n * 10 + (*p->at++ - '0');
	if (p->at == num || n >= INT32_MAX) {
		p->bad = true;
		return;
	}
	schema_puts(p, "[");
	schema_out(p, num, (size_t)(p->at - num));
	schema_puts(p, "]");
	expect(p, "]");
	p->list_n = (int32_t)n;
	a->lists++;
}

static void type(struct schema_parser *p, struct schema_arg *a)
{
	memset(a, 0, sizeof(*a));
	p->list_n = -1;
	base_type(p, a);
	alias(p, a);
	while (!p->bad) {
		if (schema_take(p, "?")) {
			a->opt = true;
			schema_puts(p, "?");
			continue;
		}
		if (!schema_take(p, "["))
			return;
		a->elem_opt = a->opt;
		a->opt = false;
		schema_skip_blanks(p);
		if (schema_take(p, "]")) {
			schema_puts(p, "[]");
			a->lists++;
		} else {
			sized(p, a);
		}
		if (a->lists > SCHEMA_DEPTH_MAX)
			p->bad = true;
		alias(p, a);
	}
}

/* ---- arguments and results ---- */

static void argument(struct schema_parser *p, struct schema_arg *a, bool is_return)
{
	const char *word;
	size_t len;

	type(p, a);
	len = p->bad ? 0 : schema_word(p, &word);
	if (len) {
		schema_puts(p, " ");
		schema_out(p, word, len);
	} else if (!is_return) {
		p->bad = true;
	}
	if (is_return || p->bad || !schema_take(p, "="))
		return;
	a->has_default = true;
	schema_puts(p, "=");
	schema_value(p, a);
}

static void arguments(struct schema_parser *p, struct schema *s)
{
	bool first = true;

	expect(p, "(");
	schema_puts(p, "(");
	while (!p->bad && !schema_peek(p, ")")) {
		if (!first)
			schema_puts(p, ", ");
		first = false;
		if (schema_take(p, "...")) {
			s->vararg = true;
			schema_puts(p, "...");
		} else if (schema_take(p, "*")) {
			if (!schema_peek(p, ",")) /* it stands before an argument */
				p->bad = true;
			schema_puts(p, "*");
		} else if (s->arg_cnt == SCHEMA_ARGS_MAX) {
			p->bad = true;
		} else {
			argument(p, &s->args[s->arg_cnt], false);
			s->default_cnt += s->args[s->arg_cnt++].has_default;
		}
		if (!schema_take(p, ","))
			break;
	}
	expect(p, ")");
	schema_puts(p, ")");
}

static void returns(struct schema_parser *p, struct schema *s)
{
	size_t at = p->len;
	bool tuple;

	if (schema_take(p, "...")) {
		s->varret = true;
		schema_puts(p, "...");
		return;
	}
	tuple = schema_take(p, "(");
	schema_puts(p, "(");
	while (!p->bad && !(tuple && schema_peek(p, ")"))) {
		if (s->ret_cnt || s->varret)
			schema_puts(p, ", ");
		if (tuple && schema_take(p, "...")) {
			s->varret = true;
			schema_puts(p, "...");
		} else if (s->ret_cnt == SCHEMA_ARGS_MAX) {
			p->bad = true;
		} else {
			argument(p, &s->rets[s->ret_cnt++], true);
		}
		if (!tuple || !schema_take(p, ","))
			break;
	}
	if (tuple)
		expect(p, ")");
	schema_puts(p, ")");
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
	struct schema_parser p = { .at = text, .end = text + len, .out = out, .cap = cap };

	s->arg_cnt = s->ret_cnt = s->default_cnt = 0;
	s->vararg = s->varret = false;
	if (out && !cap)
		return false;
	schema_puts(&p, name);
	arguments(&p, s);
	expect(&p, "->");
	schema_puts(&p, " -> ");
	if (!p.bad)
		returns(&p, s);
	schema_skip_blanks(&p);
	return !p.bad && p.at == p.end;
}
