/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The one place where exhausted memory is noticed; see mem.h. */
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static void (*cleanup)(void);
static int silent_exit; /* 0: with the sentence, and the exit code 1 */

void mem__set_cleanup(void (*fn)(void))
{
	cleanup = fn;
}

void mem__set_exit(int code)
{
	silent_exit = code;
}

_Noreturn void mem__end(size_t bytes)
{
	if (silent_exit)
		_exit(silent_exit);
	if (bytes)
		pr_error("memory is exhausted: %zu bytes cannot be allocated", bytes);
	else
		pr_error("memory is exhausted");
	if (cleanup)
		cleanup();
	_exit(1); /* other threads may be anywhere: nothing else is flushed or freed */
}

void *xmalloc(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);

	if (!p)
		mem__end(bytes);
	return p;
}

void *xcalloc(size_t cnt, size_t size)
{
	void *p = calloc(cnt ? cnt : 1, size);

	if (!p)
		mem__end(size && cnt > SIZE_MAX / size ? SIZE_MAX : cnt * size);
	return p;
}

void *xrealloc(void *old, size_t bytes)
{
	void *p = realloc(old, bytes ? bytes : 1);

	if (!p)
		mem__end(bytes);
	return p;
}

char *xstrndup(const char *text, size_t len)
{
	size_t n = strnlen(text, len);
	char *p = xmalloc(n + 1);

	memcpy(p, text, n);
	p[n] = '\0';
	return p;
}

char *xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}

char *xvasprintf(const char *fmt, va_list ap)
{
	char *text;

	if (vasprintf(&text, fmt, ap) < 0)
		mem__end(0);
	return text;
}

char *xasprintf(const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	return text;
}

FILE *xmemstream(char **text, size_t *len)
{
	return mem__check(open_memstream(text, len));
}
