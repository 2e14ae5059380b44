/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See window.h. */
#define LOG_DOMAIN "sample"
#include "sample/window.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "sample/left_out.h"
#include "sample/window_dir.h"

#define EXPORT_NICE 10

const char *sample_window__threads(const struct sample_window_spec *spec, char *buf, size_t cap)
{
	size_t len = strlen(spec->capture), ptb = sizeof(".ptb") - 1;

	buf[0] = '\0';
	if (spec->samples && len > ptb)
		snprintf(buf, cap, "%.*s" WINDOW_THREADS, (int)(len - ptb), spec->capture);
	return buf;
}

/* ---- its command line ---- */

static void add_pids(struct words *cmd, const struct sample_window_spec *spec)
{
	char list[PROC_SELECT_MAX * 12];
	size_t len = 0;

	for (uint32_t i = 0; i < spec->pid_cnt; i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%d", i ? "," : "",
					spec->pids[i]);
	words__add(cmd, "--pid=%s", list);
}

static void add_max_cost(struct words *cmd, const struct sample_window_spec *spec)
{
	char list[PROC_SELECT_MAX * 33];
	size_t len = 0;

	for (uint32_t i = 0; i < spec->pid_cnt; i++)
		if (spec->max_cost_ns[i])
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%d=%" PRIu64,
						len ? "," : "", spec->pids[i], spec->max_cost_ns[i]);
	if (len)
		words__add(cmd, "--max-cost=%s", list);
}

/* --window, and -d where time ends it. */
static void add_times(struct words *cmd, const struct sample_window_spec *spec)
{
	const struct window_steps *st = &spec->options->steps;
	uint64_t ns = spec->duration_ns ? spec->duration_ns : spec->options->duration_ns;
	char steps[128] = "";

	if (sample_window__in_steps(spec))
		snprintf(steps, sizeof(steps),
			 ",warmup=%" PRIu64 ",active=%" PRIu64 ",step_timeout=%" PRIu64, st->warmup,
			 spec->measure ? 0 : st->active, st->timeout_ns);
	else
		words__add(cmd, "--duration=%.9fs", (double)ns / 1e9);
	words__add(cmd,
		   "--window=chosen=%" PRIu64 ",attach=%" PRIu64 ",begin=%" PRIu64 ",end=%" PRIu64
		   ",own_probes=%d%s",
		   spec->chosen_ns, spec->warmup_ns, spec->begin_ns, spec->end_ns, spec->apart, steps);
}

static void add_command(struct words *cmd, const struct sample_window_spec *spec)
{
	const struct window_options *o = spec->options;
	char threads[PATH_MAX];

	sample_window__threads(spec, threads, sizeof(threads));
	words__add(cmd, "ptbpf");
	words__add(cmd, "attach");
	words__add(cmd, "--quiet");
	words__add(cmd, "--no-table");
	add_pids(cmd, spec);
	add_times(cmd, spec);
	add_max_cost(cmd, spec);
	words__add(cmd, "--output=%s", spec->capture);
	if (spec->trace[0])
		words__add(cmd, "--trace=%s", spec->trace);
	if (threads[0])
		words__add(cmd, "--threads=%s", threads);
	words__copy(cmd, spec->samples ? &o->samples_args : &o->args);
}

/* What the capture says of its reason. */
static void send_notes(struct sample_window *w)
{
	const struct sample_window_spec *spec = &w->spec;
	char text[EVENT_TEXT_MAX + 128], event[EVENT_TEXT_MAX + 32] = "";

	if (spec->trigger.event[0])
		snprintf(event, sizeof(event), "event=pid %d: %s\n", spec->trigger.event_pid,
			 spec->trigger.event);
	snprintf(text, sizeof(text), "trigger=%s\n%s%s%s%s", spec->trigger.kind,
		 spec->options->off ? "switched_off=" : "",
		 spec->options->off ? spec->options->off : "", spec->options->off ? "\n" : "", event);
	if (sample_child__note(&w->child, text))
		pr_debug("window %" PRIu64 " has ended before its notes", spec->nr);
	sample_child__end_notes(&w->child);
}

static int start(struct sample_window *w, struct words *cmd, int keep)
{
	int err = sample_child__start(&w->child, cmd, keep);

	words__free(cmd);
	if (err)
		pr_error("cannot start window %" PRIu64 ": %s", w->spec.nr, errstr(err));
	return err;
}

int sample_window__start(struct sample_window *w, int keep)
{
	struct words cmd = { .cnt = 0 };
	int err;

	add_command(&cmd, &w->spec);
	err = start(w, &cmd, keep);
	if (!err)
		send_notes(w);
	return err;
}

int sample_window__hold(struct sample_window *w, uint64_t flight_ns, uint64_t flight_bytes, int keep)
{
	struct words cmd = { .cnt = 0 };

	add_command(&cmd, &w->spec);
	words__add(&cmd, "--flight=%.9fs", (double)flight_ns / 1e9);
	words__add(&cmd, "--flight-buffer=%" PRIu64, flight_bytes);
	return start(w, &cmd, keep);
}

bool sample_window__release(struct sample_window *held, struct sample_window *w)
{
	if (!held->report.traced || sample_child__ended(&held->child))
		return false;
	w->child = held->child;
	w->report = held->report;
	w->report.traced = w->spec.pid_cnt;
	w->report.late_ns = 0;
	memcpy(w->held.capture, held->spec.capture, sizeof(w->held.capture));
	memcpy(w->held.trace, held->spec.trace, sizeof(w->held.trace));
	w->held.real_ns = held->spec.real_ns;
	held->child = (struct sample_child){ .pid = 0 };
	send_notes(w);
	kill(w->child.pid, SIGUSR1);
	return true;
}

void sample_window__kill(struct sample_window *w)
{
	if (!w->child.pid)
		return;
	kill(w->child.pid, SIGTERM); /* without a note it writes nothing */
	sample_child__end(&w->child);
	cJSON_Delete(w->done);
	w->done = NULL;
}

/* ---- what it reports ---- */

static void take_read(struct sample_report *r, const cJSON *line)
{
	uint64_t cpu_ns = child_line__ns(line, "cpu_seconds"), ns = child_line__ns(line, "seconds");
	bool slow_cpu = cpu_ns >= LEFT_OUT_CPU_NS, failed = child_line__bool(line, "failed");

	r->reading = 0;
	if (!(slow_cpu && cpu_ns > r->slow.cpu_ns) && !(ns >= LEFT_OUT_WALL_NS && !r->slow.pid))
		return;
	r->slow.pid = (pid_t)child_line__u64(line, "pid");
	r->slow.strikes = failed && slow_cpu ? LEFT_OUT_STRIKES : 1;
	r->slow.cpu_ns = cpu_ns;
	r->slow.ns = ns;
}

static void take_begun(struct sample_window *w, const cJSON *line)
{
	uint64_t at = child_line__u64(line, "mono_ns");

	w->report.traced = (uint32_t)child_line__u64(line, "processes");
	w->report.late_ns = at > w->spec.begin_ns ? at - w->spec.begin_ns : 0;
	w->report.fixed_ns = child_line__ns(line, "fixed_seconds");
}

static void take_sealed(struct sample_window *w, const cJSON *line)
{
	const cJSON *steps = cJSON_GetObjectItemCaseSensitive(line, "steps"), *row;
	struct sample_report *r = &w->report;

	r->cost_known = true;
	r->cost_ns = child_line__ns(line, "charged_seconds");
	r->fixed_ns = child_line__ns(line, "fixed_seconds");
	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(line, "charged"))
	{
		pid_t pid = (pid_t)child_line__u64(row, "pid");

		for (uint32_t i = 0; i < w->spec.pid_cnt; i++)
			if (w->spec.pids[i] == pid)
				r->charges[i] =
					(struct window_charge){ child_line__ns(row, "seconds"),
								child_line__u64(row, "cut_mono_ns"),
								child_line__bool(row, "over") };
	}
	r->steps.attached_ns = child_line__u64(steps, "attached_mono_ns");
	r->steps.ended_ns = child_line__u64(steps, "ended_mono_ns");
	r->steps.step_ns = child_line__ns(steps, "step_seconds");
	r->steps.none = child_line__bool(steps, "none");
	r->sealed = cJSON_HasObjectItem(line, "capture");
	if (r->sealed)
		setpriority(PRIO_PROCESS, (id_t)w->child.pid, EXPORT_NICE);
	else
		r->ended = (uint32_t)child_line__u64(line, "ended");
}

static void take_done(struct sample_report *r, const cJSON *line)
{
	uint64_t code = child_line__u64(line, "exit");

	r->has_result = code == WINDOW_DONE || code == WINDOW_INCOMPLETE;
	r->window_ns = child_line__ns(line, "seconds");
	r->slices = child_line__u64(line, "slices");
	r->lost = child_line__u64(line, "lost");
	r->step_cnt = child_line__u64(line, "steps");
	r->cost_share =
		cJSON_HasObjectItem(line, "cost_share") ? child_line__double(line, "cost_share") : -1;
	r->shortened = child_line__bool(line, "shortened");
	child_line__text(line, "stopped_by", r->stopped_by, sizeof(r->stopped_by));
	child_line__text(line, "incomplete", r->incomplete, sizeof(r->incomplete));
}

static void take_line(struct sample_window *w, const char *event, const cJSON *line)
{
	struct sample_report *r = &w->report;

	if (!strcmp(event, "reading")) {
		r->reading = (pid_t)child_line__u64(line, "pid");
	} else if (!strcmp(event, "read")) {
		take_read(r, line);
	} else if (!strcmp(event, "attached")) {
		r->attach_ns = child_line__ns(line, "seconds");
		r->ended = (uint32_t)child_line__u64(line, "ended");
		r->no_torch = (uint32_t)child_line__u64(line, "no_torch");
	} else if (!strcmp(event, "begun")) {
		take_begun(w, line);
	} else if (!strcmp(event, "sealed")) {
		take_sealed(w, line);
	} else if (!strcmp(event, "done")) {
		take_done(r, line);
	}
}

void sample_window__read(struct sample_window *w)
{
	cJSON *line;

	while ((line = sample_child__read(&w->child))) {
		const char *event =
			cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, "event"));

		take_line(w, event ? event : "", line);
		if (event && !strcmp(event, "done") && !w->done)
			w->done = line;
		else
			cJSON_Delete(line);
	}
}

/* What was held gets the name of the window. */
static void rename_files(const struct sample_window *w)
{
	if (!w->report.sealed)
		return;
	if (rename(w->held.capture, w->spec.capture))
		pr_error("'%s' cannot be renamed to '%s': %s", w->held.capture, w->spec.capture,
			 errstr(errno));
	if (w->report.has_result && w->held.trace[0] && rename(w->held.trace, w->spec.trace))
		pr_error("'%s' cannot be renamed to '%s': %s", w->held.trace, w->spec.trace,
			 errstr(errno));
}

int sample_window__end(struct sample_window *w)
{
	int code;

	sample_window__read(w);
	code = sample_child__end(&w->child);
	if (code < 0 && code != SAMPLE_CHILD_STUCK)
		pr_error("window %" PRIu64 ": its process was ended by signal %d", w->spec.nr, -code);
	if (w->held.real_ns)
		rename_files(w);
	return code == WINDOW_DONE || code == WINDOW_INCOMPLETE ? code : WINDOW_FAILED;
}
