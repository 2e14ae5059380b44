/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which processes a window has, and when those of the schedule begin. */
#define LOG_DOMAIN "sample"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "sample/daemon.h"
#include "target/proc.h"

/* Before a window without a longer warm-up begins: until it is known how long it takes to attach,
 * and at most. */
#define ATTACH_NS 100000000ULL
#define ATTACH_MAX_NS 1000000000ULL
/* Processes of a window, where they share probes, and where each has its own. */
#define LIMIT_SHARED 32
#define LIMIT_OWN 16
#define NO_TARGET_NS 5000000000ULL  /* how often processes are searched for, in steps */
#define FOREVER_NS 3600000000000ULL /* of a schedule without windows: until somebody requests one */

static uint32_t process_limit(const struct daemon *d, uint32_t selected)
{
	if (d->set->process_limit)
		return d->set->process_limit;
	if (selected <= LIMIT_OWN || selected > LIMIT_SHARED || !d->set->can_share ||
	    proc_scout__others(&d->set->select))
		return LIMIT_OWN;
	return LIMIT_SHARED;
}

void begin__select(struct daemon *d, struct window_spec *spec)
{
	int err;

	spec->pid_cnt = spec->selected = 0;
	for (uint32_t i = 0; i < d->set->pid_cnt; i++)
		if (pid_hold__alive(d->holds[i]) && !proc_scout__left_out(d->set->pids[i]))
			spec->pids[spec->pid_cnt++] = d->set->pids[i];
	if (!d->set->pid_cnt) {
		err = proc_scout__select(&d->set->select, &d->procs);
		if (err)
			pr_error("cannot list the processes: %s", errstr(err));
		else
			spec->selected = d->procs.cnt;
		if (spec->selected)
			spec->pid_cnt = proc_select__turn(&d->procs,
							  process_limit(d, spec->selected),
							  spec->pids);
	}
	spec->chosen_ns = clock__mono_ns();
	d->metrics.targets = spec->selected ? spec->selected : spec->pid_cnt;
}

void begin__skip(struct daemon *d, uint64_t nr, const char *why)
{
	pr_warn("window %llu is skipped: %s", (unsigned long long)nr, why);
	d->skipped++;
	d->metrics.windows[METRICS_SKIPPED]++;
	d->incomplete = true;
}

/* A window of the schedule is not to be: that is no failure. */
static void leave_out(struct daemon *d, const char *why)
{
	pr_info("window %llu is skipped: %s", (unsigned long long)d->nr, why);
	d->skipped++;
	d->metrics.windows[METRICS_SKIPPED]++;
}

/* When the window's cost is paid for: when the next one is due. CLOCK_MONOTONIC. */
static uint64_t limit_of(const struct daemon *d, const struct schedule_window *at)
{
	struct schedule_window next = { .warmup = at->end };

	if (d->schedule.in_steps)
		next.warmup += d->schedule.wait * d->step_wait.step_ns;
	else
		schedule__window(&d->schedule, d->next + 1, &next);
	return d->start_ns + next.warmup;
}

/*
 * When probes are attached: when the warm-up begins, or as long before the window as it took the
 * last time, so that the window begins in time; but not before the last one was to end.
 */
static uint64_t attach_time(const struct daemon *d, const struct schedule_window *at)
{
	uint64_t last = d->attach_ns, takes = last ? last * 5 / 4 : ATTACH_NS,
		 pause = d->schedule.wait + d->schedule.warmup;

	if (takes > ATTACH_MAX_NS)
		takes = ATTACH_MAX_NS;
	if (takes > pause)
		takes = pause;
	if (takes > at->begin)
		takes = at->begin;
	return d->start_ns + (at->begin - takes < at->warmup ? at->begin - takes : at->warmup);
}

bool begin__name_files(const struct daemon *d, struct window_spec *spec)
{
	const char *traces = d->set->traces;
	char suffix[32];

	spec->real_ns = window_dir__free_ns(&d->dir, spec->pids[0], spec->real_ns);
	if (window_dir__name(&d->dir, spec->pids[0], spec->real_ns, ".ptb", spec->capture,
			     sizeof(spec->capture)))
		return false;
	snprintf(suffix, sizeof(suffix), ".pt.trace.%s", traces ? traces : "");
	if (traces && strcmp(traces, "none") != 0)
		window_dir__name(&d->dir, spec->pids[0], spec->real_ns, suffix, spec->trace,
				 sizeof(spec->trace));
	return true;
}

int begin__launch(struct daemon *d, struct window *w, const char **why)
{
	struct window_spec *spec = &w->spec;

	proc_scout__facts(spec->pids, spec->pid_cnt, spec->facts);
	*why = "it would cost more than --max-overhead";
	if (!budget__set(d, spec))
		return -EDQUOT;
	*why = "the names of its files are too long";
	if (!begin__name_files(d, spec))
		return -ENAMETOOLONG;
	*why = "no process for it";
	if (!(spec->held && window__release(&d->hold.window, w)) && window__start(w, d->dir.fd))
		return -EAGAIN;
	d->window_cnt++;
	return 0;
}

/* An earlier window that should have begun still reads a process: the others do not wait for it
 * again. */
static void leave_out_slow(const struct daemon *d, struct window_spec *spec)
{
	uint64_t now = clock__mono_ns();

	for (uint32_t i = 0; i < d->window_cnt; i++) {
		const struct window *w = &d->windows[i];
		pid_t pid = w->report.reading;
		uint32_t k = 0;

		while (k < spec->pid_cnt && spec->pids[k] != pid)
			k++;
		if (w->report.traced || now < w->spec.begin_ns || k == spec->pid_cnt ||
		    spec->pid_cnt == 1)
			continue;
		pr_info("window %llu is without pid %d: window %llu still reads its libraries",
			(unsigned long long)spec->nr, (int)pid, (unsigned long long)w->spec.nr);
		spec->left_out[spec->left_out_cnt++] = pid;
		memmove(&spec->pids[k], &spec->pids[k + 1],
			(--spec->pid_cnt - k) * sizeof(*spec->pids));
	}
}

static void start_window(struct daemon *d, const struct schedule_window *at, uint64_t now,
			 bool measure)
{
	struct window *w = &d->windows[d->window_cnt];
	struct window_spec *spec = &w->spec;
	struct schedule_window next;
	uint64_t begin = d->start_ns + at->begin;
	const char *why;
	int err;

	if (d->window_cnt == DAEMON_WINDOWS_MAX) {
		begin__skip(d, d->nr, "earlier windows are still being written");
		return;
	}
	if (!d->schedule.in_steps && request__takes(d, begin, d->start_ns + at->end)) {
		leave_out(d, "a requested one takes its time");
		return;
	}
	*w = (struct window){ .spec = { .settings = d->set,
					.off = d->off,
					.nr = d->nr,
					.trigger = { .kind = "schedule" },
					.cycle = d->resumed + d->next,
					.attach_ns = d->start_ns + at->warmup,
					.begin_ns = begin,
					.measure = measure,
					.step_wait = d->step_wait } };
	if (!d->schedule.in_steps) {
		spec->duration_ns = d->schedule.active;
		spec->attach_ns = attach_time(d, at);
		if (schedule__window(&d->schedule, d->next + 1, &next))
			spec->end_ns = d->start_ns + next.warmup;
	}
	spec->real_ns = clock__pair().real_ns + (begin > now ? begin - now : 0);
	begin__select(d, spec);
	if (!spec->pid_cnt)
		return; /* between two jobs */
	leave_out_slow(d, spec);
	if (d->set->max_overhead && !measure)
		spec->limit_ns = limit_of(d, at);
	err = begin__launch(d, w, &why);
	if (err == -EDQUOT)
		leave_out(d, why);
	else if (err)
		begin__skip(d, d->nr, why);
}

/*
 * A schedule in steps: may window d->next be started now? *at: when it is then. False: not yet, or
 * never; *in_ns: until it may, UINT64_MAX: no sooner than the windows in hand have ended.
 */
static bool is_due(const struct daemon *d, struct schedule_window *at, bool *measure,
		   uint64_t *in_ns)
{
	uint64_t now = clock__mono_ns(), due;

	*in_ns = UINT64_MAX;
	for (uint32_t i = 0; i < d->window_cnt; i++)
		if (!d->windows[i].counted)
			return false;
	if (!step_wait__due(&d->step_wait, &d->schedule, d->next, &due, measure))
		return false;
	if (due > now + DAEMON_LEAD_NS) {
		*in_ns = due - DAEMON_LEAD_NS - now;
		return false;
	}
	due = due > now ? due : now;
	at->warmup = at->begin = due - d->start_ns;
	at->end = at->begin + d->schedule.active * d->step_wait.step_ns;
	return true;
}

static uint64_t follow_steps(struct daemon *d)
{
	uint64_t in_ns, now, skipped = d->skipped;
	uint32_t cnt = d->window_cnt;
	struct schedule_window at;
	bool measure;

	now = clock__mono_ns();
	if (request__takes(d, now, now + DAEMON_LEAD_NS))
		return DAEMON_LEAD_NS;
	if (!is_due(d, &at, &measure, &in_ns))
		return in_ns;
	start_window(d, &at, now, measure);
	if (d->skipped > skipped)
		step_wait__recorded(&d->step_wait, now, 0);
	else if (d->window_cnt == cnt)
		d->step_wait.retry_ns = now + NO_TARGET_NS;
	if ((d->window_cnt > cnt && !measure) || d->skipped > skipped) {
		d->next++;
		d->nr++;
	}
	return 0;
}

uint64_t begin__follow_schedule(struct daemon *d)
{
	struct schedule_window at;

	if (d->schedule.in_steps)
		return follow_steps(d);
	if (d->schedule.none)
		return FOREVER_NS;
	while (schedule__window(&d->schedule, d->next, &at)) {
		uint64_t now = clock__mono_ns(), due = d->start_ns + at.warmup;

		due -= due > DAEMON_LEAD_NS ? DAEMON_LEAD_NS : 0;
		if (now < due)
			return due - now;
		if (now > d->start_ns + at.end)
			begin__skip(d, d->nr, "its time has passed");
		else
			start_window(d, &at, now, false);
		d->next++;
		d->nr++;
	}
	return UINT64_MAX;
}

uint64_t begin__next_real_ns(const struct daemon *d)
{
	struct clock_pair now = clock__pair();
	struct schedule_window at;
	uint64_t begin;

	if (d->signals || d->schedule.in_steps || !schedule__window(&d->schedule, d->next, &at))
		return 0;
	begin = d->start_ns + at.begin;
	return now.real_ns + (begin > now.mono_ns ? begin - now.mono_ns : 0);
}
