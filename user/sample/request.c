/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Windows that no schedule has: they are requested, for now or for a later time. */
#define LOG_DOMAIN "sample"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "sample/daemon.h"

/* How long before a given time probes are attached: so many times as long as it took the last time,
 * within limits. */
#define ATTACH_TIMES 3
#define ATTACH_MIN_NS 1000000000ULL
#define ATTACH_MAX_NS 10000000000ULL
#define ATTACH_UNKNOWN_NS 3000000000ULL
#define DURATION_NS 5000000000ULL /* of a window, when the schedule has no times */
#define ROUND_NS 500000000ULL     /* while a window waits for its time: the clock may be set */

_Static_assert(CONTROL_PIDS_MAX <= PROC_SELECT_MAX, "named processes fit into a window");

/* CLOCK_MONOTONIC. */
static uint64_t mono_of(uint64_t real_ns)
{
	struct clock_pair now = clock__pair();

	if (real_ns >= now.real_ns)
		return now.mono_ns + (real_ns - now.real_ns);
	return now.mono_ns > now.real_ns - real_ns ? now.mono_ns - (now.real_ns - real_ns) : 0;
}

uint64_t request__duration(const struct daemon *d)
{
	return d->schedule.in_steps || d->schedule.none ? DURATION_NS : d->schedule.active;
}

/* 0: a number of steps ends it. */
static uint64_t planned_end(const struct window *w)
{
	uint64_t ns = w->spec.duration_ns;

	return ns ? w->spec.begin_ns + w->report.late_ns + ns : 0;
}

/* The number of a pending window that takes this time, UINT64_MAX: there is none. */
static uint64_t pending_at(const struct daemon *d, uint64_t begin_ns, uint64_t end_ns)
{
	for (uint32_t i = 0; i < d->pending_cnt; i++) {
		const struct window_request *rq = &d->pending[i].request;
		uint64_t begin = mono_of(rq->start_real_ns);

		if (begin < end_ns && begin + rq->duration_ns > begin_ns)
			return d->pending[i].nr;
	}
	return UINT64_MAX;
}

bool request__takes(const struct daemon *d, uint64_t begin_ns, uint64_t end_ns)
{
	for (uint32_t i = 0; i < d->window_cnt; i++) {
		const struct window *w = &d->windows[i];

		if (strcmp(w->spec.trigger.kind, "schedule") != 0 && !w->report.sealed &&
		    w->spec.begin_ns < end_ns && planned_end(w) > begin_ns)
			return true;
	}
	return pending_at(d, begin_ns, end_ns) != UINT64_MAX;
}

/* ---- what is refused ---- */

static int refuse_for(const struct window *w, char *why, size_t cap)
{
	uint64_t now = clock__mono_ns();

	if (w->report.traced)
		snprintf(why, cap, "window %llu is being recorded", (unsigned long long)w->spec.nr);
	else
		snprintf(why, cap, "window %llu begins in %.1f s", (unsigned long long)w->spec.nr,
			 w->spec.begin_ns > now ? (double)(w->spec.begin_ns - now) / 1e9 : 0);
	return -EBUSY;
}

static int check_time(const struct daemon *d, const struct window_request *rq, char *why,
		      size_t cap)
{
	uint64_t now = clock__mono_ns(),
		 begin = rq->start_real_ns ? mono_of(rq->start_real_ns) : now;
	uint64_t pending = pending_at(d, begin, begin + rq->duration_ns);

	if (begin < now) {
		snprintf(why, cap, "the time at which the window was to begin is %.3f s ago",
			 (double)(now - begin) / 1e9);
		return -EINVAL;
	}
	if (begin - now > CONTROL_AHEAD_MAX_NS) {
		snprintf(why, cap,
			 "the time at which the window was to begin is more than %llu s ahead",
			 CONTROL_AHEAD_MAX_NS / 1000000000);
		return -EINVAL;
	}
	if (pending != UINT64_MAX) {
		snprintf(why, cap, "window %llu has been requested for that time",
			 (unsigned long long)pending);
		return -EBUSY;
	}
	for (uint32_t i = 0; i < d->window_cnt; i++) {
		const struct window *w = &d->windows[i];

		if (!w->report.sealed && (!rq->start_real_ns || planned_end(w) > begin))
			return refuse_for(w, why, cap);
	}
	return 0;
}

static int check_targets(const struct daemon *d, const struct window_request *rq, char *why,
			 size_t cap)
{
	struct proc_facts facts[PROC_SELECT_MAX];

	if (!rq->pid_cnt || d->set->samples || (rq->held && hold__is_ready(d)))
		return 0;
	proc_scout__facts(rq->pids, rq->pid_cnt, facts);
	for (uint32_t i = 0; i < rq->pid_cnt; i++)
		if (facts[i].torch)
			return 0;
	snprintf(why, cap, "%s",
		 rq->pid_cnt == 1 ? "there is no such process, or it has not loaded PyTorch" :
				    "none of these processes exists and has loaded PyTorch");
	return -ESRCH;
}

/* ---- windows ---- */

static uint64_t attach_lead(const struct daemon *d)
{
	uint64_t ns = d->attach_ns * ATTACH_TIMES;

	if (!ns)
		return ATTACH_UNKNOWN_NS;
	if (ns < ATTACH_MIN_NS)
		return ATTACH_MIN_NS;
	return ns < ATTACH_MAX_NS ? ns : ATTACH_MAX_NS;
}

/* 0 or negative errno: `why` has the reason. */
static int start(struct daemon *d, const struct window_request *rq, uint64_t nr, uint64_t begin_ns,
		 const char **why)
{
	struct window *w = &d->windows[d->window_cnt];
	struct window_spec *spec = &w->spec;
	uint64_t lead = attach_lead(d);

	*why = "earlier windows are still being written";
	if (d->window_cnt == DAEMON_WINDOWS_MAX)
		return -EBUSY;
	*w = (struct window){
		.spec = { .settings = d->set,
			  .off = d->off,
			  .nr = nr,
			  .trigger = rq->trigger,
			  .duration_ns = rq->duration_ns,
			  .attach_ns = rq->start_real_ns && begin_ns > lead ? begin_ns - lead : 0,
			  .begin_ns = begin_ns,
			  .limit_ns = rq->limited && d->set->max_overhead ?
					      begin_ns + rq->duration_ns :
					      0,
			  .real_ns = rq->start_real_ns ? rq->start_real_ns : clock__pair().real_ns,
			  .hangs = rq->hangs,
			  .held = rq->held },
		.counted = true
	};
	if (rq->pid_cnt) {
		memcpy(spec->pids, rq->pids, rq->pid_cnt * sizeof(*rq->pids));
		spec->pid_cnt = d->metrics.targets = rq->pid_cnt;
		spec->chosen_ns = rq->named_ns;
	} else {
		begin__select(d, spec);
	}
	*why = "there is no process to record";
	return spec->pid_cnt ? begin__launch(d, w, why) : -ESRCH;
}

int request__open(struct daemon *d, const struct window_request *rq, uint64_t *nr, char *why,
		  size_t cap)
{
	struct window_request own = *rq;
	const char *reason = "";
	int err;

	own.named_ns = clock__mono_ns();
	if (!own.duration_ns)
		own.duration_ns = request__duration(d);
	if (d->signals) {
		snprintf(why, cap, "this ptbpf sample is ending");
		return -ESHUTDOWN;
	}
	err = check_time(d, &own, why, cap);
	if (!err)
		err = check_targets(d, &own, why, cap);
	if (err)
		return err;
	if (rq->start_real_ns && d->pending_cnt == DAEMON_PENDING_MAX) {
		snprintf(why, cap, "%d windows wait for their time already", DAEMON_PENDING_MAX);
		return -EBUSY;
	}
	if (rq->start_real_ns) {
		d->pending[d->pending_cnt].request = own;
		d->pending[d->pending_cnt++].nr = d->nr;
	} else {
		err = start(d, &own, d->nr, own.named_ns, &reason);
		snprintf(why, cap, "%s", reason);
	}
	if (!err)
		*nr = d->nr++;
	return err;
}

uint64_t request__follow(struct daemon *d)
{
	uint64_t in_ns = UINT64_MAX;

	for (uint32_t i = 0; i < d->pending_cnt;) {
		const struct window_request rq = d->pending[i].request;
		uint64_t now = clock__mono_ns(), begin = mono_of(rq.start_real_ns),
			 nr = d->pending[i].nr;
		const char *why;

		if (begin > now + DAEMON_LEAD_NS + attach_lead(d)) {
			in_ns = ROUND_NS;
			i++;
			continue;
		}
		d->pending[i] = d->pending[--d->pending_cnt];
		if (start(d, &rq, nr, begin, &why)) {
			begin__skip(d, nr, why);
			control__gave_up(d, nr, why);
		}
	}
	return in_ns;
}

void request__drop_all(struct daemon *d)
{
	while (d->pending_cnt)
		control__gave_up(d, d->pending[--d->pending_cnt].nr,
				 "ptbpf sample was ended before the window began");
}
