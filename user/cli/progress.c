/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See progress.h. */
#define LOG_DOMAIN "progress"
#include "cli/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "export/facts_json.h"
#include "ptb_event.h"
#include "sample/metrics.h"

int progress__open(struct progress *p, int fd)
{
	int flags = fd ? fcntl(fd, F_GETFL) : 0;

	p->fd = fd;
	if (!fd)
		return 0;
	if (fd > 0 && flags >= 0 && (flags & O_ACCMODE) != O_RDONLY)
		return fcntl(fd, F_SETFD, FD_CLOEXEC) ? -errno : 0;
	pr_error("--progress-fd %d: this is no descriptor that is open for writing", fd);
	return -EINVAL;
}

struct line {
	struct jsonw w;
	struct jsonw_memory m;
};

/* False: nobody reads it. */
static bool begin_line(const struct progress *p, struct line *l, const char *event)
{
	l->m = (struct jsonw_memory){ .len = 0 };
	if (!p->fd)
		return false;
	jsonw__init(&l->w, jsonw__to_memory, &l->m, 4096);
	jsonw__begin_obj(&l->w);
	JSONW_STR(&l->w, "event", event);
	JSONW_U64(&l->w, "mono_ns", clock__mono_ns());
	return true;
}

/* A reader that has gone is no failure of the recording. */
static void end_line(const struct progress *p, struct line *l)
{
	size_t at = 0;
	char *text;

	jsonw__end_obj(&l->w);
	jsonw__newline(&l->w);
	text = jsonw__take(&l->w, &l->m);
	while (at < l->m.len) {
		ssize_t n = write(p->fd, text + at, l->m.len - at);

		if (n < 0 && errno != EINTR) {
			pr_debug("a line of --progress-fd is lost: %s", errstr(errno));
			break;
		}
		at += n > 0 ? (size_t)n : 0;
	}
	free(text);
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

void progress__reading(const struct progress *p, pid_t pid)
{
	struct line l;

	if (!begin_line(p, &l, "reading"))
		return;
	JSONW_I64(&l.w, "pid", pid);
	end_line(p, &l);
}

void progress__read(const struct progress *p, pid_t pid, uint64_t ns, uint64_t cpu_ns, bool failed)
{
	struct line l;

	if (!begin_line(p, &l, "read"))
		return;
	JSONW_I64(&l.w, "pid", pid);
	JSONW_DOUBLE(&l.w, "seconds", seconds(ns));
	JSONW_DOUBLE(&l.w, "cpu_seconds", seconds(cpu_ns));
	if (failed)
		JSONW_BOOL(&l.w, "failed", true);
	end_line(p, &l);
}

void progress__attached(const struct progress *p, uint32_t processes, uint64_t took_ns,
			uint32_t ended, uint32_t no_torch)
{
	struct line l;

	if (!begin_line(p, &l, "attached"))
		return;
	JSONW_U64(&l.w, "processes", processes);
	JSONW_DOUBLE(&l.w, "seconds", seconds(took_ns));
	if (ended)
		JSONW_U64(&l.w, "ended", ended);
	if (no_torch)
		JSONW_U64(&l.w, "no_torch", no_torch);
	end_line(p, &l);
}

void progress__begun(const struct progress *p, struct run *run)
{
	struct line l;

	if (!begin_line(p, &l, "begun"))
		return;
	JSONW_U64(&l.w, "processes", run__traced(run));
	JSONW_DOUBLE(&l.w, "fixed_seconds", seconds(run__fixed_cost_ns(run)));
	end_line(p, &l);
}

static void put_charges(struct jsonw *w, struct run *run, const struct pid_list *pids)
{
	JSONW_DOUBLE(w, "charged_seconds", seconds(run__cost_ns(run)));
	JSONW_DOUBLE(w, "fixed_seconds", seconds(run__fixed_cost_ns(run)));
	JSONW_ARR(w, "charged");
	for (uint32_t i = 0; i < pids->cnt; i++) {
		struct run_cost c = run__cost_of(run, pids->pids[i]);

		jsonw__begin_obj(w);
		JSONW_I64(w, "pid", pids->pids[i]);
		JSONW_DOUBLE(w, "seconds", seconds(c.ns));
		if (c.cut_ns)
			JSONW_U64(w, "cut_mono_ns", c.cut_ns);
		if (c.over)
			JSONW_BOOL(w, "over", true);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
}

static void put_steps(struct jsonw *w, const struct progress_steps *steps)
{
	JSONW_OBJ(w, "steps");
	JSONW_U64(w, "attached_mono_ns", steps->attached_ns);
	if (steps->ended_ns)
		JSONW_U64(w, "ended_mono_ns", steps->ended_ns);
	if (steps->step_ns)
		JSONW_DOUBLE(w, "step_seconds", seconds(steps->step_ns));
	if (steps->none)
		JSONW_BOOL(w, "none", true);
	jsonw__end_obj(w);
}

void progress__sealed(const struct progress *p, struct run *run, const struct pid_list *pids,
		      const char *capture, const struct progress_steps *steps, uint32_t ended)
{
	struct line l;

	if (!begin_line(p, &l, "sealed"))
		return;
	if (capture)
		JSONW_STR(&l.w, "capture", capture);
	put_charges(&l.w, run, pids);
	if (steps)
		put_steps(&l.w, steps);
	if (ended)
		JSONW_U64(&l.w, "ended", ended);
	end_line(p, &l);
}

static void put_result(struct jsonw *w, const struct outputs_result *r)
{
	JSONW_DOUBLE(w, "seconds", seconds(r->window_ns));
	JSONW_U64(w, "slices", r->slices);
	JSONW_U64(w, "lost", r->lost);
	if (r->cost_share >= 0)
		JSONW_DOUBLE(w, "cost_share", r->cost_share);
	JSONW_U64(w, "steps", r->steps);
	JSONW_STR(w, "stopped_by", session_json__stop_text(r->stop_reason));
	if (r->stop_reason == PTB_STOP_COST)
		JSONW_BOOL(w, "shortened", true);
	if (r->incomplete[0])
		JSONW_STR(w, "incomplete", r->incomplete);
}

void progress__frame(const struct progress *p, uint32_t slot)
{
	struct line l;

	if (!begin_line(p, &l, "frame"))
		return;
	JSONW_U64(&l.w, "slot", slot);
	end_line(p, &l);
}

void progress__ended(const struct progress *p)
{
	struct line l;

	if (begin_line(p, &l, "ended"))
		end_line(p, &l);
}

void progress__done(const struct progress *p, int code, const struct outputs_result *r,
		    const struct metrics_window *metrics)
{
	struct line l;

	if (!begin_line(p, &l, "done"))
		return;
	JSONW_I64(&l.w, "exit", code);
	if (r)
		put_result(&l.w, r);
	if (r && metrics)
		metrics_json__put(&l.w, metrics);
	end_line(p, &l);
}

void progress__following(const struct progress *p, uint32_t processes, uint64_t cost_ns)
{
	struct line l;

	if (!begin_line(p, &l, "following"))
		return;
	JSONW_U64(&l.w, "processes", processes);
	JSONW_DOUBLE(&l.w, "charged_seconds", seconds(cost_ns));
	end_line(p, &l);
}

void progress__event(const struct progress *p, const struct event *ev)
{
	struct line l;

	if (!begin_line(p, &l, "happened"))
		return;
	JSONW_STR(&l.w, "kind", event__name(ev->kind));
	JSONW_U64(&l.w, "pid", ev->pid);
	JSONW_STR(&l.w, "text", ev->text);
	JSONW_U64(&l.w, "more", ev->more);
	end_line(p, &l);
}
