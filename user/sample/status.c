/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The answer to `ptbpf status` (schemas/formats/status.schema.json). */
#define LOG_DOMAIN "control"
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "sample/daemon.h"
#include "target/proc.h"

#define LIST_NS 1000000000ULL /* how old a list of processes and files may be */

static void list(struct daemon *d)
{
	uint64_t now = clock__mono_ns();
	struct proc_list procs = { .cnt = 0 };
	uint32_t cnt = 0;

	if (d->control.listed_ns && now - d->control.listed_ns < LIST_NS)
		return;
	d->control.listed_ns = now;
	for (uint32_t i = 0; i < d->set->pid_cnt; i++)
		if (pid_hold__alive(d->holds[i]))
			d->control.pids[cnt++] = d->set->pids[i];
	if (!d->set->pid_cnt && !proc_scout__select(&d->set->select, &procs))
		cnt = proc_select__turn(&procs, PROC_SELECT_MAX, d->control.pids);
	d->control.pid_cnt = cnt;
	d->control.selected = d->set->pid_cnt ? cnt : procs.cnt;
	proc_list__free(&procs);
	window_dir__usage(&d->dir, &d->control.disk_bytes, &d->control.disk_free);
}

static void put_daemon(const struct daemon *d, struct jsonw *w)
{
	JSONW_OBJ(w, "daemon");
	JSONW_I64(w, "pid", getpid());
	JSONW_STR(w, "version", PTBPF_VERSION);
	JSONW_U64(w, "begin_unix_ns", d->metrics.start_unix_ns);
	JSONW_U64(w, "now_unix_ns", clock__pair().real_ns);
	JSONW_STR(w, "dir", d->dir.path);
	JSONW_STR(w, "schedule", d->set->schedule_text);
	if (d->off)
		JSONW_STR(w, "off", d->off);
	JSONW_BOOL(w, "ending", d->signals > 0);
	jsonw__end_obj(w);
}

/* At most twice its length in JSON: a target can name itself so that six times as much would not
 * fit into an answer. */
static void put_name(struct jsonw *w, const char *text)
{
	char plain[PROC_SCRIPT_MAX];

	jsonw__str(w, term_text__copy(plain, sizeof(plain), text));
}

#define TARGET_BYTES                                                                               \
	(2 * (sizeof(((struct proc_facts *)0)->comm) + sizeof(((struct proc_facts *)0)->job) +     \
	      PROC_SCRIPT_MAX) +                                                                   \
	 96)
_Static_assert(DAEMON_LINES_MAX * sizeof(((struct jsonw_text *)0)->text) +
			       PROC_SELECT_MAX * TARGET_BYTES + 4 * PATH_MAX <=
		       CONTROL_ANSWER_MAX,
	       "a status fits into an answer");

static void put_targets(const struct daemon *d, struct jsonw *w)
{
	struct proc_facts facts[PROC_SELECT_MAX];

	proc_scout__facts(d->control.pids, d->control.pid_cnt, facts);
	JSONW_U64(w, "selected", d->control.selected);
	JSONW_ARR(w, "targets");
	for (uint32_t i = 0; i < d->control.pid_cnt; i++) {
		jsonw__begin_obj(w);
		JSONW_I64(w, "pid", d->control.pids[i]);
		if (*facts[i].comm) {
			JSONW_KEY(w, "name");
			put_name(w, facts[i].comm);
		}
		if (*facts[i].script) {
			JSONW_KEY(w, "script");
			put_name(w, facts[i].script);
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

static const char *state_of(const struct window *w)
{
	if (w->report.sealed)
		return "exporting";
	if (w->report.traced)
		return "recording";
	return clock__mono_ns() < w->spec.attach_ns ? "waiting" : "attaching";
}

static void put_window(struct jsonw *w, uint64_t nr, const char *trigger, uint64_t real_ns)
{
	JSONW_U64(w, "window", nr);
	JSONW_STR(w, "trigger", trigger);
	if (real_ns)
		JSONW_U64(w, "begin_unix_ns", real_ns);
}

static void put_in_hand(const struct daemon *d, struct jsonw *w)
{
	JSONW_ARR(w, "in_hand");
	for (uint32_t i = 0; i < d->window_cnt; i++) {
		const struct window *sw = &d->windows[i];

		jsonw__begin_obj(w);
		put_window(w, sw->spec.nr, sw->spec.trigger.kind, sw->spec.real_ns);
		JSONW_STR(w, "state", state_of(sw));
		JSONW_U64(w, "processes", sw->spec.pid_cnt);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
}

/* Windows that have not begun: those that wait for their time, and the next one of the schedule. */
static void put_next(const struct daemon *d, struct jsonw *w)
{
	uint64_t real_ns = begin__next_real_ns(d);

	JSONW_ARR(w, "next");
	for (uint32_t i = 0; i < d->pending_cnt; i++) {
		const struct window_request *rq = &d->pending[i].request;

		jsonw__begin_obj(w);
		put_window(w, d->pending[i].nr, rq->trigger.kind, rq->start_real_ns);
		jsonw__end_obj(w);
	}
	if (real_ns || (d->schedule.in_steps && !d->signals)) {
		jsonw__begin_obj(w);
		put_window(w, d->nr, "schedule", real_ns);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
}

static void put_windows(const struct daemon *d, struct jsonw *w)
{
	const uint64_t *counts = d->metrics.windows;

	JSONW_OBJ(w, "windows");
	JSONW_U64(w, "complete", counts[METRICS_COMPLETE]);
	JSONW_U64(w, "incomplete", counts[METRICS_INCOMPLETE]);
	JSONW_U64(w, "skipped", counts[METRICS_SKIPPED]);
	JSONW_U64(w, "failed", counts[METRICS_FAILED]);
	JSONW_U64(w, "lost", d->lost);
	put_in_hand(d, w);
	put_next(d, w);
	JSONW_ARR(w, "last");
	for (uint32_t i = 0; i < d->control.line_cnt; i++)
		jsonw__raw(w, d->control.lines[i]);
	jsonw__end_arr(w);
	jsonw__end_obj(w);
}

static void put_budget(const struct daemon *d, struct jsonw *w)
{
	uint64_t now = clock__mono_ns();

	JSONW_OBJ(w, "cost");
	JSONW_DOUBLE(w, "charged_seconds",
		     (cost_account__max_ns(&d->account) + budget__follow_ns(d)) / 1e9);
	JSONW_DOUBLE(w, "of_seconds", now > d->start_ns ? (double)(now - d->start_ns) / 1e9 : 0);
	if (d->set->max_overhead)
		JSONW_DOUBLE(w, "max_overhead", d->set->max_overhead);
	jsonw__end_obj(w);
}

static void put_disk(const struct daemon *d, struct jsonw *w)
{
	JSONW_OBJ(w, "disk");
	JSONW_U64(w, "bytes", d->control.disk_bytes);
	JSONW_U64(w, "free_bytes", d->control.disk_free);
	if (d->set->max_disk)
		JSONW_U64(w, "max_bytes", d->set->max_disk);
	jsonw__end_obj(w);
}

static void put_control(const struct daemon *d, struct jsonw *w)
{
	struct http_counts counts = http_server__counts(d->control.server);

	JSONW_OBJ(w, "control");
	JSONW_U64(w, "connections", counts.connections);
	JSONW_U64(w, "foreign", counts.foreign);
	JSONW_U64(w, "closed", counts.closed);
	JSONW_U64(w, "malformed", d->control.malformed + counts.too_long);
	JSONW_U64(w, "triggers", d->control.triggers);
	JSONW_U64(w, "refused", d->control.refused);
	jsonw__end_obj(w);
}

void status__write(struct daemon *d, struct jsonw *w)
{
	list(d);
	put_daemon(d, w);
	put_targets(d, w);
	put_windows(d, w);
	put_budget(d, w);
	put_disk(d, w);
	put_control(d, w);
}
