/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Backward search for the last write of a register; see reg_track.h. */
#include "code/reg_track.h"

#define TRACK_MAX 128 /* instructions inspected */

static uint32_t last_before(const struct flow *f, uint32_t at)
{
	const struct flow_node *n = &f->nodes[at];

	if (n->prev != FLOW_NONE)
		return n->prev;
	return f->pred_at[at] < f->pred_at[at + 1] ? f->preds[f->pred_at[at]] : FLOW_NONE;
}

enum reg_value reg_track__before(const struct flow *f, uint32_t node, uint8_t reg, int64_t *value)
{
	uint32_t i, at = node;

	for (i = 0; i < TRACK_MAX; i++) {
		const struct insn *in;

		at = last_before(f, at);
		if (at == FLOW_NONE)
			return VALUE_UNKNOWN;
		in = &f->nodes[at].in;
		if (!insn__may_write(in, reg))
			continue;
		if (in->form == FORM_ADDRESS && operand__is_fixed(&in->ops[1])) {
			*value = in->ops[1].value;
			return VALUE_ADDR;
		}
		if (in->form == FORM_CONST) {
			*value = in->value;
			return VALUE_CONST;
		}
		if (!insn__is_copy(in))
			return VALUE_UNKNOWN;
		reg = in->ops[1].reg;
	}
	return VALUE_UNKNOWN;
}
