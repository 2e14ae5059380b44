/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The functions that are no at::_ops::X::call: boxed calls, backward nodes, scopes, regions, custom
 * autograd functions, TorchScript, sequence numbers. Decides what is probed how; the analysis is
 * plan_build's.
 */
#ifndef PLAN_SPECIAL_SITES_H
#define PLAN_SPECIAL_SITES_H

#include "plan/plan_build.h"

/* Adds what b->lc has of them. After op_sites__add() of the same library. 0 or negative errno. */
int special_sites__add(struct plan_build *b);

/* Adds the functions where tensors end; of the library that has them. 0 or negative errno. */
int special_sites__add_tensors(struct plan_build *b);

/* callback_sites.c: every caller of getStepCallbacksUnlessEmpty that is no at::_ops function: boxed
 * calls, backward nodes, typed calls of one operator, and the rest, listed by name. */
int callback_sites__add(struct plan_build *b);

/* scope_callers.c: literal names of the RECORD_FUNCTION macros in torch's own code. */
int scope_callers__add(struct plan_build *b);

/* pyargs_sites.c: scopes whose name and arguments are Python objects. */
int pyargs_sites__add(struct plan_build *b);

/* script_sites.c: TorchScript functions. Needs the layout's string ABI. */
int script_sites__add(struct plan_build *b);

/* seq_sites.c: the sequence number's increment and where the number is stored. */
int seq_sites__add(struct plan_build *b);

/* Adds a function that this build lacks, so that the user learns of it. */
int special_sites__missing(struct plan_build *b, const char *name, enum ptb_func_kind kind,
			   enum ptb_refusal why);

#endif /* PLAN_SPECIAL_SITES_H */
