/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a process runs, by its arguments; see text.h. Their form: CPython's Python/getopt.c. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define PYTHON "python"
#define SHORT_MAX 4096 /* bytes of a command line in which the script is searched */

/* The arguments that are left, each ends with a NUL. */
struct args {
	const char *at, *end;
};

/* "" after the last one, and for one that is cut. */
static const char *peek(const struct args *a)
{
	return a->at < a->end && memchr(a->at, 0, (size_t)(a->end - a->at)) ? a->at : "";
}

static const char *take(struct args *a)
{
	const char *word = peek(a);

	a->at += a->at < a->end ? strlen(word) + 1 : 0;
	return word;
}

/* The last part of a path; a title that a program gave itself may have slashes in its midst. */
static const char *base_of(const char *word)
{
	const char *slash = strchr(word, ' ') ? NULL : strrchr(word, '/');

	return slash ? slash + 1 : word;
}

/* An option of the interpreter, behind its dash. 'c', 'm': that came, and its value is the next
 * argument, or *value; 0: another one. */
static char take_option(struct args *a, const char *letters, const char **value)
{
	*value = NULL;
	if (*letters == '-') { /* the only long one that has a value */
		if (!strcmp(letters, "-check-hash-based-pycs"))
			take(a);
		return 0;
	}
	for (; *letters; letters++) {
		if (!strchr("cmWX", *letters))
			continue;
		if (strchr("cm", *letters)) {
			*value = letters[1] ? letters + 1 : take(a);
			return *letters;
		}
		if (!letters[1])
			take(a);
		return 0;
	}
	return 0;
}

static void append(char *buf, size_t cap, const char *word)
{
	size_t len = strlen(buf);

	if (len && len + 1 < cap)
		buf[len++] = ' ';
	for (; *word && len + 1 < cap; word++)
		buf[len++] = iscntrl((unsigned char)*word) ? ' ' : *word;
	buf[len] = '\0';
}

void command__script(const char *text, size_t len, char *buf, size_t cap)
{
	struct args a = { text, text + len };
	const char *word = base_of(take(&a)), *value = NULL;
	const char *program = word;
	char option = 0;

	*buf = '\0';
	if (!strncmp(word, PYTHON, sizeof(PYTHON) - 1)) {
		while (!option && *peek(&a) == '-' && peek(&a)[1])
			option = take_option(&a, take(&a) + 1, &value);
		word = option ? value : base_of(take(&a));
	}
	if (option)
		append(buf, cap, option == 'm' ? "-m" : "-c");
	append(buf, cap, *word ? word : program);
	while (a.at < a.end && *peek(&a))
		append(buf, cap, take(&a));
}

size_t command__name(const char *script, const char **name)
{
	*name = script + (strncmp(script, "-m ", 3) ? 0 : 3);
	return strcspn(*name, " ");
}

/* Arguments that a blank separates, each ended by a NUL; their length. */
static size_t split(const char *cmdline, char args[SHORT_MAX])
{
	size_t len = 0;

	while (*cmdline && len + 1 < SHORT_MAX) {
		args[len] = *cmdline == ' ' ? '\0' : *cmdline;
		len += args[len] || (len && args[len - 1]); /* one NUL for several blanks */
		cmdline++;
	}
	args[len] = '\0';
	return len + 1;
}

char *command__short(char *buf, size_t cap, const char *cmdline)
{
	char args[SHORT_MAX], script[SHORT_MAX];
	size_t len = split(cmdline, args), name_len;
	const char *program = base_of(args), *name;

	command__script(args, len, script, sizeof(script));
	name_len = command__name(script, &name) + (size_t)(name - script);
	if (name_len == strlen(program) && !strncmp(script, program, name_len))
		snprintf(buf, cap, "%s", program);
	else
		snprintf(buf, cap, "%s %.*s", program, (int)name_len, script);
	return buf;
}
