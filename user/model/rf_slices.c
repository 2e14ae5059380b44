/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Slices from the agent: a RecordFunction object is one, from RF_BEGIN to RF_END (pytorch
 * ATen/record_function.h), named, categorised and numbered as torch's own profiler does
 * (torch/csrc/profiler/ collection.cpp). Owns the join of the two records; must not decide about
 * nesting, which is thread_stack.c's.
 *
 * What was open when the window began is emitted first (PTB_F_OPEN), outer ones before inner ones.
 *
 * An object lives in time, as annotations do; no stack pointer is recorded or needed. It ends in
 * its destructor, so an end is missing only if its thread ended first or records of the agent were
 * lost. An object that can only be one of a local variable (an operator's) is searched for on its
 * thread; the others may end on any.
 */

#include "model/model_priv.h"

/*
 * What begins in a stack of so many is noted, so that what is not there is not searched for in all
 * of it. Entries only move down, when what is below them ends: what is not noted is among the
 * lowest.
 */
#define DEEP 64

static void note_deep(struct model *m, const struct thread *t, struct entry *e)
{
	const uint64_t *known;

	if (e - t->stack < DEEP)
		return;
	known = hashmap__get(&m->deep, t->idx, e->handle);
	hashmap__put(&m->deep, t->idx, e->handle, known ? *known + 1 : 1);
	e->deep = true;
}

void rf__forget(struct model *m, const struct thread *t, const struct entry *e)
{
	uint64_t *known = hashmap__get(&m->deep, t->idx, e->handle);

	if (known && !--*known)
		hashmap__del(&m->deep, t->idx, e->handle);
}

/* The uppermost entry of the object from `low` to below `high`; t->cnt: none. */
static uint32_t find_between(const struct thread *t, uint64_t rf, uint32_t low, uint32_t high)
{
	uint32_t i = high;

	while (i > low && !(t->stack[i - 1].rf && t->stack[i - 1].handle == rf))
		i--;
	return i > low ? i - 1 : t->cnt;
}

/* Index of the thread's own open object, t->cnt: none. */
static uint32_t find_own(const struct model *m, const struct thread *t, uint64_t rf)
{
	uint32_t low = t->cnt > DEEP ? t->cnt - DEEP : 0, i = find_between(t, rf, low, t->cnt);

	if (i < t->cnt || !low)
		return i;
	if (!hashmap__get(&m->deep, t->idx, rf) && low > DEEP)
		low = DEEP;
	return find_between(t, rf, 0, low);
}

static void name_by_opdef(struct model *m, struct entry *e, const struct addr_fact *a,
			  uint64_t opdef)
{
	e->kind = PTB_FUNC_OP;
	if (!a) {
		e->name = facts__address_name(m->f, "operator", opdef);
		e->is_address = true;
		return;
	}
	e->name = a->op.name;
	e->overload = a->op.overload;
	e->schema = a->op.schema;
	e->is_address = a->op.is_address;
}

static void name_by_text(struct model *m, struct entry *e, const struct ptb_rf_begin *r)
{
	const char *text = (const char *)(r + 1);

	e->name = facts__intern(m->f, text, r->text_len);
	e->is_address = !r->text_len && r->h.flags & PTB_F_READ_FAULT;
	if (r->h.flags & PTB_F_TEXT_CUT)
		e->flags |= SLICE_NAME_CUT;
	switch (r->scope) {
	case SCOPE_USER:
		e->kind = PTB_FUNC_SCOPE;
		return;
	case SCOPE_BACKWARD:
		e->kind = PTB_FUNC_NODE_CALL;
		return;
	case SCOPE_TORCHSCRIPT:
		e->kind = PTB_FUNC_SCRIPT;
		return;
	}
	if (r->scope == SCOPE_FUNCTION && facts__names_node(text, r->text_len))
		e->kind = PTB_FUNC_NODE;
	/* custom functions alone name themselves with a number (pytorch
	 * autograd/python_function.cpp) */
	else
		e->kind = r->seq >= 0 ? PTB_FUNC_PYFUNC : PTB_FUNC_FUNCTION;
}

/* torch lends evaluate_function the number of the node that it calls (collection.cpp). */
static void lend_number(struct thread *t, const struct entry *call)
{
	struct entry *node = stack__visible_below(t, (uint32_t)(call - t->stack));

	if (!node || node->kind != PTB_FUNC_NODE || !node->rf)
		return;
	node->seq = call->seq;
	node->fwd_thread = call->fwd_thread;
}

/* Another object is where this one was: its end is among what was lost. */
static void end_stale(struct model *m, struct thread *t, uint64_t rf, uint64_t ts)
{
	uint32_t i = m->agent_lost ? find_own(m, t, rf) : t->cnt;
	struct thread *owner = t;

	if (i == t->cnt)
		owner = scopes__find_open(m, t->tgid, rf, &i);
	if (owner)
		stack__end_annotation(m, owner, i, ts, SLICE_END_LOST);
}

static void on_begun(struct model *m, struct thread *t, struct entry *e,
		     const struct ptb_rf_begin *r)
{
	/* torch records none of evaluate_function() */
	if (r->h.flags & PTB_F_ARGS && e->kind != PTB_FUNC_NODE)
		args__enter(m, t, e, &r->h);
	if (e->kind == PTB_FUNC_NODE_CALL) {
		lend_number(t, e);
		autograd__take_stack(m, t, e);
		if (m->full)
			args__backward(m, t, e);
	} else if (e->kind != PTB_FUNC_NODE) {
		autograd__stamped(m, t, e);
	}
	if (rf__is_listed(e))
		hashmap__put(&m->handles, t->tgid, e->handle, t->idx);
	note_deep(m, t, e);
}

void rf__begin(struct model *m, struct thread *t, const struct ptb_rf_begin *r)
{
	struct entry proto = { .overload = "",
			       .handle = r->rf,
			       .rf = true,
			       .scope = r->scope,
			       .seq = r->seq < 0 ? -1 : r->seq,
			       .stack = thread__py_stack(t, r->h.ts_ns),
			       .fwd_thread = r->fwd_thread };
	struct entry *e;
	const struct addr_fact *op = r->opdef ? facts__opdef(m->f, t->tgid, r->opdef, r->h.ts_ns) :
						NULL;

	if (r->logical && r->logical != t->logical)
		autograd__logical(m, t, r->logical);
	if (r->opdef)
		name_by_opdef(m, &proto, op, r->opdef);
	else
		name_by_text(m, &proto, r);
	proto.cat = r->scope == SCOPE_USER ? SLICE_USER_ANNOTATION : SLICE_CPU_OP;
	end_stale(m, t, r->rf, r->h.ts_ns);
	if (r->h.flags & PTB_F_OPEN) {
		proto.flags |= SLICE_OPEN_AT_BEGIN;
		stack__use_reserve(t);
	}
	e = stack__push_annotation(m, t, &proto, r->h.ts_ns);
	if (e)
		on_begun(m, t, e, r);
}

void rf__end(struct model *m, struct thread *t, const struct ptb_rf_end *r)
{
	uint32_t i = find_own(m, t, r->rf);
	struct thread *owner = t;

	if (i == t->cnt)
		owner = scopes__find_open(m, t->tgid, r->rf, &i);
	if (!owner || !owner->stack[i].rf) {
		m->totals->unmatched_exits++;
		return;
	}
	if (r->h.flags & PTB_F_ARGS)
		args__exit(m, &owner->stack[i], &r->h);
	stack__end_annotation(m, owner, i, r->h.ts_ns, owner == t ? 0 : SLICE_OTHER_THREAD_END);
	if (owner != t)
		steps__advance(m, owner, r->h.ts_ns);
}
