// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Makes a capture of a text, for tests/cases: capture_text FILE.ptb <TEXT. A line is a record:
 *
 *	[pPROCESS] [tTHREAD] KIND [FUNCTION] [FIELD=VALUE]... ["TEXT"] [@TIME]
 *
 * Process and thread hold until others are named. Kinds are those of PTB_REC_KINDS in small
 * letters, `enter` and `exit` those of operators; fields are those of their structs. A value is a
 * number, several with commas in an array, or "a name". A function is an operator with an exit, or
 * what a line before says: `func SCOPE! NAME [REFUSAL]` (a kind of PTB_FUNC_KINDS; `!`: without an
 * exit). "TEXT" is a record's tail, in which \0, \n and \xNN may stand; hflags=N are the header's flags;
 * frames=CODE:AT:CHECK,... are those of a py_stack_def; values=WORD,... are ptb_args.h's. `ring N`:
 * of the records that follow. `round @TIME` ends a round. # begins a comment.
 *
 * args=VALUE,... are arguments or results (they set PTB_F_ARGS): 5, 0.5 (also inf, nan, 0x1p63), True, None, "text",
 * ? (unknown), late1 (a double that comes later), c(RE,IM), dev1.0 (CUDA's first; dev1: no index), opaque16, undef or
 * undefIMPL, #WORD (as it stands), t6[2x3] (a tensor of dtype 6; behind it may stand /strides=1x3 or /nostrides,
 * /keys=N, /flags=N, /impl=N, /storage=N, /offset=N, /dev=1.0, /ndim=N). Lists: [...], (...) a tuple, T[...] and O[...]
 * of tensors and optional tensors, I[...], D[...], B[...] of numbers. VALUE*N: N of it; behind a list or text /N: its
 * true length.
 */
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "value_words.h"

#define LINE_MAX_BYTES 65536
#define FUNCS_MAX 512
#define NAMES_MAX 4096

struct field {
	uint8_t kind;
	const char *name;
	size_t offset, bytes, all; /* of an element, of all */
	bool is_text;
};

#define FIELD(kind, type, name, first, is_text)                                                    \
	{ PTB_REC_##kind,                                                                          \
	  #name,                                                                                   \
	  offsetof(struct type, name),                                                             \
	  sizeof(((struct type *)0)->first),                                                       \
	  sizeof(((struct type *)0)->name),                                                        \
	  is_text },
static const struct field fields[] = {
#include "cases/fields.inc"
};

static const struct kind {
	const char *name;
	uint8_t kind;
	size_t bytes;
} kinds[] = { { "ENTER", PTB_REC_OP_ENTER, sizeof(struct ptb_op_enter) },
	      { "EXIT", PTB_REC_OP_EXIT, sizeof(struct ptb_op_exit) },
	      { "TASK_EXIT", PTB_REC_EXIT, sizeof(struct ptb_task) },
#define X(name, nr, type, ...) { #name, nr, sizeof(struct type) },
	      PTB_REC_KINDS(X)
#undef X
};

static struct capture_writer *cw;
static char *funcs[FUNCS_MAX], *names[NAMES_MAX];
static uint32_t func_cnt, name_cnt, ring, tgid = 1, tid = 1, line_nr;

static void fail(const char *what, const char *word)
{
	fprintf(stderr, "line %u: %s '%s'\n", line_nr, what, word);
	exit(1);
}

static void must(int err)
{
	if (err)
		fail("the writer", strerror(-err));
}

static uint32_t name_id(const char *text)
{
	struct {
		struct ptb_text t;
		char text[8192];
	} rec = { .t.h.kind = PTB_REC_NAME };
	size_t len = strlen(text);

	for (uint32_t i = 0; i < name_cnt; i++)
		if (!strcmp(names[i], text))
			return i + 1;
	if (name_cnt == NAMES_MAX || len >= sizeof(rec.text))
		fail("too many or long names", text);
	names[name_cnt++] = strdup(text);
	rec.t.id = name_cnt;
	rec.t.text_len = (uint32_t)len;
	memcpy(rec.text, text, len);
	rec.t.h.len = (uint16_t)(sizeof(rec.t) + ((len + 7) & ~(size_t)7));
	must(capture_writer__control(cw, &rec.t.h));
	return name_cnt;
}

static uint32_t func_new(const char *name, uint32_t kind, bool no_exit, uint32_t reason)
{
	struct ptb_func f = { .h = { .kind = PTB_REC_FUNC, .len = sizeof(f) },
			      .func = func_cnt + 1,
			      .kind = kind,
			      .reason = reason };
	struct ptb_site s = { .h = { .kind = PTB_REC_SITE, .len = sizeof(s) }, .func = f.func };

	if (func_cnt == FUNCS_MAX)
		fail("too many functions", name);
	f.name = name_id(name);
	s.lib = name_id("/usr/lib/libtorch_cpu.so");
	must(capture_writer__control(cw, &f.h));
	for (s.role = PTB_ROLE_ENTER;
	     !reason && s.role <= (no_exit ? PTB_ROLE_ENTER : PTB_ROLE_EXIT); s.role++) {
		s.id = 2 * f.func + s.role - PTB_ROLE_ENTER;
		s.offset = s.id * 16ULL;
		must(capture_writer__control(cw, &s.h));
	}
	funcs[func_cnt] = strdup(name);
	return ++func_cnt;
}

static uint32_t func_id(const char *name)
{
	for (uint32_t i = func_cnt; i > 0; i--)
		if (!strcmp(funcs[i - 1], name))
			return i;
	return func_new(name, PTB_FUNC_OP, false, 0);
}

static void func_line(char *kind, const char *name, const char *reason)
{
	bool no_exit = kind[strlen(kind) - 1] == '!';

	kind[strcspn(kind, "!")] = 0;
#define X(id, nr, text)                                                                            \
	if (!strcmp(kind, #id)) {                                                                  \
		func_new(name, nr, no_exit, reason ? (uint32_t)atoi(reason) : 0);                  \
		return;                                                                            \
	}
	PTB_FUNC_KINDS(X)
#undef X
	fail("no kind of functions", kind);
}

/* Cuts the next word off; one that has a quoted part ends behind it. */
static char *next_word(char **rest)
{
	char *word = *rest + strspn(*rest, " \t\n"), *p = word;

	if (!*word || *word == '#')
		return NULL;
	for (bool quoted = false; *p && (quoted || !isspace((unsigned char)*p)); p++) {
		if (*p == '"')
			quoted = !quoted;
		else if (*p == '\\' && p[1])
			p++;
	}
	*rest = *p ? p + 1 : p;
	*p = 0;
	return word;
}

/* Of a quoted text the bytes, in place; returns how many. */
static size_t unquote(char *text)
{
	char *to = text;

	for (char *p = text + 1; *p && *p != '"'; p++) {
		if (!strncmp(p, "\\x", 2) && isxdigit((unsigned char)p[2]) &&
		    isxdigit((unsigned char)p[3])) {
			*to++ = (char)strtoul((char[]){ p[2], p[3], 0 }, NULL, 16);
			p += 3;
		} else if (*p == '\\' && *++p) {
			*to++ = *p == '0' ? 0 : *p == 'n' ? '\n' : *p;
		} else {
			*to++ = *p;
		}
	}
	*to = 0;
	return (size_t)(to - text);
}

static uint64_t number(const char *word, char **end)
{
	uint64_t n = *word == '-' ? (uint64_t)strtoll(word, end, 0) : strtoull(word, end, 0);

	if (*end == word)
		fail("no number", word);
	return n;
}

static const struct field *field_of(uint8_t kind, const char *name)
{
	for (const struct field *f = fields; f < fields + sizeof(fields) / sizeof(*fields); f++)
		if (f->kind == kind && !strcmp(f->name, name))
			return f;
	fail("no field", name);
	return NULL;
}

static void set_field(char *rec, uint8_t kind, const char *name, char *value)
{
	const struct field *f = field_of(kind, name);
	size_t at = 0;
	uint64_t n;

	if (kind == PTB_REC_SCHEMA && !strcmp(name, "func")) {
		unquote(value);
		n = func_id(value);
		memcpy(rec + f->offset, &n, f->bytes);
		return;
	}
	if (*value == '"') {
		size_t len = unquote(value);

		n = f->is_text ? 0 : name_id(value);
		memcpy(rec + f->offset, f->is_text ? (void *)value : (void *)&n,
		       f->is_text && len < f->all ? len : f->bytes);
		return;
	}
	for (;; value++, at += f->bytes) {
		n = number(value, &value);
		if (at + f->bytes > f->all)
			fail("too many values of", name);
		memcpy(rec + f->offset + at, &n, f->bytes);
		if (*value != ',')
			break;
	}
}

/* frames=CODE:AT:CHECK,... or values=WORD,... behind the record, which has len bytes. Returns
 * those that it has then. */
static size_t append(char *rec, size_t len, bool are_frames, char *value)
{
	for (;; value++) {
		struct ptb_py_frame f = { .code = number(value, &value) };

		if (are_frames && *value == ':')
			f.at = (int32_t)number(value + 1, &value);
		if (are_frames && *value == ':')
			f.check = (uint32_t)number(value + 1, &value);
		memcpy(rec + len, &f, are_frames ? sizeof(f) : sizeof(f.code));
		len += are_frames ? sizeof(f) : sizeof(f.code);
		if (are_frames)
			((struct ptb_py_stack_def *)rec)->frame_cnt++;
		if (*value != ',')
			return len;
	}
}

/* ---- args= ---- */

static struct value_words vals;

static char *value(char *p);

static void dims(char **p, uint8_t *cnt, int64_t *to)
{
	for (uint8_t n = 0; isdigit((unsigned char)**p) || **p == '-'; *p += **p == 'x') {
		to[n] = strtoll(*p, p, 10); /* base 10: 0x3 are two */
		*cnt = ++n;
	}
}

static char *device(char *p, uint8_t *type, int *nr)
{
	*type = (uint8_t)strtoul(p, &p, 10);
	*nr = *p == '.' ? (int)strtol(p + 1, &p, 10) : -1;
	return p;
}

static char *tensor(char *p)
{
	struct vw_tensor t = { .dtype = (uint8_t)strtoul(p, &p, 10) };
	uint8_t cnt = 0;
	char *key;
	uint64_t n;
	int nr;

	p++;
	dims(&p, &t.ndim, t.sizes);
	for (p++; *p == '/'; p = *p == '=' ? p + 1 : p) {
		key = p + 1;
		p = key + strcspn(key, "=/,)]*");
		if (!strncmp(key, "strides=", 8)) {
			t.own_strides = true;
			p++;
			dims(&p, &cnt, t.strides);
		} else if (!strncmp(key, "nostrides", 9)) {
			t.no_strides = true;
		} else if (!strncmp(key, "dev=", 4)) {
			p = device(p + 1, &t.device_type, &nr);
			t.has_index = nr >= 0;
			t.index = (uint8_t)nr;
		} else {
			n = number(p + 1, &p);
			t.keys = *key == 'k' ? n : t.keys;
			t.impl = *key == 'i' ? n : t.impl;
			t.storage = *key == 's' ? n : t.storage;
			t.offset = *key == 'o' ? (int64_t)n : t.offset;
			t.ndim = *key == 'n' ? (uint8_t)n : t.ndim;
			t.flags |= *key == 'f' ? (uint8_t)n :
				   *key == 'i' ? PTB_VAL_F_IDS :
				   *key == 's' ? PTB_VAL_F_STORAGE :
						 0;
		}
	}
	vw__tensor(&vals, &t);
	return p;
}

/* The values to the bracket that ends them; returns how many. */
static uint32_t values_until(char **p)
{
	uint32_t cnt = 0, begin, words;
	unsigned long again;

	for (; **p && **p != ']' && **p != ')'; *p += **p == ',') {
		begin = vals.cnt;
		*p = value(*p);
		words = vals.cnt - begin;
		for (again = **p == '*' ? strtoul(*p + 1, p, 10) : 1, cnt++; again > 1; again--, cnt++) {
			if (vals.cnt + words > VALUE_WORDS_MAX)
				fail("too many values", *p);
			memcpy(&vals.words[vals.cnt], &vals.words[begin], words * 8);
			vals.cnt += words;
		}
	}
	return cnt;
}

static void set_head(uint32_t at, uint8_t kind, uint32_t present, char **p)
{
	struct ptb_val h = { .kind = kind, .aux = (uint16_t)present, .n = present };

	if (**p == '/')
		h.n = (uint32_t)strtoul(*p + 1, p, 10);
	h.flags = h.n > present ? PTB_VAL_F_CUT : 0;
	memcpy(&vals.words[at], &h, sizeof(h));
}

/* I[], D[], B[]; p: behind the bracket */
static char *numbers(uint8_t kind, char *p)
{
	uint32_t at = vals.cnt++, cnt = 0;
	unsigned long again;
	uint64_t n;
	double d;

	for (; *p && *p != ']'; p += *p == ',') {
		d = strtod(p, kind == PTB_VAL_DOUBLES ? &p : NULL);
		n = kind == PTB_VAL_DOUBLES ? 0 : number(p, &p);
		for (again = *p == '*' ? strtoul(p + 1, &p, 10) : 1; again > 0; again--, cnt++) {
			if (at + 1 + cnt >= VALUE_WORDS_MAX)
				fail("too many values", p);
			if (kind == PTB_VAL_BOOLS && cnt % 8)
				vals.words[at + 1 + cnt / 8] |= n << cnt % 8 * 8;
			else if (kind == PTB_VAL_BOOLS)
				vals.words[at + 1 + cnt / 8] = n;
			else if (kind == PTB_VAL_INTS)
				vals.words[at + 1 + cnt] = n;
			else
				memcpy(&vals.words[at + 1 + cnt], &d, sizeof(d));
		}
	}
	vals.cnt += kind == PTB_VAL_BOOLS ? (cnt + 7) / 8 : cnt;
	p++;
	set_head(at, kind, cnt, &p);
	return p;
}

/* p: behind the bracket */
static char *list(uint8_t kind, char *p)
{
	uint32_t at = vals.cnt, cnt;

	vw__list(&vals, kind, 0, 0);
	cnt = values_until(&p);
	p++;
	set_head(at, kind, cnt, &p);
	return p;
}

static char *text_value(char *p)
{
	uint32_t at = vals.cnt, len;
	char *end = p + 1;

	while (*end && *end != '"')
		end += *end == '\\' && end[1] ? 2 : 1;
	end++;
	len = (uint32_t)unquote(p);
	vw__raw(&vals, PTB_VAL_STRING, 0, 0, 0, p, len);
	set_head(at, PTB_VAL_STRING, len, &end);
	return end;
}

static char *number_value(char *p)
{
	char *whole = p + strcspn(p, ",])*"), *end;
	int64_t n = strtoll(p, &end, 0);

	if (end == whole) {
		vw__int(&vals, n);
		return end;
	}
	vw__double(&vals, strtod(p, &end));
	if (end != whole)
		fail("no value", p);
	return end;
}

static char *complex_value(char *p)
{
	double re = strtod(p + 2, &p), im = strtod(p + 1, &p);

	vw__complex(&vals, re, im);
	return p + 1;
}

static char *device_value(char *p)
{
	uint8_t type;
	int nr;

	p = device(p + strlen("dev"), &type, &nr);
	vw__device(&vals, type, nr);
	return p;
}

/* The kind of lists that it begins with, 0: none; *p is then behind the bracket. */
static uint8_t list_kind(char **p)
{
	static const struct {
		const char *begin;
		uint8_t kind;
	} rows[] = { { "[", PTB_VAL_LIST },     { "(", PTB_VAL_TUPLE },
		     { "T[", PTB_VAL_TENSORS }, { "O[", PTB_VAL_OPT_TENSORS },
		     { "I[", PTB_VAL_INTS },    { "D[", PTB_VAL_DOUBLES },
		     { "B[", PTB_VAL_BOOLS } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!strncmp(*p, rows[i].begin, strlen(rows[i].begin))) {
			*p += strlen(rows[i].begin);
			return rows[i].kind;
		}
	}
	return 0;
}

/* A value that is no list and is known by how it begins; NULL: a number. */
static char *one_value(char *p)
{
	if (*p == '"')
		return text_value(p);
	if (*p == 't')
		return tensor(p + 1);
	if (*p == 'c')
		return complex_value(p);
	if (!strncmp(p, "dev", 3))
		return device_value(p);
	if (*p == '?')
		vw__unknown(&vals);
	else if (*p == '#')
		vals.words[vals.cnt++] = number(p + 1, &p);
	else if (*p == 'N')
		vw__none(&vals);
	else if (*p == 'T' || *p == 'F')
		vw__bool(&vals, *p == 'T');
	else if (!strncmp(p, "late", 4))
		vw__pending(&vals, (uint32_t)strtoul(p + 4, NULL, 10));
	else if (!strncmp(p, "opaque", 6))
		vw__opaque(&vals, (uint32_t)strtoul(p + 6, NULL, 10));
	else if (!strncmp(p, "undef", 5))
		vw__undefined(&vals, strtoull(p + 5, NULL, 0));
	else
		return NULL;
	return p + strcspn(p, ",])*");
}

/* Adds one; returns what is behind it. */
static char *value(char *p)
{
	uint8_t kind = list_kind(&p);
	char *end;

	if (kind >= PTB_VAL_INTS && kind <= PTB_VAL_BOOLS)
		return numbers(kind, p);
	if (kind)
		return list(kind, p);
	end = one_value(p);
	return end ? end : number_value(p);
}

static size_t append_values(char *rec, size_t len, char *text)
{
	vals.cnt = 0;
	values_until(&text);
	if (*text || len + vals.cnt * 8 > LINE_MAX_BYTES)
		fail("no values, or too many", text);
	memcpy(rec + len, vals.words, vals.cnt * 8);
	return len + vals.cnt * 8;
}

static const struct kind *kind_of(const char *word)
{
	for (const struct kind *k = kinds; k < kinds + sizeof(kinds) / sizeof(*kinds); k++)
		if (!strcasecmp(k->name, word))
			return k;
	fail("no kind of records", word);
	return NULL;
}

static void record(const struct kind *k, char *rest)
{
	static union {
		char bytes[2 * LINE_MAX_BYTES];
		struct ptb_rec_hdr h;
	} rec;
	size_t len = k->bytes;
	uint32_t text_len;
	char *word, *eq;

	memset(&rec, 0, sizeof(rec));
	rec.h = (struct ptb_rec_hdr){ .kind = k->kind, .tgid = tgid, .tid = tid };
	while ((word = next_word(&rest))) {
		eq = word + strcspn(word, "=\"");
		if (*word == '@') {
			rec.h.ts_ns = number(word + 1, &eq);
		} else if (*word == '"') {
			text_len = (uint32_t)unquote(word);
			memcpy(rec.bytes + len, word, text_len);
			memcpy(rec.bytes + field_of(k->kind, "text_len")->offset, &text_len,
			       sizeof(text_len));
			len += (text_len + 7) & ~7u;
		} else if (*eq != '=') {
			rec.h.site = 2 * func_id(word) + (k->kind == PTB_REC_OP_EXIT);
		} else {
			*eq++ = 0;
			if (!strcmp(word, "hflags"))
				rec.h.flags |= (uint8_t)number(eq, &eq);
			else if (!strcmp(word, "args"))
				len = append_values(rec.bytes, len, eq), rec.h.flags |= PTB_F_ARGS;
			else if (!strcmp(word, "frames") || !strcmp(word, "values"))
				len = append(rec.bytes, len, *word == 'f', eq);
			else
				set_field(rec.bytes, k->kind, word, eq);
		}
	}
	rec.h.len = (uint16_t)len;
	must(k->kind >= PTB_REC_USER_FIRST ? capture_writer__control(cw, &rec.h) :
					     capture_writer__ring(cw, ring, &rec, rec.h.len));
}

static void text_line(char *line)
{
	char *word, *kind;

	while ((word = next_word(&line)) && (*word == 'p' || *word == 't') &&
	       isdigit((unsigned char)word[1]))
		*(*word == 'p' ? &tgid : &tid) = (uint32_t)number(word + 1, &kind);
	if (!word)
		return;
	if (!strcmp(word, "ring")) {
		ring = (uint32_t)number(line, &line);
	} else if (!strcmp(word, "round")) {
		must(capture_writer__round(cw, number(line + strspn(line, " @"), &line)));
	} else if (!strcmp(word, "func")) {
		kind = next_word(&line);
		word = next_word(&line);
		if (!kind || !word)
			fail("func has a kind and a name", line);
		func_line(kind, word, next_word(&line));
	} else {
		record(kind_of(word), line);
	}
}

int main(int argc, char **argv)
{
	static char line[LINE_MAX_BYTES];

	if (argc != 2)
		return 2;
	must(capture_writer__open(argv[1], &cw));
	while (fgets(line, sizeof(line), stdin)) {
		line_nr++;
		text_line(line);
	}
	must(capture_writer__close(cw));
	return 0;
}
