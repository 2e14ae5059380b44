/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See demangle.h. */
#include "base/demangle.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

/* gcc libiberty/cp-demangle.c: in libstdc++.a only. It has no memory but its stack while it calls back, so that it
 * can be left from there. 0: demangled. */
int __gcclibcxx_demangle_callback(const char *mangled,
				  void (*put)(const char *text, size_t len, void *arg), void *arg);

struct text {
	char *buf;
	size_t len, cap;
	jmp_buf stop;
};

static bool make_room(struct text *t, size_t more)
{
	size_t cap = t->cap ? t->cap : 256;
	char *buf;

	if (more > LIMIT_DEMANGLED - t->len)
		return false;
	while (cap < t->len + more + 1)
		cap *= 2;
	if (cap == t->cap)
		return true;
	buf = malloc(cap);
	if (!buf)
		return false;
	if (t->len)
		memcpy(buf, t->buf, t->len);
	free(t->buf);
	t->buf = buf;
	t->cap = cap;
	return true;
}

static void put(const char *text, size_t len, void *arg)
{
	struct text *t = arg;

	if (!make_room(t, len))
		longjmp(t->stop, 1);
	memcpy(t->buf + t->len, text, len);
	t->len += len;
	t->buf[t->len] = '\0';
}

char *demangle(const char *mangled)
{
	struct text t = { .len = 0 };

	if (strnlen(mangled, LIMIT_MANGLED) == LIMIT_MANGLED)
		return NULL;
	if (!setjmp(t.stop) && !__gcclibcxx_demangle_callback(mangled, put, &t))
		return t.buf;
	free(t.buf);
	return NULL;
}
