/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Numbers for texts of a session: its texts are few, and each is hashed once, however many events have it. */
#ifndef EXPORT_TEXT_IDS_H
#define EXPORT_TEXT_IDS_H

#include "base/hashmap.h"
#include "base/strtab.h"

struct text_ids {
	struct strtab *texts;
	struct hashmap known; /* address of the session's text -> its number */
};

void text_ids__init(struct text_ids *ti);
void text_ids__free(struct text_ids *ti);
/* 0: no text, or an empty one. */
uint32_t text_ids__get(struct text_ids *ti, const char *text);

static inline const char *text_ids__text(const struct text_ids *ti, uint32_t id)
{
	return strtab__text(ti->texts, id);
}

#endif /* EXPORT_TEXT_IDS_H */
