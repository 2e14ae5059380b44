/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What flow.c and flow_table.c share. */
#ifndef CODE_FLOW_PRIV_H
#define CODE_FLOW_PRIV_H

#include "code/flow.h"

/* The node at addr, decoded if it is new; FLOW_NONE: in another function, or *why or *err is set. */
uint32_t flow_priv__target(struct flow *f, uint32_t from, uint64_t addr, enum ptb_refusal *why, int *err);
/* Sets the successors of an indirect jump, or that it leaves the function, or *why. */
int flow_priv__resolve_indirect(struct flow *f, uint32_t at, enum ptb_refusal *why);

#endif /* CODE_FLOW_PRIV_H */
