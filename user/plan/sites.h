/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The functions that are probed, by kind. Each of these adds what the library b->lc has of one kind, with its sites or
 * the reason why it has none; how a function is analysed is in plan_build.h. All return 0 or negative errno.
 */
#ifndef PLAN_SITES_H
#define PLAN_SITES_H

#include "plan/plan_build.h"

/* Operators: every at::_ops::X::call. */
int op_sites__add(struct plan_build *b);

/* What is no at::_ops::X::call: boxed calls, backward nodes, scopes, regions, custom autograd functions, TorchScript,
 * sequence numbers. After op_sites__add() of the same library. */
int special_sites__add(struct plan_build *b);

/* The functions where tensors end; of the library that has them. */
int special_sites__add_tensors(struct plan_build *b);

/* The functions that report memory: the reports of torch's allocators, and, by cuda_sites.c, the memory calls of libcudart
 * and libcuda. Only programs that record memory attach them (user/probe); the plan has them always. */
int memory_sites__add(struct plan_build *b);
int cuda_sites__add(struct plan_build *b);

/* Launches, copies, fills and synchronisation of libcudart and libcuda. */
int cuda_calls__add(struct plan_build *b);

/* ---- private to special_sites.c and the files below ---- */

/* callback_sites.c: every caller of getStepCallbacksUnlessEmpty that is no at::_ops function: boxed
 * calls, backward nodes, typed calls of one operator, and the rest, listed by name. */
int callback_sites__add(struct plan_build *b);

/* scope_callers.c: literal names of the RECORD_FUNCTION macros in torch's own code. */
void scope_callers__add(struct plan_build *b);

/* pyargs_sites.c: scopes whose name and arguments are Python objects. */
int pyargs_sites__add(struct plan_build *b);

/* script_sites.c: TorchScript functions. Needs the layout's string ABI. */
int script_sites__add(struct plan_build *b);

/* seq_sites.c: the sequence number's increment and where the number is stored. */
int seq_sites__add(struct plan_build *b);

#endif /* PLAN_SITES_H */
