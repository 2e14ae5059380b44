/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* String interning; see containers.h. A keyed hash, the length, and a compare that keeps it
 * exact. */
#include "base/containers.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

#define MALLOC_EXTRA 24 /* about what malloc adds to a small block */

struct strtab_entry {
	char *text;
	size_t len;
	uint32_t next; /* id of the next text with the same hash, 0: none */
};

struct strtab {
	struct strtab_entry *ents; /* ents[id - 1] */
	uint32_t cnt, cap;
	struct hashmap by_hash; /* (hash, len) -> first id */
};

struct strtab *strtab__new(void)
{
	return xcalloc(1, sizeof(struct strtab));
}

void strtab__free(struct strtab *st)
{
	if (!st)
		return;
	for (uint32_t i = 0; i < st->cnt; i++)
		free(st->ents[i].text);
	free(st->ents);
	hashmap__clear(&st->by_hash);
	free(st);
}

static uint32_t find_in_chain(const struct strtab *st, uint32_t id, const char *text, size_t len)
{
	for (; id; id = st->ents[id - 1].next)
		if (!memcmp(st->ents[id - 1].text, text, len))
			return id;
	return 0;
}

uint32_t strtab__find(const struct strtab *st, const char *text, size_t len)
{
	const uint64_t *head = hashmap__get(&st->by_hash, siphash__bytes(text, len), len);

	return head ? find_in_chain(st, (uint32_t)*head, text, len) : 0;
}

uint32_t strtab__add(struct strtab *st, const char *text, size_t len)
{
	uint64_t h = siphash__bytes(text, len);
	uint64_t *head = hashmap__get(&st->by_hash, h, len);
	uint32_t id = head ? find_in_chain(st, (uint32_t)*head, text, len) : 0;
	char *copy;

	if (id)
		return id;
	copy = xmalloc(len + 1);
	memcpy(copy, text, len);
	copy[len] = '\0';
	vec_push(st->ents, st->cnt, st->cap,
		 (struct strtab_entry){
			 .text = copy, .len = len, .next = head ? (uint32_t)*head : 0 });
	hashmap__put(&st->by_hash, h, len, st->cnt);
	return st->cnt;
}

uint32_t strtab__try_add(struct strtab *st, const char *text, size_t len)
{
	uint32_t id = strtab__find(st, text, len);

	if (id ||
	    !vec_try_reserve((void **)&st->ents, &st->cap, (uint64_t)st->cnt + 1,
			     sizeof(*st->ents)) ||
	    !mem_limit__allows(len + 1 + MALLOC_EXTRA + hashmap__growth(&st->by_hash)))
		return id;
	return strtab__add(st, text, len);
}

const char *strtab__text(const struct strtab *st, uint32_t id)
{
	return id && id <= st->cnt ? st->ents[id - 1].text : "";
}

uint32_t strtab__cnt(const struct strtab *st)
{
	return st->cnt;
}
