/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_events.h. */
#define LOG_DOMAIN "sample"
#include "cli/sample_events.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/sampler.h"
#include "sample/proc_scout.h"
#include "target/pid_hold.h"

#define HANG_WINDOW_NS                                                                             \
	2000000000ULL /* of a process that does nothing: where it waits does not change */
#define HANG_AGAIN_NS 60000000000ULL /* when a window was refused for another reason */
#define SAY_AGAIN_NS                                                                               \
	600000000000ULL /* the log says so rarely that a kind of event in a process opens no window */

void sample_events__init(struct sample_events *e)
{
	*e = (struct sample_events){ .source_cnt = 0 };
	sample_watch__init(&e->watch);
}

int sample_events__fd(const struct sample_events *e)
{
	return e->watch.child.pid ? e->watch.child.progress.fd : -1;
}

void sample_events__stop(struct sampler *s)
{
	sample_watch__stop(&s->events.watch);
	if (s->events.ignored)
		pr_info("events that opened no window, since one did: %llu",
			(unsigned long long)s->events.ignored);
	s->events.ignored = 0;
	s->watch_spent_ns += (double)s->events.watch.spent_ns;
	s->events.watch.spent_ns = 0;
}

/* All that are selected, not only those of the next window. 0 or negative errno. */
static int select_all(const struct sampler *s, struct proc_list *procs)
{
	const struct pid_list *named = &s->cfg->run.pids;

	if (!named->cnt)
		return proc_scout__select(&s->cfg->select, procs); /* reported when a window is due */
	for (uint32_t i = 0; i < named->cnt; i++)
		if (pid_hold__alive(s->holds[i]))
			proc_list__add(procs, named->pids[i], 0);
	return 0;
}

static void follow_processes(struct sampler *s, uint64_t now)
{
	struct proc_list procs = { .cnt = 0 };

	if (!select_all(s, &procs))
		sample_watch__follow(&s->events.watch, &s->settings->follow_args, &procs, now);
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

	rq->held = !rq->samples && sample_hold__is_ready(&s->hold);
	if (rq->held) { /* they may have ended meanwhile */
		rq->pid_cnt = s->hold.window.spec.pid_cnt;
		memcpy(rq->pids, s->hold.window.spec.pids, sizeof(rq->pids));
		return;
	}
	rq->pid_cnt = sampler__select(s, rq->pids, &selected);
	for (uint32_t i = 0; i < rq->pid_cnt; i++)
		if (rq->pids[i] == pid)
			return;
	if (rq->pid_cnt)
		rq->pids[rq->pid_cnt - 1] = pid;
}

static uint64_t last_use(const struct event_source *src)
{
	return src->last_ns > src->said_ns ? src->last_ns : src->said_ns;
}

static struct event_source *source_of(struct sample_events *e, const struct event *ev)
{
	struct event_source *oldest = e->sources;

	for (uint32_t i = 0; i < e->source_cnt; i++) {
		struct event_source *src = &e->sources[i];

		if (src->pid == (pid_t)ev->pid && src->kind == ev->kind)
			return src;
		if (last_use(src) < last_use(oldest))
			oldest = src;
	}
	if (e->source_cnt < EVENT_SOURCES_MAX)
		oldest = &e->sources[e->source_cnt++];
	*oldest = (struct event_source){ .pid = (pid_t)ev->pid, .kind = ev->kind };
	return oldest;
}

/* It opens no window. What has happened has passed, but a hang may last. */
static void ignore(struct sampler *s, const struct event *ev, const char *why, uint64_t now,
		   uint64_t again_ns)
{
	struct event_source *src = source_of(&s->events, ev);

	s->events.ignored += 1 + ev->more;
	if (ev->kind == EVENT_HANG)
		sample_watch__again(&s->events.watch, (pid_t)ev->pid, again_ns);
	if (src->said_ns && now < src->said_ns + SAY_AGAIN_NS)
		return;
	src->said_ns = now;
	pr_info("pid %u: %s: %s: no window is opened: %s; further ones of this kind and process are only counted",
		ev->pid, event__name(ev->kind), ev->text, why);
}

static void open_window(struct sampler *s, const struct event *ev, uint64_t now)
{
	struct sample_events *e = &s->events;
	struct event_source *src = source_of(e, ev);
	struct window_request rq = { .trigger = { .kind = event__name(ev->kind),
						  .event_pid = (pid_t)ev->pid,
						  .ignored = e->ignored + ev->more },
				     .duration_ns = ev->kind == EVENT_HANG ? HANG_WINDOW_NS : 0,
				     .samples = ev->kind == EVENT_HANG,
				     .limited = true };
	uint64_t nr;
	char why[256];

	snprintf(rq.trigger.event, sizeof(rq.trigger.event), "%s", ev->text);
	choose_processes(s, (pid_t)ev->pid, &rq);
	if (sampler__request(s, &rq, &nr, why, sizeof(why))) {
		ignore(s, ev, why, now, now + HANG_AGAIN_NS);
		return;
	}
	pr_info("window %llu: pid %u: %s: %s; events before it that opened none: %llu",
		(unsigned long long)nr, ev->pid, event__name(ev->kind), ev->text,
		(unsigned long long)rq.trigger.ignored);
	src->last_ns = now;
	src->said_ns = 0;
	e->ignored = 0;
}

/* Which one has waited longer for a window? One that has had none does so for ever. */
static bool is_before(struct sample_events *e, const struct event *a, const struct event *b)
{
	return source_of(e, a)->last_ns < source_of(e, b)->last_ns;
}

/* Of all that has been reported, at most one opens a window: others would be in its time. */
static void take_events(struct sampler *s, uint64_t now)
{
	const uint64_t interval = s->cfg->open_interval_ns;
	struct sample_events *e = &s->events;
	struct event ev, best = { .pid = 0 };

	for (sample_watch__read(&e->watch); sample_watch__take(&e->watch, &ev);
	     sample_watch__read(&e->watch)) {
		uint64_t last = source_of(e, &ev)->last_ns;

		if (last && now < last + interval) {
			ignore(s, &ev, "--open-interval has not passed", now, last + interval);
			continue;
		}
		if (best.pid && !is_before(e, &ev, &best)) {
			ignore(s, &ev, "another event opens one", now, now + HANG_AGAIN_NS);
			continue;
		}
		if (best.pid)
			ignore(s, &best, "another event opens one", now, now + HANG_AGAIN_NS);
		best = ev;
	}
	if (best.pid)
		open_window(s, &best, now);
}

uint64_t sample_events__follow(struct sampler *s)
{
	struct sample_events *e = &s->events;
	uint64_t now = clock__mono_ns(), in_ns;

	if (!s->cfg->open_on)
		return UINT64_MAX;
	take_events(s, now);
	sample_watch__pause(&e->watch, is_recording(s));
	if (sample_watch__due(&e->watch, now, &in_ns)) {
		follow_processes(s, now);
		sample_watch__due(&e->watch, now, &in_ns);
	}
	return in_ns;
}
