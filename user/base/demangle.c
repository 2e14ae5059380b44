/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See demangle.h. */
#include "base/demangle.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/vec.h"

/* gcc libiberty/cp-demangle.c: in libstdc++.a only. It has no memory but its stack while it calls back, so that it
 * can be left from there. 0: demangled. */
int __gcclibcxx_demangle_callback(const char *mangled,
				  void (*put)(const char *text, size_t len, void *arg), void *arg);

struct text {
	char *buf;
	uint32_t len, cap;
	jmp_buf stop;
};

static void append_part(const char *part, size_t len, void *arg)
{
	struct text *t = arg;

	if (len > LIMIT_DEMANGLED - t->len || vec_reserve((void **)&t->buf, &t->cap, t->len + len + 1, 1))
		longjmp(t->stop, 1);
	memcpy(t->buf + t->len, part, len);
	t->len += (uint32_t)len;
	t->buf[t->len] = '\0';
}

char *demangle(const char *mangled)
{
	struct text t = { .len = 0 };

	if (strnlen(mangled, LIMIT_MANGLED) == LIMIT_MANGLED)
		return NULL;
	if (!setjmp(t.stop) && !__gcclibcxx_demangle_callback(mangled, append_part, &t))
		return t.buf;
	free(t.buf);
	return NULL;
}
