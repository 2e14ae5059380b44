/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which processes a window of `ptbpf sample` has, when those of the schedule begin, and what they may cost. */
#define LOG_DOMAIN "sample"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/sample_steps.h"
#include "cli/sampler.h"
#include "record/run.h"
#include "sample/proc_scout.h"
#include "target/pid_hold.h"

#define LEAD_NS 2000000000ULL /* before probes are attached: programs and ring buffers are made */
/* Before a window without a longer warm-up begins: until it is known how long it takes to attach, and at most. */
#define ATTACH_NS 100000000ULL
#define ATTACH_MAX_NS 1000000000ULL
#define FOREVER_NS 3600000000000ULL /* of a schedule without windows: until somebody requests one */

_Static_assert(PROC_SELECT_MAX <= OPT_PIDS_MAX, "selected processes fit where named ones do");

/* Where the processes of a window can share probes, it may have more of them. */
static uint32_t process_limit(const struct sampler *s, uint32_t selected)
{
	if (s->cfg->process_limit != SAMPLE_LIMIT_AUTO)
		return (uint32_t)s->cfg->process_limit;
	if (selected <= SAMPLE_LIMIT_OWN || selected > SAMPLE_LIMIT_SHARED || !run__can_share() ||
	    proc_scout__others(&s->cfg->select))
		return SAMPLE_LIMIT_OWN;
	return SAMPLE_LIMIT_SHARED;
}

uint32_t sampler__select(struct sampler *s, pid_t *pids, uint32_t *selected)
{
	const struct pid_list *named = &s->cfg->run.pids;
	uint32_t cnt = 0;
	int err;

	if (named->cnt) {
		for (uint32_t i = 0; i < named->cnt; i++)
			if (pid_hold__alive(s->holds[i]) && !proc_scout__left_out(named->pids[i]))
				pids[cnt++] = named->pids[i];
		return cnt;
	}
	err = proc_scout__select(&s->cfg->select, &s->procs);
	if (err) {
		pr_error("cannot list the processes: %s", errstr(err));
		return 0;
	}
	*selected = s->procs.cnt;
	return proc_select__turn(&s->procs, process_limit(s, *selected), pids);
}

void sampler__skip(struct sampler *s, uint64_t nr, const char *why)
{
	pr_warn("window %llu is skipped: %s", (unsigned long long)nr, why);
	s->skipped++;
	sample_metrics__skipped(&s->metrics);
	s->incomplete = true;
}

/* One of the schedule that is not to be: that is no failure. */
static void leave_out(struct sampler *s, const char *why)
{
	pr_info("window %llu is skipped: %s", (unsigned long long)s->nr, why);
	s->skipped++;
	sample_metrics__skipped(&s->metrics);
}

/* The window of the schedule has been started, skipped, or has no processes. */
static void advance(struct sampler *s)
{
	s->next++;
	s->nr++;
}

/* When the window's cost is paid for: when the next one is due. CLOCK_MONOTONIC. */
static uint64_t limit_of(const struct sampler *s, const struct schedule_window *at)
{
	struct schedule_window next = { .warmup = at->end };

	if (s->schedule.in_steps)
		next.warmup += s->schedule.wait * s->step_wait.step_ns;
	else
		schedule__window(&s->schedule, s->next + 1, &next);
	return s->start_ns + next.warmup;
}

/*
 * When probes are attached: when the warm-up begins, or as long before the window as the last one took, so that it begins in time; but
 * not before the last one was to end.
 */
static uint64_t attach_time(const struct sampler *s, const struct schedule_window *at)
{
	uint64_t last = s->attach_ns, takes = last ? last * 5 / 4 : ATTACH_NS,
		 pause = s->schedule.wait + s->schedule.warmup;

	if (takes > ATTACH_MAX_NS)
		takes = ATTACH_MAX_NS;
	if (takes > pause)
		takes = pause;
	if (takes > at->begin)
		takes = at->begin;
	return s->start_ns + (at->begin - takes < at->warmup ? at->begin - takes : at->warmup);
}

bool sampler__name_files(const struct sampler *s, struct sample_window_spec *spec)
{
	const char *traces = s->cfg->traces;
	char suffix[32];

	spec->real_ns = window_dir__free_ns(&s->dir, spec->pids[0], spec->real_ns);
	if (window_dir__name(&s->dir, spec->pids[0], spec->real_ns, ".ptb", spec->capture,
			     sizeof(spec->capture)))
		return false;
	snprintf(suffix, sizeof(suffix), ".pt.trace.%s", traces ? traces : "");
	if (traces && strcmp(traces, "none") != 0)
		window_dir__name(&s->dir, spec->pids[0], spec->real_ns, suffix, spec->trace,
				 sizeof(spec->trace));
	return true;
}

static void read_jobs(struct sample_window_spec *spec, const struct proc_facts *facts)
{
	spec->jobs.cnt = spec->jobs.job_cnt = spec->jobs.other_cnt = 0;
	for (uint32_t i = 0; i < spec->pid_cnt; i++)
		window_jobs__add(&spec->jobs, facts[i].rank, facts[i].job);
}

int sampler__launch(struct sampler *s, struct sample_window *w, const char **why)
{
	struct proc_facts facts[OPT_PIDS_MAX];

	proc_scout__facts(w->spec.pids, w->spec.pid_cnt, facts);
	if (!sample_budget__set(s, &w->spec, facts)) {
		*why = "it would cost more than --max-overhead";
		return -EDQUOT;
	}
	read_jobs(&w->spec, facts);
	if (!sampler__name_files(s, &w->spec)) {
		*why = "the names of its files are too long";
		return -ENAMETOOLONG;
	}
	if (w->spec.held && sample_hold__use(s, w)) {
		w->settings = sample_settings__hold(s->settings);
		s->window_cnt++;
		return 0;
	}
	if (sample_window__start(w, s->dir.fd)) {
		*why = "no process for it";
		return -EAGAIN;
	}
	w->settings = sample_settings__hold(s->settings);
	s->window_cnt++;
	return 0;
}

/* An earlier window that should have begun still reads a process: the others are not to wait for it
 * again. */
static void leave_out_slow(const struct sampler *s, struct sample_window_spec *spec)
{
	uint64_t now = clock__mono_ns();

	for (uint32_t i = 0; i < s->window_cnt; i++) {
		const struct sample_window *w = &s->windows[i];
		pid_t pid = w->report.reading;
		uint32_t k = 0;

		while (k < spec->pid_cnt && spec->pids[k] != pid)
			k++;
		if (w->report.traced || now < w->spec.begin_ns || k == spec->pid_cnt || spec->pid_cnt == 1)
			continue;
		pr_info("window %llu is without pid %d: window %llu still reads its libraries",
			(unsigned long long)spec->nr, (int)pid, (unsigned long long)w->spec.nr);
		spec->left_out[spec->left_out_cnt++] = pid;
		memmove(&spec->pids[k], &spec->pids[k + 1], (--spec->pid_cnt - k) * sizeof(*spec->pids));
	}
}

static void start_window(struct sampler *s, const struct schedule_window *at, uint64_t now, bool measure)
{
	struct sample_window *w = &s->windows[s->window_cnt];
	struct sample_window_spec *spec = &w->spec;
	struct schedule_window next;
	uint64_t begin = s->start_ns + at->begin;
	const char *why;
	int err;

	if (s->window_cnt == SAMPLER_WINDOWS_MAX) {
		sampler__skip(s, s->nr, "earlier windows are still being written");
		return;
	}
	if (!s->schedule.in_steps && sampler__is_taken(s, begin, s->start_ns + at->end)) {
		leave_out(s, "a requested one takes its time");
		return;
	}
	*w = (struct sample_window){ .spec = { .options = &s->settings->options,
					       .nr = s->nr,
					       .trigger = { .kind = "schedule" },
					       .cycle = s->resumed + s->next,
					       .warmup_ns = s->start_ns + at->warmup,
					       .begin_ns = begin,
					       .measure = measure,
					       .step_wait = s->step_wait } };
	if (!s->schedule.in_steps && schedule__window(&s->schedule, s->next + 1, &next))
		spec->end_ns = s->start_ns + next.warmup;
	spec->real_ns = clock__pair().real_ns + (begin > now ? begin - now : 0);
	spec->pid_cnt = sampler__select(s, spec->pids, &spec->selected);
	spec->chosen_ns = clock__mono_ns();
	sample_metrics__due(&s->metrics, spec);
	if (!spec->pid_cnt)
		return; /* between two jobs */
	leave_out_slow(s, spec);
	if (s->max_overhead && !measure)
		spec->limit_ns = limit_of(s, at);
	if (!s->schedule.in_steps)
		spec->warmup_ns = attach_time(s, at);
	err = sampler__launch(s, w, &why);
	if (err == -EDQUOT)
		leave_out(s, why);
	else if (err)
		sampler__skip(s, s->nr, why);
}

/* The same for a schedule in steps: a window is due after the end of the one before. */
static uint64_t follow_steps(struct sampler *s)
{
	uint64_t in_ns, now, skipped = s->skipped;
	uint32_t cnt = s->window_cnt;
	struct schedule_window at;
	bool measure;

	now = clock__mono_ns();
	if (sampler__is_taken(s, now, now + LEAD_NS))
		return LEAD_NS;
	if (!sample_steps__due(&s->step_wait, &s->schedule, s->next, s->start_ns, s->windows, cnt,
			       LEAD_NS, &at, &measure, &in_ns))
		return in_ns;
	start_window(s, &at, now, measure);
	if (s->window_cnt == cnt)
		sample_steps__not_started(&s->step_wait, now, s->skipped > skipped);
	if ((s->window_cnt > cnt && !measure) || s->skipped > skipped)
		advance(s);
	return 0;
}

uint64_t sampler__follow_schedule(struct sampler *s)
{
	struct schedule_window at;

	if (s->schedule.in_steps)
		return follow_steps(s);
	if (s->schedule.none)
		return FOREVER_NS;
	while (schedule__window(&s->schedule, s->next, &at)) {
		uint64_t now = clock__mono_ns(), due = s->start_ns + at.warmup;

		due -= due > LEAD_NS ? LEAD_NS : 0;
		if (now < due)
			return due - now;
		if (now > s->start_ns + at.end)
			sampler__skip(s, s->nr, "its time has passed");
		else
			start_window(s, &at, now, false);
		advance(s);
	}
	return UINT64_MAX;
}

uint64_t sampler__next_real_ns(const struct sampler *s)
{
	struct clock_pair now = clock__pair();
	struct schedule_window at;
	uint64_t begin;

	if (s->signals || s->schedule.in_steps || !schedule__window(&s->schedule, s->next, &at))
		return 0;
	begin = s->start_ns + at.begin;
	return now.real_ns + (begin > now.mono_ns ? begin - now.mono_ns : 0);
}
