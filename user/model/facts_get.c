/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the tables of facts.h are asked; facts.c fills them. */
#include "model/facts.h"

#include <cjson/cJSON.h>
#include <string.h>

const char *facts__name(const struct facts *f, uint32_t id)
{
	return id && id < f->name_cnt ? strtab__text(f->texts, f->names[id]) : "";
}

const struct addr_fact *facts__node_type(const struct facts *f, uint32_t tgid, uint64_t vptr)
{
	const uint64_t *i = hashmap__get(&f->node_by_addr, tgid, vptr);

	return i && f->node_types[*i].outer ? &f->node_types[*i] : NULL;
}

const char *facts__caller(const struct facts *f, uint32_t tgid, uint64_t addr)
{
	const uint64_t *name = hashmap__get(&f->caller_name, tgid, addr);
	const char *text = name ? facts__name(f, (uint32_t)*name) : "";

	return *text ? text : NULL;
}

uint32_t facts__kernel(const struct facts *f, uint32_t tgid, uint64_t addr)
{
	const uint64_t *name = hashmap__get(&f->kernel_name, tgid, addr);

	return name ? (uint32_t)*name : 0;
}

const struct session_keys *facts__keys(const struct facts *f, uint32_t tgid)
{
	static const struct session_keys unknown;
	const uint64_t *i = hashmap__get(&f->keys_by_tgid, tgid, 0);

	return i ? &f->keys[*i] : &unknown;
}

const char *facts__meta(const struct facts *f, const char *key)
{
	uint32_t i;

	for (i = f->meta_cnt; i--;) /* the last value of a key counts */
		if (!strcmp(strtab__text(f->texts, f->metas[i].key), key))
			return strtab__text(f->texts, f->metas[i].value);
	return NULL;
}

char *facts__meta_dup(const struct facts *f, const char *key)
{
	const char *json = facts__meta(f, key);
	cJSON *tree = json ? cJSON_Parse(json) : NULL;
	char *text = cJSON_IsString(tree) && *tree->valuestring ? strdup(tree->valuestring) : NULL;

	cJSON_Delete(tree);
	return text;
}

const struct site_fact *facts__site(const struct facts *f, uint32_t site)
{
	return site < f->site_cnt && f->sites[site].func ? &f->sites[site] : NULL;
}

bool facts__has_func(const struct facts *f, enum ptb_func_kind kind, const char *name)
{
	uint32_t i;

	for (i = 1; i < f->func_cnt; i++) {
		const struct func_fact *ff = &f->funcs[i];

		if (ff->kind == kind && (!ff->reason || ff->reason == PTB_REFUSE_NO_EXIT) &&
		    !strcmp(facts__name(f, ff->name), name))
			return true;
	}
	return false;
}

void facts__thread_seen(struct facts *f, uint32_t tgid, uint32_t tid, const char comm[16])
{
	const uint64_t *known = hashmap__get(&f->thread_comm, tgid, tid);
	size_t len = strnlen(comm, 16);

	if (len && (!known || !*known))
		hashmap__put(&f->thread_comm, tgid, tid, strtab__add(f->texts, comm, len));
}
