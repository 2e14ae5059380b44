/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_hold.h. */
#define LOG_DOMAIN "sample"
#include "cli/sample_hold.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/sampler.h"

#define RETRY_NS 60000000000ULL

bool sample_hold__is_ready(const struct sample_hold *h)
{
	return h->window.child.pid && h->window.report.traced;
}

void sample_hold__end(struct sampler *s)
{
	struct sample_hold *h = &s->hold;

	if (!h->window.child.pid)
		return;
	sample_window__kill(&h->window);
	window_dir__remove_partial(&s->dir, h->window.spec.real_ns);
}

/* It ends by itself when its processes have ended, or when nothing can be held. */
static void reap(struct sampler *s, uint64_t now)
{
	struct sample_hold *h = &s->hold;
	bool ready = sample_hold__is_ready(h);

	if (!h->window.child.pid)
		return;
	sample_window__read(&h->window);
	if (!ready && sample_hold__is_ready(h))
		pr_info("--flight: the last %.3g s are held", (double)s->cfg->run.rec.flight_ns / 1e9);
	if (!sample_child__ended(&h->window.child))
		return;
	if (!sample_hold__is_ready(h))
		pr_warn("--flight: nothing is held: that is tried again in %llu s", RETRY_NS / 1000000000);
	sample_hold__end(s);
	h->retry_ns = now + RETRY_NS;
}

void sample_hold__keep(struct sampler *s)
{
	struct sample_hold *h = &s->hold;
	struct sample_window_spec *spec = &h->window.spec;
	const struct record_opts *rec = &s->cfg->run.rec;
	uint64_t now = clock__mono_ns();
	uint32_t selected;

	reap(s, now);
	if (h->window.child.pid && (h->settings != s->settings || s->signals))
		sample_hold__end(s);
	for (uint32_t i = 0; i < s->window_cnt; i++)
		if (sample_window__unsealed(&s->windows[i]))
			return;
	if (!rec->flight_ns || h->window.child.pid || s->signals || now < h->retry_ns)
		return;
	h->window = (struct sample_window){ .spec = { .options = &s->settings->options,
						      .trigger = { .kind = "schedule" },
						      .duration_ns = sampler__duration(s),
						      .real_ns = clock__pair().real_ns } };
	spec->pid_cnt = sampler__select(s, spec->pids, &selected);
	spec->chosen_ns = clock__mono_ns();
	if (!spec->pid_cnt || !sampler__name_files(s, spec))
		return;
	h->retry_ns = now + RETRY_NS;
	if (sample_window__hold(&h->window, rec->flight_ns, rec->flight_bytes, s->dir.fd))
		return;
	h->settings = s->settings;
	h->retry_ns = 0;
}

int sample_hold__fd(const struct sample_hold *h)
{
	return h->window.child.pid ? h->window.child.progress.fd : -1;
}

bool sample_hold__is_attaching(const struct sample_hold *h)
{
	return h->window.child.pid && !sample_hold__is_ready(h);
}

bool sample_hold__use(struct sampler *s, struct sample_window *w)
{
	return sample_window__release(&s->hold.window, w);
}
