/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ProfilerStep#N slices derived from what the program says itself. Owns their begins, names and
 * ids; which threads make steps and when one ends is found before the pass, by steps/step_count.h
 * with the records in their order. Processes that announce ProfilerStep#N themselves get none.
 *
 * A step is the outermost slice of its thread and is never crossed: where an operator is open when
 * a step ends, the slice ends with that. Each begins where the last ended; ProfilerStep#0 is the
 * first whole one.
 *
 * What lies before the first mark and behind the last one are parts of steps. They are slices too,
 * since all that happened in them needs one around it as in whole steps, but under another name:
 * readers know a step by the text ProfilerStep alone, and take the first (et_replay), the last or
 * all of them for whole (HolisticTraceAnalysis, Chakra, torch-tb-profiler). If the window, or the
 * thread, ends before a step does, its name changes when it is emitted.
 *
 * Ids. Derived steps have ids of their own (SESSION_STEP_ID). Readers of Execution Traces need
 * their place in the order of start too: et_replay runs what has ids between those of two steps. So
 * each moment at which a step could begin, whatever the options, takes a number from the slices'
 * own count (thread.step_order).
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/job_vars.h"
#include "capture/capture.h"
#include "model/model_priv.h"
#include "steps/step_events.h"

static const char step_name[] = STEP_OWN_NAME, partial_step[] = "partial step";

struct finder {
	struct facts *f;
	const struct session_opts *opts;
	struct step_rule rule;
	struct step_count *count, *later; /* later: of processes without probes on operators */
	struct step_ends *found;
	bool agent_lost;
	uint32_t lost_pos; /* losses that began before now */
	uint64_t lost_until;
	uint64_t first_ns, last_ns;
};

static const char *name_of(void *arg, uint32_t tgid)
{
	const struct finder *fi = arg;
	const uint64_t *i = hashmap__get(&fi->f->process_by_tgid, tgid, 0);

	return i && fi->f->processes[*i].step_on ? fi->f->processes[*i].step_on : fi->rule.name;
}

static uint32_t func_of(void *arg, uint32_t site, bool *marks)
{
	const struct finder *fi = arg;
	const struct site_fact *s = facts__site(fi->f, site);

	*marks = s && step_rule__is_op(fi->rule.name, fi->f->funcs[s->func].op.full);
	return s ? s->func : 0;
}

static const char *opdef_name(void *arg, uint32_t tgid, uint64_t opdef, uint64_t ts_ns)
{
	const struct finder *fi = arg;
	const struct addr_fact *a = facts__opdef(fi->f, tgid, opdef, ts_ns);

	return a ? a->op.full : NULL;
}

static struct thread_steps *steps_of(struct step_ends *found, uint32_t tgid, uint32_t tid)
{
	const uint64_t *i = hashmap__get(&found->by_thread, tgid, tid);

	return i ? &found->threads[*i] : NULL;
}

static void on_marked(void *arg, uint32_t tgid, uint32_t tid)
{
	struct step_ends *found = ((struct finder *)arg)->found;

	if (steps_of(found, tgid, tid))
		return;
	hashmap__put(&found->by_thread, tgid, tid, found->cnt);
	vec_push(found->threads, found->cnt, found->cap,
		 (struct thread_steps){ .tgid = tgid, .tid = tid });
}

static void on_ended(void *arg, const struct step_end *e)
{
	struct thread_steps *s = steps_of(((struct finder *)arg)->found, e->tgid, e->tid);

	if (!s) /* announced */
		return;
	vec_push(s->ends, s->cnt, s->cap, e->end_ns);
}

static void on_later(void *arg, const struct step_end *e)
{
	struct step_ends *found = ((struct finder *)arg)->found;
	struct later_steps *l;

	if (!e->begin_ns) /* the first one */
		return;
	l = list__keyed(KEYED_LIST(found, later, later), e->tgid, e->tid);
	l->tgid = e->tgid;
	l->tid = e->tid;
	vec_push(l->ns, l->cnt, l->cap, e->end_ns - e->begin_ns);
}

static void pass_losses(struct finder *fi, uint64_t ts)
{
	bool lost = fi->agent_lost || ts <= fi->lost_until;

	for (; fi->lost_pos < fi->f->lost_cnt && fi->f->lost[fi->lost_pos].begin_ns <= ts;
	     fi->lost_pos++) {
		lost = true;
		if (fi->f->lost[fi->lost_pos].end_ns > fi->lost_until)
			fi->lost_until = fi->f->lost[fi->lost_pos].end_ns;
	}
	if (!lost)
		return;
	step_count__lost(fi->count);
	step_count__lost(fi->later);
}

static int scan_record(void *arg, const struct ptb_rec_hdr *h)
{
	struct finder *fi = arg;
	struct step_event ev;

	if (h->ts_ns >= TS_MAX)
		return 0;
	if (!fi->first_ns || h->ts_ns < fi->first_ns)
		fi->first_ns = h->ts_ns;
	if (h->ts_ns > fi->last_ns)
		fi->last_ns = h->ts_ns;
	if (h->kind == PTB_REC_PY_STACK_DEF) { /* needed before the pass, too */
		py_stacks__define(&fi->f->py, (const void *)h);
		return 0;
	}
	if (fi->opts->no_steps || h->ts_ns < fi->f->begin_ns ||
	    (fi->f->end_ns && h->ts_ns > fi->f->end_ns) || !step_rule__event(&fi->rule, h, &ev))
		return 0;
	pass_losses(fi, h->ts_ns);
	step_count__event(h->ts_ns > facts__unprobed(fi->f, h->tgid) ? fi->later : fi->count, &ev);
	return 0;
}

/* Processes that announce steps themselves. */
static void drop_own(struct finder *fi)
{
	for (const struct thread_steps *s = fi->found->threads;
	     s < fi->found->threads + fi->found->cnt; s++)
		if (step_count__announces(fi->count, s->tgid))
			hashmap__del(&fi->found->by_thread, s->tgid, s->tid);
	for (uint32_t i = 0; i < fi->f->process_cnt; i++)
		if (step_count__announces(fi->count, fi->f->processes[i].tgid))
			fi->f->processes[i].step_on = NULL;
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

int steps__find(struct capture_reader *cr, struct facts *f, const struct session_opts *opts,
		bool agent_lost, struct step_ends *found, uint64_t *first_ns, uint64_t *last_ns)
{
	struct finder fi = { .f = f, .opts = opts, .found = found, .agent_lost = agent_lost };
	const struct step_hooks hooks = { .arg = &fi, .ended = on_ended, .marked = on_marked };
	const struct step_hooks later = { .arg = &fi, .ended = on_later };
	int err;

	fi.rule = (struct step_rule){ .name = opts->step_on ? opts->step_on : SESSION_STEP_ON,
				      .ops = opts->step_on,
				      .arg = &fi,
				      .name_of = name_of,
				      .func_of = func_of,
				      .opdef_name = opdef_name };
	/* what the user says wins */
	for (uint32_t i = 0; i < f->process_cnt && !opts->step_on && !opts->no_steps; i++)
		f->processes[i].step_on = named_by_job(f, f->processes[i].job);
	fi.count = step_count__new(&hooks, false);
	step_count__await(fi.count, 0, UINT64_MAX, UINT64_MAX);
	fi.later = step_count__new(&later, true);
	step_count__await(fi.later, 0, UINT64_MAX, UINT64_MAX);
	err = capture_reader__stream(cr, scan_record, &fi);
	drop_own(&fi);
	step_count__free(fi.count);
	step_count__free(fi.later);
	*first_ns = fi.first_ns;
	*last_ns = fi.last_ns;
	py_stacks__number_modules(&f->py);
	return err;
}

void steps__clear(struct step_ends *found)
{
	for (uint32_t i = 0; i < found->cnt; i++)
		free(found->threads[i].ends);
	free(found->threads);
	hashmap__clear(&found->by_thread);
	for (uint32_t i = 0; i < found->later_cnt; i++)
		free(found->later[i].ns);
	free(found->later);
	hashmap__clear(&found->later_ids);
}

int64_t steps__number(const struct entry *e)
{
	return e->flags & SLICE_PARTIAL ? -1 : strtoll(e->name + sizeof(step_name) - 1, NULL, 10);
}

void steps__current(struct model *m, const struct thread *t, const struct entry *e, bool begins)
{
	uint64_t nr = (uint64_t)steps__number(e);
	const uint64_t *now = hashmap__get(&m->current_step, t->tgid, 0);

	if (begins) {
		hashmap__put(&m->current_step, t->tgid, 0, nr);
	} else if (now && *now == nr) {
		hashmap__del(&m->current_step, t->tgid, 0);
	}
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
			  snprintf(name, sizeof(name), "%s%u", step_name, t->step_nr++);
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
	t->steps = steps_of(m->step_ends, t->tgid, t->tid);
	if (!t->steps)
		return;
	/* stack__reserve_begin() was here: take its place */
	t->last_ns = t->oab_floor_ns - 2 * GAP_NS;
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

void steps__advance(struct model *m, struct thread *t, uint64_t ts)
{
	const struct thread_steps *s = t->steps;

	if (!s || t->cnt != 1 || t->step_end == s->cnt || s->ends[t->step_end] > ts)
		return;
	while (t->step_end < s->cnt && s->ends[t->step_end] <= ts)
		t->step_end++;
	stack__close_top(m, t, ts, 0);
	begin_step(m, t, ts, t->step_end == s->cnt);
}
