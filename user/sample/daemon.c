/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The daemon: it waits, and each file of it does what is due. */
#define LOG_DOMAIN "sample"
#include "sample/daemon.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "target/proc.h"

/* --pid: have all ended? */
static bool targets_ended(const struct daemon *d)
{
	for (uint32_t i = 0; i < d->set->pid_cnt; i++)
		if (pid_hold__alive(d->holds[i]))
			return false;
	return d->set->pid_cnt > 0;
}

/* The first signal: no window begins any more. The second: the window in hand ends now. */
static void take_signal(struct daemon *d)
{
	if (!cancel__take())
		return;
	if (!d->signals++)
		pr_info("ends after the window in hand, if any; a second signal ends that now");
	for (uint32_t i = 0; i < d->window_cnt; i++)
		if (d->signals > 1 || !d->windows[i].report.traced)
			kill(d->windows[i].child.pid, SIGTERM);
}

/* ---- settings ---- */

/*
 * A schedule that differs begins now, or after the window in hand; numbers of windows go on. When
 * the schedule is the same, windows stay where they were.
 */
static void use_settings(struct daemon *d, const struct sample_settings *set)
{
	bool same = d->set && !strcmp(d->set->schedule_text, set->schedule_text);
	struct schedule_window last;
	uint64_t now = clock__mono_ns();

	if (!same && d->next && !d->schedule.in_steps &&
	    schedule__window(&d->schedule, d->next - 1, &last) && now < d->start_ns + last.end)
		now = d->start_ns + last.end;
	d->set = set;
	d->schedule = set->schedule;
	d->resumed = same ? d->resumed : 0;
	d->schedule.repeat -= d->resumed;
	d->fixed_ns = 0; /* of other options */
	if (!same) {
		d->next = 0;
		d->start_ns = now;
		step_wait__begin(&d->step_wait, now);
		cost_account__clear(&d->account); /* the limit is for the time since then */
		d->events.spent_ns = 0;
	}
}

static const char *why_no_toggle(const struct sample_settings *set,
				 const struct control_request *rq, bool no_cpu, bool no_cuda)
{
	return set->samples ?
		       "it samples Python stacks (--sample-stacks), which are no activity" :
	       rq->cpu && !set->cpu ?
		       "cpu is not among the activities that it records" :
	       rq->cuda && !set->cuda ?
		       "cuda is not among the activities that it records" :
	       (no_cpu || !set->cpu) && (no_cuda || !set->cuda) ?
		       "nothing would be left to record" :
	       no_cpu && set->schedule.in_steps ?
		       "cpu cannot be switched off: the windows of its schedule are counted in steps" :
		       NULL;
}

const char *daemon__toggle(struct daemon *d, const struct control_request *rq)
{
	bool no_cpu = rq->cpu ? rq->cpu == SWITCH_OFF : d->off && !strcmp(d->off, "cpu");
	bool no_cuda = rq->cuda ? rq->cuda == SWITCH_OFF : d->off && !strcmp(d->off, "cuda");
	const char *why = why_no_toggle(d->set, rq, no_cpu, no_cuda);

	if (why)
		return why;
	d->off = no_cpu ? "cpu" : no_cuda ? "cuda" : NULL;
	d->fixed_ns = 0;
	pr_info("from window %llu on: %s%s", (unsigned long long)d->nr,
		d->off ? "without " : "all activities", d->off ?: "");
	return NULL;
}

/* SIGHUP. What was switched off stays off, where the new settings have it. */
static void take_reload(struct daemon *d)
{
	struct control_request rq = { .what = CONTROL_TOGGLE };
	const struct sample_settings *set;
	const char *off = d->off, *why;

	if (!cancel__take_reload() || d->signals)
		return;
	set = d->reload(d->reload_arg);
	if (!set)
		return;
	events__stop(d);
	use_settings(d, set);
	d->off = NULL;
	if (off) {
		*(!strcmp(off, "cpu") ? &rq.cpu : &rq.cuda) = SWITCH_OFF;
		why = daemon__toggle(d, &rq);
		if (why)
			pr_warn("%s is no longer switched off: %s", off, why);
	}
	end__trim(d);
}

/* ---- the loop ---- */

static void read_reports(struct daemon *d, struct window *w)
{
	bool began = w->report.traced;

	window__read(w);
	end__strike_slow(d, w);
	if (d->schedule.in_steps && w->report.sealed)
		end__count_steps(&d->step_wait, w);
	if (began || !w->report.traced)
		return;
	d->attach_ns = w->report.attach_ns;
	pr_info("window %llu: recording %u process%s", (unsigned long long)w->spec.nr,
		w->report.traced, w->report.traced == 1 ? "" : "es");
}

struct polls {
	struct pollfd list[5 + 3 * DAEMON_WINDOWS_MAX + PROC_SELECT_MAX];
	uint32_t cnt;
};

/* fd -1: nothing is waited for. */
static void add_poll(struct polls *p, int fd)
{
	p->list[p->cnt++] = (struct pollfd){ .fd = fd, .events = POLLIN };
}

static void add_polls(const struct daemon *d, struct polls *p)
{
	p->cnt = 0;
	for (uint32_t i = 0; i < d->window_cnt; i++) {
		const struct child *c = &d->windows[i].child;

		add_poll(p, c->pidfd);
		add_poll(p, c->progress.fd);
		add_poll(p, c->messages.fd);
	}
	for (uint32_t i = 0; i < d->set->pid_cnt; i++)
		add_poll(p, pid_hold__alive(d->holds[i]) ? d->holds[i] : -1);
	add_poll(p, cancel__fd());
	add_poll(p, d->reload_fd);
	add_poll(p, d->control.server ? http_server__fd(d->control.server) : -1);
	add_poll(p, d->events.child.pid ? d->events.child.progress.fd : -1);
	add_poll(p, d->hold.window.child.pid ? d->hold.window.child.progress.fd : -1);
}

/* Waits for the end of a window or a target, a signal, or the time. */
static int wait_events(struct daemon *d, uint64_t ns)
{
	struct http_server *server = d->control.server;
	uint64_t ms = ns / 1000000 + 1;
	struct polls p;

	add_polls(d, &p);
	if (d->command_cnt && ms > 1000)
		ms = 1000;
	ms = ms > 3600000 ? 3600000 : ms;
	if (server)
		ms = (uint64_t)http_server__wait_ms(server, (int)ms);
	if (poll(p.list, p.cnt, (int)ms) < 0 && errno != EINTR)
		return -errno;
	for (uint32_t i = d->window_cnt; i--;) { /* end__window() moves the last one here */
		read_reports(d, &d->windows[i]);
		if (p.list[3 * i].revents || d->windows[i].child.stuck)
			end__window(d, i);
	}
	if (server)
		http_server__run(server);
	return 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int run_loop(struct daemon *d)
{
	int err = 0;

	while (!err) {
		bool stop = d->signals || targets_ended(d);
		uint64_t ns = UINT64_MAX;

		if (stop)
			request__drop_all(d);
		else
			ns = request__follow(d);
		if (!stop)
			ns = least(ns, begin__follow_schedule(d));
		hold__keep(d);
		/* the processes may have ended of something that is an event, and is held */
		if (!stop || (!d->signals && hold__is_ready(d) && d->events.child.pid))
			ns = least(ns, events__follow(d));
		if (ns == UINT64_MAX && !d->window_cnt)
			return 0;
		err = wait_events(d, ns);
		take_signal(d);
		take_reload(d);
		end__reap_commands(d);
	}
	pr_error("cannot wait for the next window: %s", errstr(err));
	return err;
}

/* ---- the begin ---- */

/* An earlier ptbpf that was ended before its schedule was has left a part of that. */
static void resume_schedule(struct daemon *d)
{
	uint64_t done = 0, repeat = d->schedule.repeat;

	if (repeat)
		done = window_dir__cycles(&d->dir, d->set->schedule_text, d->set->pids,
					  d->set->pid_cnt);
	if (!done || done >= repeat)
		return;
	pr_info("%llu of the %llu windows of this schedule are in '%s' already: the others follow",
		(unsigned long long)done, (unsigned long long)repeat, d->dir.path);
	d->resumed = done;
	d->schedule.repeat -= done;
}

/* False: none of --pid is there (reported). */
static bool hold_targets(struct daemon *d)
{
	uint32_t alive = 0;

	for (uint32_t i = 0; i < d->set->pid_cnt; i++) {
		d->holds[i] = pid_hold__open(d->set->pids[i]);
		if (d->holds[i] < 0)
			pr_error("cannot attach to pid %d: there is no such process",
				 d->set->pids[i]);
		alive += d->holds[i] >= 0;
	}
	d->incomplete = alive < d->set->pid_cnt;
	return alive || !d->set->pid_cnt;
}

enum sample_code sample__run(const struct sample_settings *set, sample_reload_fn reload, void *arg)
{
	static struct daemon d;
	int err;

	d.reload = reload;
	d.reload_arg = arg;
	d.reload_fd = reload ? cancel__reload_fd() : -1;
	use_settings(&d, set);
	d.metrics.version = PTBPF_VERSION;
	d.metrics.start_unix_ns = clock__pair().real_ns;
	if (!hold_targets(&d) || window_dir__open(set->dir, &d.dir) || control__open(&d))
		return SAMPLE_FAILED;
	end__trim(&d);
	resume_schedule(&d);
	d.nr = d.dir.next_nr;
	d.start_ns = clock__mono_ns();
	step_wait__begin(&d.step_wait, d.start_ns);
	pr_info("sampling into %s; Ctrl-C ends it", d.dir.path);
	selected__say(&d);
	err = run_loop(&d);
	hold__end(&d);
	events__stop(&d);
	control__close(&d);
	proc_list__free(&d.procs);
	cost_account__clear(&d.account);
	window_dir__close(&d.dir);
	/* nobody has requested a window */
	if (err || (!d.any && (d.incomplete || !d.schedule.none)))
		return SAMPLE_FAILED;
	return d.incomplete ? SAMPLE_INCOMPLETE : SAMPLE_DONE;
}
