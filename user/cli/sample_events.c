/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_events.h. */
#define LOG_DOMAIN "sample"
#include "cli/sample_events.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/sampler.h"
#include "target/pid_hold.h"

#define HANG_WINDOW_NS                                                                             \
	2000000000ULL /* of a process that does nothing: where it waits does not change */
#define HANG_AGAIN_NS 60000000000ULL /* when a window was refused for another reason */

void sample_events__init(struct sample_events *e)
{
	*e = (struct sample_events){ .last_ns = 0 };
	sample_watch__init(&e->watch);
}

int sample_events__fd(const struct sample_events *e)
{
	return e->watch.fd;
}

void sample_events__stop(struct sampler *s)
{
	sample_watch__stop(&s->events.watch);
	s->spent_ns += (double)s->events.watch.spent_ns;
	s->events.watch.spent_ns = 0;
}

/* In the process of the watch. */
static void close_others(void *arg)
{
	const struct sampler *s = arg;

	if (s->metrics.server)
		metrics_server__child(s->metrics.server);
	if (s->control.server)
		control_server__child(s->control.server);
}

/* All that are selected, not only those of the next window. 0 or negative errno. */
static int select_all(const struct sampler *s, struct proc_list *procs)
{
	const struct pid_list *named = &s->cfg->run.pids;
	int err = 0;

	if (!named->cnt)
		return proc_select__find(&s->cfg->select, procs); /* reported when a window is due */
	for (uint32_t i = 0; i < named->cnt && !err; i++)
		if (pid_hold__alive(s->holds[i]))
			err = proc_list__add(procs, named->pids[i], 0);
	return err;
}

static void follow_processes(struct sampler *s, uint64_t now)
{
	struct sample_watch_cfg cfg = { .run = &s->cfg->run,
					.rules = &s->settings->events,
					.max_overhead = s->max_overhead,
					.in_child = close_others,
					.arg = s };
	struct proc_list procs = { .cnt = 0 };

	if (!select_all(s, &procs))
		sample_watch__follow(&s->events.watch, &cfg, &procs, now);
	else
		sample_watch__postpone(&s->events.watch, now);
	proc_list__free(&procs);
}

/* A window that is being recorded, or about to be. */
static bool is_recording(const struct sampler *s)
{
	for (uint32_t i = 0; i < s->window_cnt; i++)
		if (sample_window__unsealed(&s->windows[i]))
			return true;
	return sample_hold__is_attaching(&s->hold);
}

/* As of any window, but the one that it is opened for is among them. */
static void choose_processes(struct sampler *s, pid_t pid, struct window_request *rq)
{
	uint32_t selected;

	rq->held = !rq->samples && s->hold.ready;
	if (rq->held) { /* they may have ended meanwhile */
		rq->pid_cnt = s->hold.spec.pid_cnt;
		memcpy(rq->pids, s->hold.spec.pids, sizeof(rq->pids));
		return;
	}
	rq->pid_cnt = sampler__select(s, rq->pids, &selected);
	for (uint32_t i = 0; i < rq->pid_cnt; i++)
		if (rq->pids[i] == pid)
			return;
	if (rq->pid_cnt)
		rq->pids[rq->pid_cnt - 1] = pid;
}

/* It opens no window. What has happened has passed, but a hang may last. */
static void ignore(struct sampler *s, const struct event *ev, uint64_t again_ns)
{
	s->events.ignored++;
	if (ev->kind == EVENT_HANG)
		sample_watch__again(&s->events.watch, (pid_t)ev->pid, again_ns);
}

static void open_window(struct sampler *s, const struct event *ev, uint64_t now)
{
	struct sample_events *e = &s->events;
	struct window_request rq = { .trigger = { .kind = event__name(ev->kind),
						  .event_pid = (pid_t)ev->pid,
						  .ignored = e->ignored },
				     .duration_ns = ev->kind == EVENT_HANG ? HANG_WINDOW_NS : 0,
				     .samples = ev->kind == EVENT_HANG,
				     .limited = true };
	uint64_t nr;
	char why[256];

	if (e->last_ns && now < e->last_ns + s->cfg->open_interval_ns) {
		ignore(s, ev, e->last_ns + s->cfg->open_interval_ns);
		pr_debug("pid %u: %s: %s: --open-interval has not passed", ev->pid,
			 event__name(ev->kind), ev->text);
		return;
	}
	snprintf(rq.trigger.event, sizeof(rq.trigger.event), "%s", ev->text);
	choose_processes(s, (pid_t)ev->pid, &rq);
	if (sampler__request(s, &rq, &nr, why, sizeof(why))) {
		ignore(s, ev, now + HANG_AGAIN_NS);
		pr_info("pid %u: %s: %s: no window is opened: %s", ev->pid, event__name(ev->kind),
			ev->text, why);
		return;
	}
	pr_info("window %llu: pid %u: %s: %s", (unsigned long long)nr, ev->pid,
		event__name(ev->kind), ev->text);
	e->last_ns = now;
	e->ignored = 0;
}

uint64_t sample_events__follow(struct sampler *s)
{
	struct sample_events *e = &s->events;
	uint64_t now = clock__mono_ns(), in_ns;
	struct event ev;

	if (!s->cfg->open_on)
		return UINT64_MAX;
	for (sample_watch__read(&e->watch); sample_watch__take(&e->watch, &ev);
	     sample_watch__read(&e->watch))
		open_window(s, &ev, now);
	sample_watch__pause(&e->watch, is_recording(s));
	if (sample_watch__due(&e->watch, now, &in_ns)) {
		follow_processes(s, now);
		sample_watch__due(&e->watch, now, &in_ns);
	}
	return in_ns;
}
