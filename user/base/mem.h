/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Allocation that cannot fail: where the system has no memory, the process ends with one sentence
 * and the exit code 1, as after a SIGKILL but that its unfinished output files go. Nobody checks
 * what comes from here. What a target, an agent or a file may make grow has its limit elsewhere
 * (base/limits.h, base/limits.h, base/sandbox.h).
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

_Noreturn void mem__end(size_t bytes); /* so many were asked for; 0: not known */

void *xmalloc(size_t bytes);
void *xcalloc(size_t cnt, size_t size);
void *xrealloc(void *old, size_t bytes);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t len);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));
FILE *xmemstream(char **text, size_t *len);
/* What a library has allocated. */
static inline void *mem__check(void *p)
{
	if (!p)
		mem__end(0);
	return p;
}

/* Runs before the process ends: removes what it must not leave behind. One for the whole
 * process; it must not allocate. */
void mem__set_cleanup(void (*fn)(void));
/* In a child whose parent has the sentence: it ends with this code and without a word. */
void mem__set_exit(int code);

#endif /* BASE_MEM_H */
