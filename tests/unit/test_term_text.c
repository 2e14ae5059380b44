/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* base/term_text: what could steer a terminal, hide, or turn its neighbours becomes one '?'. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "suite.h"

static const struct {
	const char *text, *shown;
} cases[] = {
	{ "", "" },
	{ "aten::add.Tensor", "aten::add.Tensor" },
	{ "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x94\xa5", "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x94\xa5" },
	{ "\x1b[2J\x07\t\n\r\x7f", "?[2J?????" },
	{ "\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "???\xc2\xa0" }, /* C1 */
	{ "\x9b"
	  "31m",
	  "?31m" }, /* the same as one byte */
	{ "a\xe2\x80\xae"
	  "b\xe2\x81\xa6"
	  "c\xd8\x9c",
	  "a?b?c?" }, /* controls of direction */
	{ "a\xe2\x80\x8b"
	  "b\xef\xbb\xbf"
	  "c\xc2\xad",
	  "a?b?c?" }, /* no width */
	{ "a\xe2\x80\xa8"
	  "b\xe2\x80\xa9",
	  "a?b?" },                                   /* ends of lines */
	{ "\xf3\xa0\x80\x81\xf3\xa0\x81\xbf", "??" }, /* tags */
	{ "\xff\xfe", "??" },
	{ "\xc0\xaf\xe0\x80\x80", "?????" }, /* overlong */
	{ "\xed\xa0\x80", "???" },           /* half a pair */
	{ "\xf4\x90\x80\x80", "????" },      /* beyond the last */
	{ "a\xe6\xbc", "a??" },              /* cut */
};

static char *printed(const char *text, size_t chars, size_t *done)
{
	char *buf = NULL;
	size_t len;
	FILE *f = open_memstream(&buf, &len);

	*done = term_text__put(f, text, chars);
	fclose(f);
	return buf;
}

TEST("escapes")
{
	size_t done;
	char buf[64], *out;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		out = printed(cases[i].text, SIZE_MAX, &done);
		CU_ASSERT_STRING_EQUAL(out, cases[i].shown);
		CU_ASSERT_EQUAL(done, term_text__width(cases[i].text));
		CU_ASSERT_EQUAL(done, term_text__width(out)); /* what is printed is plain, and as wide */
		CU_ASSERT_STRING_EQUAL(term_text__copy(buf, sizeof(buf), cases[i].text), cases[i].shown);
		free(out);
	}
}

/* Every character, in one text of its own. */
TEST("every character")
{
	uint32_t back;

	for (uint32_t c = 1; c < 0x110000; c++) {
		bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
		bool turns = (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
			     c == 0x200e || c == 0x200f;
		char t[5] = "";

		if (c >= 0xd800 && c < 0xe000)
			continue;
		if (c < 0x80)
			t[0] = (char)c;
		else if (c < 0x800)
			t[0] = (char)(0xc0 | c >> 6), t[1] = (char)(0x80 | (c & 63));
		else if (c < 0x10000)
			t[0] = (char)(0xe0 | c >> 12), t[1] = (char)(0x80 | (c >> 6 & 63)),
			t[2] = (char)(0x80 | (c & 63));
		else
			t[0] = (char)(0xf0 | c >> 18), t[1] = (char)(0x80 | (c >> 12 & 63)),
			t[2] = (char)(0x80 | (c >> 6 & 63)), t[3] = (char)(0x80 | (c & 63));
		if (utf8__decode(t, t + strlen(t), &back) != strlen(t) || back != c ||
		    ((control || turns) && term_char__plain(c)))
			CU_FAIL("a character is not what it should be");
	}
}

TEST("cuts between characters")
{
	char buf[6];
	size_t done;
	char *out = printed("\xe6\xbc\xa2\xe6\xbc\xa2z", 4, &done); /* two columns each */

	CU_ASSERT_STRING_EQUAL(out, "\xe6\xbc\xa2\xe6\xbc\xa2");
	CU_ASSERT_EQUAL(done, 4);
	free(out);
	out = printed("e\xcc\x81\xe6\xbc\xa2", 2, &done); /* an accent takes none */
	CU_ASSERT_STRING_EQUAL(out, "e\xcc\x81");
	CU_ASSERT_EQUAL(done, 1);
	free(out);
	CU_ASSERT_STRING_EQUAL(term_text__copy(buf, sizeof(buf), "\xe6\xbc\xa2\xe6\xbc\xa2"),
			       "\xe6\xbc\xa2");
	CU_ASSERT_STRING_EQUAL(term_text__copy(buf, 1, "abc"), "");
}

TEST("short commands")
{
	static const struct {
		const char *cmdline, *text;
	} rows[] = {
		{ "/usr/bin/python3 -u /home/me/train.py --lr 1", "python3 train.py" },
		{ "python -m torch.distributed.run train.py", "python -m torch.distributed.run" },
		{ "python -c import torch", "python -c" },
		{ "python", "python" },
		{ "/opt/server --port 1", "server" },
		{ "", "" },
	};
	char buf[64], small[4];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		CU_ASSERT_STRING_EQUAL(command__short(buf, sizeof(buf), rows[i].cmdline), rows[i].text);
	CU_ASSERT_STRING_EQUAL(command__short(small, sizeof(small), "python a.py"), "pyt");
}

/* A foreign text in a message of any level: one line of plain text. */
TEST("messages")
{
	static const char evil[] = "a\x1b]0;owned\x07\nptbpf: all is well\r\xe2\x80\xae";
	int old = dup(2), fds[2], n;
	char back[1024];

	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	dup2(fds[1], 2);
	pr_error("'%s'", evil);
	pr_warn("'%s'", evil);
	pr_hint("'%s'", evil);
	pr_info("'%s'", evil);
	log__enable_domains("all");
	pr_debug("'%s'", evil);
	fflush(stderr);
	dup2(old, 2);
	close(fds[1]);
	n = (int)read(fds[0], back, sizeof(back) - 1);
	CU_ASSERT_TRUE_FATAL(n > 0);
	back[n] = '\0';
	CU_ASSERT_PTR_NULL(strpbrk(back, "\x1b\x07\r"));
	CU_ASSERT_PTR_NULL(strstr(back, "\xe2\x80\xae"));
	for (n = 0; strchr(back, '\n'); n++)
		*strchr(back, '\n') = ' ';
	CU_ASSERT_EQUAL(n, 5);
	close(fds[0]);
	close(old);
}

SUITE("term_text")
