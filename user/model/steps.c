/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ProfilerStep#N slices derived from what the program says itself. Owns which threads get steps and
 * where one ends; must not know how annotations are found.
 *
 * A step ends when the slice that marks it ends (the thread's first Optimizer.step#... annotation seen,
 * so that a second optimizer in the same iteration begins no step of its own; or what the user named),
 * but not before every slice around that one has ended: a step is the outermost slice of its thread and
 * is never crossed. Step 0 begins with the window, each further one where the last ended. Threads
 * without such a slice get none, nor do processes that announce ProfilerStep#N themselves.
 *
 * As slices are told in one pass, the threads are found in a walk of their own before it.
 */
#include <stdio.h>
#include <string.h>

#include "capture/capture.h"
#include "model/model_priv.h"

static const char optimizer[] = "Optimizer.step#";
static const char own_step[] = "ProfilerStep#";

struct finder {
	struct facts *f;
	const struct session_opts *opts;
	struct hashmap *step_threads;   /* (tgid, tid) -> id in texts */
	struct hashmap first;           /* (tgid, tid) -> time of it */
	struct hashmap own_steps;       /* tgid: announces steps itself */
	uint64_t first_ns, last_ns;
	int err;
};

static void found(struct finder *fi, const struct ptb_rec_hdr *h, const char *text, size_t len)
{
	const uint64_t *at = hashmap__get(&fi->first, h->tgid, h->tid);
	uint32_t id;

	if (at && *at <= h->ts_ns)
		return;
	id = strtab__add(fi->f->texts, text, len);
	if (!id || hashmap__put(&fi->first, h->tgid, h->tid, h->ts_ns) ||
	    hashmap__put(fi->step_threads, h->tgid, h->tid, id))
		fi->err = -1;
}

static void check_text(struct finder *fi, const struct ptb_rec_hdr *h, const char *text, size_t len)
{
	const char *want = fi->opts->step_on;

	if (len >= sizeof(own_step) - 1 && !memcmp(text, own_step, sizeof(own_step) - 1) &&
	    hashmap__put(&fi->own_steps, h->tgid, 0, 1))
		fi->err = -1;
	if (want ? len == strlen(want) && !memcmp(text, want, len)
		 : len >= sizeof(optimizer) - 1 && !memcmp(text, optimizer, sizeof(optimizer) - 1))
		found(fi, h, text, len);
}

static void check_op(struct finder *fi, const struct ptb_rec_hdr *h, const struct op_name *op)
{
	const char *want = fi->opts->step_on;

	if ((!op->hidden || h->kind == PTB_REC_RF_BEGIN) && (!strcmp(op->name, want) || !strcmp(op->full, want)))
		found(fi, h, want, strlen(want));
}

static uint64_t opdef_of(const struct ptb_rec_hdr *h)
{
	if (h->kind == PTB_REC_BOXED_ENTER)
		return ((const struct ptb_boxed_enter *)(const void *)h)->opdef;
	return h->kind == PTB_REC_RF_BEGIN ? ((const struct ptb_rf_begin *)(const void *)h)->opdef : 0;
}

/* Operators count only when the user named one; their names are looked up, not read. */
static void check_frame(struct finder *fi, const struct ptb_rec_hdr *h)
{
	const struct site_fact *site = facts__site(fi->f, h->site);
	const struct addr_fact *a;

	if (h->kind == PTB_REC_OP_ENTER && site) {
		check_op(fi, h, &fi->f->funcs[site->func].op);
	} else if (opdef_of(h)) {
		a = facts__opdef(fi->f, h->tgid, opdef_of(h), h->ts_ns);
		if (a)
			check_op(fi, h, &a->op);
	}
}

static int on_record(void *arg, const struct ptb_rec_hdr *h)
{
	struct finder *fi = arg;

	if (h->ts_ns >= TS_MAX)
		return 0;
	if (!fi->first_ns || h->ts_ns < fi->first_ns)
		fi->first_ns = h->ts_ns;
	if (h->ts_ns > fi->last_ns)
		fi->last_ns = h->ts_ns;
	if (fi->opts->no_steps)
		return 0;
	if (h->kind == PTB_REC_SCOPE_NAME) {
		const struct ptb_scope_name *r = (const void *)h;

		check_text(fi, h, (const char *)(r + 1), r->text_len);
	} else if (h->kind == PTB_REC_SCOPE_BEGIN) {
		const struct ptb_scope_begin *r = (const void *)h;

		check_text(fi, h, (const char *)(r + 1), r->text_len);
	} else if (h->kind == PTB_REC_RF_BEGIN && !((const struct ptb_rf_begin *)(const void *)h)->opdef) {
		const struct ptb_rf_begin *r = (const void *)h;

		check_text(fi, h, (const char *)(r + 1), r->text_len);
	} else if (h->kind == PTB_REC_NAMED_ENTER && fi->opts->step_on) {
		const struct ptb_named_enter *r = (const void *)h;

		check_text(fi, h, (const char *)(r + 1), r->text_len);
	} else if (fi->opts->step_on) {
		check_frame(fi, h);
	}
	return fi->err;
}

/* Removes the threads of processes that announce steps themselves. */
static void drop_own(struct finder *fi)
{
	struct hashmap_slot *slot;
	uint64_t pos = 0;

	while ((slot = hashmap__next(fi->step_threads, &pos)))
		if (hashmap__get(&fi->own_steps, slot->k0, 0))
			slot->val = 0;
}

int steps__find(struct capture_reader *cr, struct facts *f, const struct session_opts *opts,
		struct hashmap *step_threads, uint64_t *first_ns, uint64_t *last_ns)
{
	struct finder fi = { .f = f, .opts = opts, .step_threads = step_threads };
	int err = capture_reader__scan(cr, on_record, &fi);

	drop_own(&fi);
	hashmap__clear(&fi.first);
	hashmap__clear(&fi.own_steps);
	*first_ns = fi.first_ns;
	*last_ns = fi.last_ns;
	return err;
}

static void begin_step(struct model *m, struct thread *t, uint64_t ts)
{
	char name[32];
	int n = snprintf(name, sizeof(name), "%s%u", own_step, t->step_nr++);
	struct entry e = { .overload = "", .cat = SLICE_USER_ANNOTATION, .kind = PTB_FUNC_SCOPE,
			   .scope = 7, .flags = SLICE_DERIVED, .seq = -1 };
	struct entry *top;

	e.name = facts__intern(m->f, name, (size_t)n);
	top = stack__push_annotation(m, t, &e, ts);
	if (top)
		stack__reserve_begin(t, top->begin_ns);
}

void steps__thread_begins(struct model *m, struct thread *t)
{
	const uint64_t *id = hashmap__get(m->step_threads, t->tgid, t->tid);

	if (!id || !*id)
		return;
	t->step_name = strtab__text(m->f->texts, (uint32_t)*id);
	t->last_ns = t->oab_floor_ns - 2 * GAP_NS; /* stack__reserve_begin() was here: take its place */
	begin_step(m, t, t->oab_floor_ns - GAP_NS);
}

void steps__advance(struct model *m, struct thread *t, uint64_t ts)
{
	if (!t->step_due || t->cnt != 1)
		return;
	t->step_due = false;
	stack__close_top(m, t, ts, 0);
	begin_step(m, t, ts);
}
