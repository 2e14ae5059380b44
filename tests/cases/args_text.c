// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Arguments and results of an operator, args=VALUE,... in a capture as text: 5, 0.5 (also inf, nan, 0x1p63), True, None, "text",
 * ? (unknown), late1 (a double that comes later; late1=0.5: the later one), c(RE,IM), dev1.0 (CUDA's first; dev1: no index), opaque16, undef or
 * undefIMPL, #WORD (as it stands), t6[2x3] (a tensor of dtype 6; behind it may stand /strides=1x3 or /nostrides,
 * /keys=N, /flags=N, /impl=N, /storage=N, /offset=N, /dev=1.0, /ndim=N). Lists: [...], (...) a tuple, T[...] and O[...]
 * of tensors and optional tensors, I[...], D[...], B[...] of numbers. VALUE*N: N of it; behind a list or text /N: its
 * true length.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "capture_text.h"
#include "value_words.h"

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
	else if (!strncmp(p, "late", 4) && strchr(p, '='))
		vw__late(&vals, (uint32_t)strtoul(p + 4, NULL, 10), strtod(strchr(p, '=') + 1, NULL));
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

size_t args_text(char *to, char *text)
{
	vals.cnt = 0;
	values_until(&text);
	if (*text)
		fail("no values", text);
	memcpy(to, vals.words, vals.cnt * 8);
	return vals.cnt * 8;
}
