/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ptbpf sample: windows by a schedule and by request, for as long as the targets live or for ever. Between windows nothing is attached.
 * This process waits, selects, starts the process of each window, and keeps the log and the quota.
 */
#define LOG_DOMAIN "sample"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "cli/sample_steps.h"
#include "cli/sampler.h"
#include "record/targets.h"
#include "target/pid_hold.h"

/* --pid: have all ended? */
static bool targets_ended(const struct sampler *s)
{
	for (uint32_t i = 0; i < s->cfg->run.pids.cnt; i++)
		if (pid_hold__alive(s->holds[i]))
			return false;
	return s->cfg->run.pids.cnt > 0;
}

/* The first signal: no window begins any more. The second: the window in hand ends now. */
static void take_signal(struct sampler *s)
{
	if (!cancel__take())
		return;
	if (!s->signals++)
		pr_info("ends after the window in hand, if any; a second signal ends that now");
	for (uint32_t i = 0; i < s->window_cnt; i++)
		if (s->signals > 1 || !s->windows[i].report.traced)
			kill(s->windows[i].child.pid, SIGTERM);
}

/*
 * Takes over the settings. A schedule that differs begins now, or after the window in hand; numbers of windows go on. When
 * the schedule is the same, windows stay where they were.
 */
static void use_settings(struct sampler *s, struct sample_settings *set)
{
	struct sample_settings *old = s->settings;
	bool same = old && !strcmp(old->cfg.schedule, set->cfg.schedule);
	struct schedule_window last;
	uint64_t now = clock__mono_ns();

	if (!same && s->next && !s->schedule.in_steps &&
	    schedule__window(&s->schedule, s->next - 1, &last) && now < s->start_ns + last.end)
		now = s->start_ns + last.end;
	s->settings = set;
	s->cfg = &set->cfg;
	s->schedule = set->schedule;
	s->resumed = same ? s->resumed : 0;
	s->schedule.repeat -= s->resumed;
	s->max_overhead = set->max_overhead;
	s->fixed_ns = 0; /* of other options */
	if (!same) {
		s->next = 0;
		s->start_ns = now;
		step_wait__begin(&s->step_wait, now);
		cost_account__clear(&s->account); /* the limit is for the time since then */
		s->watch_spent_ns = 0;
	}
	sample_settings__release(old);
}

int sampler__toggle(struct sampler *s, const struct control_request *rq, char *why, size_t cap)
{
	struct sample_settings *set;
	int err = sample_settings__toggle(s->settings, rq, &set, why, cap);

	if (err)
		return err;
	sample_hold__end(s); /* it records other activities */
	use_settings(s, set);
	if (set->off)
		pr_info("from window %llu on: without %s", (unsigned long long)s->nr, set->off);
	else
		pr_info("from window %llu on: all activities", (unsigned long long)s->nr);
	return 0;
}

/* What was switched off stays off, where the new settings have it. */
static void keep_toggle(struct sampler *s, const char *off)
{
	struct control_request rq = { .what = CONTROL_TOGGLE };
	char why[256];

	if (!off)
		return;
	if (!strcmp(off, "cpu"))
		rq.cpu = SWITCH_OFF;
	else
		rq.cuda = SWITCH_OFF;
	if (sampler__toggle(s, &rq, why, sizeof(why)))
		pr_warn("%s is no longer switched off: %s", off, why);
}

/* SIGHUP */
static void take_reload(struct sampler *s)
{
	struct sample_settings *set;
	const char *off = s->settings->off;

	if (!cancel__take_reload() || s->signals)
		return;
	if (sample_settings__reload(s->argc, s->argv, s->settings, &set)) {
		pr_error("'%s' is not used: the settings remain as they were", s->cfg->config);
		return;
	}
	sample_events__stop(s);
	use_settings(s, set);
	pr_info("'%s' is read again", s->cfg->config);
	keep_toggle(s, off);
	sampler__trim(s);
}

static void read_reports(struct sampler *s, struct sample_window *w)
{
	bool began = w->report.traced;

	sample_window__read(w);
	sampler__strike_slow(s, w);
	if (s->schedule.in_steps && w->report.sealed)
		sample_steps__ended(&s->step_wait, w);
	if (began || !w->report.traced)
		return;
	s->attach_ns = w->report.attach_ns;
	pr_info("window %llu: recording %u process%s", (unsigned long long)w->spec.nr,
		w->report.traced, w->report.traced == 1 ? "" : "es");
}

/* Waits for the end of a window or a target, a signal, or the time. */
static int wait_events(struct sampler *s, uint64_t ns)
{
	struct pollfd polls[5 + 3 * SAMPLER_WINDOWS_MAX + OPT_PIDS_MAX];
	struct http_server *server = s->control.server;
	uint64_t ms = ns / 1000000 + 1;
	uint32_t n = 0;

	polls[n++] = (struct pollfd){ .fd = cancel__fd(), .events = POLLIN };
	for (uint32_t i = 0; i < s->window_cnt; i++) {
		const struct sample_child *c = &s->windows[i].child;

		polls[n++] = (struct pollfd){ .fd = c->pidfd, .events = POLLIN };
		polls[n++] = (struct pollfd){ .fd = c->progress.fd, .events = POLLIN };
		polls[n++] = (struct pollfd){ .fd = c->messages.fd, .events = POLLIN };
	}
	for (uint32_t i = 0; i < s->cfg->run.pids.cnt; i++) /* of those that live */
		polls[n++] = (struct pollfd){ .fd = pid_hold__alive(s->holds[i]) ? s->holds[i] : -1,
					      .events = POLLIN };
	if (s->reload_fd >= 0)
		polls[n++] = (struct pollfd){ .fd = s->reload_fd, .events = POLLIN };
	polls[n++] = (struct pollfd){ .fd = server ? http_server__fd(server) : -1, .events = POLLIN };
	polls[n++] = (struct pollfd){ .fd = sample_events__fd(&s->events), .events = POLLIN };
	polls[n++] = (struct pollfd){ .fd = sample_hold__fd(&s->hold), .events = POLLIN };
	if (s->command_cnt && ms > 1000)
		ms = 1000;
	ms = ms > 3600000 ? 3600000 : ms;
	if (server)
		ms = (uint64_t)http_server__wait_ms(server, (int)ms);
	if (poll(polls, n, (int)ms) < 0 && errno != EINTR)
		return -errno;
	for (uint32_t i = s->window_cnt; i--;) { /* end_window() moves the last one here */
		read_reports(s, &s->windows[i]);
		if (polls[1 + 3 * i].revents || s->windows[i].child.stuck)
			sampler__end_window(s, i);
	}
	if (server)
		http_server__run(server);
	return 0;
}

/* The processes have ended, perhaps of something that is an event, and the last seconds are held. */
static bool awaits_last_event(const struct sampler *s)
{
	return !s->signals && sample_hold__is_ready(&s->hold) && s->events.watch.child.pid;
}

static int run_schedule(struct sampler *s)
{
	int err = 0;

	while (!err) {
		bool stop = s->signals || targets_ended(s);
		uint64_t ns = stop ? UINT64_MAX : sampler__follow_requests(s), next;

		if (stop)
			sampler__drop_requests(s);
		next = stop ? UINT64_MAX : sampler__follow_schedule(s);
		ns = next < ns ? next : ns;
		sample_hold__keep(s);
		next = stop && !awaits_last_event(s) ? UINT64_MAX : sample_events__follow(s);
		ns = next < ns ? next : ns;
		if (ns == UINT64_MAX && !s->window_cnt)
			return 0;
		err = wait_events(s, ns);
		take_signal(s);
		take_reload(s);
		sampler__reap_commands(s);
	}
	pr_error("cannot wait for the next window: %s", errstr(err));
	return err;
}

/* An earlier ptbpf that was ended before its schedule was has left a part of that. */
static void resume_schedule(struct sampler *s)
{
	const struct pid_list *named = &s->cfg->run.pids;
	uint64_t done = s->schedule.repeat ?
				window_dir__cycles(&s->dir, s->cfg->schedule, named->pids, named->cnt) :
				0;

	if (!done || done >= s->schedule.repeat)
		return;
	pr_info("%llu of the %llu windows of this schedule are in '%s' already: the others follow",
		(unsigned long long)done, (unsigned long long)s->schedule.repeat, s->dir.path);
	s->resumed = done;
	s->schedule.repeat -= done;
}

/* False: none of --pid is there (reported). */
static bool hold_targets(struct sampler *s)
{
	const struct pid_list *named = &s->cfg->run.pids;
	uint32_t alive = 0;

	for (uint32_t i = 0; i < named->cnt; i++) {
		s->holds[i] = pid_hold__open(named->pids[i]);
		if (s->holds[i] < 0)
			targets__say_why(named->pids[i], TORCH_PROC_NO_SUCH_PID, s->holds[i]);
		alive += s->holds[i] >= 0;
	}
	s->incomplete = alive < named->cnt;
	return alive || !named->cnt;
}

int cmd_sample(int argc, char **argv)
{
	static struct sampler s;
	struct sample_settings *set = NULL;
	int err = sample_settings__load(argc, argv, &set);

	if (err)
		return err == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	s.argc = argc;
	s.argv = argv;
	log__limit_repeats();
	sample_events__init(&s.events);
	s.reload_fd = set->cfg.config ? cancel__reload_fd() : -1;
	use_settings(&s, set);
	sample_metrics__init(&s.metrics);
	if (run__check() || !hold_targets(&s) || window_dir__open(s.cfg->dir, &s.dir) ||
	    sample_control__open(&s))
		return EXIT_FAILED;
	sampler__trim(&s);
	resume_schedule(&s);
	s.nr = s.dir.next_nr;
	s.start_ns = clock__mono_ns();
	step_wait__begin(&s.step_wait, s.start_ns);
	pr_info("sampling into %s; Ctrl-C ends it", s.dir.path);
	err = run_schedule(&s);
	sample_hold__end(&s);
	sample_events__stop(&s);
	sample_control__close(&s);
	proc_list__free(&s.procs);
	window_dir__close(&s.dir);
	if (err || (!s.any && (s.incomplete || !s.schedule.none))) /* nobody has requested a window */
		return EXIT_FAILED;
	return s.incomplete ? EXIT_INCOMPLETE : EXIT_DONE;
}
