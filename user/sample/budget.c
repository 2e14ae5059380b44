/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* --max-overhead: what a window may cost each of its processes, and what it has cost them. */
#define LOG_DOMAIN "sample"
#include <stdio.h>

#include "base/log.h"
#include "sample/daemon.h"
#include "target/proc.h"

#define COST_MIN_NS 1000000.0 /* a window that may cost a process less is of no use */

/* The window has cost the process so much, or may, while it is in hand. */
static double charge_of(const struct window *w, uint32_t i)
{
	return (double)(w->report.cost_known ? w->report.charges[i].ns : w->spec.max_cost_ns[i]);
}

static double spent_ns(const struct daemon *d, pid_t pid, uint64_t start)
{
	double spent = cost_account__of(&d->account, pid, start).spent_ns + budget__follow_ns(d);

	for (uint32_t i = 0; i < d->window_cnt; i++)
		for (uint32_t k = 0; k < d->windows[i].spec.pid_cnt; k++)
			if (d->windows[i].spec.pids[k] == pid)
				spent += charge_of(&d->windows[i], k);
	return spent;
}

double budget__follow_ns(const struct daemon *d)
{
	return d->events.spent_ns + (double)d->events.cost_ns;
}

/* A share of the time from when it began, or ptbpf did, until then, less what has been spent. */
static double allowance(const struct daemon *d, pid_t pid, uint64_t start, uint64_t until_ns)
{
	uint64_t began = start ? pid_hold__began_ns(start) : 0, since = d->start_ns;

	if (began > since)
		since = began;
	return d->set->max_overhead * (until_ns > since ? (double)(until_ns - since) : 0) -
	       spent_ns(d, pid, start);
}

static void say_left_out(const struct window_spec *spec, uint32_t first)
{
	char more[32] = "";

	if (spec->left_out_cnt - first > 1)
		snprintf(more, sizeof(more), " and %u others", spec->left_out_cnt - first - 1);
	pr_info("window %llu is without pid %d%s: it would cost more than --max-overhead",
		(unsigned long long)spec->nr, (int)spec->left_out[first], more);
}

bool budget__set(const struct daemon *d, struct window_spec *spec)
{
	double fixed = spec->hangs ? 0 : d->fixed_ns;
	uint32_t cnt = spec->pid_cnt, others = spec->left_out_cnt;

	if (!spec->limit_ns)
		return true;
	spec->pid_cnt = 0;
	for (uint32_t i = 0; i < cnt; i++) {
		pid_t pid = spec->pids[i];
		uint64_t start = spec->facts[i].id.start;
		double ns = allowance(d, pid, start, spec->limit_ns);
		uint32_t at = spec->pid_cnt;

		if (ns < COST_MIN_NS || ns <= fixed) {
			spec->left_out[spec->left_out_cnt++] = pid;
			continue;
		}
		spec->pids[at] = pid;
		spec->facts[at] = spec->facts[i];
		spec->max_cost_ns[at] = (uint64_t)ns;
		spec->apart |= cost_account__of(&d->account, pid, start).over;
		spec->pid_cnt++;
	}
	if (spec->pid_cnt && spec->left_out_cnt > others)
		say_left_out(spec, others);
	return spec->pid_cnt > 0;
}

void budget__ended(struct daemon *d, const struct window *w)
{
	if (w->report.fixed_ns)
		d->fixed_ns = (double)w->report.fixed_ns;
	for (uint32_t i = 0; i < w->spec.pid_cnt; i++)
		cost_account__charge(&d->account, w->spec.pids[i], w->spec.facts[i].id.start,
				     charge_of(w, i), w->report.charges[i].over);
}

void budget__put(struct jsonw *j, const struct window *w)
{
	uint64_t begin = w->spec.begin_ns + w->report.late_ns;
	bool any = false;

	for (uint32_t i = 0; i < w->spec.pid_cnt; i++) {
		uint64_t cut = w->report.charges[i].cut_ns;

		if (!cut)
			continue;
		if (!any)
			JSONW_ARR(j, "cut");
		any = true;
		jsonw__begin_obj(j);
		JSONW_I64(j, "pid", w->spec.pids[i]);
		JSONW_DOUBLE(j, "seconds", cut > begin ? (double)(cut - begin) / 1e9 : 0);
		jsonw__end_obj(j);
	}
	if (any)
		jsonw__end_arr(j);
	if (w->spec.left_out_cnt)
		JSONW_ARR(j, "left_out");
	for (uint32_t i = 0; i < w->spec.left_out_cnt; i++)
		jsonw__i64(j, w->spec.left_out[i]);
	if (w->spec.left_out_cnt)
		jsonw__end_arr(j);
}
