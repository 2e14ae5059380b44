/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The names of operators, from two independent sources. The code: at::_ops::X::call reaches
 * findSchemaOrThrow(name, overload) with two literals. The schema texts in the read-only data
 * ("add.Tensor(Tensor self, ...) -> Tensor"), matched to X by the rule that the class is called base
 * name + "_" + overload. Only reads.
 */
#ifndef PLAN_OP_NAMES_H
#define PLAN_OP_NAMES_H

#include "code/flow.h"
#include "plan/torch_names.h"

#define OP_NAME_MAX 256

/* From the code. The graph must be that of X::call; aux is used for the function that it calls. */
struct op_name_a {
	char name[OP_NAME_MAX]; /* "aten::add.Tensor", "" if not found */
	uint64_t handle;        /* address of the static handle, 0 if not found */
};
void op_names__from_code(struct lib_code *lc, const struct flow *f, struct flow *aux,
			 struct op_name_a *out);

/* From schema texts. */
struct op_texts;

void op_texts__new(const struct lib_code *lc, struct op_texts **out);
void op_texts__free(struct op_texts *t);
uint32_t op_texts__cnt(const struct op_texts *t); /* distinct names */

enum op_text_match {
	OP_TEXT_NONE,
	OP_TEXT_ONE,  /* one reading of the class name: *name is it */
	OP_TEXT_MORE, /* several: *name is one of them */
};
/*
 * Looks for the class ("add_Tensor"). With a name from the code in `want`: does one of the readings equal
 * it (*agrees)? name: without namespace, OP_NAME_MAX bytes.
 */
enum op_text_match op_texts__find(const struct op_texts *t, const char *cls, size_t cls_len,
				  const char *want, bool *agrees, char *name);

/* A text's argument list and results, from '(' on; not terminated. */
struct op_text_args {
	const char *text;
	size_t len;
	bool whole;      /* not the tail of a longer text */
	bool name_space; /* it stood behind "aten::": without defaults, often */
};

#define OP_TEXT_ARGS_MAX 8

/* All texts of the operator ("add.Tensor", without namespace). Returns how many. */
uint32_t op_texts__args(const struct op_texts *t, const char *name,
			struct op_text_args args[OP_TEXT_ARGS_MAX]);

#endif /* PLAN_OP_NAMES_H */
