/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Line tables that were recorded, texts of all forms, layouts out of tables for debuggers that are right, damaged and hostile. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "python/python.h"
#include "python/python_priv.h"
#include "suite.h"

/* ---- lines ---- */

#define FIRST_LINE 3
#define TABLE_MAX 256

/*
 * co_lnotab and co_linetable of one function (a call over two lines, for, try, with, finally, a return of three lines), and
 * what PyCode_Addr2Line() of that version says: runs of instructions (two bytes each) with their line.
 */
static const struct recorded {
	const char *version;
	enum ptb_py_lines form;
	const char *hex;
	struct {
		int cnt, line;
	} runs[40];
} recorded[] = {
	{ "3.9",
	  PTB_PY_LNOTAB,
	  "0002020102ff0402020102ff080206010a0102012a020c0204ff",
	  { { 1, 5 },
	    { 1, 6 },
	    { 2, 5 },
	    { 1, 7 },
	    { 1, 8 },
	    { 4, 7 },
	    { 3, 9 },
	    { 5, 10 },
	    { 1, 11 },
	    { 21, 12 },
	    { 6, 14 },
	    { 2, 16 },
	    { 2, 15 } } },
	{ "3.10",
	  PTB_PY_RANGES,
	  "0202020104ff0202020108ff06020a0102012a010402040204ff02fd0402040204ff06ff",
	  { { 1, 5 },
	    { 1, 6 },
	    { 2, 5 },
	    { 1, 7 },
	    { 1, 8 },
	    { 4, 7 },
	    { 3, 9 },
	    { 5, 10 },
	    { 1, 11 },
	    { 21, 12 },
	    { 2, 14 },
	    { 2, 16 },
	    { 2, 15 },
	    { 1, 12 },
	    { 2, 14 },
	    { 2, 16 },
	    { 2, 15 },
	    { 3, 14 } } },
	{ "3.11",
	  PTB_PY_LOCATIONS,
	  "8000e0090ad8090af103010a0b8041e50d12d80c0df103010e0ff400010e0ff00003050ff0000305"
	  "0f8801e00b0c880e8868d808098851890688018801f00203050edd0d11902189578c57d0081f9801"
	  "d0081fd0081fd0081fd1081fd4081fd0081fd0081fd0081fd0081fd0081fd0081ff8f8f8d0081fd0"
	  "081fd0081fd0081fe00c0d88018801f8884188018805880588058805e006078811f003020c06f000"
	  "020506",
	  { { 1, 3 },
	    { 1, 5 },
	    { 1, 6 },
	    { 3, 5 },
	    { 6, 7 },
	    { 1, 8 },
	    { 10, 7 },
	    { 3, 9 },
	    { 6, 10 },
	    { 1, 11 },
	    { 32, 12 },
	    { 3, -1 },
	    { 4, 12 },
	    { 3, 14 },
	    { 1, -1 },
	    { 6, 14 },
	    { 2, 16 },
	    { 2, 15 } } },
	{ "3.12",
	  PTB_PY_LOCATIONS,
	  "8000e0090ad8090af103010a0b8041e40d12d80c0df303010e0ff20003050f8801e10b0c8868d808"
	  "09885189068901f00703050ff00803050edc0d1190218b57d0081f9801d7081fe00c0d8801e00607"
	  "8811f003020c06f000020506f707000920d0081ffbe00c0d8901fa",
	  { { 1, 3 },
	    { 1, 5 },
	    { 1, 6 },
	    { 3, 5 },
	    { 5, 7 },
	    { 1, 8 },
	    { 8, 7 },
	    { 3, 9 },
	    { 6, 10 },
	    { 1, 7 },
	    { 1, 11 },
	    { 20, 12 },
	    { 2, 14 },
	    { 2, 16 },
	    { 2, 15 },
	    { 9, 12 },
	    { 4, -1 },
	    { 3, 14 },
	    { 3, -1 } } },
};

static size_t from_hex(const char *hex, uint8_t *out)
{
	size_t n = strlen(hex) / 2;
	char byte[3] = "";

	for (size_t i = 0; i < n; i++) {
		memcpy(byte, hex + 2 * i, 2);
		out[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return n;
}

TEST("lines that CPython found")
{
	uint8_t table[TABLE_MAX];

	for (size_t i = 0; i < sizeof(recorded) / sizeof(recorded[0]); i++) {
		size_t len = from_hex(recorded[i].hex, table);
		int at = 0;

		for (size_t r = 0; recorded[i].runs[r].cnt; r++)
			for (int k = 0; k < recorded[i].runs[r].cnt; k++, at += 2)
				CU_ASSERT_EQUAL(py_line__find(recorded[i].form, table, len,
							      FIRST_LINE, at),
						recorded[i].runs[r].line);
		CU_ASSERT_EQUAL(py_line__find(recorded[i].form, table, len, FIRST_LINE, -1), FIRST_LINE);
		if (recorded[i].form != PTB_PY_LNOTAB)
			CU_ASSERT_EQUAL(py_line__find(recorded[i].form, table, len, FIRST_LINE, at),
					PY_NO_LINE);
	}
}

/* The line after an entry without one counts from the line before it (locations: kind 15; ranges: -128). */
TEST("entries without a line")
{
	static const uint8_t locations[] = { 0x80 | 11 << 3, 0, 0, 0x80 | 15 << 3,
					     0x80 | 12 << 3, 0, 0 };
	static const uint8_t ranges[] = { 2, 1, 2, 0x80, 2, 2 };

	for (int at = 0; at < 6; at += 2) {
		int want = at == 0 ? 11 : at == 2 ? PY_NO_LINE : 13;

		CU_ASSERT_EQUAL(py_line__find(PTB_PY_LOCATIONS, locations, sizeof(locations), 10, at),
				want);
		CU_ASSERT_EQUAL(py_line__find(PTB_PY_RANGES, ranges, sizeof(ranges), 10, at), want);
	}
}

/* A signed number of more than one byte: 1000 lines back. */
TEST("long distances")
{
	static const uint8_t table[] = { 0x80 | 13 << 3, 0x40 | (2001 & 0x3f), 2001 >> 6 };

	CU_ASSERT_EQUAL(py_line__find(PTB_PY_LOCATIONS, table, sizeof(table), 5000, 0), 4000);
	/* a line before the first of the file is none */
	CU_ASSERT_EQUAL(py_line__find(PTB_PY_LOCATIONS, table, sizeof(table), 5, 0), PY_NO_LINE);
}

/* Every prefix, each byte changed, and lines far out: any answer, but no access outside (the sanitizers see it). */
TEST("damaged line tables")
{
	for (size_t i = 0; i < sizeof(recorded) / sizeof(recorded[0]); i++) {
		size_t len = strlen(recorded[i].hex) / 2;
		uint8_t *table = malloc(len);

		CU_ASSERT_PTR_NOT_NULL_FATAL(table);
		for (size_t cut = 0; cut <= len; cut++) {
			uint8_t *part = malloc(cut ? cut : 1);

			CU_ASSERT_PTR_NOT_NULL_FATAL(part);
			from_hex(recorded[i].hex, table);
			memcpy(part, table, cut);
			if (cut)
				part[cut - 1] ^= 0xff;
			for (int form = 0; form < 5; form++) {
				int32_t line = py_line__find((enum ptb_py_lines)form, part, cut,
							     INT32_MAX, INT32_MAX);

				CU_ASSERT_TRUE(line >= PY_NO_LINE);
			}
			free(part);
		}
		free(table);
	}
}

/* ---- texts ---- */

static const struct ptb_py_offsets str_offs = { .str_ascii = 40, .str_compact = 56 };

#define STATE(kind, ascii) ((uint32_t)(kind) << 2 | 0x20 | ((ascii) ? 0x40 : 0))

/* Decodes cnt characters; "(none)": such a str is refused. */
static const char *decoded(uint32_t state, const void *chars, uint64_t cnt, uint32_t data, bool want_cut)
{
	static char buf[PY_TEXT_MAX];
	struct py_str s;
	bool cut;

	if (!py_str__parse(&str_offs, state, cnt, &s))
		return "(none)";
	CU_ASSERT_EQUAL(s.data, data);
	CU_ASSERT_EQUAL(py_str__to_utf8(&s, chars, buf, sizeof(buf), &cut), strlen(buf));
	CU_ASSERT_EQUAL(cut, want_cut);
	return buf;
}

TEST("texts of all kinds")
{
	static const uint8_t latin[] = { 'a', 0xe9, 0xff };
	static const uint16_t two[] = { 'x', 0x3b1, 0x20ac, 0xdc80 };
	static const uint32_t four[] = { 0x1f600, 'z', 0x110000, UINT32_MAX };

	CU_ASSERT_STRING_EQUAL(decoded(STATE(1, true), "plain", 5, 40, false), "plain");
	CU_ASSERT_STRING_EQUAL(decoded(STATE(1, true), "", 0, 40, false), "");
	CU_ASSERT_STRING_EQUAL(decoded(STATE(1, false), latin, 3, 56, false), "a\xc3\xa9\xc3\xbf");
	CU_ASSERT_STRING_EQUAL(decoded(STATE(2, false), two, 4, 56, false),
			       "x\xce\xb1\xe2\x82\xac\xef\xbf\xbd");
	CU_ASSERT_STRING_EQUAL(decoded(STATE(4, false), four, 4, 56, false),
			       "\xf0\x9f\x98\x80z\xef\xbf\xbd\xef\xbf\xbd");
}

TEST("texts that are refused")
{
	for (uint32_t kind = 0; kind < 8; kind++) {
		bool good = kind == 1 || kind == 2 || kind == 4;
		struct py_str s;

		CU_ASSERT_EQUAL(py_str__parse(&str_offs, STATE(kind, false), 3, &s), good);
		CU_ASSERT_EQUAL(py_str__parse(&str_offs, STATE(kind, true), 3, &s), kind == 1);
		/* legacy: the characters are elsewhere */
		CU_ASSERT_FALSE(py_str__parse(&str_offs, kind << 2, 3, &s));
	}
}

/* Longer than the limit, and of a length that no memory has: never more than the limit is to be read. */
TEST("long texts")
{
	static const uint32_t kinds[] = { 1, 2, 4 };
	uint8_t *chars = malloc(PY_TEXT_MAX);

	CU_ASSERT_PTR_NOT_NULL_FATAL(chars);
	memset(chars, 'y', PY_TEXT_MAX);
	CU_ASSERT_EQUAL(strlen(decoded(STATE(1, true), chars, PY_TEXT_MAX - 1, 40, false)),
			PY_TEXT_MAX - 1);
	CU_ASSERT_EQUAL(strlen(decoded(STATE(1, true), chars, PY_TEXT_MAX, 40, true)), PY_TEXT_MAX - 1);
	CU_ASSERT_EQUAL(strlen(decoded(STATE(1, true), chars, UINT64_MAX, 40, true)), PY_TEXT_MAX - 1);
	for (uint32_t i = 0; i < 3; i++) {
		struct py_str s;

		CU_ASSERT_TRUE(py_str__parse(&str_offs, STATE(kinds[i], false), UINT64_MAX - i, &s));
		CU_ASSERT_TRUE(s.cut && s.size <= PY_TEXT_MAX && s.size % kinds[i] == 0);
	}
	/* two bytes of UTF-8 for each: cut between two characters */
	memset(chars, 0xe9, PY_TEXT_MAX);
	CU_ASSERT_EQUAL(strlen(decoded(STATE(1, false), chars, PY_TEXT_MAX - 1, 56, true)),
			PY_TEXT_MAX - 2);
	free(chars);
}

/* ---- layouts ---- */

static uint8_t runtime[PY_DEBUG_OFFSETS_READ];

static void set_word(size_t at, uint64_t v)
{
	memcpy(runtime + at, &v, sizeof(v));
}

/* A table whose entries are small numbers, each another one. */
static void make_table(uint32_t version)
{
	for (size_t i = 0; i < sizeof(runtime); i += 8)
		set_word(i, i / 8 + 100);
	memcpy(runtime, "xdebugpy", 8);
	set_word(8, version);
	set_word(16, 0);
}

static const char *refusal(uint32_t hint)
{
	struct ptb_py_layout l;
	const char *why;
	int err = py_layout__fill(runtime, sizeof(runtime), hint, &l, &why);

	CU_ASSERT_EQUAL(err, why ? -ENOTSUP : 0);
	return why ? why : "";
}

TEST("layouts by version")
{
	struct ptb_py_layout l;
	const char *why;

	memset(runtime, 0, sizeof(runtime));
	CU_ASSERT_EQUAL_FATAL(py_layout__fill(runtime, sizeof(runtime), PY_VERSION_OF(9), &l, &why), 0);
	CU_ASSERT_EQUAL(l.off.lines, PTB_PY_LNOTAB);
	CU_ASSERT_EQUAL(l.off.frame_owner, PTB_PY_NONE);
	CU_ASSERT_EQUAL_FATAL(py_layout__fill(runtime, sizeof(runtime), 0x030c01f0, &l, &why), 0);
	CU_ASSERT_EQUAL(l.version, 0x030c01f0);
	CU_ASSERT_EQUAL(l.off.lines, PTB_PY_LOCATIONS);
	CU_ASSERT_EQUAL(l.off.tstate_thread_id, 136);
	CU_ASSERT_STRING_NOT_EQUAL(refusal(0), "");
	CU_ASSERT_STRING_NOT_EQUAL(refusal(PY_VERSION_OF(8)), "");
	CU_ASSERT_STRING_NOT_EQUAL(refusal(0x030c00b1), ""); /* 3.12.0b1 */
	CU_ASSERT_STRING_NOT_EQUAL(refusal(0x030d00f0), ""); /* 3.13 without its table */
	CU_ASSERT_STRING_NOT_EQUAL(refusal(PY_VERSION_OF(16)), "");
	CU_ASSERT_STRING_NOT_EQUAL(refusal(UINT32_MAX), "");
}

TEST("layouts by the table for debuggers")
{
	struct ptb_py_layout l;
	const char *why;

	make_table(0x030d00f0);
	CU_ASSERT_EQUAL_FATAL(py_layout__fill(runtime, sizeof(runtime), 0, &l, &why), 0);
	CU_ASSERT_EQUAL(l.off.runtime_head, 100 + 40 / 8);
	CU_ASSERT_EQUAL(l.off.code_filename, 100 + 280 / 8);
	CU_ASSERT_EQUAL(l.off.runtime_key, 2164);
	CU_ASSERT_EQUAL(l.off.frame_tags, 0);
	make_table(0x030e0af0);
	CU_ASSERT_EQUAL_FATAL(py_layout__fill(runtime, sizeof(runtime), 0x030e0af0, &l, &why), 0);
	CU_ASSERT_EQUAL(l.off.code_filename, 100 + 320 / 8);
	CU_ASSERT_EQUAL(l.off.frame_tags, 3);
	make_table(0x030f02f0);
	CU_ASSERT_EQUAL_FATAL(py_layout__fill(runtime, sizeof(runtime), 0, &l, &why), 0);
	CU_ASSERT_EQUAL(l.off.runtime_key, PTB_PY_NONE);
	CU_ASSERT_EQUAL(l.off.str_compact, 100 + 744 / 8);
}

TEST("hostile tables")
{
	struct ptb_py_layout l;
	const char *why;

	make_table(0x030f00b4);
	CU_ASSERT_PTR_NOT_NULL(strstr(refusal(0), "preliminary"));
	make_table(0x030e02f0);
	CU_ASSERT_PTR_NOT_NULL(strstr(refusal(0x030d00f0), "another version"));
	set_word(16, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(refusal(0), "free-threaded"));
	for (uint32_t minor = 13; minor <= 15; minor++)
		for (size_t i = 24; i < sizeof(runtime);
		     i += 8) { /* one field at a time, far outside of any object */
			make_table(PY_VERSION_OF(minor) | 0xf0);
			set_word(i, i & 8 ? UINT64_MAX : 1u << 20);
			if (py_layout__fill(runtime, sizeof(runtime), 0, &l, &why))
				continue;
			/* none of those that are used */
			CU_ASSERT_TRUE(l.off.code_filename < PY_OBJECT_OFF_MAX &&
				       l.off.type < PY_OBJECT_OFF_MAX);
			CU_ASSERT_TRUE(l.off.frame_owner <= PY_OBJECT_OFF_MAX &&
				       l.off.str_ascii <= PY_OBJECT_OFF_MAX);
		}
	make_table(0x030e02f0);
	for (size_t len = 0; len < 720; len += 8)
		CU_ASSERT_EQUAL(py_layout__fill(runtime, len, 0, &l, &why) == 0, len >= 664);
}

/* ---- the lock ---- */

/* The clock's flag is where glibc has it from 2.41 on, and before. */
static const struct py_gil gil = {
	.interval = 5000,
	.last_holder = 0x7f0000001000,
	.cond = { [3] = 2ull << 32 },
	.switch_cond = { [4] = 2ull << 32 },
};

static size_t scan_with(size_t word, uint64_t value)
{
	struct py_gil out;

	memset(runtime, 0, sizeof(runtime));
	memcpy(runtime + 256, &gil, sizeof(gil));
	set_word(256 + 8 * word, value);
	return py_gil__scan(runtime, sizeof(runtime), &out);
}

TEST("locks")
{
	static const struct {
		size_t word;
		uint64_t value;
	} wrong[] = {
		{ 0, 0 },          /* interval */
		{ 0, UINT64_MAX }, /* interval */
		{ 1, 0 },          /* holder */
		{ 1, 0x7f0000001004 },
		{ 2, UINT32_MAX }, /* not initialized */
		{ 7, 0 },          /* clock */
		{ 10, 3 },         /* state of the mutex */
		{ 12, 1 },         /* its kind */
		{ 24, 0x7f0000001000 },
	};
	struct py_gil out;

	CU_ASSERT_EQUAL(scan_with(2, 1), 256);
	CU_ASSERT_EQUAL(py_gil__scan(runtime, 256 + sizeof(gil), &out), 256);
	CU_ASSERT_EQUAL(py_gil__scan(runtime, 255 + sizeof(gil), &out), 255 + sizeof(gil));
	memcpy(runtime + 512, &gil, sizeof(gil)); /* a second one */
	CU_ASSERT_EQUAL(py_gil__scan(runtime, sizeof(runtime), &out), sizeof(runtime));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CU_ASSERT_EQUAL(scan_with(wrong[i].word, wrong[i].value), sizeof(runtime));
}

static const char *version_text(uint32_t version)
{
	static char buf[PY_VERSION_TEXT];

	py_version__print(version, buf);
	return buf;
}

TEST("versions")
{
	CU_ASSERT_STRING_EQUAL(version_text(PY_VERSION_OF(10)), "3.10");
	CU_ASSERT_STRING_EQUAL(version_text(0x030e02f0), "3.14.2");
	CU_ASSERT_STRING_EQUAL(version_text(0x030f00b4), "3.15.0b4");
	CU_ASSERT_STRING_EQUAL(version_text(0x030f00c1), "3.15.0rc1");
	CU_ASSERT_STRING_EQUAL(version_text(UINT32_MAX), "255.255.255");
}

SUITE("python")
