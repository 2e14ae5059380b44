/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Through the demangler of libstdc++; see code.h. */
#include "code/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* Where the argument list starts: the first '(' outside of template brackets that does not open
 * "(anonymous namespace)" or belong to "operator()". */
static size_t name_len(const char *s)
{
	static const char anon[] = "(anonymous namespace)", call_op[] = "operator()";
	size_t i, depth = 0;

	for (i = 0; s[i]; i++) {
		if (s[i] == '<')
			depth++;
		else if (s[i] == '>' && depth)
			depth--;
		if (s[i] != '(' || depth)
			continue;
		if (!strncmp(s + i, anon, sizeof(anon) - 1))
			i += sizeof(anon) - 2;
		else if (i >= 8 && !strncmp(s + i - 8, call_op, sizeof(call_op) - 1))
			i++;
		else
			break;
	}
	return i;
}

void cxx_name__short(const char *mangled, char *buf, size_t cap)
{
	size_t len = strcspn(mangled, ".");
	char *plain = xstrndup(mangled, len), *text;

	text = demangle(plain, NULL);
	if (text)
		snprintf(buf, cap, "%.*s", (int)name_len(text), text);
	else
		snprintf(buf, cap, "%s", mangled);
	free(text);
	free(plain);
}
