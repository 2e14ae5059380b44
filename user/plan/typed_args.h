/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The arguments of an operator that a C++ function of another signature calls through a typed handle in line. */
#ifndef PLAN_TYPED_ARGS_H
#define PLAN_TYPED_ARGS_H

#include "plan/plan_build.h"

/* Adds what is known of the arguments of function `func`, whose graph is in b->flow and which has sites; mangled:
 * its name, NULL: it has none. 0 or negative errno. */
int typed_args__add(struct plan_build *b, uint32_t func, const char *mangled);

#endif /* PLAN_TYPED_ARGS_H */
