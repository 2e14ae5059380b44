// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Makes a capture of a text, for tests/cases: capture_text FILE.ptb [SCALE] <TEXT. A line is a record:
 *
 *	[pPROCESS] [tTHREAD] KIND [FUNCTION] [FIELD=VALUE]... ["TEXT"] [@TIME]
 *
 * Process and thread hold until others are named. Kinds are those of PTB_REC_KINDS in small
 * letters, `enter` and `exit` those of operators; fields are those of their structs. A value is a
 * number, several with commas in an array, or "a name". A function is an operator with an exit, %NUMBER, or
 * what a line before says: `func SCOPE! NAME [REFUSAL]` (a kind of PTB_FUNC_KINDS; `!`: without an
 * exit; the name may be a text), or %N, the Nth of those. "TEXT" is a record's tail, in which \0, \n
 * and \xNN may stand; hflags=N are the header's flags;
 * frames=CODE:AT:CHECK,... are those of a py_stack_def; values=WORD,... are ptb_args.h's. `ring N`:
 * of the records that follow. `round @TIME` ends a round. # begins a comment. Lines between `times N` and `done` are
 * there N times, or SCALE times as often; $EXPRESSION$ in them is one of C with i, from 0, n, the number of times, and
 * r, another number each time; what follows `?EXPRESSION` is there when that is not 0.
 * args=VALUE,... are arguments or results, see args_text.c.
 */
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "capture_text.h"

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

void fail(const char *what, const char *word)
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
	static struct {
		struct ptb_text t;
		char text[65504];
	} rec;
	size_t len = strlen(text), padded = (len + 7) & ~(size_t)7;

	for (uint32_t i = 0; i < name_cnt; i++)
		if (!strcmp(names[i], text))
			return i + 1;
	if (name_cnt == NAMES_MAX || padded > sizeof(rec.text))
		fail("too many or long names", text);
	names[name_cnt++] = strdup(text);
	memset(rec.text, 0, padded);
	memcpy(rec.text, text, len);
	rec.t = (struct ptb_text){ .h.kind = PTB_REC_NAME,
				   .h.len = (uint16_t)(sizeof(rec.t) + padded),
				   .id = name_cnt,
				   .text_len = (uint32_t)len };
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

/* %N: the one of that number. */
static uint32_t func_id(const char *name)
{
	if (*name == '%')
		return (uint32_t)atoi(name + 1);
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

size_t unquote(char *text)
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

uint64_t number(const char *word, char **end)
{
	uint64_t n = *word == '-' ? (uint64_t)strtoll(word, end, 0) : strtoull(word, end, 0);

	if (*end == word)
		fail("no number", word);
	return n;
}

static const struct field *field_of(uint8_t kind, const char *name)
{
	static uint16_t first[256]; /* of a kind, whose fields are side by side */
	const struct field *end = fields + sizeof(fields) / sizeof(*fields), *f = fields + first[kind];

	while (f < end && f->kind != kind)
		f++;
	first[kind] = (uint16_t)(f - fields);
	for (; f < end && f->kind == kind; f++)
		if (!strcmp(f->name, name))
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
		if (*value == '"')
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

static const struct kind *kind_of(const char *word)
{
	for (const struct kind *k = kinds; k < kinds + sizeof(kinds) / sizeof(*kinds); k++)
		if ((k->name[0] | ' ') == *word && !strcasecmp(k->name, word))
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
				len += args_text(rec.bytes + len, eq), rec.h.flags |= PTB_F_ARGS;
			else if (!strcmp(word, "frames") || !strcmp(word, "values"))
				len = append(rec.bytes, len, *word == 'f', eq);
			else
				set_field(rec.bytes, k->kind, word, eq);
		}
	}
	rec.h.len = (uint16_t)len;
	must(k->kind >= PTB_REC_USER_FIRST ? capture_writer__control(cw, &rec.h) :
					     capture_writer__ring(cw, ring, &rec, rec.h.len));
	memset(&rec, 0, len); /* all of it at once would take longer than the record */
}

/* ---- times ---- */

static const char *expr; /* what is left of it */
static uint64_t times_i, times_n, times_percent = 100;

static uint64_t expression(int binds);

static uint64_t operand(void)
{
	static uint64_t random = 1;
	uint64_t v;
	char *end;

	switch (*expr) {
	case '(':
		expr++;
		v = expression(0);
		expr++;
		return v;
	case 'i':
		expr++;
		return times_i;
	case 'n':
		expr++;
		return times_n;
	case 'r':
		expr++;
		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		return random ^ random >> 32;
	}
	v = strtoull(expr, &end, 0);
	if (end == expr)
		fail("no expression", expr);
	expr = end;
	return v;
}

static uint64_t apply(uint64_t a, char op, uint64_t b)
{
	switch (op) {
	case '+':
		return a + b;
	case '-':
		return a - b;
	case '*':
		return a * b;
	case '/':
		return b ? a / b : 0;
	case '%':
		return b ? a % b : 0;
	case '<':
		return a < b;
	case '=':
		return a == b;
	}
	return a & b;
}

/* Of operators that bind more than that. */
static uint64_t expression(int binds)
{
	static const char ops[] = "&=<+-*/%";
	static const int strength[] = { 1, 2, 3, 4, 4, 5, 5, 5 };
	uint64_t v = operand();
	const char *op;

	while (*expr && (op = strchr(ops, *expr)) && strength[op - ops] > binds) {
		expr++;
		v = apply(v, *op, expression(strength[op - ops]));
	}
	return v;
}

static void text_line(char *line);

static void one_time(const char *line)
{
	static char text[LINE_MAX_BYTES + 64];
	size_t len = 0;

	if (*line == '?') {
		expr = line + 1;
		if (!expression(0))
			return;
		line = expr + 1;
	}
	for (const char *p = line; *p && len < LINE_MAX_BYTES; p++) {
		if (*p != '$') {
			text[len++] = *p;
			continue;
		}
		expr = p + 1;
		len += (size_t)sprintf(text + len, "%llu", (unsigned long long)expression(0));
		p = expr;
	}
	text[len] = '\0';
	text_line(text);
}

static void times(uint64_t cnt)
{
	static char line[LINE_MAX_BYTES];
	char *lines[64];
	uint32_t line_cnt = 0;

	while (fgets(line, sizeof(line), stdin) && strcmp(line, "done\n")) {
		if (line_cnt == 64)
			fail("too many lines between times and", "done");
		lines[line_cnt++] = strdup(line);
	}
	times_n = (cnt * times_percent + 99) / 100;
	for (times_i = 0; times_i < times_n; times_i++)
		for (uint32_t k = 0; k < line_cnt; k++)
			one_time(lines[k]);
	while (line_cnt)
		free(lines[--line_cnt]);
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
		must(capture_writer__flush(cw));
	} else if (!strcmp(word, "times")) {
		times(number(line, &line));
	} else if (!strcmp(word, "func")) {
		kind = next_word(&line);
		word = next_word(&line);
		if (!kind || !word)
			fail("func has a kind and a name", line);
		if (*word == '"')
			unquote(word);
		func_line(kind, word, next_word(&line));
	} else {
		record(kind_of(word), line);
	}
}

int main(int argc, char **argv)
{
	static char line[LINE_MAX_BYTES];

	if (argc < 2)
		return 2;
	if (argc > 2)
		times_percent = strtoull(argv[2], NULL, 10);
	must(capture_writer__open(argv[1], &cw));
	while (fgets(line, sizeof(line), stdin)) {
		line_nr++;
		text_line(line);
	}
	must(capture_writer__close(cw));
	return 0;
}
