/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_hold.h. */
#define LOG_DOMAIN "sample"
#include "cli/sample_hold.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/sampler.h"

#define RETRY_NS 60000000000ULL

void sample_hold__end(struct sampler *s)
{
	struct sample_hold *h = &s->hold;

	if (!h->process.pid)
		return;
	sample_held__end(&h->process);
	window_dir__remove_partial(&s->dir, h->spec.real_ns);
	h->ready = false;
}

/* It ends by itself when its processes have ended, or when nothing can be held. */
static void reap(struct sampler *s, uint64_t now)
{
	struct sample_report r;

	if (!s->hold.process.pid)
		return;
	while (read(s->hold.process.pipe, &r, sizeof(r)) == sizeof(r))
		if (!s->hold.ready) {
			s->hold.ready = true;
			pr_info("--flight: the last %.3g s are held",
				(double)s->cfg->run.rec.flight_ns / 1e9);
		}
	if (sample_held__lives(&s->hold.process))
		return;
	if (!s->hold.ready)
		pr_warn("--flight: nothing is held: that is tried again in %llu s", RETRY_NS / 1000000000);
	sample_hold__end(s);
	s->hold.retry_ns = now + RETRY_NS;
}

void sample_hold__keep(struct sampler *s)
{
	struct sample_hold *h = &s->hold;
	struct sample_window_spec *spec = &h->spec;
	uint64_t now = clock__mono_ns();
	uint32_t selected;

	reap(s, now);
	if (h->process.pid && (h->process.settings != s->settings || s->signals))
		sample_hold__end(s);
	for (uint32_t i = 0; i < s->window_cnt; i++)
		if (sample_window__unsealed(&s->windows[i]))
			return;
	if (!s->cfg->run.rec.flight_ns || h->process.pid || s->signals || now < h->retry_ns)
		return;
	*spec = (struct sample_window_spec){ .cfg = &s->cfg->run,
					     .server = s->control.server,
					     .duration_ns = sampler__duration(s),
					     .real_ns = clock__pair().real_ns };
	spec->pid_cnt = sampler__select(s, spec->pids, &selected);
	spec->chosen_ns = clock__mono_ns();
	if (!spec->pid_cnt || !sampler__name_files(s, spec))
		return;
	h->retry_ns = now + RETRY_NS;
	if (sample_hold__start(&h->process, spec))
		return;
	h->process.settings = s->settings;
	h->retry_ns = 0;
}

int sample_hold__fd(const struct sample_hold *h)
{
	return h->process.pid ? h->process.pipe : -1;
}

bool sample_hold__is_attaching(const struct sample_hold *h)
{
	return h->process.pid && !h->ready;
}

bool sample_hold__use(struct sampler *s, struct sample_window *w)
{
	struct sample_hold *h = &s->hold;

	if (!h->ready || !sample_held__use(&h->process, w))
		return false;
	h->ready = false;
	return true;
}
