/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_multiple.h. */
#define LOG_DOMAIN "sample"
#include "cli/sample_multiple.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/sample_watch.h"
#include "cli/sample_window.h"
#include "model/session.h"
#include "ptb_event.h"

#define NEVER_NS (1ULL << 62) /* no step is awaited */

const char *sample_multiple__excluded(const struct run_cfg *cfg)
{
	return cfg->rec.when ? "it records only inside --when, outside of which steps end, too" :
	       cfg->rec.sample_hz ? "it samples (--sample-stacks), without probes that see steps" :
	       !cfg->rec.ops      ? "it records no annotations (--activities, --toggle)" :
				    NULL;
}

static void on_step(void *arg, const struct step_end *e)
{
	struct sample_multiple *m = arg;

	step_multiple__ended(&m->sm, e->own, e->number, e->end_ns);
}

void sample_multiple__init(struct sample_multiple *m, const struct sample_window_spec *spec)
{
	*m = (struct sample_multiple){ .spec = spec,
				       .hooks = { .arg = m, .ended = on_step },
				       .sm = { .multiple = spec->step_multiple } };
}

static void tick(void *arg, struct run *run)
{
	struct sample_multiple *m = arg;
	uint64_t now = clock__mono_ns();

	m->near = step_multiple__is_near(&m->sm, m->spec->step_lead_ns, now);
	m->report.failure = step_multiple__failed(&m->sm, now);
	if (m->near || m->report.failure)
		run__stop(run, PTB_STOP_NO_STEP);
}

bool sample_multiple__await(struct sample_multiple *m)
{
	struct record_opts opts = sample_watch__opts(m->spec->cfg, &m->hooks);
	struct run *run = NULL;
	uint32_t added = 0;

	if (run__open(&opts, NULL, &run))
		return false;
	for (uint32_t i = 0; i < m->spec->pid_cnt && !cancel__pending(); i++)
		added += !run__add_chosen(run, m->spec->pids[i], m->spec->chosen_ns);
	if (added) {
		m->sm.since_ns = clock__mono_ns();
		run__warm_up(run);
		run__loop(run, tick, m); /* its errors are reported, and come again */
		m->cost_ns = run__cost_ns(run);
	}
	run__free(run);
	m->report.planned = m->sm.target;
	return m->near && !m->report.failure;
}

void sample_multiple__opts(struct sample_multiple *m, struct run_cfg *cfg)
{
	cfg->rec.steps = (struct step_opts){ .name = cfg->step_on ? cfg->step_on : SESSION_STEP_ON,
					     .ops = cfg->step_on != NULL,
					     .warmup = UINT32_MAX,
					     .active = 1,
					     .timeout_ns = NEVER_NS,
					     .hooks = &m->hooks };
}

bool sample_multiple__tick(struct sample_multiple *m, struct run *run)
{
	uint64_t now = clock__mono_ns();

	if (step_multiple__keep(&m->sm, now))
		run__keep(run);
	if (m->sm.begin_ns) {
		m->report.began = m->sm.began;
		run__begin_window(run, m->sm.begin_ns);
		return true;
	}
	m->report.failure = step_multiple__failed(&m->sm, now);
	if (m->report.failure)
		run__stop(run, PTB_STOP_NO_STEP);
	return false;
}

void sample_multiple__put(struct jsonw *j, const struct sample_window *w)
{
	const struct sample_multiple_report *r = &w->report.multiple;

	if (!w->spec.step_multiple)
		return;
	JSONW_OBJ(j, "step");
	JSONW_U64(j, "multiple", w->spec.step_multiple);
	if (r->planned)
		JSONW_U64(j, "planned", r->planned);
	if (r->began)
		JSONW_U64(j, "began", r->began);
	jsonw__end_obj(j);
}
