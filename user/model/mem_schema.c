/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Reading the texts of schemas ("ns::op.ov(Tensor(a!) self, Tensor?[] i=[], *, int n=1) -> Tensor(a!)"). */
#include "model/mem_schema.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define ARGS_MAX 255

const char *schema__arg_end(const char *p)
{
	char quote = 0;
	int depth = 0;

	for (; *p; p++) {
		if (quote) {
			if (*p == '\\' && p[1])
				p++;
			else if (*p == quote)
				quote = 0;
		} else if (*p == '"' || *p == '\'') {
			quote = *p;
		} else if (*p == '(' || *p == '[') {
			depth++;
		} else if ((*p == ')' || *p == ']') && depth--) {
			continue;
		} else if (depth < 0 || (*p == ',' && !depth)) {
			return p;
		}
	}
	return p;
}

/* "Tensor", "Tensor(a! -> *)?", "Tensor[]", "Tensor(a!)[]"; a list of optional ones is none of torch's lists
 * of tensors. */
static uint8_t arg_kind(const char *p, const char *end)
{
	uint8_t write = 0;

	if ((size_t)(end - p) < 6 || strncmp(p, "Tensor", 6))
		return MEM_ARG_OTHER;
	p += 6;
	if (*p == '(') {
		for (; p < end && *p != ')'; p++)
			if (*p == '!')
				write = MEM_ARG_WRITE;
		if (p++ >= end)
			return MEM_ARG_OTHER;
	}
	if (*p == '?')
		return (uint8_t)((p[1] == '[' ? MEM_ARG_OTHER : MEM_ARG_OPT_TENSOR) | write);
	if (*p == '[')
		return MEM_ARG_TENSORS | write;
	return *p == ' ' ? MEM_ARG_TENSOR | write : MEM_ARG_OTHER;
}

/* Appends the arguments of the schema. Their number, or -ENOMEM; -EINVAL: not a schema. */
static int parse(struct mem_schemas *ms, const char *text)
{
	const char *p = strchr(text, '('), *end;
	int cnt = 0;

	if (!p)
		return -EINVAL;
	while (*p == '(' || *p == ',') {
		p++;
		p += strspn(p, " ");
		end = schema__arg_end(p);
		if (end > p && !(end == p + 1 && *p == '*')) {
			if (cnt == ARGS_MAX)
				return -EINVAL;
			if (vec_reserve((void **)&ms->args, &ms->cap, (uint64_t)ms->cnt + 1, 1))
				return -ENOMEM;
			ms->args[ms->cnt++] = arg_kind(p, end);
			cnt++;
		}
		p = end;
	}
	return *p == ')' ? cnt : -EINVAL;
}

int mem_schemas__get(struct mem_schemas *ms, const char *text, struct mem_schema *out)
{
	uint64_t *known, packed;
	uint32_t first = ms->cnt;
	int cnt;

	*out = (struct mem_schema){ NULL, 0 };
	if (!text || !*text)
		return 0;
	known = hashmap__get(&ms->by_text, (uintptr_t)text, 0);
	if (known) {
		packed = *known;
	} else {
		cnt = parse(ms, text);
		if (cnt == -ENOMEM)
			return cnt;
		if (cnt < 0)
			ms->cnt = first;
		packed = cnt < 0 ? UINT64_MAX : (uint64_t)first << 16 | (uint32_t)cnt;
		if (hashmap__put(&ms->by_text, (uintptr_t)text, 0, packed))
			return -ENOMEM;
	}
	if (packed == UINT64_MAX)
		return 0;
	/* a schema without arguments has some address, too */
	out->args = ms->args ? ms->args + (packed >> 16) : (const uint8_t *)"";
	out->cnt = packed & 0xffff;
	return 0;
}

void mem_schemas__clear(struct mem_schemas *ms)
{
	hashmap__clear(&ms->by_text);
	free(ms->args);
	*ms = (struct mem_schemas){ 0 };
}

static bool all_have_keys(const struct value *list)
{
	struct value_iter it = values__begin(&list->elems);
	struct value v;

	while (values__next(&it, &v))
		if (!mem_value__has_key(&v))
			return false;
	return true;
}

bool mem_schema__matches(const struct mem_schema *sc, const struct slice_values *in)
{
	struct value_iter it = values__begin(in);
	struct value v;
	uint32_t i;

	if (!sc->args)
		return false;
	for (i = 0; i < sc->cnt; i++) {
		if (!values__next(&it, &v)) /* cut, or not recorded: it is that operator all the same */
			return true;
		if (v.kind == PTB_VAL_UNKNOWN)
			continue;
		if ((sc->args[i] & MEM_ARG_TENSOR) && !mem_value__has_key(&v))
			return false;
		if ((sc->args[i] & MEM_ARG_OPT_TENSOR) && v.kind == PTB_VAL_TENSOR &&
		    !mem_value__has_key(&v))
			return false;
		if ((sc->args[i] & MEM_ARG_TENSORS) && !all_have_keys(&v))
			return false;
	}
	return true;
}
