/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Class names of polymorphic objects in the target, by the Itanium C++ ABI's run-time type
 * information: vptr - 8 holds the type_info, whose second word is the mangled name (section 2.9.5).
 */
#include "target/remote_mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/demangle.h"

#define MANGLED_MAX 1024 /* bounds the demangler's recursion on hostile texts */

static bool is_mangled_text(const char *s)
{
	const char *p;

	for (p = s; *p; p++)
		if (*p <= ' ' || *p > '~')
			return false;
	return p != s;
}

int remote__class_name(pid_t pid, uint64_t vptr, char *buf, size_t cap)
{
	char mangled[MANGLED_MAX], *text = mangled, *plain;
	uint64_t info, name;
	int err, n;

	if (!cap)
		return -EINVAL;
	buf[0] = 0;
	err = remote__read(pid, vptr - 8, &info, sizeof(info));
	if (!err)
		err = remote__read(pid, info + 8, &name, sizeof(name));
	if (!err)
		err = remote__read_cstr(pid, name, mangled, sizeof(mangled));
	if (err)
		return err;
	if (*text == '*') /* "compare by address": a class of internal linkage */
		text++;
	if (!is_mangled_text(text))
		return -EFAULT;
	plain = demangle(text);
	n = snprintf(buf, cap, "%s", plain ? plain : text);
	free(plain);
	return n < 0 || (size_t)n >= cap ? -ENAMETOOLONG : 0;
}
