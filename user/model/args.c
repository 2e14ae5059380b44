/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Arguments and results of open slices: takes them from the records, keeps the inputs until the
 * slice is emitted, and derives what they say of the slice (autograd's number, its thread's forward
 * part). Owns the memory of payloads; must not know how values are printed, nor touch nesting.
 */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "capture/capture.h"
#include "model/model_priv.h"

#define SPARE_WORDS_MAX 1024 /* a spare keeps no more memory than this; few payloads are larger */

/* ---- memory ---- */

static struct args *new_args(struct model *m)
{
	struct args *a = m->spare_args;

	if (a)
		m->spare_args = a->next;
	else
		a = xcalloc(1, sizeof(*a));
	return a;
}

void args__free(struct model *m, struct args *a)
{
	if (!a)
		return;
	if (a->cap > SPARE_WORDS_MAX) {
		free(a->words);
		a->words = NULL;
		a->cap = 0;
	}
	*a = (struct args){ .next = m->spare_args, .words = a->words, .cap = a->cap };
	m->spare_args = a;
}

void args__clear(struct model *m)
{
	struct args *a, *next;

	free(m->result_words);
	tensor_ids__clear(&m->tensors);
	for (uint32_t i = 0; i < m->thread_cnt; i++) {
		struct thread *t = m->threads[i];

		for (uint32_t k = 0; k < t->cnt; k++) /* open ones, if the pass was stopped */
			args__free(m, t->stack[k].args);
		args__free(m, t->scope_args);
	}
	for (a = m->spare_args; a; a = next) {
		next = a->next;
		free(a->words);
		free(a);
	}
}

/* ---- payloads ---- */

/* The record's values as they came; not PRESENT if it carries none. The text's length was
 * checked. */
static struct slice_values payload(const struct model *m, const struct ptb_rec_hdr *h)
{
	struct slice_values sv = { 0 };
	uint32_t at = record__text_end(h);

	if (!(h->flags & PTB_F_ARGS) || hashmap__get(&m->f->bad_layout, h->tgid, 0))
		return sv;
	sv.words = (const uint64_t *)(const void *)((const char *)h + at);
	sv.word_cnt = (h->len - at) / (uint32_t)sizeof(uint64_t);
	sv.flags = VALUES_PRESENT | (h->flags & PTB_F_ARGS_CUT ? VALUES_CUT : 0);
	return sv;
}

/* Leaves the whole values, and says what they are. */
static struct value_survey check_values(struct model *m, struct slice_values *sv)
{
	struct value_survey s = values__survey(sv->words, sv->word_cnt);

	if (s.words < sv->word_cnt) {
		m->totals->bad_records++;
		sv->word_cnt = s.words;
		sv->flags |= VALUES_CUT;
	}
	return s;
}

static uint32_t cut_flag(const struct slice_values *sv, const struct value_survey *s)
{
	bool cut = sv->flags & VALUES_CUT || s->flags & (PTB_VAL_F_CUT | PTB_VAL_F_DIMS_CUT);

	return cut ? SLICE_ARGS_CUT : 0;
}

static void append_words(struct args *a, const uint64_t *words, uint32_t cnt)
{
	vec_reserve((void **)&a->words, &a->cap, (uint64_t)a->cnt + cnt, sizeof(*a->words));
	if (cnt)
		memcpy(a->words + a->cnt, words, cnt * sizeof(*words));
	a->cnt += cnt;
}

static uint8_t kind_at(const uint64_t *word)
{
	struct ptb_val h;

	memcpy(&h, word, sizeof(h));
	return h.kind;
}

/* Copies the values from the first on. */
static void copy_values(struct args *a, const struct slice_values *sv, uint32_t first)
{
	a->in_flags = sv->flags;
	append_words(a, sv->words + first, sv->word_cnt - first);
}

/* Gives the tensors among the words their numbers. */
static void name_tensors(struct model *m, const struct ptb_rec_hdr *h, uint64_t begin_ns,
			 enum tensor_role role, uint64_t *words, uint32_t cnt)
{
	const struct tensor_place at = { .tgid = h->tgid,
					 .ts_ns = h->ts_ns,
					 .begin_ns = begin_ns,
					 .lost_until = m->lost_until,
					 .role = role };

	tensor_ids__name(&m->tensors, &at, words, cnt);
}

/* ---- autograd's number ---- */

/*
 * Dispatcher::sequenceNumberForRunningRecordFunction(): the number that is next, if an autograd
 * kernel is in the set that the call dispatches by (pytorch c10/core DispatchKeyExtractor.h) and
 * grad mode is on. Kernels that an operator lets fall through are not known here. A custom function
 * is always stamped, TorchScript never.
 */
static void set_seq(struct thread *t, const struct entry *e, struct args *a,
		    const struct value_survey *s)
{
	bool stamped = e->kind == PTB_FUNC_PYFUNC;
	bool grad = s->grad_mode && !(s->grad_unmade && t->grad_made);

	if (!s->has_state)
		return;
	t->grad_made |= !s->grad_unmade;
	if (!stamped) {
		uint64_t keys = (s->keys | s->included) & ~s->excluded & t->keys->autograd;
		/* perhaps a tensor is not here */
		bool partly = s->unknown || a->in_flags & VALUES_CUT;

		if ((e->kind != PTB_FUNC_OP && e->kind != PTB_FUNC_BOXED) || !t->keys->autograd ||
		    (grad && !keys && partly))
			return;
		stamped = grad && keys;
	}
	a->has_seq = true;
	a->seq = stamped && s->next_seq <= INT64_MAX ? (int64_t)s->next_seq : -1;
}

/* ---- operators, nodes, functions ---- */

void args__enter(struct model *m, struct thread *t, struct entry *e, const struct ptb_rec_hdr *h)
{
	struct slice_values sv = payload(m, h);
	struct value_survey s;
	struct args *a;
	uint32_t first;

	/* torch's own record_function operators are hidden, but hold the arguments of an
	 * annotation */
	if (!sv.flags || (e->hidden && !e->hides_children))
		return;
	s = check_values(m, &sv);
	a = new_args(m);
	first = sv.word_cnt && kind_at(sv.words) == PTB_VAL_STATE ?
			values__first_words(sv.words, sv.word_cnt) :
			0;
	copy_values(a, &sv, first);
	if (s.flags & PTB_VAL_F_IDS)
		name_tensors(m, h, h->ts_ns, TENSOR_GIVEN, a->words, a->cnt);
	set_seq(t, e, a, &s);
	e->flags |= cut_flag(&sv, &s);
	e->args = a;
}

/* The record itself stays as it is. */
static const uint64_t *named_results(struct model *m, const struct entry *e,
				     const struct ptb_rec_hdr *h, const struct slice_values *sv)
{
	vec_reserve((void **)&m->result_words, &m->result_cap, sv->word_cnt, sizeof(*sv->words));
	memcpy(m->result_words, sv->words, sv->word_cnt * sizeof(*sv->words));
	name_tensors(m, h, e->begin_ns, tensor_ids__role(&m->tensors, e->schema), m->result_words,
		     sv->word_cnt);
	return m->result_words;
}

void args__exit(struct model *m, struct entry *e, const struct ptb_rec_hdr *h)
{
	struct slice_values sv = payload(m, h);
	struct value_survey s;

	if (!sv.flags || e->hidden)
		return;
	s = check_values(m, &sv);
	if (!e->args)
		e->args = new_args(m);
	if (s.flags & PTB_VAL_F_IDS)
		sv.words = named_results(m, e, h, &sv);
	e->args->out = sv;
	e->flags |= cut_flag(&sv, &s);
}

void args__more(struct model *m, struct thread *t, const struct ptb_op_enter *r,
		const struct site_fact *site)
{
	struct slice_values sv = payload(m, &r->h);
	struct entry *e = stack__frame_of(t, site->func);

	if (e && e->args)
		values__fill_pending(e->args->words, e->args->cnt, &sv);
}

void args__backward(struct model *m, struct thread *t, struct entry *e)
{
	struct thread *fwd = m->full && e->fwd_thread ? autograd__forward_thread(m, t, e) : NULL;
	const struct entry *top;

	if (!fwd)
		return;
	if (!e->args)
		e->args = new_args(m);
	top = stack__visible_below(fwd, fwd == t ? (uint32_t)(e - t->stack) : fwd->cnt);
	e->args->fw_parent = top ? top->id : 0;
	e->args->fwd_tid = fwd->tid;
}

/* ---- scopes ---- */

/* The helper operator around a scope: its second argument is the scope's. */
static struct slice_values of_helper(const struct thread *t)
{
	const struct entry *e = t->cnt ? &t->stack[t->cnt - 1] : NULL;
	struct slice_values sv = { 0 };
	uint32_t first;

	if (!e || !e->hides_children || !e->args)
		return sv;
	first = values__first_words(e->args->words, e->args->cnt);
	sv.words = e->args->words + first;
	sv.word_cnt = e->args->cnt - first;
	sv.flags = first ? e->args->in_flags : 0;
	/* None is no argument (pytorch torch/csrc/autograd/record_function_ops.cpp) */
	if (sv.word_cnt && kind_at(sv.words) == PTB_VAL_NONE)
		sv.word_cnt = 0;
	return sv;
}

void args__scope(struct model *m, struct thread *t, const struct ptb_rec_hdr *h)
{
	struct slice_values sv = payload(m, h);
	uint32_t of_record;
	struct value_survey s;

	args__free(m, t->scope_args);
	t->scope_args = NULL;
	t->scope_name_flags &= ~(uint32_t)SLICE_ARGS_CUT;
	of_record = sv.flags;
	if (!sv.flags)
		sv = of_helper(t);
	if (!sv.flags)
		return;
	s = check_values(m, &sv);
	t->scope_args = new_args(m);
	if (!t->scope_args)
		return;
	copy_values(t->scope_args, &sv, 0);
	if (of_record && s.flags & PTB_VAL_F_IDS) /* the helper's have been given theirs */
		name_tensors(m, h, h->ts_ns, TENSOR_GIVEN, t->scope_args->words,
			     t->scope_args->cnt);
	t->scope_name_flags |= cut_flag(&sv, &s);
}

void args__take_scope(struct thread *t, struct entry *e)
{
	e->args = t->scope_args;
	t->scope_args = NULL;
}

void args__inherit(struct model *m, struct entry *e, const struct entry *from)
{
	const struct args *a = from->args;

	if (e->args || !a || !(a->in_flags & VALUES_PRESENT))
		return;
	e->args = new_args(m);
	e->args->in_flags = a->in_flags;
	append_words(e->args, a->words, a->cnt);
}

/* ---- what slices and memory events get ---- */

bool args__inputs(const struct entry *e, struct slice_values *in)
{
	if (!e->args || !(e->args->in_flags & VALUES_PRESENT))
		return false;
	*in = (struct slice_values){ .words = e->args->words,
				     .word_cnt = e->args->cnt,
				     .flags = e->args->in_flags };
	return true;
}

void args__put_into(const struct entry *e, struct slice *sl)
{
	const struct args *a = e->args;

	sl->in = (struct slice_values){ .words = a->words,
					.word_cnt = a->cnt,
					.flags = a->in_flags };
	sl->out = a->out;
	if (a->has_seq)
		sl->seq = a->seq;
	sl->fw_parent = a->fw_parent;
	sl->fwd_tid = a->fwd_tid;
}
