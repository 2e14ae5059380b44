/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Slices and flows on their way from the model to the sinks, and what is counted of them. */
#include "model/model_priv.h"

static void count(struct session_totals *n, const struct slice *sl, const struct entry *e)
{
	n->slices++;
	n->partial_steps += !!(sl->flags & SLICE_PARTIAL);
	if (sl->flags & SLICE_DERIVED)
		n->steps++;
	else if (sl->cat == SLICE_USER_ANNOTATION)
		n->annotations++;
	else
		n->ops++;
	n->unwound += !!(sl->flags & SLICE_UNWOUND);
	n->end_lost += !!(sl->flags & SLICE_END_LOST);
	n->open_at_begin += !!(sl->flags & SLICE_OPEN_AT_BEGIN);
	n->unfinished += !!(sl->flags & SLICE_UNFINISHED);
	n->unresolved_names += e->is_address;
}

int model__answer(struct model *m, uint32_t sink, int ret)
{
	if (ret != SESSION_SINK_FULL && ret != SESSION_SINK_LEFT_OUT)
		return ret;
	if (ret == SESSION_SINK_FULL)
		m->full_sinks |= 1ULL << sink;
	m->totals->not_written++;
	return 0;
}

void model__deliver(struct model *m, struct thread *t, const struct entry *e, uint64_t end_ns)
{
	struct slice sl = {
		.id = e->id,
		.parent = e->parent,
		.tgid = t->tgid,
		.tid = t->tid,
		.depth = e->depth,
		.begin_ns = e->begin_ns,
		.end_ns = end_ns,
		.name = e->name,
		.overload = e->overload,
		.cat = e->cat,
		.kind = e->kind,
		.scope = e->scope,
		.flags = e->flags,
		.seq = e->seq,
		.fwd_thread = e->fwd_thread,
		.device_ns = e->device_ns,
		.call_ns = e->call_ns,
		.call_cnt = e->call_cnt,
		.schema = e->schema ? e->schema : "",
		.keys = t->keys,
	};

	if (e->args)
		args__put_into(e, &sl);
	if (e->mem)
		memory__put_into(e, &sl);
	count(m->totals, &sl, e);
	MODEL_EMIT(m, slice, &sl);
}

void model__flow(struct model *m, const struct fwdbwd *fl)
{
	m->totals->flows++;
	MODEL_EMIT(m, flow, fl);
}
