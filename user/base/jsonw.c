/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Streaming JSON output; see jsonw.h. */
#include "base/jsonw.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

int jsonw__to_stream(void *arg, const void *data, size_t len)
{
	errno = 0;
	if (fwrite(data, 1, len, arg) == len)
		return 0;
	return errno ? -errno : -EIO;
}

int jsonw__to_memory(void *arg, const void *data, size_t len)
{
	struct jsonw_memory *m = arg;

	m->text = xrealloc(m->text, m->len + len + 1);
	memcpy(m->text + m->len, data, len);
	m->len += len;
	m->text[m->len] = '\0';
	return 0;
}

int jsonw__to_text(void *arg, const void *data, size_t len)
{
	struct jsonw_text *t = arg;

	if (len >= sizeof(t->text) - t->len)
		return -E2BIG;
	memcpy(t->text + t->len, data, len);
	t->len += len;
	t->text[t->len] = '\0';
	return 0;
}

void jsonw__init(struct jsonw *w, jsonw_out out, void *arg, size_t buf_sz)
{
	*w = (struct jsonw){ .out = out, .arg = arg, .cap = buf_sz < 256 ? 256 : buf_sz };
	w->buf = xmalloc(w->cap);
}

void jsonw__free(struct jsonw *w)
{
	free(w->buf);
	w->buf = NULL;
}

char *jsonw__take(struct jsonw *w, struct jsonw_memory *m)
{
	jsonw__flush(w);
	jsonw__free(w);
	return m->text;
}

int jsonw__flush(struct jsonw *w)
{
	if (!w->err && w->len)
		w->err = w->out(w->arg, w->buf, w->len);
	w->len = 0;
	return w->err;
}

/* True: it went to who takes tokens instead of text. */
#define TAKEN(w, ...)                                                                              \
	(__builtin_expect((w)->take != NULL, 0) &&                                                 \
	 ((w)->take((w)->take_arg, &(const struct jsonw_token){ __VA_ARGS__ }), true))

static void put_slow(struct jsonw *w, const char *data, size_t len)
{
	while (len && !w->err) {
		size_t n = w->cap - w->len;

		if (!n) {
			jsonw__flush(w);
			continue;
		}
		if (n > len)
			n = len;
		memcpy(w->buf + w->len, data, n);
		w->len += n;
		data += n;
		len -= n;
	}
}

static inline void put(struct jsonw *w, const char *data, size_t len)
{
	if (len > w->cap - w->len || w->err) {
		put_slow(w, data, len);
		return;
	}
	memcpy(w->buf + w->len, data, len);
	w->len += len;
}

/* What precedes a value: a comma, or nothing after a key or an opening bracket. */
static void before_value(struct jsonw *w)
{
	uint64_t bit = 1ULL << w->depth;

	if (w->after_key) {
		w->after_key = false;
		return;
	}
	if (w->comma & bit)
		put(w, w->line ? ",\n" : ", ", 2);
	else if (w->line)
		put(w, "\n", 1);
	w->line = false;
	w->comma |= bit;
}

static void open_level(struct jsonw *w, const char *bracket)
{
	before_value(w);
	put(w, bracket, 1);
	if (w->depth >= JSONW_DEPTH_MAX) {
		w->err = -E2BIG;
		return;
	}
	w->depth++;
	w->comma &= ~(1ULL << w->depth);
}

static void close_level(struct jsonw *w, const char *bracket)
{
	put(w, bracket, 1);
	if (w->depth)
		w->depth--;
	w->after_key = false;
}

void jsonw__begin_obj(struct jsonw *w)
{
	if (TAKEN(w, .kind = JSONW_TOKEN_BEGIN_OBJ))
		return;
	open_level(w, "{");
}

void jsonw__begin_row(struct jsonw *w)
{
	jsonw__break(w);
	jsonw__begin_obj(w);
}

void jsonw__end_obj(struct jsonw *w)
{
	if (TAKEN(w, .kind = JSONW_TOKEN_END))
		return;
	close_level(w, "}");
}

void jsonw__begin_arr(struct jsonw *w)
{
	if (TAKEN(w, .kind = JSONW_TOKEN_BEGIN_ARR))
		return;
	open_level(w, "[");
}

void jsonw__end_arr(struct jsonw *w)
{
	if (TAKEN(w, .kind = JSONW_TOKEN_END))
		return;
	close_level(w, "]");
}

/* One character of a string that is not written as it is; a byte that is no UTF-8 stands for
 * itself. */
static void put_escape(struct jsonw *w, uint32_t c)
{
	char esc[16];

	if (c == '"' || c == '\\')
		snprintf(esc, sizeof(esc), "\\%c", (char)c);
	else if (c == '\n')
		snprintf(esc, sizeof(esc), "\\n");
	else if (c < 0x10000)
		snprintf(esc, sizeof(esc), "\\u%04x", c);
	else
		snprintf(esc, sizeof(esc), "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
			 0xdc00 + (c & 0x3ff));
	put(w, esc, strlen(esc));
}

static void put_escaped(struct jsonw *w, const char *text, size_t len)
{
	const char *p = text, *end = p + len, *run = p;

	for (;;) {
		uint32_t c;
		size_t n;

		while (p < end && *p >= 0x20 && *p < 0x7f && *p != '"' && *p != '\\')
			p++;
		if (p == end)
			break;
		n = utf8__decode(p, end, &c);
		if (n > 1 && term_char__plain(c)) {
			p += n;
			continue;
		}
		put(w, run, (size_t)(p - run));
		put_escape(w, n ? c : (unsigned char)*p);
		p += n ? n : 1;
		run = p;
	}
	put(w, run, (size_t)(p - run));
}

void jsonw__key(struct jsonw *w, const char *key)
{
	if (TAKEN(w, .kind = JSONW_TOKEN_KEY, .text = key, .len = strlen(key)))
		return;
	before_value(w);
	put(w, "\"", 1);
	put_escaped(w, key, strlen(key));
	put(w, "\": ", 3);
	w->after_key = true;
}

void jsonw__key_lit(struct jsonw *w, const char *quoted, size_t len)
{
	if (TAKEN(w, .kind = JSONW_TOKEN_KEY, .text = quoted + 1, .len = len - 4))
		return;
	before_value(w);
	put(w, quoted, len);
	w->after_key = true;
}

void jsonw__str(struct jsonw *w, const char *text)
{
	if (TAKEN(w, .kind = JSONW_TOKEN_STR, .text = text ? text : "",
		  .len = text ? strlen(text) : 0))
		return;
	jsonw__str_begin(w);
	if (text)
		put_escaped(w, text, strlen(text));
	jsonw__str_end(w);
}

void jsonw__str_begin(struct jsonw *w)
{
	if (TAKEN(w, .kind = JSONW_TOKEN_TEXT, .text = ""))
		return;
	before_value(w);
	put(w, "\"", 1);
}

void jsonw__str_put(struct jsonw *w, const char *text, size_t len)
{
	if (TAKEN(w, .kind = JSONW_TOKEN_PIECE, .text = text, .len = len))
		return;
	put_escaped(w, text, len);
}

void jsonw__str_end(struct jsonw *w)
{
	if (w->take)
		return;
	put(w, "\"", 1);
}

void jsonw__u64(struct jsonw *w, uint64_t v)
{
	char buf[DECIMAL_MAX], *p;

	if (TAKEN(w, .kind = JSONW_TOKEN_U64, .u = v))
		return;
	p = decimal__u64(v, buf + sizeof(buf));
	before_value(w);
	put(w, p, (size_t)(buf + sizeof(buf) - p));
}

void jsonw__i64(struct jsonw *w, int64_t v)
{
	char buf[DECIMAL_MAX];
	size_t len;

	if (TAKEN(w, .kind = JSONW_TOKEN_I64, .i = v))
		return;
	len = decimal__i64(buf, v);
	before_value(w);
	put(w, buf, len);
}

void jsonw__us(struct jsonw *w, uint64_t ns)
{
	char buf[24], *end = buf + sizeof(buf), *p;

	if (TAKEN(w, .kind = JSONW_TOKEN_US, .u = ns))
		return;
	end[-1] = (char)('0' + ns % 10);
	end[-2] = (char)('0' + ns / 10 % 10);
	end[-3] = (char)('0' + ns / 100 % 10);
	end[-4] = '.';
	p = decimal__u64(ns / 1000, end - 4);
	before_value(w);
	put(w, p, (size_t)(end - p));
}

void jsonw__bool(struct jsonw *w, bool v)
{
	if (TAKEN(w, .kind = JSONW_TOKEN_BOOL, .u = v))
		return;
	before_value(w);
	put(w, v ? "true" : "false", v ? 4 : 5);
}

void jsonw__null(struct jsonw *w)
{
	if (TAKEN(w, .kind = JSONW_TOKEN_NULL))
		return;
	before_value(w);
	put(w, "null", 4);
}

/* The shortest text, from six digits on, that means v. */
static void print_double(char *text, size_t cap, double v)
{
	for (int prec = 6; prec <= 17; prec++) {
		snprintf(text, cap, "%.*g", prec, v);
		if (!(strtod(text, NULL) < v || strtod(text, NULL) > v))
			break;
	}
}

void jsonw__double(struct jsonw *w, double v)
{
	struct jsonw_double *known;
	uint64_t bits;

	if (TAKEN(w, .kind = JSONW_TOKEN_DOUBLE, .d = v))
		return;
	if (!isfinite(v)) {
		jsonw__null(w);
		return;
	}
	memcpy(&bits, &v, sizeof(bits));
	known = &w->doubles[bits * 0x9e3779b97f4a7c15ULL >> 58];
	if (!*known->text || memcmp(&known->v, &v, sizeof(v))) {
		known->v = v;
		print_double(known->text, sizeof(known->text), v);
	}
	before_value(w);
	put(w, known->text, strlen(known->text));
}

void jsonw__raw(struct jsonw *w, const char *json)
{
	jsonw__raw_n(w, json, strlen(json));
}

void jsonw__raw_n(struct jsonw *w, const char *json, size_t len)
{
	if (TAKEN(w, .kind = JSONW_TOKEN_TEXT, .text = json, .len = len))
		return;
	before_value(w);
	put(w, json, len);
}

void jsonw__more(struct jsonw *w, const char *json, size_t len)
{
	if (TAKEN(w, .kind = JSONW_TOKEN_PIECE, .text = json, .len = len))
		return;
	put(w, json, len);
}

void jsonw__newline(struct jsonw *w)
{
	if (w->take)
		return;
	put(w, "\n", 1);
}

void jsonw__break(struct jsonw *w)
{
	w->line = true;
}
