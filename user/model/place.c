/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where a thread is: what stands on top of its stack, as a struct session_place. */
#include "base/effort.h"
#include "model/model_priv.h"

/* The innermost operator inside (or, if there is none, around) the innermost annotation. */
struct place place__find(const struct thread *t, struct session_place *at)
{
	struct place p = { 0 };
	bool in_annotation = true; /* nothing between here and the top is an annotation */
	uint32_t i;

	for (i = t->cnt; i-- && (in_annotation || !p.op);) {
		struct entry *e = &t->stack[i];

		if (e->hidden)
			continue;
		if (!p.entry) {
			p.entry = e;
			at->slice = e->id;
		}
		if (e->cat == SLICE_USER_ANNOTATION && !p.note)
			p.note = e;
		if (e->is_step)
			continue;
		if (e->cat == SLICE_USER_ANNOTATION) {
			if (in_annotation)
				at->annotation = e->name;
			in_annotation = false;
			continue;
		}
		if (!p.op) {
			p.op = e;
			at->op_slice = e->id;
			at->op = e->name;
		}
		at->outer_op = e->name;
	}
	effort__spend((uint64_t)(t->cnt - (i < t->cnt ? i : 0)) * 4);
	return p;
}
