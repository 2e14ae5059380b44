/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What `ptbpf sample` does with a window that has ended: its line in the log, the message, --on-window, the quota. */
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
#include "base/jsonw.h"
#include "base/log.h"
#include "base/stall.h"
#include "cli/cmd.h"
#include "cli/sample_steps.h"
#include "cli/sampler.h"
#include "sample/proc_scout.h"

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

static void put_result(struct jsonw *j, const struct sample_window *w)
{
	char threads[PATH_MAX];

	if (!w->report.has_result)
		return;
	if (w->spec.trace[0])
		JSONW_STR(j, "trace", w->spec.trace);
	if (sample_window__threads(&w->spec, threads, sizeof(threads))[0])
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

/* Why it has no capture, "": for another reason, or it has one. */
static void why_nothing(const struct sample_window *w, char *buf, size_t cap)
{
	pid_t pid = w->child.stuck;
	char text[STALL_TEXT];

	if (pid)
		snprintf(buf, cap, "nothing recorded: %s", stall__text(pid, text, sizeof(text)));
	else if (sample_window__all_ended(w))
		snprintf(buf, cap, "nothing recorded: its processes had ended before it began");
	else if (!w->report.traced && w->report.no_torch)
		snprintf(buf, cap, "nothing recorded: PyTorch is not loaded in %u of its %u processes",
			 w->report.no_torch, w->spec.pid_cnt);
	else
		sample_steps__why(w, buf, cap);
}

/* False: it does not fit. */
static bool write_line(const struct sampler *s, const struct sample_window *w, int code,
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
		JSONW_STR(&j, "schedule", w->settings->cfg.schedule);
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
	window_jobs__write(&j, &w->spec.jobs);
	JSONW_I64(&j, "exit", code);
	if (w->report.traced)
		JSONW_DOUBLE(&j, "late_seconds", (double)w->report.late_ns / 1e9);
	if (w->spec.options->off)
		JSONW_STR(&j, "switched_off", w->spec.options->off);
	if (w->report.sealed)
		JSONW_STR(&j, "capture", w->spec.capture);
	put_result(&j, w);
	sample_budget__put(&j, w);
	sample_steps__put(&j, w);
	why_nothing(w, why, sizeof(why));
	if (why[0])
		JSONW_STR(&j, "incomplete", why);
	JSONW_U64(&j, "skipped_before", s->skipped);
	jsonw__end_obj(&j);
	ok = !jsonw__flush(&j);
	jsonw__free(&j);
	return ok;
}

static void put_line(struct sampler *s, const struct sample_window *w, int code)
{
	struct jsonw_text line = { .len = 0 };

	if (!write_line(s, w, code, &line))
		return;
	window_dir__log(&s->dir, &line);
	sample_control__ended(s, w->spec.nr, &line);
	s->skipped = 0;
}

static void print_window(const struct sample_window *w)
{
	const struct sample_report *r = &w->report;
	char cost[48] = "", why[256];

	why_nothing(w, why, sizeof(why));
	if (r->has_result && r->cost_share >= 0)
		snprintf(cost, sizeof(cost), "; at least %.2f %% of the window", 100 * r->cost_share);
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

static void run_command(struct sampler *s, const struct sample_window *w, int code)
{
	const char *on_window = w->settings->cfg.on_window;
	pid_t pid;

	if (!on_window)
		return;
	if (s->command_cnt == SAMPLER_COMMANDS_MAX) {
		pr_warn("window %llu: --on-window is not run: %d of its commands have not ended",
			(unsigned long long)w->spec.nr, SAMPLER_COMMANDS_MAX);
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

void sampler__reap_commands(struct sampler *s)
{
	for (uint32_t i = 0; i < s->command_cnt;) {
		if (waitpid(s->commands[i], NULL, WNOHANG))
			s->commands[i] = s->commands[--s->command_cnt];
		else
			i++;
	}
}

void sampler__trim(const struct sampler *s)
{
	uint64_t keep[SAMPLER_WINDOWS_MAX + 1] = { s->last_real_ns };

	if (!s->cfg->max_disk)
		return;
	for (uint32_t i = 0; i < s->window_cnt; i++)
		keep[1 + i] = s->windows[i].spec.real_ns;
	window_dir__trim(&s->dir, s->cfg->max_disk, clock__pair().real_ns, keep, 1 + s->window_cnt);
}

/* Processes that took this window from the others. */
void sampler__strike_slow(const struct sampler *s, struct sample_window *w)
{
	pid_t stuck = w->child.stuck, pid = stuck > 0 ? stuck : w->report.slow.pid;
	struct proc_id id = { .pid = pid };
	char why[96] = "a read of its memory is not answered";

	for (uint32_t i = 0; i < s->procs.cnt; i++)
		if (s->procs.items[i].pid == pid)
			id = s->procs.items[i].id;
	if (stuck <= 0)
		snprintf(why, sizeof(why),
			 "to read and attach to it took %.1f s, and %.1f s of processor time",
			 (double)w->report.slow.ns / 1e9, (double)w->report.slow.cpu_ns / 1e9);
	if (pid && pid != w->struck)
		proc_scout__strike(&id, stuck > 0 ? LEFT_OUT_STRIKES : w->report.slow.strikes, why);
	w->struck = pid;
}

void sampler__end_window(struct sampler *s, uint32_t i)
{
	struct sample_window w = s->windows[i];
	int code = sample_window__end(&w);

	sampler__strike_slow(s, &w);

	s->windows[i] = s->windows[--s->window_cnt];
	if (s->schedule.in_steps)
		sample_steps__ended(&s->step_wait, &w);
	if (w.spec.measure && code != EXIT_DONE) { /* without a step there is no window, either */
		w.spec.nr = s->nr++;
		s->next++;
	}
	if ((!s->signals || w.report.traced) &&
	    !(w.spec.measure && code == EXIT_DONE)) { /* else it was to begin later */
		s->any |= w.report.has_result;
		sample_budget__ended(s, &w);
		s->incomplete |= code != EXIT_DONE && !sample_window__all_ended(&w);
		s->lost += w.report.has_result ? w.report.lost : 0;
		s->last_real_ns = w.spec.real_ns;
		if (!w.report.has_result)
			window_dir__remove_partial(&s->dir, w.held.real_ns ? w.held.real_ns :
									     w.spec.real_ns);
		sample_metrics__ended(&s->metrics, &w, code);
		print_window(&w);
		put_line(s, &w, code);
		sampler__trim(s);
		run_command(s, &w, code);
	} else {
		sample_control__gave_up(s, w.spec.nr, "ptbpf sample was ended before the window began");
	}
	sample_settings__release(w.settings);
	cJSON_Delete(w.done);
}
