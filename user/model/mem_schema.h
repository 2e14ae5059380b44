/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What an operator's schema says of its arguments: which are tensors, which it changes. Private to mem_*.c. */
#ifndef MODEL_MEM_SCHEMA_H
#define MODEL_MEM_SCHEMA_H

#include "base/hashmap.h"
#include "model/session.h"

#define MEM_ARG_OTHER 0x00
#define MEM_ARG_TENSOR 0x01 /* exactly one of these three, or none */
#define MEM_ARG_OPT_TENSOR 0x02
#define MEM_ARG_TENSORS 0x04 /* Tensor[] */
#define MEM_ARG_WRITE 0x10   /* Tensor(a!) */

/* Schemas by the address of their text, which outlives the session's run. */
struct mem_schemas {
	struct hashmap by_text; /* address -> first << 16 | count */
	uint8_t *args;          /* MEM_ARG_* */
	uint32_t cnt, cap;
};

struct mem_schema {
	const uint8_t *args; /* valid until the next get; NULL: not a schema */
	uint32_t cnt;
};

/* The end of the argument at p: its comma, the closing parenthesis or the end of the text; none of those within
 * its type, its default value or a text. */
const char *schema__arg_end(const char *p);

/* 0 or -ENOMEM; without a schema *out has no args. */
int mem_schemas__get(struct mem_schemas *ms, const char *text, struct mem_schema *out);
void mem_schemas__clear(struct mem_schemas *ms);

/* Would torch's profiler, which knows an operator's arguments but not its schema, find this one
 * (SchemaMatcher)? Not when a tensor that must be there is not, or has no data. */
bool mem_schema__matches(const struct mem_schema *sc, const struct slice_values *in);

/* The tensor has data, so that its address distinguishes it from others. */
static inline bool mem_value__has_key(const struct value *v)
{
	return v->kind == PTB_VAL_TENSOR && (v->flags & PTB_VAL_F_IDS) && v->storage;
}

#endif /* MODEL_MEM_SCHEMA_H */
