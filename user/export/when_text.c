/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See when_text.h. */
#include "export/when_text.h"

#include <stdio.h>
#include <stdlib.h>

#include "export/session_json.h"

struct when_counts when_text__counts(const struct session *s)
{
	const struct session_info *info = session__info(s);

	if (!session__meta(s, "when"))
		return (struct when_counts){ .on = false };
	return (struct when_counts){ .on = true,
				     .recorded = session_info__counter(info, PTB_CNT_WHEN_RECORDED),
				     .skipped = session_info__counter(info, PTB_CNT_WHEN_SKIPPED) };
}

void when_text__numbers(const struct when_counts *c, char *buf, size_t cap)
{
	int n;

	buf[0] = '\0';
	if (!c->on)
		return;
	n = snprintf(buf, cap, "%llu annotation%s", (unsigned long long)c->recorded,
		     c->recorded == 1 ? "" : "s");
	if (c->skipped && n > 0 && (size_t)n < cap)
		snprintf(buf + n, cap - (size_t)n, ", %llu skipped by --every",
			 (unsigned long long)c->skipped);
}

void when_text__sentence(const struct session *s, char *buf, size_t cap)
{
	struct when_counts c = when_text__counts(s);
	char name[WHEN_TEXT_MAX / 2], numbers[96];

	buf[0] = '\0';
	if (!c.on)
		return;
	session_json__meta_text(s, "when", name, sizeof(name));
	when_text__numbers(&c, numbers, sizeof(numbers));
	if (c.recorded || c.skipped)
		snprintf(buf, cap, "only inside '%s': %s", name, numbers);
	else
		snprintf(buf, cap, "only inside '%s', of which none began in the window", name);
}

void when_text__write(struct jsonw *w, const struct session *s)
{
	struct when_counts c = when_text__counts(s);
	const char *json = session__meta(s, "every");
	char name[WHEN_TEXT_MAX / 2];
	long every = json ? strtol(json, NULL, 10) : 1;

	if (!c.on)
		return;
	session_json__meta_text(s, "when", name, sizeof(name));
	JSONW_OBJ(w, "when");
	JSONW_STR(w, "name", name);
	JSONW_I64(w, "every", every > 1 ? every : 1);
	JSONW_U64(w, "recorded", c.recorded);
	JSONW_U64(w, "skipped", c.skipped);
	JSONW_U64(w, "hits_outside", session_info__counter(session__info(s), PTB_CNT_WHEN_OUTSIDE));
	jsonw__end_obj(w);
}
