/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ptbpf sample: windows by a schedule, for as long as the targets live or for ever. Between windows nothing is attached.
 * This process waits, selects, starts the process of each window, and keeps the log and the quota.
 */
#define LOG_DOMAIN "sample"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "cli/sample_metrics.h"
#include "cli/sample_opts.h"
#include "cli/sample_steps.h"
#include "cli/sample_thin.h"
#include "cli/sample_window.h"
#include "export/session_json.h"
#include "record/targets.h"
#include "report/report_out.h"
#include "sample/window_dir.h"
#include "target/pid_hold.h"

#define LEAD_NS 2000000000ULL /* before probes are attached: programs and ring buffers are made */
/* Before a window without a longer warm-up begins: until it is known how long it takes to attach, and at most. */
#define ATTACH_NS 100000000ULL
#define ATTACH_MAX_NS 1000000000ULL
#define WINDOWS_MAX 4         /* at the same time, exports included */
#define COST_MIN_NS 1000000.0 /* a window that may cost a process less is of no use */
#define COMMANDS_MAX 8        /* of --on-window at the same time */

struct sampler {
	struct sample_settings *settings;
	const struct sample_cfg *cfg; /* of the settings, as the next two */
	struct schedule schedule;
	double max_overhead;
	struct step_wait step_wait; /* of a schedule in steps */
	struct window_dir dir;
	int holds[OPT_PIDS_MAX]; /* of --pid */
	pid_t last_pid;          /* of those in the last window that were selected */
	uint64_t start_ns;       /* of the schedule */
	uint64_t first_nr;       /* number of its first window */
	uint64_t next;           /* window of the schedule */
	uint64_t last_real_ns;   /* Unix time in the names of the window that ended last */
	uint64_t skipped;        /* since the last one that was started */
	struct sample_window windows[WINDOWS_MAX];
	uint32_t window_cnt;
	pid_t commands[COMMANDS_MAX];
	uint32_t command_cnt;
	struct thin thin;
	uint64_t attach_ns[THIN_LEVEL_CNT]; /* it takes to attach, as of the last such window; 0: not known */
	double spent_ns; /* that windows have cost, each the process that it cost most */
	struct sample_metrics metrics;
	uint32_t signals;
	int argc;
	char **argv;
	int reload_fd;        /* SIGHUP; -1: it ends the program */
	bool any, incomplete; /* a window was recorded; one was not, or not completely */
};

/* ---- what is done with a window that has ended ---- */

static void put_line(struct sampler *s, const struct sample_window *w, int code)
{
	struct jsonw_text line = { .len = 0 };
	char why[256];
	struct jsonw j;

	if (jsonw__init(&j, jsonw__to_text, &line, sizeof(line.text)))
		return;
	jsonw__begin_obj(&j);
	JSONW_U64(&j, "window", w->spec.nr);
	JSONW_U64(&j, "begin_unix_ns", w->spec.real_ns);
	JSONW_ARR(&j, "pids");
	for (uint32_t i = 0; i < w->spec.pid_cnt; i++)
		jsonw__i64(&j, w->spec.pids[i]);
	jsonw__end_arr(&j);
	if (w->spec.selected > w->spec.pid_cnt)
		JSONW_U64(&j, "selected", w->spec.selected);
	window_jobs__write(&j, &w->spec.jobs);
	JSONW_I64(&j, "exit", code);
	if (w->report.traced)
		JSONW_DOUBLE(&j, "late_seconds", (double)w->report.late_ns / 1e9);
	if (w->report.sealed)
		JSONW_STR(&j, "capture", w->spec.capture);
	if (w->report.has_result) {
		if (w->spec.trace[0])
			JSONW_STR(&j, "trace", w->spec.trace);
		JSONW_DOUBLE(&j, "seconds", (double)w->report.result.window_ns / 1e9);
		JSONW_U64(&j, "slices", w->report.result.slices);
		JSONW_U64(&j, "lost", w->report.result.lost);
		if (w->report.result.cost_share >= 0)
			JSONW_DOUBLE(&j, "cost_share", w->report.result.cost_share);
		JSONW_DOUBLE(&j, "charged_seconds", (double)w->report.cost_ns / 1e9);
		JSONW_STR(&j, "stopped_by", session_json__stop_text(w->report.result.stop_reason));
		if (w->spec.thin)
			JSONW_STR(&j, "thinned", thin__text(w->spec.thin));
		if (w->report.result.stop_reason == PTB_STOP_COST)
			JSONW_BOOL(&j, "shortened", true);
		if (w->report.result.incomplete[0])
			JSONW_STR(&j, "incomplete", w->report.result.incomplete);
	}
	sample_window__put_when(&j, w);
	sample_steps__put(&j, w);
	sample_steps__why(w, why, sizeof(why));
	if (why[0])
		JSONW_STR(&j, "incomplete", why);
	JSONW_U64(&j, "skipped_before", s->skipped);
	jsonw__end_obj(&j);
	if (!jsonw__flush(&j))
		window_dir__log(&s->dir, &line);
	jsonw__free(&j);
	s->skipped = 0;
}

static void print_window(const struct sample_window *w)
{
	char cost[48] = "", why[256];

	sample_steps__why(w, why, sizeof(why));
	if (w->report.has_result && w->report.result.cost_share >= 0)
		snprintf(cost, sizeof(cost), "; at least %.2f %% of the window",
			 100 * w->report.result.cost_share);
	if (w->report.has_result)
		pr_info("window %llu: %s: %.2f s, %s slices, lost %llu%s%s%s%s%s",
			(unsigned long long)w->spec.nr, w->spec.capture,
			(double)w->report.result.window_ns / 1e9,
			cell__count(w->report.result.slices).text,
			(unsigned long long)w->report.result.lost, cost,
			w->spec.thin ? "; thinned: " : "", thin__text(w->spec.thin),
			w->report.result.incomplete[0] ? "; incomplete: " : "",
			w->report.result.incomplete);
	else
		pr_warn("window %llu: %s", (unsigned long long)w->spec.nr,
			w->report.sealed ? "recorded, but not exported" :
			why[0]           ? why :
					   "not recorded");
}

static void set_number(const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	setenv(name, text, 1);
}

static void run_command(struct sampler *s, const struct sample_window *w, int code)
{
	const char *on_window = w->settings->cfg.on_window;
	pid_t pid;

	if (!on_window)
		return;
	if (s->command_cnt == COMMANDS_MAX) {
		pr_warn("window %llu: --on-window is not run: %d of its commands have not ended",
			(unsigned long long)w->spec.nr, COMMANDS_MAX);
		return;
	}
	pid = fork();
	if (!pid) {
		cancel__child();
		signal(SIGPIPE, SIG_DFL);
		signal(SIGXFSZ, SIG_DFL);
		set_number("PTBPF_WINDOW", w->spec.nr);
		set_number("PTBPF_EXIT", (uint64_t)code);
		setenv("PTBPF_CAPTURE", w->spec.capture, 1);
		setenv("PTBPF_TRACE", w->spec.trace, 1);
		execl("/bin/sh", "sh", "-c", on_window, (char *)NULL);
		_exit(127);
	}
	if (pid < 0)
		pr_warn("window %llu: --on-window cannot be run: %s",
			(unsigned long long)w->spec.nr, errstr(errno));
	else
		s->commands[s->command_cnt++] = pid;
}

static void reap_commands(struct sampler *s)
{
	for (uint32_t i = 0; i < s->command_cnt;) {
		if (waitpid(s->commands[i], NULL, WNOHANG))
			s->commands[i] = s->commands[--s->command_cnt];
		else
			i++;
	}
}

static void trim(const struct sampler *s)
{
	uint64_t keep[WINDOWS_MAX + 1] = { s->last_real_ns };

	if (!s->cfg->max_disk)
		return;
	for (uint32_t i = 0; i < s->window_cnt; i++)
		keep[1 + i] = s->windows[i].spec.real_ns;
	window_dir__trim(&s->dir, s->cfg->max_disk, clock__pair().real_ns, keep, 1 + s->window_cnt);
}

static void end_window(struct sampler *s, uint32_t i)
{
	struct sample_window w = s->windows[i];
	int code = sample_window__end(&w);

	s->windows[i] = s->windows[--s->window_cnt];
	if (s->schedule.in_steps)
		sample_steps__ended(&s->step_wait, &w);
	s->next += w.spec.measure && code != EXIT_DONE; /* without a step there is no window, either */
	if ((!s->signals || w.report.traced) &&
	    !(w.spec.measure && code == EXIT_DONE)) { /* else it was to begin later */
		s->any |= w.report.has_result;
		s->spent_ns += (double)(w.report.cost_known ? w.report.cost_ns : w.spec.max_cost_ns);
		s->incomplete |= code != EXIT_DONE;
		s->last_real_ns = w.spec.real_ns;
		if (!w.report.has_result)
			window_dir__remove_partial(&s->dir, w.spec.real_ns);
		sample_thin__learn(&s->thin, &w);
		sample_metrics__ended(&s->metrics, &w, code);
		print_window(&w);
		put_line(s, &w, code);
		trim(s);
		run_command(s, &w, code);
	}
	sample_settings__release(w.settings);
}

/* ---- what is sampled, and when ---- */

_Static_assert(PROC_SELECT_MAX <= OPT_PIDS_MAX, "selected processes fit where named ones do");

/* Processes of the window that begins now. */
static uint32_t select_targets(struct sampler *s, pid_t *pids, uint32_t *selected)
{
	const struct pid_list *named = &s->cfg->run.pids;
	uint32_t cnt = 0, over = 0;
	int n;

	if (named->cnt) {
		for (uint32_t i = 0; i < named->cnt; i++)
			if (pid_hold__alive(s->holds[i]))
				pids[cnt++] = named->pids[i];
		return cnt;
	}
	n = proc_select__find(&s->cfg->select, pids, PROC_SELECT_MAX, &over);
	if (n < 0)
		pr_error("cannot list the processes: %s", errstr(n));
	if (over)
		pr_warn("%u of the selected processes are beyond the %d that are listed", over,
			PROC_SELECT_MAX);
	if (n < 0)
		return 0;
	*selected = (uint32_t)n + over;
	return proc_select__turn(pids, (uint32_t)n, (uint32_t)s->cfg->process_limit, &s->last_pid);
}

/* --pid: have all ended? */
static bool targets_ended(const struct sampler *s)
{
	for (uint32_t i = 0; i < s->cfg->run.pids.cnt; i++)
		if (pid_hold__alive(s->holds[i]))
			return false;
	return s->cfg->run.pids.cnt > 0;
}

/* Of the next window. */
static uint64_t nr(const struct sampler *s)
{
	return s->first_nr + s->next;
}

static void skip(struct sampler *s, const char *why)
{
	pr_warn("window %llu is skipped: %s", (unsigned long long)nr(s), why);
	s->skipped++;
	sample_metrics__skipped(&s->metrics);
	s->incomplete = true;
}

/*
 * What the window may cost a process, in ns: the share of all the time until the next window, less what earlier windows
 * have cost and those in hand may cost.
 */
static double allowance(const struct sampler *s, const struct schedule_window *at)
{
	struct schedule_window next = { .warmup = at->end };
	double spent = s->spent_ns;

	if (s->schedule.in_steps)
		next.warmup += s->schedule.wait * s->step_wait.step_ns;
	else
		schedule__window(&s->schedule, s->next + 1, &next);
	for (uint32_t i = 0; i < s->window_cnt; i++)
		spent += (double)(s->windows[i].report.cost_known ? s->windows[i].report.cost_ns :
								    s->windows[i].spec.max_cost_ns);
	return s->max_overhead * (double)next.warmup - spent;
}

/*
 * When probes are attached: when the warm-up begins, or as long before the window as the last one took, so that it begins in time; but
 * not before the last one was to end.
 */
static uint64_t attach_time(const struct sampler *s, const struct schedule_window *at,
			    enum thin_level level)
{
	uint64_t last = s->attach_ns[level], takes = last ? last * 5 / 4 : ATTACH_NS,
		 pause = s->schedule.wait + s->schedule.warmup;

	if (takes > ATTACH_MAX_NS)
		takes = ATTACH_MAX_NS;
	if (takes > pause)
		takes = pause;
	if (takes > at->begin)
		takes = at->begin;
	return s->start_ns + (at->begin - takes < at->warmup ? at->begin - takes : at->warmup);
}

/* What the window may cost, and what it records for that. False: there is none (reported). */
static bool set_budget(struct sampler *s, const struct schedule_window *at,
		       struct sample_window_spec *spec)
{
	double ns = allowance(s, at);

	if (!s->schedule.in_steps)
		spec->thin = sample_thin__next(&s->thin, nr(s), ns, s->schedule.active);
	if (ns < COST_MIN_NS || !thin__may_begin(&s->thin, ns)) {
		pr_info("window %llu is skipped: it would cost more than --max-overhead",
			(unsigned long long)nr(s));
		s->skipped++;
		sample_metrics__skipped(&s->metrics);
		return false;
	}
	spec->max_cost_ns = (uint64_t)ns;
	return true;
}

static void start_window(struct sampler *s, const struct schedule_window *at, uint64_t now, bool measure)
{
	struct sample_window *w = &s->windows[s->window_cnt];
	struct sample_window_spec *spec = &w->spec;
	const char *traces = s->cfg->traces;
	struct schedule_window next;
	char suffix[32];
	uint64_t begin = s->start_ns + at->begin;

	if (s->window_cnt == WINDOWS_MAX) {
		skip(s, "earlier windows are still being written");
		return;
	}
	*w = (struct sample_window){ .spec = { .cfg = &s->cfg->run,
					       .nr = nr(s),
					       .warmup_ns = s->start_ns + at->warmup,
					       .begin_ns = begin,
					       .measure = measure,
					       .step_wait = s->step_wait } };
	if (!s->schedule.in_steps && schedule__window(&s->schedule, s->next + 1, &next))
		spec->end_ns = s->start_ns + next.warmup;
	spec->real_ns = clock__pair().real_ns + (begin > now ? begin - now : 0);
	spec->pid_cnt = select_targets(s, spec->pids, &spec->selected);
	sample_metrics__due(&s->metrics, spec);
	if (!spec->pid_cnt)
		return; /* between two jobs */
	spec->real_ns = window_dir__free_ns(&s->dir, spec->pids[0], spec->real_ns);
	window_jobs__read(spec->pids, spec->pid_cnt, &spec->jobs);
	if (window_dir__name(&s->dir, spec->pids[0], spec->real_ns, ".ptb", spec->capture,
			     sizeof(spec->capture))) {
		skip(s, "the names of its files are too long");
		return;
	}
	snprintf(suffix, sizeof(suffix), ".pt.trace.%s", traces ? traces : "");
	if (traces && strcmp(traces, "none") != 0)
		window_dir__name(&s->dir, spec->pids[0], spec->real_ns, suffix, spec->trace,
				 sizeof(spec->trace));
	if (s->max_overhead && !measure && !set_budget(s, at, spec))
		return;
	if (!s->schedule.in_steps)
		spec->warmup_ns = attach_time(s, at, spec->thin);
	if (sample_window__start(w)) {
		skip(s, "no process for it");
		return;
	}
	w->settings = sample_settings__hold(s->settings);
	s->window_cnt++;
}

/* The same for a schedule in steps: a window is due after the end of the one before. */
static uint64_t follow_steps(struct sampler *s)
{
	uint64_t in_ns, now, skipped = s->skipped;
	uint32_t cnt = s->window_cnt;
	struct schedule_window at;
	bool measure;

	if (!sample_steps__due(&s->step_wait, &s->schedule, s->next, s->start_ns, s->windows, cnt,
			       LEAD_NS, &at, &measure, &in_ns))
		return in_ns;
	now = clock__mono_ns();
	start_window(s, &at, now, measure);
	if (s->window_cnt == cnt)
		sample_steps__not_started(&s->step_wait, now, s->skipped > skipped);
	s->next += (s->window_cnt > cnt && !measure) || s->skipped > skipped;
	return 0;
}

/* Starts the window that is due; returns ns until the next one is, UINT64_MAX: there is none. */
static uint64_t follow_schedule(struct sampler *s)
{
	struct schedule_window at;

	if (s->schedule.in_steps)
		return follow_steps(s);
	while (schedule__window(&s->schedule, s->next, &at)) {
		uint64_t now = clock__mono_ns(), due = s->start_ns + at.warmup;

		due -= due > LEAD_NS ? LEAD_NS : 0;
		if (now < due)
			return due - now;
		if (now > s->start_ns + at.end)
			skip(s, "its time has passed");
		else
			start_window(s, &at, now, false);
		s->next++;
	}
	return UINT64_MAX;
}

/* ---- the loop ---- */

/* The first signal: no window begins any more. The second: the window in hand ends now. */
static void take_signal(struct sampler *s)
{
	if (!cancel__take())
		return;
	if (!s->signals++)
		pr_info("ends after the window in hand, if any; a second signal ends that now");
	for (uint32_t i = 0; i < s->window_cnt; i++)
		if (s->signals > 1 || !s->windows[i].report.traced)
			kill(s->windows[i].pid, SIGTERM);
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
	s->max_overhead = set->max_overhead;
	sample_thin__reset(&s->thin, &set->cfg.run);
	if (!same) {
		s->first_nr = nr(s);
		s->next = 0;
		s->start_ns = now;
		step_wait__begin(&s->step_wait, now);
		s->spent_ns = 0; /* of the time since then */
	}
	sample_settings__release(old);
}

/* SIGHUP */
static void take_reload(struct sampler *s)
{
	struct sample_settings *set;

	if (!cancel__take_reload() || s->signals)
		return;
	if (sample_settings__reload(s->argc, s->argv, s->settings, &set)) {
		pr_error("'%s' is not used: the settings remain as they were", s->cfg->config);
		return;
	}
	use_settings(s, set);
	pr_info("'%s' is read again", s->cfg->config);
	trim(s);
}

static void read_reports(struct sampler *s, struct sample_window *w)
{
	bool began = w->report.traced;

	sample_window__read(w);
	if (s->schedule.in_steps && w->report.sealed)
		sample_steps__ended(&s->step_wait, w);
	if (began || !w->report.traced)
		return;
	s->attach_ns[w->spec.thin] = w->report.attach_ns;
	pr_info("window %llu: recording %u process%s", (unsigned long long)w->spec.nr,
		w->report.traced, w->report.traced == 1 ? "" : "es");
}

/* Waits for the end of a window or a target, a signal, or the time. */
static int wait_events(struct sampler *s, uint64_t ns)
{
	struct pollfd polls[3 + 2 * WINDOWS_MAX + OPT_PIDS_MAX];
	uint64_t ms = ns / 1000000 + 1;
	uint32_t n = 0;

	polls[n++] = (struct pollfd){ .fd = cancel__fd(), .events = POLLIN };
	for (uint32_t i = 0; i < s->window_cnt; i++) {
		polls[n++] = (struct pollfd){ .fd = s->windows[i].pidfd, .events = POLLIN };
		polls[n++] = (struct pollfd){ .fd = s->windows[i].pipe, .events = POLLIN };
	}
	for (uint32_t i = 0; i < s->cfg->run.pids.cnt; i++) /* of those that live */
		polls[n++] = (struct pollfd){ .fd = pid_hold__alive(s->holds[i]) ? s->holds[i] : -1,
					      .events = POLLIN };
	if (s->reload_fd >= 0)
		polls[n++] = (struct pollfd){ .fd = s->reload_fd, .events = POLLIN };
	polls[n++] = (struct pollfd){ .fd = sample_metrics__fd(&s->metrics), .events = POLLIN };
	if (s->command_cnt && ms > 1000)
		ms = 1000;
	ms = ms > 3600000 ? 3600000 : ms;
	if (poll(polls, n, sample_metrics__wait_ms(&s->metrics, (int)ms)) < 0 && errno != EINTR)
		return -errno;
	for (uint32_t i = s->window_cnt; i--;) { /* end_window() moves the last one here */
		read_reports(s, &s->windows[i]);
		if (polls[1 + 2 * i].revents)
			end_window(s, i);
	}
	sample_metrics__serve(&s->metrics);
	return 0;
}

static int run_schedule(struct sampler *s)
{
	int err = 0;

	while (!err) {
		bool stop = s->signals || targets_ended(s);
		uint64_t ns = stop ? UINT64_MAX : follow_schedule(s);

		if (ns == UINT64_MAX && !s->window_cnt)
			return 0;
		err = wait_events(s, ns);
		take_signal(s);
		take_reload(s);
		reap_commands(s);
	}
	pr_error("cannot wait for the next window: %s", errstr(err));
	return err;
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
	s.reload_fd = set->cfg.config ? cancel__reload_fd() : -1;
	use_settings(&s, set);
	if (run__check() || !hold_targets(&s) || window_dir__open(s.cfg->dir, &s.dir) ||
	    sample_metrics__open(&s.metrics, s.cfg->metrics))
		return EXIT_FAILED;
	trim(&s);
	s.first_nr = s.dir.next_nr;
	s.start_ns = clock__mono_ns();
	step_wait__begin(&s.step_wait, s.start_ns);
	pr_info("sampling into %s; Ctrl-C ends it", s.dir.path);
	err = run_schedule(&s);
	sample_metrics__close(&s.metrics);
	window_dir__close(&s.dir);
	if (err || !s.any)
		return EXIT_FAILED;
	return s.incomplete ? EXIT_INCOMPLETE : EXIT_DONE;
}
