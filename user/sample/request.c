/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Windows of `ptbpf sample` that no schedule has: they are requested, for now or for a later time. */
#define LOG_DOMAIN "sample"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/sampler.h"
#include "sample/control.h"
#include "sample/proc_scout.h"

#define LEAD_NS 2000000000ULL /* as for windows of the schedule */
/* How long before a given time probes are attached: so many times as long as it took last, within limits. */
#define ATTACH_TIMES 3
#define ATTACH_MIN_NS 1000000000ULL
#define ATTACH_MAX_NS 10000000000ULL
#define ATTACH_UNKNOWN_NS 3000000000ULL
#define DURATION_NS 5000000000ULL /* of a window, when the schedule has no times */
#define ROUND_NS 500000000ULL     /* while a window waits for its time: the clock may be set */

_Static_assert(CONTROL_PIDS_MAX <= OPT_PIDS_MAX, "named processes fit into a window");

/* CLOCK_MONOTONIC. */
static uint64_t mono_of(uint64_t real_ns)
{
	struct clock_pair now = clock__pair();

	if (real_ns >= now.real_ns)
		return now.mono_ns + (real_ns - now.real_ns);
	return now.mono_ns > now.real_ns - real_ns ? now.mono_ns - (now.real_ns - real_ns) : 0;
}

uint64_t sampler__duration(const struct sampler *s)
{
	return s->schedule.in_steps || s->schedule.none ? DURATION_NS : s->schedule.active;
}

static uint64_t duration_of(const struct sampler *s, const struct window_request *rq)
{
	return rq->duration_ns ? rq->duration_ns : sampler__duration(s);
}

/* 0: it ends after a number of steps. */
static uint64_t planned_end(const struct sample_window *w)
{
	uint64_t ns = w->spec.duration_ns ? w->spec.duration_ns : w->spec.options->duration_ns;

	return sample_window__in_steps(&w->spec) ? 0 : w->spec.begin_ns + w->report.late_ns + ns;
}

static bool is_requested(const struct sample_window *w)
{
	return w->spec.duration_ns > 0;
}

/* A pending window that takes this time, NULL: none. */
static const struct pending_window *pending_at(const struct sampler *s, uint64_t begin_ns, uint64_t end_ns)
{
	for (uint32_t i = 0; i < s->pending_cnt; i++) {
		const struct window_request *rq = &s->pending[i].request;
		uint64_t begin = mono_of(rq->start_real_ns);

		if (begin < end_ns && begin + rq->duration_ns > begin_ns)
			return &s->pending[i];
	}
	return NULL;
}

bool sampler__is_taken(const struct sampler *s, uint64_t begin_ns, uint64_t end_ns)
{
	for (uint32_t i = 0; i < s->window_cnt; i++) {
		const struct sample_window *w = &s->windows[i];

		if (is_requested(w) && sample_window__unsealed(w) && w->spec.begin_ns < end_ns &&
		    planned_end(w) > begin_ns)
			return true;
	}
	return pending_at(s, begin_ns, end_ns) != NULL;
}

/* ---- what is refused ---- */

static int refuse_for(const struct sample_window *w, char *why, size_t cap)
{
	uint64_t now = clock__mono_ns();

	if (w->report.traced)
		snprintf(why, cap, "window %llu is being recorded", (unsigned long long)w->spec.nr);
	else
		snprintf(why, cap, "window %llu begins in %.1f s", (unsigned long long)w->spec.nr,
			 w->spec.begin_ns > now ? (double)(w->spec.begin_ns - now) / 1e9 : 0);
	return -EBUSY;
}

static int check_time(const struct sampler *s, const struct window_request *rq, char *why, size_t cap)
{
	uint64_t now = clock__mono_ns(), begin = rq->start_real_ns ? mono_of(rq->start_real_ns) : now;
	const struct pending_window *p = pending_at(s, begin, begin + rq->duration_ns);

	if (begin < now) {
		snprintf(why, cap, "the time at which the window was to begin is %.3f s ago",
			 (double)(now - begin) / 1e9);
		return -EINVAL;
	}
	if (begin - now > CONTROL_AHEAD_MAX_NS) {
		snprintf(why, cap, "the time at which the window was to begin is more than %llu s ahead",
			 CONTROL_AHEAD_MAX_NS / 1000000000);
		return -EINVAL;
	}
	if (p) {
		snprintf(why, cap, "window %llu has been requested for that time",
			 (unsigned long long)p->nr);
		return -EBUSY;
	}
	for (uint32_t i = 0; i < s->window_cnt; i++) {
		const struct sample_window *w = &s->windows[i];

		if (sample_window__unsealed(w) && (!rq->start_real_ns || planned_end(w) > begin))
			return refuse_for(w, why, cap);
	}
	return 0;
}

static int check_targets(const struct sampler *s, const struct window_request *rq, char *why, size_t cap)
{
	bool any_process = s->cfg->run.rec.sample_hz || (rq->held && sample_hold__is_ready(&s->hold));

	struct proc_facts facts[OPT_PIDS_MAX];

	if (any_process)
		return 0;
	proc_scout__facts(rq->pids, rq->pid_cnt, facts);
	for (uint32_t i = 0; i < rq->pid_cnt; i++)
		if (facts[i].torch)
			return 0;
	if (rq->pid_cnt)
		snprintf(why, cap, "%s",
			 rq->pid_cnt == 1 ? "there is no such process, or it has not loaded PyTorch" :
					    "none of these processes exists and has loaded PyTorch");
	return rq->pid_cnt ? -ESRCH : 0;
}

/* ---- windows ---- */

static uint64_t attach_lead(const struct sampler *s)
{
	uint64_t ns = s->attach_ns * ATTACH_TIMES;

	if (!ns)
		return ATTACH_UNKNOWN_NS;
	if (ns < ATTACH_MIN_NS)
		return ATTACH_MIN_NS;
	return ns < ATTACH_MAX_NS ? ns : ATTACH_MAX_NS;
}

/* 0 or negative errno: `why` has the reason. */
static int start(struct sampler *s, const struct window_request *rq, uint64_t nr, uint64_t begin_ns,
		 const char **why)
{
	struct sample_window *w = &s->windows[s->window_cnt];
	struct sample_window_spec *spec = &w->spec;
	uint64_t lead = attach_lead(s);

	*why = "earlier windows are still being written";
	if (s->window_cnt == SAMPLER_WINDOWS_MAX)
		return -EBUSY;
	*w = (struct sample_window){
		.spec = { .options = &s->settings->options,
			  .nr = nr,
			  .trigger = rq->trigger,
			  .duration_ns = duration_of(s, rq),
			  .warmup_ns = rq->start_real_ns && begin_ns > lead ? begin_ns - lead : 0,
			  .begin_ns = begin_ns,
			  .pid_cnt = rq->pid_cnt },
		.counted = true
	};
	spec->real_ns = rq->start_real_ns ? rq->start_real_ns : clock__pair().real_ns;
	memcpy(spec->pids, rq->pids, rq->pid_cnt * sizeof(*rq->pids));
	if (!rq->pid_cnt)
		spec->pid_cnt = sampler__select(s, spec->pids, &spec->selected);
	spec->chosen_ns = rq->pid_cnt ? rq->named_ns : clock__mono_ns();
	sample_metrics__due(&s->metrics, spec);
	*why = "there is no process to record";
	if (!spec->pid_cnt)
		return -ESRCH;
	spec->samples = rq->samples;
	spec->held = rq->held;
	spec->limit_ns = rq->limited && s->max_overhead ? begin_ns + spec->duration_ns : 0;
	return sampler__launch(s, w, why);
}

int sampler__request(struct sampler *s, const struct window_request *rq, uint64_t *nr, char *why,
		     size_t cap)
{
	struct window_request own = *rq;
	uint64_t now = clock__mono_ns();
	const char *reason;
	int err;

	own.duration_ns = duration_of(s, rq);
	own.named_ns = now;
	if (s->signals) {
		snprintf(why, cap, "this ptbpf sample is ending");
		return -ESHUTDOWN;
	}
	err = check_time(s, &own, why, cap);
	if (!err)
		err = check_targets(s, &own, why, cap);
	if (err)
		return err;
	if (rq->start_real_ns && s->pending_cnt == SAMPLER_PENDING_MAX) {
		snprintf(why, cap, "%d windows wait for their time already", SAMPLER_PENDING_MAX);
		return -EBUSY;
	}
	if (rq->start_real_ns) {
		s->pending[s->pending_cnt++] = (struct pending_window){ .request = own, .nr = s->nr };
	} else {
		err = start(s, &own, s->nr, now, &reason);
		if (err) {
			snprintf(why, cap, "%s", reason);
			return err;
		}
	}
	*nr = s->nr++;
	return 0;
}

uint64_t sampler__follow_requests(struct sampler *s)
{
	uint64_t in_ns = UINT64_MAX;

	for (uint32_t i = 0; i < s->pending_cnt;) {
		struct pending_window p = s->pending[i];
		uint64_t now = clock__mono_ns(), begin = mono_of(p.request.start_real_ns);
		const char *why;

		if (begin > now + LEAD_NS + attach_lead(s)) {
			in_ns = ROUND_NS;
			i++;
			continue;
		}
		s->pending[i] = s->pending[--s->pending_cnt];
		if (start(s, &p.request, p.nr, begin, &why)) {
			sampler__skip(s, p.nr, why);
			sample_control__gave_up(s, p.nr, why);
		}
	}
	return in_ns;
}

void sampler__drop_requests(struct sampler *s)
{
	while (s->pending_cnt)
		sample_control__gave_up(s, s->pending[--s->pending_cnt].nr,
					"ptbpf sample was ended before the window began");
}
