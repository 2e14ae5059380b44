/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * --open-on: windows that are opened by what happens in the targets. While no window is open,
 * `ptbpf follow` follows their steps and reports events.
 */
#define LOG_DOMAIN "sample"
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "sample/daemon.h"
#include "target/proc.h"

#define HANG_WINDOW_NS 2000000000ULL /* where a job that hangs waits does not change */
#define HANG_AGAIN_NS 60000000000ULL /* when a window was refused for another reason */
#define SAY_AGAIN_NS 600000000000ULL /* that a kind of event in a process opens no window */
#define SELECT_EVERY_NS 5000000000ULL
/* A child that ends sooner is started again after a pause twice as long as the last one. */
#define STEADY_NS 60000000000ULL
#define RETRY_MAX_NS 600000000000ULL
#define END_POLL_MS 5

/* ---- the child ---- */

static void start(struct daemon *d)
{
	struct words cmd = { .cnt = 0 };
	int err;

	words__add(&cmd, "ptbpf");
	words__add(&cmd, "follow");
	words__copy(&cmd, &d->set->follow_args);
	err = child__start(&d->events.child, &cmd, -1);
	if (err) {
		pr_error("cannot follow steps: %s", errstr(err));
		return;
	}
	d->events.start_ns = clock__mono_ns();
	for (uint32_t i = 0; i < d->events.targets.cnt; i++)
		d->events.targets.items[i].turn = 0;
	if (d->events.paused)
		child__note(&d->events.child, "pause\n");
}

static bool note_pid(struct daemon *d, const char *order, pid_t pid, uint64_t ns)
{
	char text[64];

	snprintf(text, sizeof(text), "%s %d %" PRIu64 "\n", order, pid, ns);
	return child__note(&d->events.child, text);
}

/* The selected processes, not only those of the next window. 0 or negative errno. */
static int select_all(const struct daemon *d, struct proc_list *procs)
{
	if (!d->set->pid_cnt)
		/* reported when a window is due */
		return proc_scout__select(&d->set->select, procs);
	for (uint32_t i = 0; i < d->set->pid_cnt; i++)
		if (pid_hold__alive(d->holds[i]))
			proc_list__add(procs, d->set->pids[i], 0);
	return 0;
}

/* Starts a child when there is none and processes are new; sends a running one their pids. */
static void follow_processes(struct daemon *d, uint64_t now)
{
	struct proc_list procs = { .cnt = 0 }, *targets = &d->events.targets;
	bool any_new = false;

	d->events.next_ns = now + SELECT_EVERY_NS;
	if (select_all(d, &procs)) {
		proc_list__free(&procs);
		return;
	}
	proc_list__replace(targets, &procs);
	for (uint32_t i = 0; i < targets->cnt; i++)
		any_new |= !targets->items[i].turn;
	/* also when all pids have been sent: the last child may have ended before it read them */
	if (!d->events.child.pid && targets->cnt && (any_new || now >= d->events.retry_ns))
		start(d);
	now = clock__mono_ns();
	for (uint32_t i = 0; i < targets->cnt && d->events.child.pid; i++)
		if (!targets->items[i].turn)
			targets->items[i].turn = note_pid(d, "follow", targets->items[i].pid, now);
}

static void take_end(struct daemon *d)
{
	uint64_t now = clock__mono_ns();
	int code = child__end(&d->events.child);

	if (code < 0 && code != CHILD_STUCK)
		pr_error("the process that follows steps was ended by signal %d", -code);
	if (!d->events.pause_ns || now > d->events.start_ns + STEADY_NS)
		d->events.pause_ns = SELECT_EVERY_NS;
	d->events.retry_ns = now + d->events.pause_ns;
	if (d->events.pause_ns < RETRY_MAX_NS)
		d->events.pause_ns *= 2;
	d->events.spent_ns += (double)d->events.cost_ns;
	d->events.cost_ns = 0;
	d->events.followed = 0;
}

static void take_following(struct daemon *d, const cJSON *line)
{
	uint32_t followed = (uint32_t)line__u64(line, "processes");

	d->events.cost_ns = line__ns(line, "charged_seconds");
	if (followed > d->events.followed)
		pr_info("following the steps of %u process%s", followed, followed == 1 ? "" : "es");
	d->events.followed = followed;
}

static bool take_event(const cJSON *line, struct event *ev)
{
	char kind[32];

	line__text(line, "kind", kind, sizeof(kind));
	line__text(line, "text", ev->text, sizeof(ev->text));
	ev->pid = (uint32_t)line__u64(line, "pid");
	ev->more = line__u64(line, "more");
	for (ev->kind = 0; ev->kind < EVENT_KIND_CNT; ev->kind++)
		if (!strcmp(kind, event__name(ev->kind)))
			return true;
	return false;
}

/* The next event that the child has reported. Also takes its end. False: there is none. */
static bool next_event(struct daemon *d, struct event *ev)
{
	const char *name;
	cJSON *line;
	bool found = false;

	while (!found && (line = child__read(&d->events.child, &name))) {
		if (!strcmp(name, "following"))
			take_following(d, line);
		else if (!strcmp(name, "happened"))
			found = take_event(line, ev);
		cJSON_Delete(line);
	}
	if (!found && d->events.child.pid &&
	    (d->events.child.progress.fd < 0 || d->events.child.stuck))
		take_end(d);
	return found;
}

void events__stop(struct daemon *d)
{
	struct event ev;

	if (d->events.child.pid)
		kill(d->events.child.pid, SIGTERM);
	while (d->events.child.pid) {
		while (next_event(d, &ev))
			;
		if (d->events.child.pid)
			poll(NULL, 0, END_POLL_MS);
	}
	proc_list__free(&d->events.targets);
	d->events.next_ns = d->events.retry_ns = 0;
	if (d->events.ignored)
		pr_info("events that opened no window, since one did: %llu",
			(unsigned long long)d->events.ignored);
	d->events.ignored = 0;
}

/* ---- events ---- */

/* As of any window, but the process that it is opened for is among them. */
static void choose_processes(struct daemon *d, pid_t pid, struct window_request *rq)
{
	struct window_spec spec = { .pid_cnt = 0 };

	rq->held = !rq->hangs && hold__is_ready(d);
	if (rq->held) /* they may have ended meanwhile */
		spec = d->hold.window.spec;
	else
		begin__select(d, &spec);
	rq->pid_cnt = spec.pid_cnt;
	memcpy(rq->pids, spec.pids, sizeof(rq->pids));
	for (uint32_t i = 0; i < rq->pid_cnt; i++)
		if (rq->pids[i] == pid || rq->held)
			return;
	if (rq->pid_cnt)
		rq->pids[rq->pid_cnt - 1] = pid;
}

static uint64_t last_use(const struct event_source *src)
{
	return src->last_ns > src->said_ns ? src->last_ns : src->said_ns;
}

static struct event_source *source_of(struct daemon *d, const struct event *ev)
{
	struct event_source *oldest = d->events.sources;

	for (uint32_t i = 0; i < d->events.source_cnt; i++) {
		struct event_source *src = &d->events.sources[i];

		if (src->pid == (pid_t)ev->pid && src->kind == ev->kind)
			return src;
		if (last_use(src) < last_use(oldest))
			oldest = src;
	}
	if (d->events.source_cnt < DAEMON_SOURCES_MAX)
		oldest = &d->events.sources[d->events.source_cnt++];
	*oldest = (struct event_source){ .pid = (pid_t)ev->pid, .kind = ev->kind };
	return oldest;
}

/* It opens no window. What has happened is over, but a hang may last. */
static void ignore(struct daemon *d, const struct event *ev, const char *why, uint64_t now,
		   uint64_t again_ns)
{
	struct event_source *src = source_of(d, ev);

	d->events.ignored += 1 + ev->more;
	if (ev->kind == EVENT_HANG && d->events.child.pid &&
	    !note_pid(d, "again", (pid_t)ev->pid, again_ns))
		pr_debug("the hang of pid %u is not reported again", ev->pid);
	if (src->said_ns && now < src->said_ns + SAY_AGAIN_NS)
		return;
	src->said_ns = now;
	pr_info("pid %u: %s: %s: no window is opened: %s; further ones of this kind and process are only counted",
		ev->pid, event__name(ev->kind), ev->text, why);
}

static void open_window(struct daemon *d, const struct event *ev, uint64_t now)
{
	struct event_source *src = source_of(d, ev);
	bool hangs = ev->kind == EVENT_HANG;
	struct window_request rq = { .trigger = { .kind = event__name(ev->kind),
						  .event_pid = (pid_t)ev->pid,
						  .ignored = d->events.ignored + ev->more },
				     .duration_ns = hangs ? HANG_WINDOW_NS : 0,
				     .hangs = hangs,
				     .limited = true };
	uint64_t nr;
	char why[256];

	snprintf(rq.trigger.event, sizeof(rq.trigger.event), "%s", ev->text);
	choose_processes(d, (pid_t)ev->pid, &rq);
	if (request__open(d, &rq, &nr, why, sizeof(why))) {
		ignore(d, ev, why, now, now + HANG_AGAIN_NS);
		return;
	}
	pr_info("window %llu: pid %u: %s: %s; events before it that opened none: %llu",
		(unsigned long long)nr, ev->pid, event__name(ev->kind), ev->text,
		(unsigned long long)rq.trigger.ignored);
	src->last_ns = now;
	src->said_ns = 0;
	d->events.ignored = 0;
}

/* Of all that has been reported, one at most opens a window: the one whose kind and process have
 * had none for longest. */
static void take_events(struct daemon *d, uint64_t now)
{
	struct event ev, best = { .pid = 0 };

	while (next_event(d, &ev)) {
		uint64_t last = source_of(d, &ev)->last_ns, again = last + d->set->open_interval_ns;

		if (last && now < again) {
			ignore(d, &ev, "--open-interval has not passed", now, again);
			continue;
		}
		if (best.pid && last >= source_of(d, &best)->last_ns) {
			ignore(d, &ev, "another event opens one", now, now + HANG_AGAIN_NS);
			continue;
		}
		if (best.pid)
			ignore(d, &best, "another event opens one", now, now + HANG_AGAIN_NS);
		best = ev;
	}
	if (best.pid)
		open_window(d, &best, now);
}

/* While a window is recorded, or probes are placed, steps do not count. */
static void pause_child(struct daemon *d)
{
	bool paused = d->hold.window.child.pid && !hold__is_ready(d);

	for (uint32_t i = 0; i < d->window_cnt; i++)
		paused |= !d->windows[i].report.sealed;
	if (d->events.paused != paused &&
	    (!d->events.child.pid ||
	     child__note(&d->events.child, paused ? "pause\n" : "resume\n")))
		d->events.paused = paused; /* else next time */
}

uint64_t events__follow(struct daemon *d)
{
	uint64_t now = clock__mono_ns();

	if (!d->set->open_on)
		return UINT64_MAX;
	take_events(d, now);
	pause_child(d);
	if (now >= d->events.next_ns)
		follow_processes(d, now);
	return d->events.next_ns > now ? d->events.next_ns - now : 0;
}
