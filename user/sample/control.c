/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_control.h. */
#define LOG_DOMAIN "control"
#include "cli/sample_control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/sampler.h"
#include "sample/control.h"

#define WHY_MAX 256
#define OPENMETRICS "application/openmetrics-text"

_Static_assert(SAMPLER_WINDOWS_MAX + SAMPLER_PENDING_MAX <= SAMPLE_CONTROL_WAITERS, "one for each window");

/* ---- answers ---- */

typedef void (*put_fn)(struct sampler *s, struct jsonw *w, uint64_t nr, const char *line);

/* An answer that `put` has the keys of. */
static void answer(struct sampler *s, struct http_request *rq, put_fn put, uint64_t nr, const char *line)
{
	struct jsonw_memory m = { .len = 0 };
	struct jsonw w;
	char *text;

	control_answer__begin(&w, jsonw__to_memory, &m);
	put(s, &w, nr, line);
	jsonw__end_obj(&w);
	jsonw__newline(&w);
	text = jsonw__take(&w, &m);
	http_request__answer(rq, HTTP_OK, "application/json", text, m.len);
}

static void put_window(struct sampler *s, struct jsonw *w, uint64_t nr, const char *line)
{
	(void)s;
	JSONW_U64(w, "window", nr);
	if (!line)
		return;
	JSONW_KEY(w, "ended");
	jsonw__raw(w, line);
}

static void put_toggled(struct sampler *s, struct jsonw *w, uint64_t nr, const char *line)
{
	(void)line;
	JSONW_U64(w, "from_window", nr);
	if (s->settings->off)
		JSONW_STR(w, "off", s->settings->off);
}

static void put_status(struct sampler *s, struct jsonw *w, uint64_t nr, const char *line)
{
	(void)nr;
	(void)line;
	sample_status__write(s, w);
}

/* ---- those who wait ---- */

/* line NULL: there is none, because of `why` */
static void answer_waiters(struct sampler *s, uint64_t nr, const char *line, const char *why)
{
	struct sample_control *sc = &s->control;

	for (uint32_t i = 0; i < sc->waiter_cnt;) {
		struct http_request *rq = sc->waiters[i].rq;

		if (sc->waiters[i].nr != nr) {
			i++;
			continue;
		}
		sc->waiters[i] = sc->waiters[--sc->waiter_cnt];
		if (line)
			answer(s, rq, put_window, nr, line);
		else
			http_request__refuse(rq, HTTP_UNAVAILABLE, nr, why);
	}
}

void sample_control__ended(struct sampler *s, uint64_t nr, const struct jsonw_text *line)
{
	struct sample_control *sc = &s->control;
	char *copy;

	if (!sc->listens)
		return;
	copy = xstrdup(line->text);
	if (sc->line_cnt == SAMPLE_CONTROL_LINES) {
		free(sc->lines[0]);
		memmove(sc->lines, sc->lines + 1, --sc->line_cnt * sizeof(*sc->lines));
	}
	sc->lines[sc->line_cnt++] = copy;
	answer_waiters(s, nr, copy, NULL);
}

void sample_control__gave_up(struct sampler *s, uint64_t nr, const char *why)
{
	answer_waiters(s, nr, NULL, why);
}

/* ---- requests ---- */

/* False: it has its answer, a refusal. */
static bool parse(struct sampler *s, struct http_request *rq, enum control_what what,
		  struct control_request *cr)
{
	char why[WHY_MAX];

	if (!control_request__parse(what, rq->body, rq->len, cr, why, sizeof(why)))
		return true;
	s->control.malformed++;
	http_request__refuse(rq, HTTP_BAD_REQUEST, UINT64_MAX, why);
	return false;
}

static unsigned int status_of(int err)
{
	return err == -EINVAL ? HTTP_BAD_REQUEST :
	       err == -ESRCH  ? HTTP_NOT_FOUND :
	       err == -EBUSY  ? HTTP_CONFLICT :
				HTTP_UNAVAILABLE;
}

static void on_trigger(void *arg, struct http_request *rq)
{
	struct sampler *s = arg;
	struct sample_control *sc = &s->control;
	struct control_request cr;
	struct window_request wr;
	char why[WHY_MAX];
	uint64_t nr = 0;
	int err;

	if (!parse(s, rq, CONTROL_TRIGGER, &cr))
		return;
	wr = (struct window_request){ .trigger = { .kind = "request", .by_pid = rq->pid, .by_uid = rq->uid },
				      .pid_cnt = cr.pid_cnt,
				      .duration_ns = cr.duration_ns,
				      .start_real_ns = cr.start_real_ns };
	memcpy(wr.pids, cr.pids, cr.pid_cnt * sizeof(*cr.pids));
	sc->triggers++;
	err = sampler__request(s, &wr, &nr, why, sizeof(why));
	if (err) {
		sc->refused++;
		pr_info("a window that uid %u, pid %d requested is refused: %s", rq->uid, rq->pid, why);
		http_request__refuse(rq, status_of(err), UINT64_MAX, why);
		return;
	}
	pr_info("window %llu: requested by uid %u, pid %d", (unsigned long long)nr, rq->uid, rq->pid);
	if (!cr.wait) {
		answer(s, rq, put_window, nr, NULL);
		return;
	}
	sc->waiters[sc->waiter_cnt].rq = rq;
	sc->waiters[sc->waiter_cnt++].nr = nr;
}

static void on_toggle(void *arg, struct http_request *rq)
{
	struct sampler *s = arg;
	struct control_request cr;
	char why[WHY_MAX];

	if (!parse(s, rq, CONTROL_TOGGLE, &cr))
		return;
	if (sampler__toggle(s, &cr, why, sizeof(why))) {
		pr_info("uid %u, pid %d: --toggle is refused: %s", rq->uid, rq->pid, why);
		http_request__refuse(rq, HTTP_BAD_REQUEST, UINT64_MAX, why);
		return;
	}
	answer(s, rq, put_toggled, s->nr, NULL);
}

static void on_status(void *arg, struct http_request *rq)
{
	answer(arg, rq, put_status, 0, NULL);
}

static void on_metrics(void *arg, struct http_request *rq)
{
	struct sampler *s = arg;
	bool openmetrics = http_request__accepts(rq, OPENMETRICS);
	size_t len;
	char *text = sample_metrics__text(&s->metrics, openmetrics, &len);

	http_request__answer(rq, HTTP_OK,
			     openmetrics ? OPENMETRICS "; version=1.0.0; charset=utf-8" :
					   "text/plain; version=0.0.4; charset=utf-8",
			     text, len);
}

/* ---- the server ---- */

static const struct http_route control_routes[] = {
	{ "/status", "GET", on_status },
	{ "/trigger", "POST", on_trigger },
	{ "/toggle", "POST", on_toggle },
	{ "/metrics", "GET", on_metrics },
	{ NULL, NULL, NULL },
};

static const struct http_route metrics_routes[] = {
	{ "/metrics", "GET", on_metrics },
	{ NULL, NULL, NULL },
};

/* 0 or negative errno (reported). */
static int serve(struct sampler *s, int fd, bool own, const struct http_route *routes)
{
	int err = http_server__listen(s->control.server, fd, own, routes);

	if (err)
		pr_error("libmicrohttpd does not start: %s", errstr(err));
	return err;
}

static int open_control(struct sampler *s, bool needed)
{
	struct sample_control *sc = &s->control;
	const char *path = s->cfg->control;
	char own[CONTROL_PATH_MAX];
	int fd;

	if (!path) {
		mkdir(CONTROL_DIR, 0755); /* else the socket cannot be created, which is reported */
		control_socket__clean();
		fd = control_socket__path(s->dir.path, own);
		path = own;
		if (fd)
			return fd;
	}
	fd = http_listen__path(path, !needed, &sc->path);
	if (fd < 0)
		return needed ? fd : 0;
	pr_info("control: %s", path);
	sc->listens = true;
	return serve(s, fd, true, control_routes);
}

static int open_metrics(struct sampler *s, const char *address)
{
	char url[HTTP_URL_MAX];
	int fd = http_listen__port(address, url);

	if (fd < 0)
		return fd;
	pr_info("metrics: %s", url);
	return serve(s, fd, false, metrics_routes);
}

int sample_control__open(struct sampler *s)
{
	const char *path = s->cfg->control, *address = s->cfg->metrics;
	bool control = !path || strcmp(path, SAMPLE_CONTROL_OFF) != 0;
	bool needed = control && (path || s->schedule.none);
	int err;

	if (!control && !address)
		return 0;
	err = http_server__open(s, !needed && !address, &s->control.server);
	if (err)
		return needed || address ? err : 0;
	if (address)
		err = open_metrics(s, address);
	if (!err && control)
		err = open_control(s, needed);
	return err;
}

void sample_control__close(struct sampler *s)
{
	http_listen__remove(&s->control.path);
	http_server__free(s->control.server);
	s->control.server = NULL;
	while (s->control.line_cnt)
		free(s->control.lines[--s->control.line_cnt]);
}
