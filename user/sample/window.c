/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One window, recorded and exported by a `ptbpf attach` of its own: its memory ends with it, a
 * crash costs one window, and the export of one never delays the next. When the daemon is killed,
 * the window ends, and its capture is sealed.
 */
#define LOG_DOMAIN "sample"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "sample/daemon.h"

#define EXPORT_NICE 10

const char *window__threads(const struct window_spec *spec, char *buf, size_t cap)
{
	size_t len = strlen(spec->capture), ptb = sizeof(".ptb") - 1;

	buf[0] = '\0';
	if (spec->hangs && len > ptb)
		snprintf(buf, cap, "%.*s" WINDOW_THREADS, (int)(len - ptb), spec->capture);
	return buf;
}

/* ---- its command line ---- */

static void add_pids(struct words *cmd, const struct window_spec *spec)
{
	char pids[PROC_SELECT_MAX * 12] = "", costs[PROC_SELECT_MAX * 33] = "";
	size_t len = 0, cost_len = 0;

	for (uint32_t i = 0; i < spec->pid_cnt; i++) {
		len += (size_t)snprintf(pids + len, sizeof(pids) - len, "%s%d", i ? "," : "",
					spec->pids[i]);
		if (spec->max_cost_ns[i])
			cost_len += (size_t)snprintf(costs + cost_len, sizeof(costs) - cost_len,
						     "%s%d=%" PRIu64, cost_len ? "," : "",
						     spec->pids[i], spec->max_cost_ns[i]);
	}
	words__add(cmd, "--pid=%s", pids);
	if (cost_len)
		words__add(cmd, "--max-cost=%s", costs);
}

/* --window, and -d where time ends it. */
static void add_times(struct words *cmd, const struct window_spec *spec)
{
	const struct schedule *s = &spec->settings->schedule;
	char steps[128] = "";

	if (!spec->duration_ns)
		snprintf(steps, sizeof(steps),
			 ",warmup=%" PRIu64 ",active=%" PRIu64 ",step_timeout=%" PRIu64, s->warmup,
			 spec->measure ? 0 : s->active, spec->settings->step_timeout_ns);
	else
		words__add(cmd, "--duration=%.9fs", (double)spec->duration_ns / 1e9);
	words__add(cmd,
		   "--window=chosen=%" PRIu64 ",attach=%" PRIu64 ",begin=%" PRIu64 ",end=%" PRIu64
		   ",own_probes=%d%s",
		   spec->chosen_ns, spec->attach_ns, spec->begin_ns, spec->end_ns, spec->apart,
		   steps);
}

/* The recorded activities without the one that is switched off, and without what belongs to it. */
static void add_activities(struct words *cmd, const struct window_spec *spec)
{
	const char *list = spec->settings->activities ?: "";

	if (!strcmp(spec->off, "cuda"))
		words__add(cmd, "--activities=cpu");
	else
		words__add(cmd, "--activities=cuda%s%s", strstr(list, "sync") ? ",sync" : "",
			   strstr(list, "graphs") ? ",graphs" : "");
}

static int start(struct window *w, struct words *more, int keep)
{
	const struct window_spec *spec = &w->spec;
	struct words cmd = { .cnt = 0 };
	char threads[PATH_MAX];
	int err;

	words__add(&cmd, "ptbpf");
	words__add(&cmd, "attach");
	words__add(&cmd, "--quiet");
	words__add(&cmd, "--no-table");
	add_pids(&cmd, spec);
	add_times(&cmd, spec);
	words__add(&cmd, "--output=%s", spec->capture);
	if (spec->trace[0])
		words__add(&cmd, "--trace=%s", spec->trace);
	if (window__threads(spec, threads, sizeof(threads))[0])
		words__add(&cmd, "--threads=%s", threads);
	words__copy(&cmd, spec->hangs ? &spec->settings->hang_args : &spec->settings->args);
	if (spec->off && !spec->hangs)
		add_activities(&cmd, spec);
	words__copy(&cmd, more);
	words__free(more);
	err = child__start(&w->child, &cmd, keep);
	if (err)
		pr_error("cannot start window %" PRIu64 ": %s", spec->nr, errstr(err));
	return err;
}

/* The capture says why it was recorded. */
static void send_notes(struct window *w)
{
	const struct window_spec *spec = &w->spec;
	char text[EVENT_TEXT_MAX + 128], event[EVENT_TEXT_MAX + 32] = "";

	if (spec->trigger.event[0])
		snprintf(event, sizeof(event), "event=pid %d: %s\n", spec->trigger.event_pid,
			 spec->trigger.event);
	snprintf(text, sizeof(text), "trigger=%s\n%s%s%s%s", spec->trigger.kind,
		 spec->off ? "switched_off=" : "", spec->off ?: "", spec->off ? "\n" : "", event);
	if (!child__note(&w->child, text))
		pr_debug("window %" PRIu64 " has ended before its notes", spec->nr);
	child__end_notes(&w->child);
}

int window__start(struct window *w, int keep)
{
	int err = start(w, &(struct words){ .cnt = 0 }, keep);

	if (!err)
		send_notes(w);
	return err;
}

int window__hold(struct window *w, int keep)
{
	struct words more = { .cnt = 0 };

	words__add(&more, "--flight=%.9fs", (double)w->spec.settings->flight_ns / 1e9);
	words__add(&more, "--flight-buffer=%" PRIu64, w->spec.settings->flight_bytes);
	return start(w, &more, keep);
}

bool window__release(struct window *held, struct window *w)
{
	if (!held->report.traced || child__ended(&held->child))
		return false;
	w->child = held->child;
	w->report = held->report;
	w->report.traced = w->spec.pid_cnt;
	w->report.late_ns = 0;
	memcpy(w->held.capture, held->spec.capture, sizeof(w->held.capture));
	memcpy(w->held.trace, held->spec.trace, sizeof(w->held.trace));
	w->held.real_ns = held->spec.real_ns;
	held->child = (struct child){ .pid = 0 };
	send_notes(w);
	kill(w->child.pid, SIGUSR1);
	return true;
}

void window__kill(struct window *w)
{
	kill(w->child.pid, SIGTERM); /* without a note it writes nothing */
	child__end(&w->child);
	cJSON_Delete(w->done);
	w->done = NULL;
}

/* ---- what it reports ---- */

static void take_read(struct window_report *r, const cJSON *line)
{
	uint64_t cpu_ns = line__ns(line, "cpu_seconds"), ns = line__ns(line, "seconds");
	bool slow_cpu = cpu_ns >= LEFT_OUT_CPU_NS, failed = line__bool(line, "failed");

	r->reading = 0;
	if (!(slow_cpu && cpu_ns > r->slow.cpu_ns) && !(ns >= LEFT_OUT_WALL_NS && !r->slow.pid))
		return;
	r->slow.pid = (pid_t)line__u64(line, "pid");
	r->slow.strikes = failed && slow_cpu ? LEFT_OUT_STRIKES : 1;
	r->slow.cpu_ns = cpu_ns;
	r->slow.ns = ns;
}

static void take_begun(struct window *w, const cJSON *line)
{
	uint64_t at = line__u64(line, "mono_ns");

	w->report.traced = (uint32_t)line__u64(line, "processes");
	w->report.late_ns = at > w->spec.begin_ns ? at - w->spec.begin_ns : 0;
	w->report.fixed_ns = line__ns(line, "fixed_seconds");
}

static void take_sealed(struct window *w, const cJSON *line)
{
	const cJSON *steps = cJSON_GetObjectItemCaseSensitive(line, "steps"), *row;
	struct window_report *r = &w->report;

	r->cost_known = true;
	r->cost_ns = line__ns(line, "charged_seconds");
	r->fixed_ns = line__ns(line, "fixed_seconds");
	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(line, "charged"))
	{
		pid_t pid = (pid_t)line__u64(row, "pid");

		for (uint32_t i = 0; i < w->spec.pid_cnt; i++)
			if (w->spec.pids[i] == pid)
				r->charges[i] =
					(struct window_charge){ line__ns(row, "seconds"),
								line__u64(row, "cut_mono_ns"),
								line__bool(row, "over") };
	}
	r->steps.attached_ns = line__u64(steps, "attached_mono_ns");
	r->steps.ended_ns = line__u64(steps, "ended_mono_ns");
	r->steps.step_ns = line__ns(steps, "step_seconds");
	r->steps.none = line__bool(steps, "none");
	r->sealed = cJSON_HasObjectItem(line, "capture");
	if (r->sealed)
		setpriority(PRIO_PROCESS, (id_t)w->child.pid, EXPORT_NICE);
	else
		r->ended = (uint32_t)line__u64(line, "ended");
}

static void take_done(struct window_report *r, const cJSON *line)
{
	const cJSON *share = cJSON_GetObjectItemCaseSensitive(line, "cost_share");
	uint64_t code = line__u64(line, "exit");

	r->has_result = code == SAMPLE_DONE || code == SAMPLE_INCOMPLETE;
	r->window_ns = line__ns(line, "seconds");
	r->slices = line__u64(line, "slices");
	r->lost = line__u64(line, "lost");
	r->step_cnt = line__u64(line, "steps");
	r->cost_share = cJSON_IsNumber(share) ? share->valuedouble : -1;
	r->shortened = line__bool(line, "shortened");
	line__text(line, "stopped_by", r->stopped_by, sizeof(r->stopped_by));
	line__text(line, "incomplete", r->incomplete, sizeof(r->incomplete));
}

void window__read(struct window *w)
{
	struct window_report *r = &w->report;
	const char *event;
	cJSON *line;

	while ((line = child__read(&w->child, &event))) {
		if (!strcmp(event, "reading")) {
			r->reading = (pid_t)line__u64(line, "pid");
		} else if (!strcmp(event, "read")) {
			take_read(r, line);
		} else if (!strcmp(event, "attached")) {
			r->attach_ns = line__ns(line, "seconds");
			r->ended = (uint32_t)line__u64(line, "ended");
			r->no_torch = (uint32_t)line__u64(line, "no_torch");
		} else if (!strcmp(event, "begun")) {
			take_begun(w, line);
		} else if (!strcmp(event, "sealed")) {
			take_sealed(w, line);
		} else if (!strcmp(event, "done") && !w->done) {
			take_done(r, line);
			w->done = line;
			continue;
		}
		cJSON_Delete(line);
	}
}

static void rename_file(const char *from, const char *to)
{
	if (rename(from, to))
		pr_error("'%s' cannot be renamed to '%s': %s", from, to, errstr(errno));
}

enum sample_code window__end(struct window *w)
{
	int code;

	window__read(w);
	code = child__end(&w->child);
	if (code < 0 && code != CHILD_STUCK)
		pr_error("window %" PRIu64 ": its process was ended by signal %d", w->spec.nr,
			 -code);
	if (w->held.real_ns && w->report.sealed) {
		rename_file(w->held.capture, w->spec.capture);
		if (w->report.has_result && w->held.trace[0])
			rename_file(w->held.trace, w->spec.trace);
	}
	return code == SAMPLE_DONE || code == SAMPLE_INCOMPLETE ? (enum sample_code)code :
								  SAMPLE_FAILED;
}
