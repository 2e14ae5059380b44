/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * --flight: a process that records all the time and keeps the last seconds in memory, until an
 * event makes it the process of a window, which then has these seconds.
 */
#define LOG_DOMAIN "sample"
#include "base/clock.h"
#include "base/log.h"
#include "sample/daemon.h"

#define RETRY_NS 60000000000ULL

bool hold__is_ready(const struct daemon *d)
{
	return d->hold.window.child.pid && d->hold.window.report.traced;
}

void hold__end(struct daemon *d)
{
	if (!d->hold.window.child.pid)
		return;
	window__kill(&d->hold.window);
	window_dir__remove_partial(&d->dir, d->hold.window.spec.real_ns);
}

/* It ends by itself when its processes have ended, or when nothing can be held. */
static void reap(struct daemon *d, uint64_t now)
{
	struct window *w = &d->hold.window;
	bool ready = hold__is_ready(d);

	if (!w->child.pid)
		return;
	window__read(w);
	if (!ready && hold__is_ready(d))
		pr_info("--flight: the last %.3g s are held",
			(double)w->spec.settings->flight_ns / 1e9);
	if (child__ended(&w->child)) {
		if (!hold__is_ready(d))
			pr_warn("--flight: nothing is held: that is tried again in %llu s",
				RETRY_NS / 1000000000);
		d->hold.retry_ns = now + RETRY_NS;
		hold__end(d);
	} else if (w->spec.settings != d->set || w->spec.off != d->off || d->signals) {
		hold__end(d);
	}
}

void hold__keep(struct daemon *d)
{
	struct window *w = &d->hold.window;
	uint64_t now = clock__mono_ns();

	reap(d, now);
	for (uint32_t i = 0; i < d->window_cnt; i++)
		if (!d->windows[i].report.sealed)
			return;
	if (!d->set->flight_ns || w->child.pid || d->signals || now < d->hold.retry_ns)
		return;
	*w = (struct window){ .spec = { .settings = d->set,
					.off = d->off,
					.trigger = { .kind = "schedule" },
					.duration_ns = request__duration(d),
					.real_ns = clock__pair().real_ns } };
	begin__select(d, &w->spec);
	if (!w->spec.pid_cnt || !begin__name_files(d, &w->spec))
		return;
	if (window__hold(w, d->dir.fd))
		d->hold.retry_ns = now + RETRY_NS;
}
