/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What of the records concerns steps, for step_count.h; as model/steps.c and model/scopes.c read them. */
#include <stdlib.h>
#include <string.h>

#include "base/numbered.h"
#include "base/siphash.h"
#include "base/vec.h"
#include "capture/record_check.h"
#include "record/recorder_priv.h"

#define SCOPE_USER 7 /* at::RecordScope */

static const char own_step[] = "ProfilerStep#"; /* torch/profiler/profiler.py */

enum { SITE_MARK = 1, SITE_BOXED = 2 };

struct recorder_site {
	uint32_t func;
	uint32_t flags;
};

void recorder__steps_open(struct recorder *r, const struct step_opts *opts)
{
	if (!opts->name)
		return;
	r->step_name = opts->name;
	r->step_ops = opts->ops;
	r->step_hooks = opts->hooks;
	r->event_text = opts->event ? siphash__bytes(opts->event, strlen(opts->event)) | 1 : 0;
	r->steps = step_count__new();
	step_count__set_hooks(r->steps, opts->hooks);
	if (opts->only)
		step_count__names_only(r->steps);
}

void recorder__steps_free(struct recorder *r)
{
	step_count__free(r->steps);
	hashmap__clear(&r->step_names);
	free(r->step_sites);
}

void recorder__steps_process(struct recorder *r, uint32_t tgid, const char *name)
{
	uint32_t id = name && *name && r->steps && !r->step_ops ? recorder__text(r, tgid, name) : 0;

	if (id || hashmap__get(&r->step_names, tgid, 0)) /* the program that it executed before had one */
		recorder__remember(r, &r->step_names, tgid, 0, id);
}

bool step_opts__is_op(const struct step_opts *opts, const char *full)
{
	size_t len;

	if (!opts->ops)
		return false;
	len = strlen(opts->name);
	return !strncmp(full, opts->name, len) && (!full[len] || full[len] == '.');
}

static bool is_op_named(const struct recorder *r, const char *full)
{
	const struct step_opts opts = { .name = r->step_name, .ops = true };

	return step_opts__is_op(&opts, full);
}

void recorder__steps_plan(struct recorder *r, const struct torch_plan *plan,
			  const struct recorder_plan *rp)
{
	if (!r->steps || !r->step_ops)
		return;
	for (uint32_t i = 0; i < plan->site_cnt; i++) {
		const struct plan_func *pf = &plan->funcs[plan->sites[i].func];
		struct recorder_site s = { .func = rp->func_base + plan->sites[i].func + 1 };

		if (pf->kind == PTB_FUNC_OP && is_op_named(r, pf->name))
			s.flags = SITE_MARK;
		else if (pf->kind == PTB_FUNC_BOXED)
			s.flags = SITE_BOXED;
		while (r->step_site_cnt <= rp->site_base + i) {
			vec_push(r->step_sites, r->step_site_cnt, r->step_site_cap,
				 (struct recorder_site){ .func = 0 });
		}
		r->step_sites[rp->site_base + i] = s;
	}
}

static enum step_what what_is(const struct recorder *r, uint32_t tgid, const char *text, size_t len)
{
	const uint64_t *id = hashmap__get(&r->step_names, tgid, 0);
	const char *name = id && *id ? strtab__text(r->names, (uint32_t)*id) : r->step_name;
	size_t want = strlen(name);

	if (len >= sizeof(own_step) - 1 && !memcmp(text, own_step, sizeof(own_step) - 1))
		return STEP_OWN;
	if (len >= want && !memcmp(text, name, want) && (len == want || text[want] == '#'))
		return STEP_MARK;
	return STEP_OTHER;
}

static void take_text(const struct recorder *r, const struct ptb_rec_hdr *h, struct step_event *ev)
{
	uint32_t len;
	const char *text = record__well_formed(h) ? record__text(h, &len) : NULL;

	if (!text || !len)
		return;
	ev->what = what_is(r, h->tgid, text, len);
	ev->whole = siphash__bytes(text, len) | 1;
	if (ev->what != STEP_OTHER) /* steps that count themselves have one name */
		len = (uint32_t)numbered__prefix(text, len);
	ev->text = siphash__bytes(text, len) | 1;
}

static void take_op(const struct recorder *r, struct step_event *ev)
{
	ev->what = STEP_MARK;
	ev->text = siphash__bytes(r->step_name, strlen(r->step_name)) | 1;
}

static bool is_marking_opdef(const struct recorder *r, uint32_t tgid, uint64_t opdef)
{
	const uint64_t *name = hashmap__get(&r->opdefs, tgid, opdef);

	return name && is_op_named(r, strtab__text(r->names, (uint32_t)*name));
}

/* False: it concerns no step. */
static bool op_event(const struct recorder *r, const struct ptb_rec_hdr *h, struct step_event *ev)
{
	const struct recorder_site *s = h->site < r->step_site_cnt ? &r->step_sites[h->site] : NULL;

	if (!s || !s->flags)
		return false;
	ev->id = s->func;
	ev->sp = ((const struct ptb_op_enter *)(const void *)h)->sp;
	ev->kind = h->kind == PTB_REC_OP_EXIT ? STEP_EXIT : STEP_ENTER;
	if (h->kind == PTB_REC_BOXED_ENTER &&
	    !is_marking_opdef(r, h->tgid, ((const struct ptb_boxed_enter *)(const void *)h)->opdef))
		return false;
	take_op(r, ev);
	return true;
}

static bool rf_begin_event(const struct recorder *r, const struct ptb_rf_begin *b, struct step_event *ev)
{
	ev->kind = STEP_BEGIN;
	ev->id = b->rf;
	if (b->opdef) {
		if (!r->step_ops || !is_marking_opdef(r, b->h.tgid, b->opdef))
			return false;
		take_op(r, ev);
		return true;
	}
	take_text(r, &b->h, ev);
	return ev->text && (ev->what != STEP_OTHER || b->scope == SCOPE_USER);
}

/* Layouts of records of our own programs are what they should be; only a text is checked. */
static bool make_event(const struct recorder *r, const struct ptb_rec_hdr *h, struct step_event *ev)
{
	switch (h->kind) {
	case PTB_REC_SCOPE_NAME:
		ev->kind = STEP_NAME;
		ev->sp = ((const struct ptb_scope_name *)(const void *)h)->sp;
		take_text(r, h, ev);
		return true;
	case PTB_REC_SCOPE_BEGIN:
		ev->kind = STEP_BEGIN;
		ev->id = ((const struct ptb_scope_begin *)(const void *)h)->handle;
		ev->sp = ((const struct ptb_scope_begin *)(const void *)h)->sp;
		take_text(r, h, ev);
		return true;
	case PTB_REC_SCOPE_END:
		ev->kind = STEP_END;
		ev->id = ((const struct ptb_scope_end *)(const void *)h)->handle;
		return true;
	case PTB_REC_RF_BEGIN:
		return rf_begin_event(r, (const void *)h, ev);
	case PTB_REC_RF_END:
		ev->kind = STEP_END;
		ev->id = ((const struct ptb_rf_end *)(const void *)h)->rf;
		return true;
	case PTB_REC_OP_ENTER:
	case PTB_REC_BOXED_ENTER:
	case PTB_REC_OP_EXIT:
		return op_event(r, h, ev);
	case PTB_REC_EXIT:
		ev->kind = ((const struct ptb_task *)(const void *)h)->group_dead ? STEP_PROCESS_END :
										    STEP_THREAD_END;
		return true;
	default:
		return false;
	}
}

void recorder__steps_record(struct recorder *r, const struct ptb_rec_hdr *h)
{
	struct step_event ev = { .ts_ns = h->ts_ns, .tgid = h->tgid, .tid = h->tid };

	if (h->kind == PTB_REC_EXIT && ((const struct ptb_task *)(const void *)h)->group_dead)
		step_count__process_ended(r->steps, h->tgid);
	if (h->kind == PTB_REC_MEM_OOM && r->step_hooks && r->step_hooks->oom)
		r->step_hooks->oom(r->step_hooks->arg, h->tgid, (const void *)h);
	if (!make_event(r, h, &ev))
		return;
	if (r->step_hooks && r->step_hooks->annotation && ev.text &&
	    (ev.kind == STEP_NAME || ev.kind == STEP_BEGIN))
		r->step_hooks->annotation(r->step_hooks->arg, ev.tgid, ev.whole == r->event_text,
					  ev.ts_ns);
	if (h->flags & PTB_F_AGENT)
		step_count__agent(r->steps, &ev);
	else
		step_count__put(r->steps, &ev);
}

struct step_count *recorder__steps(const struct recorder *r)
{
	return r->steps;
}

void recorder__warm_up(struct recorder *r, bool on)
{
	r->warming_up = on;
}
