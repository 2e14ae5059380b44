/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a process runs, by its arguments; see proc_info.h. Their form: CPython's Python/getopt.c. */
#include <ctype.h>
#include <string.h>

#include "target/proc_info.h"

#define PYTHON "python"

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

void proc_script__of(const char *text, size_t len, char *buf, size_t cap)
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

size_t proc_script__name(const char *script, const char **name)
{
	*name = script + (strncmp(script, "-m ", 3) ? 0 : 3);
	return strcspn(*name, " ");
}
