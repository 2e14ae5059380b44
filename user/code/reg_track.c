/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Backward search for the last write of a register; see reg_track.h. */
#include "code/reg_track.h"

#define TRACK_MAX 128 /* instructions inspected */

static uint32_t step_back(const struct flow *f, uint32_t at)
{
	const struct flow_node *n = &f->nodes[at];

	if (n->prev != FLOW_NONE)
		return n->prev;
	return f->pred_at[at] < f->pred_at[at + 1] ? f->preds[f->pred_at[at]] : FLOW_NONE;
}

enum reg_value reg_track__before(const struct flow *f, uint32_t node, uint8_t reg, int64_t *value)
{
	uint32_t i, at = node;
	struct insn_ops o;
	uint8_t dst, src;
	bool known;

	for (i = 0; i < TRACK_MAX; i++) {
		at = step_back(f, at);
		if (at == FLOW_NONE)
			return VALUE_UNKNOWN;
		known = flow_node__ops(&f->nodes[at], &o);
		if (!insn__may_write(&f->nodes[at].in, &o, known, reg))
			continue;
		if (!known)
			return VALUE_UNKNOWN;
		if (insn_ops__is_lea(&o) && o.base == REG_RIP && o.reg == reg) {
			*value = o.disp;
			return VALUE_ADDR;
		}
		if (insn_ops__is_const(&o, &dst, value) && dst == reg)
			return VALUE_CONST;
		if (!insn_ops__mov_rr(&o, &dst, &src) || dst != reg)
			return VALUE_UNKNOWN;
		reg = src;
	}
	return VALUE_UNKNOWN;
}
