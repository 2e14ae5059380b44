/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See schema.h. */
#include "args/schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"

#define NO_SCHEMA UINT64_MAX

static uint8_t arg_kind(const struct schema_arg *a)
{
	uint8_t write = a->written ? OP_ARG_WRITE : 0;

	if (strcmp(a->base, "Tensor"))
		return OP_ARG_OTHER;
	if (a->lists)
		return (uint8_t)((a->elem_opt ? OP_ARG_OPT_TENSORS : OP_ARG_TENSORS) | write);
	return (uint8_t)((a->opt ? OP_ARG_OPT_TENSOR : OP_ARG_TENSOR) | write);
}

static enum tensor_role result_role(const struct schema *s)
{
	enum tensor_role role = TENSOR_NEW;

	for (uint32_t i = 0; i < s->ret_cnt; i++) {
		if (s->rets[i].written)
			return TENSOR_GIVEN;
		if (s->rets[i].set[0])
			role = TENSOR_VIEW;
	}
	return role;
}

static void add_schema(struct op_schemas *os, const char *text, uint64_t *packed)
{
	const char *args = strchr(text, '(');
	struct schema s;

	*packed = NO_SCHEMA;
	if (args && schema_text__parse(args, strlen(args), "", &s, NULL, 0)) {
		/* one more, so that a schema without arguments has some address, too */
		vec_reserve((void **)&os->args, &os->cap, (uint64_t)os->cnt + s.arg_cnt + 1, 1);
		*packed = (uint64_t)os->cnt << 16 | (uint64_t)result_role(&s) << 8 | s.arg_cnt;
		for (uint32_t i = 0; i < s.arg_cnt; i++)
			os->args[os->cnt++] = arg_kind(&s.args[i]);
	}
	hashmap__put(&os->by_text, (uintptr_t)text, 0, *packed);
}

void op_schemas__get(struct op_schemas *os, const char *text, struct op_schema *out)
{
	const uint64_t *known;
	uint64_t packed;

	*out = (struct op_schema){ .results = TENSOR_GIVEN };
	if (!text || !*text)
		return;
	known = hashmap__get(&os->by_text, (uintptr_t)text, 0);
	if (known)
		packed = *known;
	else
		add_schema(os, text, &packed);
	if (packed == NO_SCHEMA)
		return;
	*out = (struct op_schema){ .args = os->args + (packed >> 16),
				   .cnt = packed & 0xff,
				   .results = (enum tensor_role)(packed >> 8 & 0xff) };
}

void op_schemas__clear(struct op_schemas *os)
{
	hashmap__clear(&os->by_text);
	free(os->args);
	*os = (struct op_schemas){ 0 };
}
