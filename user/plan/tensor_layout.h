/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the BPF programs must know of tensors, values and thread-local state (struct ptb_tensor_cfg,
 * struct ptb_keys), derived from the code of one build: never from its version. Each fact says in its
 * file which function is its witness; a fact without one stays unknown, and tensors whose layout is not
 * sure are not read at all.
 */
#ifndef PLAN_TENSOR_LAYOUT_H
#define PLAN_TENSOR_LAYOUT_H

#include "code/leaf_run.h"
#include "plan/plan_build.h"

void tensor_layout__init(struct plan_layout *l);
/* Takes what b->lc has to say (libc10, libtorch_cpu). */
void tensor_layout__learn(struct plan_build *b);
/* When all libraries were heard: checks, and decides shapes_on. */
void tensor_layout__finish(struct plan_layout *l);

/* A tensor as the programs read it: can it be one? For the self-check on the first live tensors. */
bool tensor_layout__plausible(uint32_t dtype, uint32_t ndim, const int64_t *sizes, int64_t numel,
			      int64_t storage_offset, uint64_t storage);

void tensor_layout__print(const struct plan_layout *l, FILE *out);

/* ---- private to the files below ---- */

/* dispatch_keys.c: bits of key_set_. */
void dispatch_keys__learn(struct leaf_run *r, struct plan_layout *l);
/* Bit of a functionality key in key_set_ by its name, -1. */
int dispatch_keys__bit(struct leaf_run *r, const char *name);
/* local_state.c: grad mode and the local dispatch key set. After dispatch_keys__learn(). */
void local_state__learn(struct leaf_run *r, struct plan_layout *l);
/* ivalue_tags.c: tags of IValue (libtorch_cpu) and of Scalar (libc10). */
void ivalue_tags__learn(struct plan_build *b, struct leaf_run *r);
void scalar_tags__learn(struct leaf_run *r, struct plan_layout *l);
/* python_layout.c: torch.Tensor as a Python object (libtorch_python). */
void python_layout__learn(struct plan_build *b, struct leaf_run *r);
/* Address of a data symbol of b->lc, 0. */
uint64_t tensor_layout__object(const struct plan_build *b, const char *name);
/* The text that a register points to, NULL. */
const char *leaf_run__text(const struct leaf_run *r, uint8_t reg, uint64_t max);

#endif /* PLAN_TENSOR_LAYOUT_H */
