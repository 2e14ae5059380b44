/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Numbers, names and foreign texts as people read them. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* Integers as decimal text, without printf(): a trace has millions of them. Nothing is
 * NUL-terminated. */

#define DECIMAL_MAX 20 /* digits of a 64-bit integer, with its sign */

/* The digits of v, so that they stop before `end`; returns the first. */
static inline char *decimal__u64(uint64_t v, char *end)
{
	do {
		*--end = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	return end;
}

/* v at buf; returns its length. */
static inline size_t decimal__i64(char *buf, int64_t v)
{
	char tmp[DECIMAL_MAX], *end = tmp + sizeof(tmp);
	char *p = decimal__u64(v < 0 ? 0 - (uint64_t)v : (uint64_t)v, end);

	if (v < 0)
		*--p = '-';
	memcpy(buf, p, (size_t)(end - p));
	return (size_t)(end - p);
}

/* "2, 3" */
static inline size_t decimal__i64s(char *buf, const int64_t *v, uint32_t n)
{
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (i) {
			memcpy(buf + len, ", ", 2);
			len += 2;
		}
		len += decimal__i64(buf + len, v[i]);
	}
	return len;
}

/* Names with a number behind their last '#', by which programs count their steps:
 * "ProfilerStep#12". */

#define NUMBERED_DIGITS 18 /* at most */

/* The length of the name with its '#', without the number. No such name: len. */
static inline size_t numbered__prefix(const char *text, size_t len)
{
	size_t at = len;

	while (at && text[at - 1] >= '0' && text[at - 1] <= '9')
		at--;
	if (at == len || !at || text[at - 1] != '#' || len - at > NUMBERED_DIGITS)
		return len;
	return at;
}

/* Its last part: what is behind the last '/'. */
static inline const char *path__base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "1 process", "2 processes": the ending where there are several. */
static inline const char *plural(uint64_t n, const char *ending)
{
	return n == 1 ? "" : ending;
}

/* Numbers with units, as people write them in options. */

/* "5s", "250ms", "1m30s", plain number: seconds. 0 or -EINVAL. */
int quantity__duration(const char *text, uint64_t *ns);
/* "4MiB", "64k", plain number: bytes. 0 or -EINVAL. */
int quantity__size(const char *text, uint64_t *bytes);

/* "0.5%": 0.005. 0 or -EINVAL. */
int quantity__percent(const char *text, double *share);

/* The user's name in /etc/passwd (no other source is asked), else the number. Returns buf. */
char *user_name(uid_t uid, char *buf, size_t cap);

/*
 * Texts of others (targets, their files, captures, command lines) on a terminal: each character
 * that could steer it, hide, or turn the order of its neighbours becomes one '?', and so does each
 * byte that is no UTF-8. What is printed takes as many columns as term_text__width() says. Line
 * ends are escaped, too: a name has one line.
 */

/* The width of the terminal that fd is, in columns; 0: it is none. */
int terminal__columns(int fd);
/* It is a terminal that shows colours, and NO_COLOR (no-color.org) does not forbid them. */
bool terminal__colour(int fd);
/* Columns without a terminal: $COLUMNS, else 80. */
int terminal__assumed(void);

/* The UTF-8 sequence at p, before end: its length (1..4) and its character; 0 where none starts. */
size_t utf8__decode(const char *p, const char *end, uint32_t *c);

/* No control character (C0, DEL, C1), no control of direction, nothing that has no width or ends a
 * line. */
bool term_char__plain(uint32_t c);

/* Its characters, each byte that is none counted as one. */
size_t utf8__chars(const char *text);
/* Columns that the text takes when printed: two for a wide character, none for an accent that
 * combines with the one before it. */
size_t term_text__width(const char *text);
/* The bytes of the text that take at most so many columns. */
size_t term_text__fit(const char *text, size_t columns);
/* Of the text what takes at most so many columns to out; returns how many it took. */
size_t term_text__put(FILE *out, const char *text, size_t columns);
/*
 * The text, which is plain, in lines of at most so many columns, broken at blanks and, where a word
 * is longer than a line, in it. The first line has `at` columns already, the others begin with
 * `hang` blanks. A line end in the text is a blank; none is written behind it.
 */
void term_text__wrap(FILE *out, const char *text, size_t columns, size_t at, size_t hang);
/* The escaped text into buf, NUL-terminated, cut between characters where it is too long. Returns
 * buf. */
char *term_text__copy(char *buf, size_t cap, const char *text);

/* What a process runs, of its arguments, each of which ends with a NUL: of Python the script or
 * module and what follows ("train.py --lr 3", "-m pkg.train"), cut to cap bytes. */
void command__script(const char *args, size_t len, char *buf, size_t cap);
/* Of such a text the length of the script's or module's name, at *name. */
size_t command__name(const char *script, const char **name);
/* Of a command line whose arguments a blank separates its program and, of Python, its script or
 * module, without their folders: "python train.py". Returns buf. */
char *command__short(char *buf, size_t cap, const char *cmdline);

/*
 * Demangling of C++ names that others have made: the demangler of libstdc++, which __cxa_demangle()
 * is, but with bounds on what comes out and on the time. Substitutions let a name of 200 bytes
 * expand to gigabytes of text, or take hours before there is any.
 */

/*
 * malloc'ed text; NULL: the name is not a mangled one, longer than LIMIT_MANGLED, expands to a text
 * longer than LIMIT_DEMANGLED or takes more than LIMIT_DEMANGLE_MS, or memory is out. Without "_Z"
 * in front it is taken for a type ("i": int), as __cxa_demangle() does. spent_ns: sum of the
 * processor time for the names of one process or file; beyond LIMIT_DEMANGLE_ALL_MS the result is
 * NULL. NULL: time is not limited, for children in which it is anyway (base/sandbox.h).
 */
char *demangle(const char *mangled, uint64_t *spent_ns);

#endif /* BASE_TEXT_H */
