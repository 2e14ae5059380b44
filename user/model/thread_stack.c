/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The stack of open slices of one thread, rebuilt from entries and exits that each carry the
 * machine's stack pointer. Owns nesting, times and ids; must not know where names come from or go
 * to.
 *
 * Longer than 600 lines because all rules of nesting work on the one stack.
 *
 * Theory. The stack grows down. A function entered at sp E is alive as long as the thread's sp is
 * below E. So every record with sp S proves that all frames with E <= S are gone, also those that
 * an exception left without an exit: they end now, an upper bound, and are marked unwound. Frames
 * that remain have E > S, hence strictly falling E from the bottom of the stack to its top.
 *
 *	enter A sp=900      [A]
 *	enter B sp=700      [A B]          B throws, A catches: no exit of B
 *	enter C sp=700      [A C]          700 <= 700: B is gone, ends here
 *	exit  A sp=840      []             C (700 <= 840) is gone too; then A itself ends
 *
 * By entries and exits alone a dead frame is not noticed until a record comes from a frame at least
 * as high, and what the catcher calls meanwhile from a deeper frame would seem to be called by it.
 * So the catch itself is a record (__cxa_begin_catch): its S is that of the function that caught,
 * its time the end of all that was unwound. The rule holds within one stack: a program that
 * switches stacks, as fibers do, gives rise to wrong `unwound` marks.
 *
 * Annotations (record_function) live in time, not on this stack: an object begins in one function
 * and ends in another, perhaps on another thread. They stand in the same array where they began,
 * between frames. An annotation of the program begins and ends when the program says so; where it
 * crosses what torch opened (dispatch modes and hooks of the backward pass open a slice around the
 * call that begins or ends one), torch's is cut:
 *
 *	|-- torch's --|                    |-- torch's --|
 *	      |-- annotation --|    |-- annotation --|
 *	|-t's-|-- annotation --|    |-- annotation --|     the cut one's own exit, or end, says nothing any more
 *
 *  - what ends while an annotation that began in it is open ended just before that began;
 *  - what is open in an annotation that ends is cut there, and stays on the stack, hidden, until
 *    its own end. That goes for annotations, too: of two that cross (generators, async code) the
 *    one that began first is whole;
 *  - a frame found dead that lies below an annotation ended before that annotation began: objects
 *    end when a frame is unwound (they are RAII objects or `with` blocks), so this one is younger.
 * What is cut is marked and counted. Scopes of torch's own (the macro RECORD_FUNCTION) and
 * functions that the agent records (rf_slices.c) stand there too, but end in order as frames do;
 * what is open in one that ends, ends with it.
 *
 * Times. Within a thread every begin and end gets a time of its own, at least GAP_NS after the one
 * before, so nesting is strict, and stays so for readers that round. When several slices end at
 * once the outermost gets the record's time and the inner ones end just before (GAP_NS each), if
 * there is room.
 *
 * A frame that was open when the window began is known only by its exit. All that was emitted of
 * the thread so far then lies inside it. Its begin is the window's; for this the first RESERVE_NS
 * after the begin are kept free of other slices, and several such frames share them, the outer ones
 * earlier. They come after their children, whose `parent` cannot name them any more and stays as it
 * was emitted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "model/model_priv.h"

#define STACK_MAX 100000 /* open entries per thread; a machine stack holds fewer frames */
#define RESERVE_NS 64
#define EARLY_ENDS 256 /* see end_before() */

enum close_why { CLOSE_GONE, CLOSE_MATCHED };

struct entry *stack__visible_below(struct thread *t, uint32_t i)
{
	uint32_t k = i;

	while (k && t->stack[k - 1].hidden)
		k--;
	return k ? &t->stack[k - 1] : NULL;
}

static bool is_derived(const struct entry *e)
{
	return e->flags & SLICE_DERIVED;
}

/* An annotation of the program's: it may end while what was begun in it is open. */
static bool is_users(const struct entry *e)
{
	return e->annotation && !is_derived(e) && e->cat == SLICE_USER_ANNOTATION;
}

void stack__reserve_begin(struct thread *t, uint64_t at)
{
	t->oab_floor_ns = at + GAP_NS;
	t->oab_next_ns = at + RESERVE_NS - GAP_NS;
	t->last_ns = at + RESERVE_NS;
	t->top_cnt = 0;
	t->top_ns = 0;
	if (t->mem)
		memory__mark(t);
}

void stack__use_reserve(struct thread *t)
{
	if (t->last_ns != t->oab_floor_ns - GAP_NS + RESERVE_NS)
		return; /* something has begun since */
	t->last_ns = t->oab_floor_ns - GAP_NS;
	t->max_sp = UINT64_MAX; /* its room is taken: no exit shows a frame that was open then */
}

/* ts, or the first time after it that is free on the thread. */
static uint64_t free_time(const struct thread *t, uint64_t ts)
{
	return ts >= t->last_ns + GAP_NS ? ts : t->last_ns + GAP_NS;
}

/* ---- opening ---- */

static struct entry *push_entry(struct model *m, struct thread *t, const struct entry *proto)
{
	if (t->cnt >= STACK_MAX) {
		m->totals->bad_records++;
		return NULL;
	}
	if (t->cnt == t->cap)
		vec_reserve((void **)&t->stack, &t->cap, (uint64_t)t->cnt + 1, sizeof(*t->stack));
	t->stack[t->cnt] = *proto;
	return &t->stack[t->cnt++];
}

/* Parent of the entry at index i: the innermost visible entry under it, NULL if none. */
static const struct entry *set_parent(struct thread *t, uint32_t i)
{
	const struct entry *up = stack__visible_below(t, i);

	t->stack[i].parent = up ? up->id : 0;
	t->stack[i].depth = up ? up->depth + 1 : 0;
	return up;
}

/*
 * Where an entry ends that has to end before the one at `next` began. Entries may be found to have
 * ended there one by one, the outer ones later, so each depth has a time of its own; set_begin()
 * keeps that room free.
 */
static uint64_t end_before(const struct entry *next, const struct entry *e)
{
	return next->begin_ns -
	       GAP_NS * (1 + (uint64_t)(e->depth < EARLY_ENDS ? e->depth : EARLY_ENDS - 1));
}

/* An annotation of session_opts.when. */
static bool is_wanted(const struct model *m, const struct entry *e)
{
	size_t len = m->when ? strlen(m->when) : 0;

	if (!m->when || e->cat != SLICE_USER_ANNOTATION || strncmp(e->name, m->when, len) != 0 ||
	    (e->name[len] && e->name[len] != '#'))
		return false;
	m->totals->when_found++;
	return true;
}

static void set_begin(struct model *m, struct thread *t, struct entry *e, uint64_t ts)
{
	const struct entry *up;
	uint64_t gap = GAP_NS;

	e->begin_ns = ts;
	if (e->hidden)
		return;
	e->id = is_derived(e) ? steps__new_id(m, t) : ++m->next_id;
	up = set_parent(t, (uint32_t)(e - t->stack));
	e->fwd_stack = up ? up->fwd_stack : 0;
	e->backward = e->scope == SCOPE_BACKWARD || (up && up->backward);
	e->within = up && up->within ? up->within + 1 : is_wanted(m, e);
	if (is_users(e) || (e->annotation && t->frames))
		gap += GAP_NS * (uint64_t)(e->depth < EARLY_ENDS ? e->depth : EARLY_ENDS);
	if (e->begin_ns < t->last_ns + gap)
		e->begin_ns = t->last_ns + gap;
	t->last_ns = e->begin_ns;
	e->is_step = is_derived(e) || (e->cat == SLICE_USER_ANNOTATION && step_name__is(e->name));
	if (t->mem)
		memory__begin(m, t, e);
	if (e->is_step)
		steps__current(m, t, e, true);
}

struct entry *stack__push_frame(struct model *m, struct thread *t, const struct entry *proto,
				uint64_t ts)
{
	struct entry *e = push_entry(m, t, proto);

	if (!e)
		return NULL;
	t->frames++;
	if (t->hiding)
		e->hidden = true;
	if (e->hides_children)
		t->hiding++;
	set_begin(m, t, e, ts);
	return e;
}

struct entry *stack__push_annotation(struct model *m, struct thread *t, const struct entry *proto,
				     uint64_t ts)
{
	struct entry *e = push_entry(m, t, proto);

	if (!e)
		return NULL;
	e->annotation = true;
	set_begin(m, t, e, ts);
	return e;
}

/* ---- closing ---- */

/* It is visible, and is no longer on the stack, or no longer visible there. */
static void emit_entry(struct model *m, struct thread *t, struct entry *e, struct entry *up,
		       uint64_t end_ns, uint32_t flags)
{
	if (end_ns <= e->begin_ns)
		end_ns = e->begin_ns + 1;
	if (end_ns > t->last_ns)
		t->last_ns = end_ns;
	e->flags |= flags;
	if (up)
		up->child_ns += end_ns - e->begin_ns;
	if (up && !is_derived(up)) {
		up->child_cnt++;
	} else if (!is_derived(e)) {
		t->top_cnt++;
		t->top_ns += end_ns - e->begin_ns;
	}
	if (e->mem)
		memory__end(t, e);
	if (e->is_step)
		steps__current(m, t, e, false);
	if (is_derived(e) && flags)
		steps__cut(m, e);
	model__deliver(m, t, e, end_ns);
	if (e->mem)
		memory__drop(m, e);
	args__free(m, e->args);
	if (e->fwd_pos)
		autograd__forward_done(t, e);
	if (e->kind == PTB_FUNC_NODE_CALL)
		autograd__backward_done(m, t, e);
}

/* Takes the entry out of the stack and emits it. */
static void finish_entry(struct model *m, struct thread *t, uint32_t i, uint64_t end_ns,
			 uint32_t flags)
{
	struct entry e = t->stack[i];

	t->cnt--;
	if (i < t->cnt) {
		memmove(&t->stack[i], &t->stack[i + 1], (t->cnt - i) * sizeof(*t->stack));
	}
	if (!is_derived(&e) && (!t->cnt || (t->cnt == 1 && is_derived(&t->stack[0]))))
		t->step_order = ++m->next_id;
	if (e.hides_children)
		t->hiding--;
	if (e.annotation) {
		scopes__forget(m, t, &e);
		if (e.deep)
			rf__forget(m, t, &e);
	} else {
		t->frames--;
	}
	if (!e.hidden) {
		emit_entry(m, t, &e, is_derived(&e) ? NULL : stack__visible_below(t, i), end_ns,
			   flags);
		return;
	}
	if (e.mem)
		memory__hide(m, t, &e);
	args__free(m, e.args);
}

/* Emits the entry and keeps it, hidden, until its own end. */
static void cut_entry(struct model *m, struct thread *t, uint32_t i, uint64_t end_ns,
		      uint32_t flags)
{
	struct entry e = t->stack[i], *kept = &t->stack[i];

	kept->hidden = true;
	kept->mem = NULL;
	kept->args = NULL;
	emit_entry(m, t, &e, stack__visible_below(t, i), end_ns, flags);
}

/* The same for one that has to end before the one at `next` began. */
static void finish_before(struct model *m, struct thread *t, uint32_t i, uint32_t next,
			  uint32_t flags)
{
	uint64_t end_ns = t->stack[i].hidden ? 0 : end_before(&t->stack[next], &t->stack[i]);

	if (t->mem)
		memory__cut(t, &t->stack[next]);
	finish_entry(m, t, i, end_ns, flags);
	if (t->mem)
		memory__cut(t, NULL);
}

bool stack__lost_since(const struct model *m, uint64_t begin_ns)
{
	return m->lost_pos && m->lost_until >= begin_ns;
}

static bool rf_end_lost(const struct model *m, const struct entry *e)
{
	return e->rf && !is_users(e) && (m->agent_lost || stack__lost_since(m, e->begin_ns));
}

static uint32_t gone_flags(const struct model *m, const struct entry *e)
{
	if (e->synthetic || e->no_exit)
		return SLICE_END_INFERRED;
	if (rf_end_lost(m, e) || stack__lost_since(m, e->begin_ns))
		return SLICE_END_LOST;
	return e->annotation ? SLICE_TRUNCATED : SLICE_UNWOUND;
}

/* Ends the entry at a time at which an annotation around it ends. */
static void end_inside(struct model *m, struct thread *t, uint32_t i, uint64_t end_ns)
{
	const struct entry *e = &t->stack[i];
	uint32_t flags = gone_flags(m, e);

	if (flags == SLICE_UNWOUND)
		flags = SLICE_TRUNCATED;
	if (e->annotation && (m->lost_pos || m->agent_lost)) /* its own end may be lost */
		finish_entry(m, t, i, end_ns, flags);
	else
		cut_entry(m, t, i, end_ns, flags);
}

static uint32_t visible_cnt(const struct thread *t, uint32_t from)
{
	uint32_t n = 0;

	for (uint32_t i = from; i < t->cnt; i++)
		n += !t->stack[i].hidden;
	return n;
}

/* When the innermost of the entries from index `from` on ends, if all end at ts, one after
 * another. */
static uint64_t first_end(const struct thread *t, uint32_t from, uint64_t ts)
{
	uint64_t before = GAP_NS * (uint64_t)visible_cnt(t, from);
	uint64_t end = before && ts >= before ? ts - before + GAP_NS : 0;

	return free_time(t, end);
}

/* Parents of the entries from index i on, after entries below them went. */
static void relink(struct thread *t, uint32_t i)
{
	for (; i < t->cnt; i++)
		set_parent(t, i);
}

/* An annotation that goes on though what is below it has ended: by an exception, or by its own
 * exit. */
static bool outlives(const struct model *m, const struct entry *e, enum close_why why)
{
	return e->annotation &&
	       (why == CLOSE_GONE || (is_users(e) && !stack__lost_since(m, e->begin_ns)));
}

/* Ends all entries from index `from` on at ts, the lowest one by its own exit if MATCHED; but not
 * annotations that outlive it, and what lies below one of these ended before that began. */
static void close_from(struct model *m, struct thread *t, uint32_t from, uint64_t ts,
		       enum close_why why)
{
	/* the annotation last passed; what is above the uppermost */
	uint32_t next = UINT32_MAX, k = t->cnt;
	uint64_t end;

	while (k > from &&
	       (k == from + 1 || t->stack[k - 1].hidden || !outlives(m, &t->stack[k - 1], why)))
		k--;
	end = first_end(t, k, ts);
	for (uint32_t i = t->cnt; i-- > from;) {
		const struct entry *e = &t->stack[i];
		bool matched = i == from && why == CLOSE_MATCHED, hidden = e->hidden;
		uint32_t flags = matched || hidden ? 0 : gone_flags(m, e);

		if (i > from && outlives(m, e, why)) {
			next = hidden ? next : i;
		} else if (next != UINT32_MAX) {
			finish_before(m, t, i, next--,
				      why == CLOSE_MATCHED ? flags | SLICE_TRUNCATED : flags);
		} else {
			finish_entry(m, t, i, end, flags);
			end += hidden ? 0 : GAP_NS;
		}
	}
	relink(t, from);
}

void stack__close_top(struct model *m, struct thread *t, uint64_t ts, uint32_t flags)
{
	finish_entry(m, t, t->cnt - 1, free_time(t, ts), flags);
}

void stack__close_all(struct model *m, struct thread *t, uint64_t ts, uint32_t flags)
{
	uint64_t end = first_end(t, 0, ts);

	while (t->cnt) {
		struct entry *e = &t->stack[t->cnt - 1];
		bool hidden = e->hidden;

		/* a step that has just begun and holds nothing says nothing */
		if (is_derived(e) && !t->top_cnt)
			e->hidden = hidden = true;
		finish_entry(m, t, t->cnt - 1, end, flags);
		end += hidden ? 0 : GAP_NS;
	}
}

/* The innermost frame of its own at or below index i - 1; its index, UINT32_MAX if there is
 * none. */
static uint32_t frame_below(const struct thread *t, uint32_t i)
{
	uint32_t k = i;

	while (k && (t->stack[k - 1].annotation || t->stack[k - 1].synthetic))
		k--;
	return k ? k - 1 : UINT32_MAX;
}

/* Lowest index of the frames that are gone: those at or below the stack pointer; UINT32_MAX:
 * none. */
static uint32_t lowest_gone(const struct thread *t, uint64_t sp)
{
	uint32_t lowest = UINT32_MAX;

	for (uint32_t i = frame_below(t, t->cnt); i != UINT32_MAX && t->stack[i].sp <= sp;
	     i = frame_below(t, i))
		lowest = i;
	return lowest;
}

void stack__at(struct model *m, struct thread *t, uint64_t sp, uint64_t ts)
{
	uint32_t lowest;

	t->exit_func = 0;
	if (sp > t->max_sp)
		t->max_sp = sp;
	if (t->scope_name && sp > t->scope_name_sp)
		t->scope_name = NULL; /* whoever announced it has returned */
	lowest = lowest_gone(t, sp);
	if (lowest != UINT32_MAX)
		close_from(m, t, lowest, ts, CLOSE_GONE);
}

/* The innermost operator inside (or, if there is none, around) the innermost annotation. */
struct open_entries stack__context(const struct thread *t, struct op_context *at)
{
	struct open_entries p = { 0 };
	bool in_annotation = true; /* nothing between here and the top is an annotation */
	uint32_t i;

	for (i = t->cnt; i-- && (in_annotation || !p.op);) {
		struct entry *e = &t->stack[i];

		if (e->hidden)
			continue;
		if (!p.entry) {
			p.entry = e;
			at->slice = e->id;
			at->within = e->within;
		}
		if (e->cat == SLICE_USER_ANNOTATION && !p.annotation)
			p.annotation = e;
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
			at->stack = entry__py_stack(e);
		}
		at->outer_op = e->name;
	}
	return p;
}

struct open_entries stack__whole_context(struct model *m, const struct thread *t, uint32_t tgid,
					 uint32_t tid, struct op_context *at)
{
	const uint64_t *step = hashmap__get(&m->current_step, tgid, 0);
	struct open_entries p = { 0 };

	*at = op_context__none(tgid, tid);
	if (step)
		at->step = (int64_t)*step;
	if (t)
		p = stack__context(t, at);
	at->enclosed = at->slice != 0;
	return p;
}

/* ---- exits ---- */

/* Emits a frame that was entered before the window began and ends now. */
static void emit_open_at_begin(struct model *m, struct thread *t, uint32_t func,
			       const struct ptb_op_exit *r)
{
	const struct func_fact *ff = &m->f->funcs[func];
	const struct entry *up = stack__visible_below(t, t->cnt);
	struct entry e = { .name = ff->op.name,
			   .overload = ff->op.overload,
			   .func = func,
			   .schema = ff->op.schema,
			   .cat = SLICE_CPU_OP,
			   .kind = ff->kind,
			   .seq = -1,
			   .flags = SLICE_OPEN_AT_BEGIN };
	uint64_t ts = r->h.ts_ns, end = free_time(t, ts);

	if (ff->op.hidden)
		return;
	/* which node, boxed operator, custom or TorchScript function it is only an entry says */
	if (ff->kind != PTB_FUNC_OP && ff->kind != PTB_FUNC_FUNCTION) {
		m->totals->open_unnamed++;
		return;
	}
	e.begin_ns = t->oab_next_ns > t->oab_floor_ns ? t->oab_next_ns : t->oab_floor_ns;
	t->oab_next_ns -= GAP_NS;
	e.id = ++m->next_id;
	e.parent = up ? up->id : 0;
	e.depth = up ? up->depth + 1 : 0;
	e.child_ns = t->top_ns;
	t->last_ns = end;
	t->top_cnt = 1;
	t->top_ns = end - e.begin_ns;
	args__exit(m, &e, &r->h);
	if (t->mem)
		memory__open_at_begin(m, t, &e);
	model__deliver(m, t, &e, end);
	if (e.mem)
		memory__drop(m, &e);
	args__free(m, e.args);
}

/*
 * The exit of a frame that was entered before anybody watched, if nothing contradicts it: the
 * thread is older, nothing was lost, nothing is open that such a frame would have to enclose, and
 * the thread never was above this frame.
 */
static bool was_open_at_begin(const struct model *m, const struct thread *t, uint64_t sp)
{
	uint32_t steps = t->cnt && is_derived(&t->stack[0]);

	return !t->born && !m->lost_pos && t->cnt == steps && t->max_sp <= sp;
}

struct entry *stack__frame_of(struct thread *t, uint32_t func)
{
	struct entry *e = NULL;
	uint32_t i = t->cnt;

	while (i && !e) {
		e = &t->stack[--i];
		if (e->func != func || e->annotation || e->synthetic)
			e = NULL;
	}
	return e;
}

void stack__exit(struct model *m, struct thread *t, uint32_t func, const struct ptb_op_exit *r)
{
	bool again = t->exit_func == func && t->exit_sp == r->sp;
	struct entry *e;

	stack__at(m, t, r->sp, r->h.ts_ns);
	if (again) /* a second exit site of the same function on the same way out */
		return;
	e = stack__frame_of(t, func);
	if (e) {
		if (r->h.flags & PTB_F_ARGS)
			args__exit(m, e, &r->h);
		close_from(m, t, (uint32_t)(e - t->stack), r->h.ts_ns, CLOSE_MATCHED);
		t->exit_func = func;
		t->exit_sp = r->sp;
		return;
	}
	if (m->f->funcs[func].reason == PTB_REFUSE_KERNEL_REFUSED)
		return; /* perhaps its entry is the site that the kernel refused */
	if (was_open_at_begin(m, t, r->sp))
		emit_open_at_begin(m, t, func, r);
	else
		m->totals->unmatched_exits++;
}

/* ---- annotations ---- */

void stack__hide(struct model *m, struct thread *t, uint32_t i)
{
	struct entry *e = &t->stack[i];

	e->hidden = true;
	e->hides_children = true;
	t->hiding++;
	if (e->mem)
		memory__hide(m, t, e);
	relink(t, i + 1);
}

void stack__end_annotation(struct model *m, struct thread *t, uint32_t i, uint64_t ts,
			   uint32_t flags)
{
	uint64_t end;

	if (t->stack[i].hidden) { /* it was cut */
		finish_entry(m, t, i, 0, 0);
		return;
	}
	/* functions return in order: what is open in it has lost its end */
	if (!is_users(&t->stack[i])) {
		t->stack[i].flags |= flags;
		close_from(m, t, i, ts, CLOSE_MATCHED);
		return;
	}
	end = first_end(t, i, ts);
	for (uint32_t k = t->cnt; k-- > i + 1;) {
		if (t->stack[k].hidden)
			continue;
		end_inside(m, t, k, end);
		end += GAP_NS;
	}
	finish_entry(m, t, i, end, flags);
}
