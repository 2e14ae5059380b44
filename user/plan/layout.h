/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Structure offsets that the programs need, each read from this build's own code or names. */
#ifndef PLAN_LAYOUT_H
#define PLAN_LAYOUT_H

#include "plan/plan_build.h"

void layout__init(struct plan_layout *l);      /* everything unknown */
int layout__learn(struct plan_build *b);       /* from one library; 0 or -ENOMEM */
int layout__add_classes(struct plan_build *b); /* vtables of torch::autograd */
void layout__finish(struct plan_build *b);     /* after the last library */

#endif /* PLAN_LAYOUT_H */
