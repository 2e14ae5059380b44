/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Counts steps during the recording: provides the names and sites that step_events.h needs. */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "record/recorder_priv.h"

struct recorder_site {
	uint32_t func; /* 0: its frames do not mark steps */
	bool marks;
};

static const char *name_of(void *arg, uint32_t tgid)
{
	const struct recorder *r = arg;
	const uint64_t *id = hashmap__get(&r->step_names, tgid, 0);

	return id && *id ? strtab__text(r->names, (uint32_t)*id) : r->step_rule.name;
}

static uint32_t func_of(void *arg, uint32_t site, bool *marks)
{
	const struct recorder *r = arg;

	if (site >= r->step_site_cnt)
		return 0;
	*marks = r->step_sites[site].marks;
	return r->step_sites[site].func;
}

static const char *opdef_name(void *arg, uint32_t tgid, uint64_t opdef, uint64_t ts_ns)
{
	const struct recorder *r = arg;
	const uint64_t *name = hashmap__get(&r->opdefs, tgid, opdef);

	(void)ts_ns;
	return name ? strtab__text(r->names, (uint32_t)*name) : NULL;
}

void recorder__steps_open(struct recorder *r, const struct record_opts *all)
{
	const struct step_opts *opts = &all->steps;
	const char *name = opts->name ? opts->name : all->least_steps_on;

	if (!name)
		return;
	r->step_rule = (struct step_rule){ .name = name,
					   .ops = opts->ops,
					   .arg = r,
					   .name_of = name_of,
					   .func_of = func_of,
					   .opdef_name = opdef_name };
	r->step_opts = *opts;
	r->event_text = opts->event ? siphash__bytes(opts->event, strlen(opts->event)) | 1 : 0;
	r->steps = step_count__new(opts->hooks, opts->only || all->names_only);
}

void recorder__steps_free(struct recorder *r)
{
	step_count__free(r->steps);
	hashmap__clear(&r->step_names);
	free(r->step_sites);
}

void recorder__steps_process(struct recorder *r, uint32_t tgid, const char *name)
{
	uint32_t id =
		name && *name && r->steps && !r->step_rule.ops ? recorder__text(r, tgid, name) : 0;

	/* or replaces the name of the program before an exec */
	if (id || hashmap__get(&r->step_names, tgid, 0))
		recorder__remember(r, &r->step_names, tgid, 0, id);
}

void recorder__steps_plan(struct recorder *r, const struct torch_plan *plan,
			  const struct recorder_plan *rp)
{
	if (!r->steps || !r->step_rule.ops)
		return;
	for (uint32_t i = 0; i < plan->site_cnt; i++) {
		const struct plan_func *pf = &plan->funcs[plan->sites[i].func];
		struct recorder_site s = { 0 };

		s.marks = pf->kind == PTB_FUNC_OP && step_rule__is_op(r->step_rule.name, pf->name);
		if (s.marks || pf->kind == PTB_FUNC_BOXED || pf->kind == PTB_FUNC_PYFUNC ||
		    pf->kind == PTB_FUNC_SCRIPT)
			s.func = rp->func_base + plan->sites[i].func + 1;
		while (r->step_site_cnt <= rp->site_base + i) {
			vec_push(r->step_sites, r->step_site_cnt, r->step_site_cap,
				 (struct recorder_site){ .func = 0 });
		}
		r->step_sites[rp->site_base + i] = s;
	}
}

void recorder__steps_record(struct recorder *r, const struct ptb_rec_hdr *h)
{
	const struct step_opts *so = &r->step_opts;
	struct step_event ev;

	if (h->kind == PTB_REC_MEM_OOM && so->oom)
		so->oom(so->arg, h->tgid, (const void *)h);
	if (!step_rule__event(&r->step_rule, h, &ev))
		return;
	if (so->annotation && ev.text && (ev.kind == STEP_NAME || ev.kind == STEP_BEGIN))
		so->annotation(so->arg, ev.tgid, ev.whole == r->event_text, ev.ts_ns);
	if (h->flags & PTB_F_AGENT)
		step_count__event(r->steps, &ev);
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
