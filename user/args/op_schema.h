/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the schema of an operator says about its tensors; each text is parsed once. */
#ifndef ARGS_OP_SCHEMA_H
#define ARGS_OP_SCHEMA_H

#include <stdint.h>

#include "base/hashmap.h"

#define OP_ARG_OTHER 0x00
#define OP_ARG_TENSOR 0x01 /* exactly one of these four, or none */
#define OP_ARG_OPT_TENSOR 0x02
#define OP_ARG_TENSORS 0x04     /* Tensor[] */
#define OP_ARG_OPT_TENSORS 0x08 /* Tensor?[] */
#define OP_ARG_WRITE 0x10       /* Tensor(a!) */

/* What is known of a tensor from where it is seen. */
enum tensor_role {
	TENSOR_GIVEN, /* an argument, or a result that was one: Tensor(a!) */
	TENSOR_VIEW,  /* a result that shares storage: Tensor(a) */
	TENSOR_NEW,   /* a result of its own: Tensor */
};

struct op_schema {
	const uint8_t *args; /* OP_ARG_*; valid until the next get; NULL: not a schema */
	uint32_t cnt;
	enum tensor_role results; /* GIVEN where nothing is known */
};

/* Schemas by the address of their text, which must stay as it is. A zeroed struct is empty. */
struct op_schemas {
	struct hashmap by_text; /* address -> first << 16 | results << 8 | count */
	uint8_t *args;
	uint32_t cnt, cap;
};

/* Of "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"; text may be NULL. */
void op_schemas__get(struct op_schemas *os, const char *text, struct op_schema *out);
void op_schemas__clear(struct op_schemas *os);

#endif /* ARGS_OP_SCHEMA_H */
