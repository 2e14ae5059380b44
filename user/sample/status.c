/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What `ptbpf status` gets to know of a running `ptbpf sample` (schemas/formats/status.schema.json). */
#define LOG_DOMAIN "control"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/term_text.h"
#include "cli/sampler.h"
#include "sample/proc_scout.h"
#include "target/pid_hold.h"

#define LIST_NS                                                                                    \
	1000000000ULL /* how often processes and files are listed, however often they are asked for */

static void list(struct sampler *s)
{
	struct sample_control *sc = &s->control;
	const struct pid_list *named = &s->cfg->run.pids;
	uint64_t now = clock__mono_ns();
	struct proc_list procs = { .cnt = 0 };

	if (sc->listed_ns && now - sc->listed_ns < LIST_NS)
		return;
	sc->listed_ns = now;
	sc->pid_cnt = 0;
	if (named->cnt) {
		for (uint32_t i = 0; i < named->cnt && i < PROC_SELECT_MAX; i++)
			if (pid_hold__alive(s->holds[i]))
				sc->pids[sc->pid_cnt++] = named->pids[i];
	} else {
		if (!proc_scout__select(&s->cfg->select, &procs))
			sc->pid_cnt = proc_select__turn(&procs, PROC_SELECT_MAX, sc->pids);
	}
	sc->selected = named->cnt ? sc->pid_cnt : procs.cnt;
	proc_list__free(&procs);
	window_dir__usage(&s->dir, &sc->disk_bytes, &sc->disk_free);
}

static void put_daemon(const struct sampler *s, struct jsonw *w)
{
	JSONW_OBJ(w, "daemon");
	JSONW_I64(w, "pid", getpid());
	JSONW_STR(w, "version", PTBPF_VERSION);
	JSONW_U64(w, "begin_unix_ns", s->metrics.start_unix_ns);
	JSONW_U64(w, "now_unix_ns", clock__pair().real_ns);
	JSONW_STR(w, "dir", s->dir.path);
	JSONW_STR(w, "schedule", s->cfg->schedule);
	if (s->settings->off)
		JSONW_STR(w, "off", s->settings->off);
	JSONW_BOOL(w, "ending", s->signals > 0);
	jsonw__end_obj(w);
}

/* At most twice its length in JSON: a target can name itself so that six times as much would not fit into an answer. */
static void put_name(struct jsonw *w, const char *text)
{
	char plain[sizeof(((struct proc_facts *)0)->job)];

	jsonw__str(w, term_text__copy(plain, sizeof(plain), text));
}

#define TARGET_BYTES                                                                               \
	(2 * (sizeof(((struct proc_facts *)0)->comm) + sizeof(((struct proc_facts *)0)->job)) + 80)
_Static_assert(SAMPLE_CONTROL_LINES * sizeof(((struct jsonw_text *)0)->text) +
			       PROC_SELECT_MAX * TARGET_BYTES + 4 * PATH_MAX <=
		       CONTROL_ANSWER_MAX,
	       "a status fits into an answer");

static void put_targets(const struct sampler *s, struct jsonw *w)
{
	const struct sample_control *sc = &s->control;
	struct proc_facts facts[PROC_SELECT_MAX];

	proc_scout__facts(sc->pids, sc->pid_cnt, facts);
	JSONW_U64(w, "selected", sc->selected);
	JSONW_ARR(w, "targets");
	for (uint32_t i = 0; i < sc->pid_cnt; i++) {
		jsonw__begin_obj(w);
		JSONW_I64(w, "pid", sc->pids[i]);
		if (*facts[i].comm) {
			JSONW_KEY(w, "name");
			put_name(w, facts[i].comm);
		}
		if (facts[i].rank >= 0)
			JSONW_I64(w, "rank", facts[i].rank);
		if (*facts[i].job) {
			JSONW_KEY(w, "job");
			put_name(w, facts[i].job);
		}
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
}

static const char *state_of(const struct sample_window *w)
{
	if (w->report.sealed)
		return "exporting";
	if (w->report.traced)
		return "recording";
	return clock__mono_ns() < w->spec.warmup_ns ? "waiting" : "attaching";
}

static void put_window(struct jsonw *w, uint64_t nr, const char *trigger, uint64_t real_ns)
{
	JSONW_U64(w, "window", nr);
	JSONW_STR(w, "trigger", trigger);
	if (real_ns)
		JSONW_U64(w, "begin_unix_ns", real_ns);
}

static void put_in_hand(const struct sampler *s, struct jsonw *w)
{
	JSONW_ARR(w, "in_hand");
	for (uint32_t i = 0; i < s->window_cnt; i++) {
		const struct sample_window *sw = &s->windows[i];

		jsonw__begin_obj(w);
		put_window(w, sw->spec.nr, sw->spec.trigger.kind, sw->spec.real_ns);
		JSONW_STR(w, "state", state_of(sw));
		JSONW_U64(w, "processes", sw->spec.pid_cnt);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
}

/* Windows that have not begun: those that wait for their time, and the next one of the schedule. */
static void put_next(const struct sampler *s, struct jsonw *w)
{
	uint64_t real_ns = sampler__next_real_ns(s);

	JSONW_ARR(w, "next");
	for (uint32_t i = 0; i < s->pending_cnt; i++) {
		const struct pending_window *p = &s->pending[i];

		jsonw__begin_obj(w);
		put_window(w, p->nr, p->request.trigger.kind, p->request.start_real_ns);
		jsonw__end_obj(w);
	}
	if (real_ns || (s->schedule.in_steps && !s->signals)) {
		jsonw__begin_obj(w);
		put_window(w, s->nr, "schedule", real_ns);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
}

static void put_windows(const struct sampler *s, struct jsonw *w)
{
	const uint64_t *counts = s->metrics.windows;

	JSONW_OBJ(w, "windows");
	JSONW_U64(w, "complete", counts[METRICS_COMPLETE]);
	JSONW_U64(w, "incomplete", counts[METRICS_INCOMPLETE]);
	JSONW_U64(w, "skipped", counts[METRICS_SKIPPED]);
	JSONW_U64(w, "failed", counts[METRICS_FAILED]);
	JSONW_U64(w, "lost", s->lost);
	put_in_hand(s, w);
	put_next(s, w);
	JSONW_ARR(w, "last");
	for (uint32_t i = 0; i < s->control.line_cnt; i++)
		jsonw__raw(w, s->control.lines[i]);
	jsonw__end_arr(w);
	jsonw__end_obj(w);
}

static void put_budget(const struct sampler *s, struct jsonw *w)
{
	uint64_t now = clock__mono_ns();

	JSONW_OBJ(w, "cost");
	JSONW_DOUBLE(w, "charged_seconds",
		     (cost_account__max_ns(&s->account) + sample_budget__watch_ns(s)) / 1e9);
	JSONW_DOUBLE(w, "of_seconds", now > s->start_ns ? (double)(now - s->start_ns) / 1e9 : 0);
	if (s->max_overhead)
		JSONW_DOUBLE(w, "max_overhead", s->max_overhead);
	jsonw__end_obj(w);
}

static void put_disk(const struct sampler *s, struct jsonw *w)
{
	JSONW_OBJ(w, "disk");
	JSONW_U64(w, "bytes", s->control.disk_bytes);
	JSONW_U64(w, "free_bytes", s->control.disk_free);
	if (s->cfg->max_disk)
		JSONW_U64(w, "max_bytes", s->cfg->max_disk);
	jsonw__end_obj(w);
}

static void put_control(const struct sampler *s, struct jsonw *w)
{
	struct http_counts counts = http_server__counts(s->control.server);

	JSONW_OBJ(w, "control");
	JSONW_U64(w, "connections", counts.connections);
	JSONW_U64(w, "foreign", counts.foreign);
	JSONW_U64(w, "closed", counts.closed);
	JSONW_U64(w, "malformed", s->control.malformed + counts.too_long);
	JSONW_U64(w, "triggers", s->control.triggers);
	JSONW_U64(w, "refused", s->control.refused);
	jsonw__end_obj(w);
}

void sample_status__write(struct sampler *s, struct jsonw *w)
{
	list(s);
	put_daemon(s, w);
	put_targets(s, w);
	put_windows(s, w);
	put_budget(s, w);
	put_disk(s, w);
	put_control(s, w);
}
