/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A window has ended: its line in the log, the message, --on-window, the quota. */
#define LOG_DOMAIN "sample"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/guards.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "sample/daemon.h"

static void put_trigger(struct jsonw *j, const struct window_trigger *trigger)
{
	JSONW_STR(j, "trigger", trigger->kind);
	if (trigger->event[0]) {
		JSONW_OBJ(j, "event");
		JSONW_I64(j, "pid", trigger->event_pid);
		JSONW_STR(j, "text", trigger->event);
		JSONW_U64(j, "ignored_before", trigger->ignored);
		jsonw__end_obj(j);
	}
	if (strcmp(trigger->kind, "request") != 0)
		return;
	JSONW_OBJ(j, "requested_by");
	JSONW_U64(j, "uid", trigger->by_uid);
	if (trigger->by_pid)
		JSONW_I64(j, "pid", trigger->by_pid);
	jsonw__end_obj(j);
}

#define JOBS_MAX 8 /* different ones that a line names */

/* The keys "ranks" and "jobs", as far as something is known. */
static void put_jobs(struct jsonw *j, const struct window_spec *spec)
{
	const char *jobs[JOBS_MAX];
	uint32_t cnt = 0, others = 0, k;
	bool ranks = false;

	for (uint32_t i = 0; i < spec->pid_cnt; i++)
		ranks |= spec->facts[i].rank >= 0;
	if (ranks)
		JSONW_ARR(j, "ranks");
	for (uint32_t i = 0; i < spec->pid_cnt; i++) {
		const struct proc_facts *f = &spec->facts[i];

		if (ranks && f->rank >= 0)
			jsonw__i64(j, f->rank);
		else if (ranks)
			jsonw__null(j);
		for (k = 0; k < cnt && strcmp(jobs[k], f->job) != 0;)
			k++;
		if (*f->job && k == JOBS_MAX)
			others++;
		else if (*f->job && k == cnt)
			jobs[cnt++] = f->job;
	}
	if (ranks)
		jsonw__end_arr(j);
	if (!cnt)
		return;
	JSONW_ARR(j, "jobs");
	for (k = 0; k < cnt; k++)
		jsonw__str(j, jobs[k]);
	jsonw__end_arr(j);
	if (others)
		JSONW_U64(j, "in_other_jobs", others);
}

static void put_steps(struct jsonw *j, const struct window *w)
{
	const struct step_wait *sw = &w->spec.step_wait;

	if (w->spec.duration_ns)
		return;
	if (w->report.has_result)
		JSONW_U64(j, "steps", w->report.step_cnt);
	if (w->report.steps.step_ns)
		JSONW_DOUBLE(j, "step_seconds", (double)w->report.steps.step_ns / 1e9);
	if (w->report.steps.attached_ns && sw->step_ns)
		JSONW_DOUBLE(j, "waited_steps_inferred",
			     step_wait__passed(sw, w->report.steps.attached_ns));
}

static void put_result(struct jsonw *j, const struct window *w)
{
	char threads[PATH_MAX];

	if (!w->report.has_result)
		return;
	if (w->spec.trace[0])
		JSONW_STR(j, "trace", w->spec.trace);
	if (window__threads(&w->spec, threads, sizeof(threads))[0])
		JSONW_STR(j, "threads", threads);
	JSONW_DOUBLE(j, "seconds", (double)w->report.window_ns / 1e9);
	JSONW_U64(j, "slices", w->report.slices);
	JSONW_U64(j, "lost", w->report.lost);
	if (w->report.cost_share >= 0)
		JSONW_DOUBLE(j, "cost_share", w->report.cost_share);
	JSONW_DOUBLE(j, "charged_seconds", (double)w->report.cost_ns / 1e9);
	JSONW_STR(j, "stopped_by", w->report.stopped_by);
	if (w->report.shortened)
		JSONW_BOOL(j, "shortened", true);
	if (w->report.incomplete[0])
		JSONW_STR(j, "incomplete", w->report.incomplete);
}

/* Why there is no capture, "": for another reason, or there is one. */
static void why_nothing(const struct window *w, char *buf, size_t cap)
{
	const struct sample_settings *set = w->spec.settings;
	pid_t pid = w->child.stuck;
	char text[STALL_TEXT];

	buf[0] = '\0';
	if (pid)
		snprintf(buf, cap, "nothing recorded: %s", stall__text(pid, text, sizeof(text)));
	else if (window__all_ended(w))
		snprintf(buf, cap, "nothing recorded: its processes had ended before it began");
	else if (!w->report.traced && w->report.no_torch)
		snprintf(buf, cap,
			 "nothing recorded: PyTorch is not loaded in %u of its %u processes",
			 w->report.no_torch, w->spec.pid_cnt);
	else if (w->report.steps.none && !w->report.has_result)
		snprintf(
			buf, cap,
			"nothing recorded: no step ended within %.3g s (--step-timeout); steps end with %s (--step-on%s)",
			(double)set->step_timeout_ns / 1e9, set->step_name,
			set->step_named ? "" : ", PTBPF_STEP_ON");
}

/* False: it does not fit. */
static bool write_line(const struct daemon *d, const struct window *w, enum sample_code code,
		       struct jsonw_text *line)
{
	char why[256];
	struct jsonw j;
	bool ok;

	jsonw__init(&j, jsonw__to_text, line, sizeof(line->text));
	jsonw__begin_obj(&j);
	JSONW_U64(&j, "window", w->spec.nr);
	put_trigger(&j, &w->spec.trigger);
	if (!strcmp(w->spec.trigger.kind, "schedule")) {
		JSONW_STR(&j, "schedule", w->spec.settings->schedule_text);
		JSONW_U64(&j, "cycle", w->spec.cycle);
	}
	JSONW_U64(&j, "begin_unix_ns", w->spec.real_ns);
	JSONW_ARR(&j, "pids");
	for (uint32_t i = 0; i < w->spec.pid_cnt; i++)
		jsonw__i64(&j, w->spec.pids[i]);
	jsonw__end_arr(&j);
	if (w->spec.selected > w->spec.pid_cnt)
		JSONW_U64(&j, "selected", w->spec.selected);
	if (w->report.ended)
		JSONW_U64(&j, "ended", w->report.ended);
	put_jobs(&j, &w->spec);
	JSONW_I64(&j, "exit", code);
	if (w->report.traced)
		JSONW_DOUBLE(&j, "late_seconds", (double)w->report.late_ns / 1e9);
	if (w->spec.off)
		JSONW_STR(&j, "switched_off", w->spec.off);
	if (w->report.sealed)
		JSONW_STR(&j, "capture", w->spec.capture);
	put_result(&j, w);
	budget__put(&j, w);
	put_steps(&j, w);
	why_nothing(w, why, sizeof(why));
	if (why[0])
		JSONW_STR(&j, "incomplete", why);
	JSONW_U64(&j, "skipped_before", d->skipped);
	jsonw__end_obj(&j);
	ok = !jsonw__flush(&j);
	jsonw__free(&j);
	return ok;
}

static void print_window(const struct window *w)
{
	const struct window_report *r = &w->report;
	char cost[48] = "", why[256];

	why_nothing(w, why, sizeof(why));
	if (r->has_result && r->cost_share >= 0)
		snprintf(cost, sizeof(cost), "; at least %.2f %% of the window",
			 100 * r->cost_share);
	if (r->has_result)
		pr_info("window %llu: %s: %.2f s, %llu slices, lost %llu%s%s%s",
			(unsigned long long)w->spec.nr, w->spec.capture, (double)r->window_ns / 1e9,
			(unsigned long long)r->slices, (unsigned long long)r->lost, cost,
			r->incomplete[0] ? "; incomplete: " : "", r->incomplete);
	else
		pr_warn("window %llu: %s", (unsigned long long)w->spec.nr,
			r->sealed ? "recorded, but not exported" :
			why[0]    ? why :
				    "not recorded");
}

static void set_number(const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	setenv(name, text, 1);
}

static void run_command(struct daemon *d, const struct window *w, enum sample_code code)
{
	const char *on_window = w->spec.settings->on_window;
	pid_t pid;

	if (!on_window)
		return;
	if (d->command_cnt == DAEMON_COMMANDS_MAX) {
		pr_warn("window %llu: --on-window is not run: %d of its commands have not ended",
			(unsigned long long)w->spec.nr, DAEMON_COMMANDS_MAX);
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
		d->commands[d->command_cnt++] = pid;
}

void end__reap_commands(struct daemon *d)
{
	for (uint32_t i = 0; i < d->command_cnt;) {
		if (waitpid(d->commands[i], NULL, WNOHANG))
			d->commands[i] = d->commands[--d->command_cnt];
		else
			i++;
	}
}

void end__trim(const struct daemon *d)
{
	uint64_t keep[DAEMON_WINDOWS_MAX + 1] = { d->last_real_ns };

	if (!d->set->max_disk)
		return;
	for (uint32_t i = 0; i < d->window_cnt; i++)
		keep[1 + i] = d->windows[i].spec.real_ns;
	window_dir__trim(&d->dir, d->set->max_disk, clock__pair().real_ns, keep, 1 + d->window_cnt);
}

void end__strike_slow(const struct daemon *d, struct window *w)
{
	pid_t stuck = w->child.stuck, pid = stuck > 0 ? stuck : w->report.slow.pid;
	struct proc_id id = { .pid = pid };
	char why[96] = "a read of its memory is not answered";

	for (uint32_t i = 0; i < d->procs.cnt; i++)
		if (d->procs.items[i].pid == pid)
			id = d->procs.items[i].id;
	if (stuck <= 0)
		snprintf(why, sizeof(why),
			 "to read and attach to it took %.1f s, and %.1f s of processor time",
			 (double)w->report.slow.ns / 1e9, (double)w->report.slow.cpu_ns / 1e9);
	if (pid && pid != w->struck)
		proc_scout__strike(&id, stuck > 0 ? LEFT_OUT_STRIKES : w->report.slow.strikes, why);
	w->struck = pid;
}

void end__count_steps(struct step_wait *sw, struct window *w)
{
	uint64_t end = w->report.steps.ended_ns ? w->report.steps.ended_ns : clock__mono_ns();

	if (w->counted)
		return;
	w->counted = true;
	if (w->spec.measure && w->report.steps.step_ns)
		step_wait__measured(sw, w->report.steps.step_ns);
	else if (w->report.steps.step_ns || (w->report.sealed && !w->report.steps.none))
		step_wait__recorded(sw, end, w->report.steps.step_ns);
	else
		step_wait__failed(sw, end, w->spec.settings->step_timeout_ns);
}

static void add_metrics(struct metrics *m, const struct window *w, enum sample_code code)
{
	m->windows[code == SAMPLE_DONE       ? METRICS_COMPLETE :
		   code == SAMPLE_INCOMPLETE ? METRICS_INCOMPLETE :
		   window__all_ended(w)      ? METRICS_SKIPPED :
					       METRICS_FAILED]++;
	if (!w->report.has_result)
		return;
	m->begin_unix_ns = w->spec.real_ns;
	m->late_ns = w->report.late_ns;
	metrics__add_line(m, w->done);
}

/* It was due: what it has cost, its result, and what it has left. */
static void conclude(struct daemon *d, const struct window *w, enum sample_code code)
{
	struct jsonw_text line = { .len = 0 };

	d->any |= w->report.has_result;
	budget__ended(d, w);
	d->incomplete |= code != SAMPLE_DONE && !window__all_ended(w);
	d->lost += w->report.has_result ? w->report.lost : 0;
	d->last_real_ns = w->spec.real_ns;
	if (!w->report.has_result)
		window_dir__remove_partial(&d->dir, w->held.real_ns ?: w->spec.real_ns);
	add_metrics(&d->metrics, w, code);
	print_window(w);
	if (write_line(d, w, code, &line)) {
		window_dir__log(&d->dir, &line);
		control__ended(d, w->spec.nr, &line);
		d->skipped = 0;
	}
	end__trim(d);
	run_command(d, w, code);
}

void end__window(struct daemon *d, uint32_t i)
{
	struct window w = d->windows[i];
	enum sample_code code = window__end(&w);
	bool measured = w.spec.measure && code == SAMPLE_DONE;

	end__strike_slow(d, &w);
	d->windows[i] = d->windows[--d->window_cnt];
	if (d->schedule.in_steps)
		end__count_steps(&d->step_wait, &w);
	if (w.spec.measure && !measured) { /* without a step there is no window, either */
		w.spec.nr = d->nr++;
		d->next++;
	}
	if (!measured && (!d->signals || w.report.traced))
		conclude(d, &w, code);
	else
		control__gave_up(d, w.spec.nr, "ptbpf sample was ended before the window began");
	cJSON_Delete(w.done);
}
