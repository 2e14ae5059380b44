/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The arguments of operators: schema, argument programs, late sites, of one function after another. */
#ifndef PLAN_OP_ARGS_H
#define PLAN_OP_ARGS_H

#include "code/value_locations.h"
#include "plan/arg_types.h"
#include "plan/op_names.h"
#include "plan/plan_build.h"

struct op_args {
	const struct op_texts *texts;
	enum optional_abi optional; /* of this library */
	struct value_locations locations;
	uint32_t no_schema, late, late_lost, results_lost; /* for the log */
};

void op_args__init(struct op_args *a, const struct lib_code *lc, const struct op_texts *texts);
void op_args__free(struct op_args *a);

/* Adds what is known of the arguments of function `func`, whose graph is in b->flow if it has sites. */
int op_args__add(struct op_args *a, struct plan_build *b, const char *mangled, uint32_t func);

#endif /* PLAN_OP_ARGS_H */
