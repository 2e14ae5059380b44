/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Texts of others on a terminal; see text.h. */
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

size_t utf8__decode(const char *text, const char *end, uint32_t *out)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n;
	uint32_t c;

	if (p[0] < 0x80) {
		*out = p[0];
		return 1;
	}
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		n = 2, c = p[0] & 0x1f;
	else if ((p[0] & 0xf0) == 0xe0)
		n = 3, c = p[0] & 0x0f;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		n = 4, c = p[0] & 0x07;
	else
		return 0;
	if (n > (size_t)(end - text))
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if ((n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10ffff)) ||
	    (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*out = c;
	return n;
}

/*
 * Control characters; Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt), which
 * includes most controls of direction; the rest of those, the separators of lines and the marks of
 * annotations. In order.
 */
static const struct range {
	uint32_t first, last;
} not_plain[] = {
	{ 0x0000, 0x001f },   { 0x007f, 0x009f },   { 0x00ad, 0x00ad },   { 0x034f, 0x034f },
	{ 0x061c, 0x061c },   { 0x115f, 0x1160 },   { 0x17b4, 0x17b5 },   { 0x180b, 0x180f },
	{ 0x200b, 0x200f },   { 0x2028, 0x202e },   { 0x2060, 0x206f },   { 0x3164, 0x3164 },
	{ 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },   { 0xfff0, 0xfffb },
	{ 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
};

bool term_char__plain(uint32_t c)
{
	for (size_t i = 0; i < sizeof(not_plain) / sizeof(not_plain[0]) && c >= not_plain[i].first;
	     i++)
		if (c <= not_plain[i].last)
			return false;
	return true;
}

/* The character at p: its bytes, the columns it takes, and whether it is shown as it is. */
struct shown {
	size_t bytes, columns;
	bool plain;
};

static struct shown next(const char *p, const char *end)
{
	uint32_t c;
	size_t n = utf8__decode(p, end, &c);
	int columns;

	if (!n || !term_char__plain(c))
		return (struct shown){ n ? n : 1, 1, false };
	columns = utf8proc_charwidth((utf8proc_int32_t)c);
	return (struct shown){ n, columns > 0 ? (size_t)columns : 0, true };
}

size_t utf8__chars(const char *text)
{
	const char *end = text + strlen(text);
	size_t n = 0;

	for (; text < end; text += next(text, end).bytes)
		n++;
	return n;
}

size_t term_text__width(const char *text)
{
	const char *end = text + strlen(text);
	size_t width = 0;

	while (text < end) {
		struct shown c = next(text, end);

		width += c.columns;
		text += c.bytes;
	}
	return width;
}

size_t term_text__fit(const char *text, size_t columns)
{
	const char *p = text, *end = text + strlen(text);

	while (p < end) {
		struct shown c = next(p, end);

		if (c.columns > columns)
			break;
		columns -= c.columns;
		p += c.bytes;
	}
	return (size_t)(p - text);
}

size_t term_text__put(FILE *out, const char *text, size_t columns)
{
	const char *end = text + term_text__fit(text, columns);
	size_t width = 0;

	while (text < end) {
		struct shown c = next(text, text + strlen(text));

		if (c.plain)
			fwrite(text, 1, c.bytes, out);
		else
			fputc('?', out);
		width += c.columns;
		text += c.bytes;
	}
	return width;
}

/* Bytes of the text that go on a line of so many columns: up to the last blank, if it has one. */
static size_t bytes_of_line(const char *text, size_t columns)
{
	size_t fit = term_text__fit(text, columns), n = fit;

	if (!text[fit])
		return fit;
	while (n && !strchr(" \n", text[n]))
		n--;
	return n > strspn(text, " \n") ? n : fit ? fit : 1;
}

void term_text__wrap(FILE *out, const char *text, size_t columns, size_t at, size_t hang)
{
	for (;;) {
		size_t n = bytes_of_line(text, columns > at ? columns - at : 1);

		for (size_t i = 0; i < n; i++)
			fputc(text[i] == '\n' ? ' ' : text[i], out);
		text += n;
		text += strspn(text, " \n");
		if (!*text)
			return;
		fprintf(out, "\n%*s", (int)hang, "");
		at = hang;
	}
}

char *term_text__copy(char *buf, size_t cap, const char *text)
{
	const char *end = text + strlen(text);
	size_t len = 0;

	while (cap && text < end) {
		struct shown c = next(text, end);
		size_t need = c.plain ? c.bytes : 1;

		if (len + need >= cap)
			break;
		if (c.plain)
			memcpy(buf + len, text, need);
		else
			buf[len] = '?';
		len += need;
		text += c.bytes;
	}
	if (cap)
		buf[len] = '\0';
	return buf;
}

/* A terminal that says nothing else, or nothing believable. */
#define COLUMNS_ASSUMED 80
#define COLUMNS_MIN 40
#define COLUMNS_MAX 500

int terminal__assumed(void)
{
	const char *env = getenv("COLUMNS");
	long n = env ? strtol(env, NULL, 10) : 0;

	return n >= COLUMNS_MIN && n <= COLUMNS_MAX ? (int)n : COLUMNS_ASSUMED;
}

int terminal__columns(int fd)
{
	struct winsize size;

	if (!isatty(fd))
		return 0;
	if (ioctl(fd, TIOCGWINSZ, &size) || !size.ws_col)
		return terminal__assumed();
	return size.ws_col < COLUMNS_MIN ? COLUMNS_MIN :
	       size.ws_col > COLUMNS_MAX ? COLUMNS_MAX :
					   size.ws_col;
}

bool terminal__colour(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && *no) && term && strcmp(term, "dumb") != 0 && isatty(fd);
}
