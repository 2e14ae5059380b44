/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Operators' schemas: what a schema says of each argument. */
#ifndef ARGS_SCHEMA_H
#define ARGS_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/containers.h"

/*
 * Schema texts of operators: read, and written again exactly as torch prints a FunctionSchema. Owns
 * the grammar (pytorch torch/csrc/jit/frontend/function_schema_parser.cpp, schema_type_parser.cpp)
 * and the printing (aten/src/ATen/core/function_schema.h). The texts come from a file: nothing is
 * trusted.
 */

#define SCHEMA_ARGS_MAX 128
#define SCHEMA_TEXT_MAX 16384 /* longest text that is printed, with its end */
#define SCHEMA_BASE_MAX 24
#define SCHEMA_SET_MAX 8

struct schema_arg {
	char base[SCHEMA_BASE_MAX]; /* "Tensor", "int"; as written, cut if longer */
	char set[SCHEMA_SET_MAX];   /* first alias set, "" if none */
	bool written;               /* "(a!)" */
	bool elem_opt, opt;         /* Tensor?[]; int[]? */
	uint8_t lists;              /* how many [] */
	bool has_default;
};

struct schema {
	uint16_t arg_cnt, ret_cnt, default_cnt;
	bool vararg, varret;
	struct schema_arg args[SCHEMA_ARGS_MAX];
	struct schema_arg rets[SCHEMA_ARGS_MAX];
};

/*
 * Reads a text from its '(' on: "(Tensor self, *, int[2] p=1) -> Tensor". name: what is printed
 * before it ("aten::add.Tensor"). out: cap bytes for the printed form; NULL: not wanted, and
 * default values are not checked. false: no schema.
 */
bool schema_text__parse(const char *text, size_t len, const char *name, struct schema *s, char *out,
			size_t cap);

/* What the schema of an operator says about its tensors; each text is parsed once. */

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

#endif /* ARGS_SCHEMA_H */
