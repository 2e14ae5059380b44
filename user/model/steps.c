/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ProfilerStep#N slices derived from what the program says itself. Owns which threads get steps, where one ends,
 * their names and ids; must not know how annotations are found.
 *
 * A step ends when the slice that marks it ends (the thread's first Optimizer.step#... annotation seen,
 * so that a second optimizer in the same iteration begins no step of its own; or what the user named, or the job's author
 * in the process's environment),
 * but not before every slice around that one has ended: a step is the outermost slice of its thread and
 * is never crossed. Each begins where the last ended; ProfilerStep#0 is the first whole one. Threads
 * without such a slice get none, nor do processes that announce ProfilerStep#N themselves.
 *
 * What lies before the first mark and behind the last one are parts of steps. They are slices too, since all that
 * happened in them needs one around it as in whole steps, but under another name: readers know a step by the text
 * ProfilerStep alone, and take the first (et_replay), the last or all of them for whole (HolisticTraceAnalysis,
 * Chakra, torch-tb-profiler). A mark that begins after the step did says that it is whole. If the window ends
 * in that mark, the step's name changes when it is emitted.
 *
 * Ids. Derived steps have ids of their own (SESSION_STEP_ID). Readers of Execution Traces need their place in the order
 * of start too: et_replay runs what has ids between those of two steps. So each moment at which a step could begin,
 * whatever the options, takes a number from the slices' own count (thread.step_order).
 *
 * As slices are emitted in one pass, the threads and their marks are found in a walk of their own before it.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/effort.h"
#include "base/job_vars.h"
#include "base/numbered.h"
#include "base/vec.h"
#include "capture/capture.h"
#include "capture/record_check.h"
#include "model/model_priv.h"

#define STOP_SCAN 1

static const char own_step[] = SESSION_STEP_NAME;
static const char partial_step[] = "partial step";

struct finder {
	struct facts *f;
	const struct session_opts *opts;
	const char *want; /* but in processes that have a step_on */
	bool by_job;      /* there are such */
	struct step_marks *marks;
	struct hashmap first;     /* (tgid, tid) -> time of it */
	struct hashmap own_steps; /* tgid: announces steps itself */
	uint64_t first_ns, last_ns;
	int err;
};

static void note_mark(struct finder *fi, const struct ptb_rec_hdr *h, const char *text, size_t len)
{
	const uint64_t *at = hashmap__get(&fi->first, h->tgid, h->tid), *last;
	uint64_t thread = (uint64_t)h->tgid << 32 | h->tid;
	uint32_t id = strtab__add(fi->f->texts, text, len);

	last = hashmap__get(&fi->marks->last, thread, id);
	if ((!last || *last < h->ts_ns))
		hashmap__put(&fi->marks->last, thread, id, h->ts_ns);
	if (at && *at <= h->ts_ns)
		return;
	hashmap__put(&fi->first, h->tgid, h->tid, h->ts_ns);
	hashmap__put(&fi->marks->threads, h->tgid, h->tid, id);
}

static struct session_process *process_of(const struct finder *fi, uint64_t tgid)
{
	const uint64_t *i = hashmap__get(&fi->f->process_by_tgid, tgid, 0);

	return i ? &fi->f->processes[*i] : NULL;
}

/* An annotation of that name, or of that kind: torch calls its own "Optimizer.step#SGD.step". */
static bool is_wanted(const struct finder *fi, uint32_t tgid, const char *text, size_t len)
{
	const struct session_process *p = fi->by_job ? process_of(fi, tgid) : NULL;
	const char *want = p && p->step_on ? p->step_on : fi->want;
	size_t want_len = strlen(want);

	return len >= want_len && !memcmp(text, want, want_len) &&
	       (len == want_len || text[want_len] == '#');
}

static void check_text(struct finder *fi, const struct ptb_rec_hdr *h, const char *text, size_t len)
{
	if (len >= sizeof(own_step) - 1 && !memcmp(text, own_step, sizeof(own_step) - 1))
		hashmap__put(&fi->own_steps, h->tgid, 0, 1);
	if (is_wanted(fi, h->tgid, text, len)) /* marks that count themselves have one name: "train#" */
		note_mark(fi, h, text, numbered__prefix(text, len));
}

static void check_op(struct finder *fi, const struct ptb_rec_hdr *h, const struct op_name *op)
{
	if ((!op->hidden || h->kind == PTB_REC_RF_BEGIN) &&
	    (!strcmp(op->name, fi->want) || !strcmp(op->full, fi->want)))
		note_mark(fi, h, fi->want, strlen(fi->want));
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

static int scan_record(void *arg, const struct ptb_rec_hdr *h)
{
	struct finder *fi = arg;
	const char *text;
	uint32_t len;

	if (cancel__pending())
		return -ECANCELED;
	if (effort__check() != EFFORT_GOES_ON) /* which the pass reports */
		return STOP_SCAN;
	if (h->ts_ns >= TS_MAX)
		return 0;
	if (!fi->first_ns || h->ts_ns < fi->first_ns)
		fi->first_ns = h->ts_ns;
	if (h->ts_ns > fi->last_ns)
		fi->last_ns = h->ts_ns;
	if (h->kind == PTB_REC_PY_STACK_DEF) /* needed before the pass, too */
	{
		py_stacks__define(&fi->f->py, (const void *)h);
		return 0;
	}
	if (fi->opts->no_steps)
		return 0;
	switch (h->kind) {
	case PTB_REC_NAMED_ENTER:
	case PTB_REC_SCOPE_NAME:
	case PTB_REC_SCOPE_BEGIN:
	case PTB_REC_RF_BEGIN:
		if (opdef_of(h) || (h->kind == PTB_REC_NAMED_ENTER && !fi->opts->step_on))
			break;
		text = record__text(h, &len);
		check_text(fi, h, text, len);
		return fi->err;
	}
	if (fi->opts->step_on)
		check_frame(fi, h);
	return fi->err;
}

/* Removes the threads of processes that announce steps themselves. */
static void drop_own(struct finder *fi)
{
	struct session_process *p;
	struct hashmap_slot *slot;
	uint64_t pos = 0;

	while ((slot = hashmap__next(&fi->marks->threads, &pos)))
		if (hashmap__get(&fi->own_steps, slot->k0, 0))
			slot->val = 0;
	pos = 0;
	while ((slot = hashmap__next(&fi->own_steps, &pos))) {
		p = process_of(fi, slot->k0);
		if (p)
			p->step_on = NULL;
	}
}

/* PTBPF_STEP_ON of a JOB record, which any file may have; NULL: none. */
static const char *named_by_job(struct facts *f, const char *job)
{
	cJSON *tree = *job ? cJSON_ParseWithOpts(job, NULL, 1) : NULL;
	const cJSON *env = cJSON_GetObjectItemCaseSensitive(tree, "environment");
	const cJSON *var = cJSON_GetObjectItemCaseSensitive(env, job_vars[JOB_PTBPF_STEP_ON].name);
	const char *text = cJSON_GetStringValue(var), *name = "";
	size_t len = text ? strnlen(text, JOB_TEXT_MAX + 1) : 0;

	if (len && len <= JOB_TEXT_MAX)
		name = facts__intern(f, text, len);
	cJSON_Delete(tree);
	return *name ? name : NULL;
}

/* What the user says wins. */
static void read_jobs(struct finder *fi)
{
	struct facts *f = fi->f;

	for (uint32_t i = 0;
	     i < f->process_cnt && !fi->opts->step_on && !fi->opts->no_steps && !cancel__pending();
	     i++) {
		f->processes[i].step_on = named_by_job(f, f->processes[i].job);
		fi->by_job |= f->processes[i].step_on != NULL;
	}
}

int steps__find(struct capture_reader *cr, struct facts *f, const struct session_opts *opts,
		struct step_marks *marks, uint64_t *first_ns, uint64_t *last_ns)
{
	const char *want = opts->step_on ? opts->step_on : SESSION_STEP_ON;
	struct finder fi = { .f = f, .opts = opts, .want = want, .marks = marks };
	int err;

	read_jobs(&fi);
	err = capture_reader__scan(cr, scan_record, &fi);
	drop_own(&fi);
	hashmap__clear(&fi.first);
	hashmap__clear(&fi.own_steps);
	*first_ns = fi.first_ns;
	*last_ns = fi.last_ns;
	err = err == STOP_SCAN ? 0 : err;
	return err ? err : py_stacks__number_modules(&f->py);
}

void steps__clear_marks(struct step_marks *marks)
{
	hashmap__clear(&marks->threads);
	hashmap__clear(&marks->last);
}

int64_t steps__number(const struct entry *e)
{
	return e->flags & SLICE_PARTIAL ? -1 : strtoll(e->name + sizeof(own_step) - 1, NULL, 10);
}

uint64_t steps__new_id(struct model *m, const struct thread *t)
{
	struct step_ids *ids = m->step_ids;

	vec_push(ids->orders, ids->cnt, ids->cap, t->step_order);
	return SESSION_STEP_ID - (ids->cnt - 1);
}

static void begin_step(struct model *m, struct thread *t, uint64_t ts, bool partial)
{
	char name[32];
	int n = partial ? snprintf(name, sizeof(name), "%s", partial_step) :
			  snprintf(name, sizeof(name), "%s%u", own_step, t->step_nr++);
	struct entry e = { .overload = "",
			   .cat = SLICE_USER_ANNOTATION,
			   .kind = PTB_FUNC_SCOPE,
			   .scope = SCOPE_USER,
			   .flags = SLICE_DERIVED | (partial ? SLICE_PARTIAL : 0),
			   .seq = -1 };
	struct entry *top;

	e.name = facts__intern(m->f, name, (size_t)n);
	top = stack__push_annotation(m, t, &e, ts);
	if (top)
		stack__reserve_begin(t, top->begin_ns);
}

void steps__thread_begins(struct model *m, struct thread *t)
{
	const uint64_t *id = hashmap__get(&m->step_marks->threads, t->tgid, t->tid), *last;

	if (!id || !*id)
		return;
	last = hashmap__get(&m->step_marks->last, (uint64_t)t->tgid << 32 | t->tid, *id);
	t->step_last_ns = last ? *last : 0;
	t->step_name = strtab__text(m->f->texts, (uint32_t)*id);
	t->step_prefix = strlen(t->step_name);
	if (!t->step_prefix || t->step_name[t->step_prefix - 1] != '#')
		t->step_prefix = 0;
	t->last_ns = t->oab_floor_ns - 2 * GAP_NS; /* stack__reserve_begin() was here: take its place */
	begin_step(m, t, t->oab_floor_ns - GAP_NS, true);
}

/* The window, or the thread, ended before the step did: it is not whole after all. */
void steps__cut(struct model *m, struct entry *e)
{
	if (e->flags & SLICE_PARTIAL)
		return;
	e->flags |= SLICE_PARTIAL;
	e->name = facts__intern(m->f, partial_step, sizeof(partial_step) - 1);
}

bool steps__is_mark(const struct thread *t, const char *name)
{
	if (!t->step_name || !t->step_prefix)
		return t->step_name && name == t->step_name;
	return name && !strncmp(name, t->step_name, t->step_prefix) &&
	       numbered__prefix(name, strlen(name)) == t->step_prefix;
}

void steps__advance(struct model *m, struct thread *t, uint64_t ts)
{
	if (!t->step_due || t->cnt != 1)
		return;
	t->step_due = false;
	stack__close_top(m, t, ts, 0);
	begin_step(m, t, ts, t->step_last_ns < ts);
}
