/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Structure offsets that the programs need, each read from this build's own code or names. */
#ifndef PLAN_LAYOUT_H
#define PLAN_LAYOUT_H

#include "plan/plan_build.h"

void layout__init(struct plan_layout *l);       /* everything unknown */
void layout__learn(struct plan_build *b);       /* from one library */
void layout__add_classes(struct plan_build *b); /* vtables of torch::autograd */
void layout__finish(struct plan_build *b);      /* after the last library */

/* Keeps the first reason why something is not known. */
void layout__refuse(char why[LAYOUT_WHY_SZ], const char *reason);
/* A member of an object of up to `max` bytes, found in one way; another one must give the same. */
void layout__agree(char why[LAYOUT_WHY_SZ], uint16_t *field, uint64_t off, uint64_t max,
		   const char *member, const char *object);

#endif /* PLAN_LAYOUT_H */
