/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * See python.h. Sources: cpython Include/internal/pycore_dict.h, pycore_object.h and, in
 * Include/cpython, object.h, dictobject.h, unicodeobject.h, longintrepr.h and tupleobject.h, of 3.9
 * to 3.15.
 */
#include "python/python.h"

#include <string.h>

#include "target/proc.h"

#define TYPE_OFF 8
#define TYPE_NAME_OFF 24
#define TYPE_NAME_MAX 32
#define TEXT_MAX 255 /* bytes of a str */

static bool read_object(struct py_objects *po, uint64_t addr, void *buf, size_t len)
{
	if (addr & 7 || addr < 4096 || !po->reads_left)
		return false;
	po->reads_left--;
	return !remote__read(po->pid, addr, buf, len);
}

uint64_t py_objects__word(struct py_objects *po, uint64_t addr)
{
	uint64_t v;

	return read_object(po, addr, &v, sizeof(v)) ? v : 0;
}

/* By the name of its type. A class of Python can have the same name: its objects do not pass the
 * checks below, or hold what a hostile process could make up anyway. */
static bool is_a(struct py_objects *po, uint64_t obj, const char *type)
{
	uint64_t addr = py_objects__word(po, obj + TYPE_OFF);
	char name[TYPE_NAME_MAX];

	addr = addr ? py_objects__word(po, addr + TYPE_NAME_OFF) : 0;
	return addr && !remote__read_cstr(po->pid, addr, name, sizeof(name)) && !strcmp(name, type);
}

/* ---- str, int, tuple ---- */

#define STR_LENGTH_OFF 16 /* of PyASCIIObject */
#define STR_STATE_OFF 32
#define STR_MASK 0x7cu  /* kind:3, compact:1, ascii:1 above interned:2 */
#define STR_ASCII 0x64u /* one byte for each character */
#define STR_TEXT 40     /* up to 3.11 a pointer is there, which is NULL, and then the text */
#define STR_OLD_TEXT 48

static bool is_text(const char *text, uint64_t len)
{
	return strnlen(text, len + 1) == len;
}

bool py_str__read(struct py_objects *po, uint64_t obj, char *buf, size_t cap)
{
	uint64_t head[STR_OLD_TEXT / 8];
	char text[TEXT_MAX + 1];
	uint64_t len;

	if (!read_object(po, obj, head, sizeof(head)))
		return false;
	len = head[STR_LENGTH_OFF / 8];
	if ((head[STR_STATE_OFF / 8] & STR_MASK) != STR_ASCII || len >= cap || len > TEXT_MAX ||
	    !is_a(po, obj, "str"))
		return false;
	if (!read_object(po, obj + STR_TEXT, text, len + 1))
		return false;
	if (!is_text(text, len) &&
	    (!read_object(po, obj + STR_OLD_TEXT, text, len + 1) || !is_text(text, len)))
		return false;
	memcpy(buf, text, len + 1);
	return true;
}

/* Word 2: up to 3.11 the number of digits; then that number from bit 3 on, the sign below (1:
 * zero), and bit 2 if it is immortal. */
bool py_int__read(struct py_objects *po, uint64_t obj, uint32_t *v)
{
	uint64_t words[4], head;

	if (!is_a(po, obj, "int") || !read_object(po, obj, words, sizeof(words)))
		return false;
	head = words[2];
	*v = head ? (uint32_t)words[3] : 0;
	return (head <= 1 || head == 5 || (head & ~4ull) == 8) && *v < 1u << 30;
}

/* Behind the size; from 3.14 on the hash, which is no object, is between. */
uint64_t py_tuple__first(struct py_objects *po, uint64_t obj)
{
	uint64_t words[5];

	if (!is_a(po, obj, "tuple") || !read_object(po, obj, words, sizeof(words)) || !words[2])
		return 0;
	return py_objects__word(po, words[3] + TYPE_OFF) ? words[3] : words[4];
}

/* ---- dict ---- */

/* PyDictObject, words */
#define DICT_USED 2
#define DICT_KEYS 4
#define DICT_VALUES 5
#define ENTRIES_MAX 65536u

/*
 * PyDictKeysObject. From 3.11 on {refcnt, u8 log2 of the size, u8 log2 of the bytes of its indices,
 * u8 kind, version; usable; entries}, then the indices. Before, {refcnt, size, function, usable,
 * entries}: the size is a power of two, so only one of its bytes is not 0.
 */
static bool find_entries(struct py_objects *po, uint64_t keys, struct py_dict *d)
{
	uint64_t words[5], cnt, size, index;
	uint8_t byte[8];

	if (!read_object(po, keys, words, sizeof(words)))
		return false;
	memcpy(byte, &words[1], sizeof(byte));
	size = words[1];
	if (byte[0] && byte[1] >= byte[0] && byte[1] < 32 && byte[2] <= 2) {
		d->at = keys + 32 + (1ull << byte[1]);
		d->size = byte[2] ? 16 : 24; /* with the hash where keys are of any type */
		cnt = words[3];
	} else if (size && !(size & (size - 1)) && size < 1u << 30) {
		index = size <= 0xff ? 1 : size <= 0xffff ? 2 : 4;
		d->at = keys + 40 + size * index;
		d->size = 24;
		cnt = words[4];
	} else {
		return false;
	}
	d->left = (uint32_t)cnt;
	return cnt <= ENTRIES_MAX;
}

/*
 * Where values are that keys share (PyDictValues). From 3.13 on four bytes are before them: room
 * and number of values, two flags.
 */
static uint64_t first_value(struct py_objects *po, uint64_t values)
{
	uint64_t head = py_objects__word(po, values);
	uint8_t byte[8];

	memcpy(byte, &head, sizeof(byte));
	return byte[0] && byte[0] <= 30 && byte[1] <= byte[0] && byte[2] <= 1 && byte[3] <= 1 ?
		       values + 8 :
		       values;
}

bool py_dict__begin(struct py_objects *po, uint64_t obj, struct py_dict *d)
{
	uint64_t words[6];

	*d = (struct py_dict){ .po = po };
	if ((!is_a(po, obj, "dict") && !is_a(po, obj, "collections.OrderedDict")) ||
	    !read_object(po, obj, words, sizeof(words)))
		return false;
	d->used = (uint32_t)words[DICT_USED];
	/* an empty one has keys of another form, and up to 3.10 its values are not NULL */
	if (!words[DICT_USED])
		return true;
	d->values = words[DICT_VALUES] ? first_value(po, words[DICT_VALUES]) : 0;
	return find_entries(po, words[DICT_KEYS], d);
}

/* PyTypeObject and PyHeapTypeObject */
#define TYPE_SIZE_OFF 32      /* tp_basicsize */
#define TYPE_DICTOFFSET 288   /* > 0: where the dict is in an object; < 0: before it */
#define TYPE_QUALNAME_OFF 864 /* ht_qualname; a word later from 3.12 on, another one in 3.15 */
#define TYPE_QUALNAME_MAX 880
#define BEFORE_DICT 24   /* of an object: the dict; in 3.12 the values, if bit 0 is set */
#define BEFORE_VALUES 32 /* in 3.11 */

/* The last str among its fields, before the keys that its objects share (ht_cached_keys). */
static uint64_t qualname_off(struct py_objects *po, uint64_t type)
{
	for (uint64_t off = TYPE_QUALNAME_MAX; off >= TYPE_QUALNAME_OFF; off -= 8)
		if (is_a(po, py_objects__word(po, type + off), "str"))
			return off;
	return 0;
}

/* Values without a dict: in 3.11 and 3.12 a pointer before the object, from 3.13 on in it. */
static uint64_t find_values(struct py_objects *po, uint64_t obj, uint64_t type, uint64_t before)
{
	uint64_t in = obj + py_objects__word(po, type + TYPE_SIZE_OFF), first;

	if (before & 1)
		return before + 1;
	if (qualname_off(po, type) == TYPE_QUALNAME_OFF)
		return py_objects__word(po, obj - BEFORE_VALUES);
	first = first_value(po, in);
	return first != in ? first : 0;
}

bool py_object__attributes(struct py_objects *po, uint64_t obj, struct py_dict *d)
{
	uint64_t type = py_objects__word(po, obj + TYPE_OFF), before, keys;
	int64_t at = (int64_t)py_objects__word(po, type + TYPE_DICTOFFSET);

	*d = (struct py_dict){ .po = po };
	if (at > 0 && at < 4096)
		return py_dict__begin(po, py_objects__word(po, obj + (uint64_t)at), d);
	if (at >= 0)
		return false;
	before = py_objects__word(po, obj - BEFORE_DICT);
	if (before && !(before & 1))
		return py_dict__begin(po, before, d);
	*d = (struct py_dict){ .po = po, .values = find_values(po, obj, type, before) };
	keys = type + qualname_off(po, type) + 8;
	return d->values && find_entries(po, py_objects__word(po, keys), d);
}

static bool read_chunk(struct py_dict *d)
{
	d->cnt = d->left < PY_DICT_CHUNK ? d->left : PY_DICT_CHUNK;
	d->pos = 0;
	if (!d->cnt || !read_object(d->po, d->at, d->words, (size_t)d->cnt * d->size))
		return false;
	d->at += (uint64_t)d->cnt * d->size;
	d->left -= d->cnt;
	return true;
}

bool py_dict__next(struct py_dict *d, uint64_t *key, uint64_t *value)
{
	while (d->pos < d->cnt || read_chunk(d)) {
		/* the last two words of the entry */
		const uint64_t *pair = &d->words[++d->pos * (d->size / 8) - 2];

		*key = pair[0];
		*value = d->values ? py_objects__word(d->po, d->values) : pair[1];
		d->values += d->values ? 8 : 0;
		if (*key && *value) /* a deleted one has none */
			return true;
	}
	return false;
}

/* Only texts of the same length are read. */
static uint64_t find_name(struct py_dict *d, const char *name)
{
	struct py_objects *po = d->po;
	struct remote_piece pieces[PY_DICT_CHUNK];
	uint64_t keys[PY_DICT_CHUNK], values[PY_DICT_CHUNK], lens[PY_DICT_CHUNK];
	char text[TEXT_MAX + 1];
	uint32_t n;

	do {
		for (n = 0; n < PY_DICT_CHUNK && py_dict__next(d, &keys[n], &values[n]); n++)
			pieces[n] = (struct remote_piece){ .addr = keys[n] + STR_LENGTH_OFF,
							   .buf = &lens[n],
							   .len = sizeof(lens[n]) };
		if (po->reads_left < n || remote__read_pieces(po->pid, pieces, n))
			return 0;
		po->reads_left -= n;
		for (uint32_t i = 0; i < n; i++)
			if (pieces[i].ok && lens[i] == strlen(name) &&
			    py_str__read(po, keys[i], text, sizeof(text)) && !strcmp(text, name))
				return values[i];
	} while (n == PY_DICT_CHUNK);
	return 0;
}

uint64_t py_dict__by_name(struct py_objects *po, uint64_t obj, const char *name)
{
	struct py_dict d;

	return py_dict__begin(po, obj, &d) ? find_name(&d, name) : 0;
}

uint64_t py_object__attribute(struct py_objects *po, uint64_t obj, const char *name)
{
	struct py_dict d;

	return py_object__attributes(po, obj, &d) ? find_name(&d, name) : 0;
}

uint64_t py_dict__by_object(struct py_objects *po, uint64_t obj, uint64_t wanted)
{
	uint64_t key, value;
	struct py_dict d;

	if (!py_dict__begin(po, obj, &d))
		return 0;
	while (py_dict__next(&d, &key, &value))
		if (key == wanted)
			return value;
	return 0;
}
