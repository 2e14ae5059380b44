/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Schema texts of operators: read, and written again exactly as torch prints a FunctionSchema. Owns the
 * grammar (pytorch torch/csrc/jit/frontend/function_schema_parser.cpp, schema_type_parser.cpp) and the
 * printing (aten/src/ATen/core/function_schema.h). The texts come from a file: nothing is trusted.
 */
#ifndef ARGS_SCHEMA_TEXT_H
#define ARGS_SCHEMA_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
 * Reads a text from its '(' on: "(Tensor self, *, int[2] p=1) -> Tensor". name: what is printed before
 * it ("aten::add.Tensor"). out: cap bytes for the printed form; NULL: not wanted, and default values are not
 * checked. false: no schema.
 */
bool schema_text__parse(const char *text, size_t len, const char *name, struct schema *s, char *out,
			size_t cap);

#endif /* ARGS_SCHEMA_TEXT_H */
