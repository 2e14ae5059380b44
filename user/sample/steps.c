/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_steps.h. */
#define LOG_DOMAIN "sample"
#include "cli/sample_steps.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "model/session.h"

#define TIMEOUT_NS 60000000000ULL
#define NO_TARGET_NS 5000000000ULL /* how often processes are searched for */

int sample_steps__check(const struct schedule *s, const struct run_cfg *cfg, struct window_steps *st)
{
	uint64_t timeout = cfg->rec.steps.timeout_ns;
	const char *why = cfg->no_steps      ? "--no-steps" :
			  cfg->rec.sample_hz ? "--sample-stacks, which has no probes to count them" :
			  !cfg->rec.ops ? "--activities cuda, which does not record what ends a step" :
					  NULL;

	if (!s->in_steps && timeout) {
		pr_error("--step-timeout needs a --schedule in steps");
		return -EINVAL;
	}
	if (!s->in_steps)
		return 0;
	if (why) {
		pr_error("a --schedule in steps excludes %s; use times (active=5s)", why);
		return -EINVAL;
	}
	*st = (struct window_steps){ .name = cfg->step_on ? cfg->step_on : SESSION_STEP_ON,
				     .named = cfg->step_on != NULL,
				     .warmup = s->warmup,
				     .active = s->active,
				     .timeout_ns = timeout ? timeout : TIMEOUT_NS };
	return 0;
}

bool sample_steps__due(const struct step_wait *sw, const struct schedule *s, uint64_t next,
		       uint64_t start_ns, const struct sample_window *windows, uint32_t cnt,
		       uint64_t lead_ns, struct schedule_window *at, bool *measure, uint64_t *in_ns)
{
	uint64_t now = clock__mono_ns(), due;

	*in_ns = UINT64_MAX;
	for (uint32_t i = 0; i < cnt; i++)
		if (!windows[i].counted)
			return false;
	if (!step_wait__due(sw, s, next, &due, measure))
		return false;
	if (due > now + lead_ns) {
		*in_ns = due - lead_ns - now;
		return false;
	}
	due = due > now ? due : now;
	at->warmup = at->begin = due - start_ns;
	at->end = at->begin + s->active * sw->step_ns;
	return true;
}

void sample_steps__ended(struct step_wait *sw, struct sample_window *w)
{
	uint64_t end = w->report.steps.ended_ns ? w->report.steps.ended_ns : clock__mono_ns();

	if (w->counted)
		return;
	w->counted = true;
	if (w->spec.measure && w->report.steps.step_ns)
		step_wait__measured(sw, w->report.steps.step_ns);
	else if (w->report.steps.step_ns || (w->report.sealed && !w->report.steps.none))
		step_wait__recorded(sw, end, w->report.steps.step_ns);
	else
		step_wait__failed(sw, end, w->spec.options->steps.timeout_ns);
}

void sample_steps__not_started(struct step_wait *sw, uint64_t now_ns, bool skipped)
{
	if (skipped)
		step_wait__recorded(sw, now_ns, 0);
	else
		sw->retry_ns = now_ns + NO_TARGET_NS;
}

void sample_steps__put(struct jsonw *j, const struct sample_window *w)
{
	const struct step_wait *sw = &w->spec.step_wait;

	if (!sample_window__in_steps(&w->spec))
		return;
	if (w->report.has_result)
		JSONW_U64(j, "steps", w->report.step_cnt);
	if (w->report.steps.step_ns)
		JSONW_DOUBLE(j, "step_seconds", (double)w->report.steps.step_ns / 1e9);
	if (w->report.steps.attached_ns && sw->step_ns)
		JSONW_DOUBLE(j, "waited_steps_inferred",
			     step_wait__passed(sw, w->report.steps.attached_ns));
}

void sample_steps__why(const struct sample_window *w, char *buf, size_t cap)
{
	const struct window_steps *st = &w->spec.options->steps;

	buf[0] = '\0';
	if (w->report.steps.none && !w->report.has_result)
		snprintf(buf, cap,
			 "nothing recorded: no step ended within %.3g s (--step-timeout); steps end with %s (--step-on%s)",
			 (double)st->timeout_ns / 1e9, st->name, st->named ? "" : ", PTBPF_STEP_ON");
}
