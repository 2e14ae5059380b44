/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_thin.h. */
#define LOG_DOMAIN "sample"
#include "cli/sample_thin.h"

#include <stdio.h>

#include "base/log.h"
#include "cli/sample_window.h"
#include "record/recorder.h"

#define SAMPLES_HZ 99

void sample_thin__reset(struct thin *t, const struct run_cfg *cfg)
{
	const struct record_opts *rec = &cfg->rec;
	bool more = rec->args != PROBE_ARGS_NONE || rec->stacks || rec->memory || rec->kernel_memory;

	thin__allow(t, rec->ops && more && !rec->sample_hz, !rec->sample_hz && !rec->when);
}

enum thin_level sample_thin__next(struct thin *t, uint64_t nr, double allowed_ns, uint64_t window_ns)
{
	enum thin_level before = t->level, level = thin__next(t, allowed_ns, window_ns);

	if (level != before)
		pr_info("window %llu and the next ones: %s, --max-overhead %s",
			(unsigned long long)nr, level ? thin__text(level) : "all that was requested",
			level > before ? "does not allow for more" : "allows for it again");
	return level;
}

void sample_thin__learn(struct thin *t, const struct sample_window *w)
{
	if (w->spec.samples || w->spec.step_multiple) /* its probes may have been there for long before it */
		return;
	if (w->report.over_cost)
		thin__learn(t, w->spec.thin, 0, (double)w->report.cost_ns / 2, (double)w->report.cost_ns);
	else if (w->report.has_result)
		thin__learn(t, w->spec.thin, (double)w->report.result.window_ns,
			    (double)w->report.begin_cost_ns, (double)w->report.cost_ns);
	else if (!w->report.traced && w->spec.thin == THIN_SAMPLES)
		thin__failed(t, THIN_SAMPLES); /* not on all kernels */
}

int sample_thin__apply(enum thin_level level, struct run_cfg *cfg)
{
	if (level == THIN_FULL)
		return 0;
	cfg->record_shapes = cfg->with_flops = cfg->by_shape = cfg->execution_trace = false;
	cfg->exact_memory = false;
	cfg->rec.stacks = cfg->rec.modules = cfg->rec.memory = cfg->rec.kernel_memory = false;
	if (level == THIN_SAMPLES) {
		cfg->rec.sample_hz = SAMPLES_HZ;
		cfg->activities = cfg->agent = NULL;
	}
	return live__check(cfg);
}

void sample_thin__meta(enum thin_level level, struct recorder *rec)
{
	char text[128];

	if (level == THIN_FULL)
		return;
	snprintf(text, sizeof(text), "%s: --max-overhead does not allow for more", thin__text(level));
	recorder__meta_text(rec, "thinned", text);
}
