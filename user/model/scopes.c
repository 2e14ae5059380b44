/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Annotations: record_function and everything else that holds an at::RecordFunction object. Owns
 * the join of the three records that make one (name, constructor, end) and of objects to open
 * slices; must not decide about nesting, which is thread_stack.c's.
 *
 *	SCOPE_NAME  "train"   sp=900     record_function_enter_new("train") is entered
 *	SCOPE_BEGIN handle=h  sp=700     it makes the object: lower on the stack, so it is that one
 *	SCOPE_END   handle=h             by its end(), perhaps on another thread
 *
 * An object that nobody announced is one of the RECORD_FUNCTION macros in torch's own code; the
 * literal that the macro would name it with is known by the constructor's return address (CALLER
 * records).
 *
 * A SCOPE_BEGIN with text is RecordFunction::before(): compiled regions name themselves so (pytorch
 * torch/csrc/profiler). While torch's own profiler runs it is called for every scope, which must
 * not double what is known already.
 */
#include <string.h>

#include "model/model_priv.h"

void scopes__name(struct model *m, struct thread *t, const struct ptb_scope_name *r)
{
	stack__at(m, t, r->sp, r->h.ts_ns);
	t->scope_name = facts__intern(m->f, (const char *)(r + 1), r->text_len);
	t->scope_name_sp = r->sp;
	t->scope_name_ns = r->h.ts_ns;
	t->scope_stack = thread__py_stack(t, r->h.ts_ns);
	t->scope_name_flags = r->h.flags & PTB_F_TEXT_CUT ? SLICE_NAME_CUT : 0;
	args__scope(m, t, &r->h);
}

struct thread *scopes__find_open(struct model *m, uint32_t tgid, uint64_t handle, uint32_t *idx)
{
	const uint64_t *where = hashmap__get(&m->handles, tgid, handle);
	struct thread *t = where ? m->threads[*where] : NULL;
	uint32_t i;

	if (!t)
		return NULL;
	for (i = t->cnt; i && !(t->stack[i - 1].annotation && t->stack[i - 1].handle == handle);
	     i--)
		;
	*idx = i - 1;
	return i ? t : NULL;
}

void scopes__forget(struct model *m, struct thread *t, const struct entry *e)
{
	if (e->handle && (!e->rf || rf__is_listed(e)))
		hashmap__del(&m->handles, t->tgid, e->handle);
}

/*
 * The boxed calls of record_function's own operators are hidden by name. Where the name is not
 * known, what happens inside gives them away: an operator without children that begins or ends a
 * scope.
 */
static void hide_unknown_helper(struct model *m, struct thread *t)
{
	const struct entry *e = t->cnt ? &t->stack[t->cnt - 1] : NULL;

	if (e && e->kind == PTB_FUNC_BOXED && e->is_address && !e->hidden && !e->child_cnt)
		stack__hide(m, t, t->cnt - 1);
}

/* An annotation whose end was lost would enclose all that follows. One of the same name that begins
 * now is taken for its successor, not its child, if records were lost since. */
static void end_lost_twin(struct model *m, struct thread *t, const char *name, uint64_t ts)
{
	if (!m->lost_pos)
		return;
	for (uint32_t i = t->cnt; i--;) {
		const struct entry *e = &t->stack[i];

		if (!e->annotation && !e->hidden)
			return;
		if (e->annotation && e->name == name && stack__lost_since(m, e->begin_ns)) {
			stack__end_annotation(m, t, i, ts, SLICE_END_LOST);
			return;
		}
	}
}

/*
 * RECORD_FUNCTION("detach", std::vector<c10::IValue>({self})) within aten::detach, and likewise
 * detach_ (pytorch torch/csrc/autograd/VariableTypeManual.cpp): the list is made only when an
 * observer asks for it, but the tensor is the operator's own.
 */
static bool is_detach(const struct entry *e)
{
	return !e->args && (!strcmp(e->name, "detach") || !strcmp(e->name, "detach_"));
}

static void open_annotation(struct model *m, struct thread *t, const struct ptb_scope_begin *r,
			    const struct entry *proto, bool announced)
{
	struct entry *e;

	hide_unknown_helper(m, t);
	end_lost_twin(m, t, proto->name, r->h.ts_ns);
	e = stack__push_annotation(m, t, proto, r->h.ts_ns);
	if (!e)
		return;
	if (r->h.flags & PTB_F_ARGS)
		args__scope(m, t, &r->h);
	if (announced || r->h.flags & PTB_F_ARGS)
		args__take_scope(t, e);
	if (is_detach(e)) {
		const struct entry *up = stack__visible_below(t, (uint32_t)(e - t->stack));

		if (up && !up->annotation && !strncmp(up->name, "aten::", 6) &&
		    !strcmp(up->name + 6, e->name))
			args__inherit(m, e, up);
	}
	hashmap__put(&m->handles, t->tgid, r->handle, t->idx);
}

/* Was this object made inside the function that announced a name on this thread? */
static bool takes_name(const struct thread *t, const struct ptb_scope_begin *r)
{
	return t->scope_name && r->sp < t->scope_name_sp &&
	       r->h.ts_ns <= t->scope_name_ns + PTB_NAME_VALID_NS;
}

static bool take_name(struct thread *t, const struct ptb_scope_begin *r, struct entry *e)
{
	if (!takes_name(t, r))
		return false;
	e->name = t->scope_name;
	e->flags = t->scope_name_flags;
	e->stack = e->stack ? e->stack : t->scope_stack;
	t->scope_name = NULL;
	return true;
}

/* Would this name only repeat a slice that a probe of ours has opened? The engine's macro has its
 * literal only as a prefix. */
static bool repeats_frame(struct thread *t, const char *text, size_t len)
{
	const struct entry *e;
	uint32_t i = t->cnt;

	if (facts__names_node(text, len))
		return true;
	while ((e = stack__visible_below(t, i)) && e->annotation)
		i = (uint32_t)(e - t->stack);
	return e && !strncmp(e->name, text, len) && !e->name[len];
}

void scopes__begin(struct model *m, struct thread *t, const struct ptb_scope_begin *r)
{
	const char *text = (const char *)(r + 1);
	struct entry e = { .overload = "",
			   .handle = r->handle,
			   .kind = PTB_FUNC_SCOPE,
			   .seq = -1,
			   .stack = thread__py_stack(t, r->h.ts_ns) };
	bool announced = false;
	struct thread *owner;
	uint32_t idx;

	stack__at(m, t, r->sp, r->h.ts_ns);
	owner = scopes__find_open(m, t->tgid, r->handle, &idx);
	if (r->text_len) {
		if (owner)
			return; /* its name is known from its constructor */
		e.scope = t->ctor_handle == r->handle ? t->ctor_scope : r->scope;
		if (e.scope == PTB_SCOPE_UNKNOWN)
			e.scope = SCOPE_FUNCTION; /* of RECORD_FUNCTION and compiled regions */
		announced = take_name(t, r, &e);
		if (!announced) {
			if (repeats_frame(t, text, r->text_len))
				return;
			e.kind = PTB_FUNC_REGION;
			e.name = facts__intern(m->f, text, r->text_len);
			e.flags = r->h.flags & PTB_F_TEXT_CUT ? SLICE_NAME_CUT : 0;
		}
	} else {
		if (owner && !r->caller && !takes_name(t, r))
			return; /* before() with an empty text */
		if (owner)      /* another object at this address: that one's end was not seen */
			stack__end_annotation(m, owner, idx, r->h.ts_ns, SLICE_UNWOUND);
		t->ctor_handle = r->handle;
		t->ctor_scope = r->scope;
		e.scope = r->scope;
		announced = take_name(t, r, &e);
		if (!announced) {
			e.name = facts__caller(m->f, t->tgid, r->caller);
			if (!e.name || repeats_frame(t, e.name, strlen(e.name)))
				return;
		}
	}
	e.cat = e.scope == SCOPE_USER ? SLICE_USER_ANNOTATION : SLICE_CPU_OP;
	open_annotation(m, t, r, &e, announced);
}

void scopes__end(struct model *m, struct thread *t, const struct ptb_scope_end *r)
{
	struct thread *owner;
	uint32_t idx;

	stack__at(m, t, r->sp, r->h.ts_ns);
	owner = scopes__find_open(m, t->tgid, r->handle, &idx);
	if (!owner) /* never named, or ended: end() runs again in the destructor */
		return;
	if (owner == t)
		hide_unknown_helper(m, t);
	stack__end_annotation(m, owner, idx, r->h.ts_ns, owner == t ? 0 : SLICE_OTHER_THREAD_END);
	if (owner != t)
		steps__advance(m, owner, r->h.ts_ns);
}
