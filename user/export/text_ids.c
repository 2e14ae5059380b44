/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Numbers for texts of a session; see texts.h. */
#include "export/texts.h"

#include <string.h>

void text_ids__init(struct text_ids *ti)
{
	ti->texts = strtab__new();
}

void text_ids__free(struct text_ids *ti)
{
	strtab__free(ti->texts);
	hashmap__clear(&ti->known);
}

uint32_t text_ids__get(struct text_ids *ti, const char *text)
{
	const uint64_t *known;
	uint32_t id;

	if (!text || !*text)
		return 0;
	known = hashmap__get(&ti->known, (uintptr_t)text, 0);
	if (known && !strcmp(strtab__text(ti->texts, (uint32_t)*known), text))
		return (uint32_t)*known;
	id = strtab__add(ti->texts, text, strlen(text));
	hashmap__put(&ti->known, (uintptr_t)text, 0, id);
	return id;
}
