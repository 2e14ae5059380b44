/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where things are in at::RecordFunction (struct ptb_rf_cfg), which the agent's callback is given: derived
 * from the code of one build, never from its version. Only what at least two witnesses agree on, or one
 * and the order of the members, is checked twice; if one field is in doubt, none is used.
 */
#ifndef PLAN_RF_LAYOUT_H
#define PLAN_RF_LAYOUT_H

#include "code/leaf_run.h"
#include "plan/plan_build.h"

void rf_layout__init(struct plan_layout *l);
/* Takes what b->lc has to say: libtorch_cpu. After layout.c has learnt the node's fields. */
void rf_layout__learn(struct plan_build *b, struct leaf_run *r);
/* When all libraries were heard: checks, and decides rf.size. */
void rf_layout__finish(struct plan_layout *l);

/* Can an agent work with it? Offsets within the object, in the order of the members. */
bool rf_layout__plausible(const struct ptb_rf_cfg *rf);

void rf_layout__print(const struct plan_layout *l, FILE *out);

#endif /* PLAN_RF_LAYOUT_H */
