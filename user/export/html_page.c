/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Templates and escapes of HTML; see stack_tree.h. */
#include "export/stack_tree.h"

#include <string.h>

#include "base/text.h"

void html__put_template(FILE *f, const char *text, html_field put, void *arg)
{
	const char *open, *end;

	while ((open = strstr(text, "{{")) && (end = strstr(open, "}}"))) {
		fwrite(text, 1, (size_t)(open - text), f);
		put(arg, f, open + 2, (size_t)(end - open - 2));
		text = end + 2;
	}
	fputs(text, f);
}

void html__put_text(FILE *f, const char *text)
{
	const char *end = text + strlen(text);

	while (text < end) {
		uint32_t c;
		size_t n = utf8__decode(text, end, &c);

		if (!n)
			c = (unsigned char)*text;
		if (!term_char__plain(c))
			fputs("&#65533;", f);
		else if (!n || strchr("<>&\"'", (int)c))
			fprintf(f, "&#%u;", c);
		else
			fwrite(text, 1, n, f);
		text += n ? n : 1;
	}
}

int html__put_json(void *arg, const void *data, size_t len)
{
	const char *p = data, *end = p + len;
	FILE *f = arg;

	while (p < end) {
		const char *lt = memchr(p, '<', (size_t)(end - p));
		size_t n = (size_t)((lt ? lt : end) - p);

		fwrite(p, 1, n, f);
		if (lt)
			fputs("\\u003c", f); /* '<' is in strings only */
		p += n + (lt ? 1 : 0);
	}
	return 0; /* the file knows its errors */
}
