/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Templates and escapes of HTML; see stack_tree.h. */
#include "export/stack_tree.h"

#include <string.h>
#include <time.h>

#include "base/text.h"
#include "export/facts_json.h"

const char html_style[] = {
#include "export/html/page.css.inc"
};

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

/* Of these characters HTML makes something, and JSON has them in strings only. */
int html__put_json(void *arg, const void *data, size_t len)
{
	const char *p = data, *end = p + len;
	FILE *f = arg;

	for (const char *q = p; q < end; q++)
		if (*q == '<' || *q == '>' || *q == '&') {
			fwrite(p, 1, (size_t)(q - p), f);
			fprintf(f, "\\u%04x", (unsigned int)*q);
			p = q + 1;
		}
	fwrite(p, 1, (size_t)(end - p), f);
	return 0; /* the file knows its errors */
}

static const struct session_process *process_of(const struct session *s, uint32_t tgid)
{
	const struct session_info *info = session__info(s);

	if (tgid)
		return session__process(s, tgid);
	return info->process_cnt ? info->processes : NULL;
}

void html__put_process(FILE *f, const struct session *s, uint32_t tgid)
{
	const struct session_process *p = process_of(s, tgid);
	uint32_t cnt = tgid ? 1 : session__info(s)->process_cnt;
	char name[128];

	if (!p)
		return;
	command__short(name, sizeof(name), p->cmdline);
	html__put_text(f, *name ? name : p->comm);
	fprintf(f, " (%u)", p->pid);
	if (cnt > 1)
		fprintf(f, " and %u more", cnt - 1);
}

void html__put_when(FILE *f, const struct session *s, uint32_t tgid)
{
	const struct session_info *info = session__info(s);
	const struct session_process *p = process_of(s, tgid);
	time_t unix_s = (time_t)(((int64_t)info->begin_ns + info->mono_to_unix_ns) / 1000000000);
	char host[256] = "", text[64];
	struct tm tm;

	session_json__meta_text(s, "host", host, sizeof(host));
	if ((p && *p->host) || *host) {
		fputs("on ", f);
		html__put_text(f, p && *p->host ? p->host : host);
		fputs(", ", f);
	}
	if (info->mono_to_unix_ns && gmtime_r(&unix_s, &tm) &&
	    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm))
		fprintf(f, "%s, ", text);
	fprintf(f, "%.2f s", (double)(info->end_ns - info->begin_ns) / 1e9);
}
