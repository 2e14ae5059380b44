/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Line tables: cpython 3.9 Objects/lnotab_notes.txt, 3.10 Objects/lnotab_notes.txt and
 * Objects/codeobject.c (PyLineTable_NextAddressRange), 3.11 and later Objects/locations.md
 * (InternalDocs/code_objects.md). Texts: Include/cpython/unicodeobject.h.
 */
#include "python/python.h"

#include <string.h>

/* ---- lines ---- */

/* Pairs: unsigned distance in bytes, signed distance in lines. */
static int64_t find_by_lnotab(const uint8_t *t, size_t len, int64_t line, int64_t at)
{
	int64_t addr = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		addr += t[i];
		if (addr > at)
			break;
		line += (int8_t)t[i + 1];
	}
	return line;
}

/* Pairs: length of a range in bytes, signed distance of its line from the one before; -128: it has
 * no line. */
static int64_t find_by_ranges(const uint8_t *t, size_t len, int64_t line, int64_t at)
{
	int64_t end = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		int8_t delta = (int8_t)t[i + 1];

		end += t[i];
		if (delta != -128)
			line += delta;
		if (end > at)
			return delta == -128 ? PY_NO_LINE : line;
	}
	return PY_NO_LINE;
}

/* Six bits in each byte, 0x40: more follow. */
static uint32_t read_varint(const uint8_t *t, size_t len, size_t *i)
{
	uint32_t v = 0;
	uint8_t byte = 0x40;

	for (uint32_t shift = 0; byte & 0x40 && *i < len; shift += 6) {
		byte = t[(*i)++];
		if (shift < 30)
			v |= (uint32_t)(byte & 0x3f) << shift;
	}
	return v;
}

static int64_t read_svarint(const uint8_t *t, size_t len, size_t *i)
{
	uint32_t v = read_varint(t, len, i);

	return v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
}

enum {
	LOC_ONE_LINE0 = 10, /* three of them: 0 to 2 lines on */
	LOC_NO_COLUMNS = 13,
	LOC_LONG,
	LOC_NONE, /* no line; the next entry counts from the line before this one */
};

/* Entries begin with a byte that has bit 7 set: kind, and length in units of two bytes. */
static int64_t find_by_locations(const uint8_t *t, size_t len, int64_t line, int64_t at)
{
	int64_t end = 0;
	size_t i = 0;

	while (i < len) {
		uint8_t head = t[i++], kind = head >> 3 & 15;

		if (kind >= LOC_NO_COLUMNS && kind < LOC_NONE)
			line += read_svarint(t, len, &i);
		else if (kind >= LOC_ONE_LINE0 && kind < LOC_NO_COLUMNS)
			line += kind - LOC_ONE_LINE0;
		while (i < len && !(t[i] & 0x80)) /* columns */
			i++;
		end += 2 * ((head & 7) + 1);
		if (end > at)
			return kind == LOC_NONE ? PY_NO_LINE : line;
	}
	return PY_NO_LINE;
}

int32_t py_line__find(enum ptb_py_lines form, const uint8_t *table, size_t len, int32_t first,
		      int32_t at)
{
	int64_t line = PY_NO_LINE;

	if (at < 0)
		return first;
	if (form == PTB_PY_LNOTAB)
		line = find_by_lnotab(table, len, first, at);
	else if (form == PTB_PY_RANGES)
		line = find_by_ranges(table, len, first, at);
	else if (form == PTB_PY_LOCATIONS)
		line = find_by_locations(table, len, first, at);
	return line >= 0 && line <= INT32_MAX ? (int32_t)line : PY_NO_LINE;
}

/* ---- texts ---- */

/* struct PyASCIIObject.state: interned:2 (3.14: and more above), kind:3, compact:1, ascii:1 */
#define STATE_KIND(s) ((s) >> 2 & 7)
#define STATE_COMPACT 0x20u
#define STATE_ASCII 0x40u

bool py_str__parse(const struct ptb_py_offsets *off, uint32_t state, uint64_t length,
		   struct py_str *out)
{
	uint32_t kind = STATE_KIND(state);
	uint64_t fit;

	memset(out, 0, sizeof(*out));
	if (!(state & STATE_COMPACT) || (kind != 1 && kind != 2 && kind != 4) ||
	    ((state & STATE_ASCII) && kind != 1))
		return false;
	fit = (PY_TEXT_MAX - 1) / kind;
	out->cut = length > fit;
	out->char_size = kind;
	out->size = (uint32_t)(out->cut ? fit : length) * kind;
	out->data = state & STATE_ASCII ? off->str_ascii : off->str_compact;
	return true;
}

static uint32_t char_at(const struct py_str *s, const uint8_t *bytes, uint32_t i)
{
	uint32_t c = 0;

	memcpy(&c, bytes + (size_t)i * s->char_size, s->char_size);
	return c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0xfffd : c;
}

static size_t utf8_put(uint32_t c, char *to)
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const uint8_t heads[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		to[i] = (char)(0x80 | (c & 0x3f));
	to[0] = (char)(heads[n == 1 ? 0 : n] | c);
	return n;
}

size_t py_str__to_utf8(const struct py_str *s, const uint8_t *bytes, char *buf, size_t cap,
		       bool *cut)
{
	size_t len = 0, n;
	char out[4];

	*cut = s->cut;
	for (uint32_t i = 0; i < s->size / s->char_size; i++) {
		n = utf8_put(char_at(s, bytes, i), out);
		if (len + n >= cap) {
			*cut = true;
			break;
		}
		memcpy(buf + len, out, n);
		len += n;
	}
	buf[len] = 0;
	return len;
}
