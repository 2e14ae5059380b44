/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The operators: every at::_ops::X::call of a library, named and probed. */
#ifndef PLAN_OP_SITES_H
#define PLAN_OP_SITES_H

#include "plan/plan_build.h"

/* Adds all operators of b->lc. 0 or negative errno. */
int op_sites__add(struct plan_build *b);

#endif /* PLAN_OP_SITES_H */
