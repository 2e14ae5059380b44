/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The HTTP server: clients request windows and figures, and wait for the end of a window. */
#define LOG_DOMAIN "control"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "sample/daemon.h"

#define WHY_MAX 256
#define OPENMETRICS "application/openmetrics-text"

/* ---- answers ---- */

struct answer {
	struct jsonw w;
	struct jsonw_memory m;
};

static void begin_answer(struct answer *a)
{
	a->m = (struct jsonw_memory){ .len = 0 };
	control_answer__begin(&a->w, jsonw__to_memory, &a->m);
}

static void send_answer(struct answer *a, struct http_request *rq)
{
	char *text;

	jsonw__end_obj(&a->w);
	jsonw__newline(&a->w);
	text = jsonw__take(&a->w, &a->m);
	http_request__answer(rq, HTTP_OK, "application/json", text, a->m.len);
}

/* line: of the log, NULL: the window has not ended. */
static void answer_window(struct http_request *rq, uint64_t nr, const char *line)
{
	struct answer a;

	begin_answer(&a);
	JSONW_U64(&a.w, "window", nr);
	if (line) {
		JSONW_KEY(&a.w, "ended");
		jsonw__raw(&a.w, line);
	}
	send_answer(&a, rq);
}

/* ---- those who wait ---- */

/* line NULL: there is none, because of `why` */
static void answer_waiters(struct daemon *d, uint64_t nr, const char *line, const char *why)
{
	struct control *sc = &d->control;

	for (uint32_t i = 0; i < sc->waiter_cnt;) {
		struct http_request *rq = sc->waiters[i].rq;

		if (sc->waiters[i].nr != nr) {
			i++;
			continue;
		}
		sc->waiters[i] = sc->waiters[--sc->waiter_cnt];
		if (line)
			answer_window(rq, nr, line);
		else
			http_request__refuse(rq, HTTP_UNAVAILABLE, nr, why);
	}
}

void control__ended(struct daemon *d, uint64_t nr, const struct jsonw_text *line)
{
	struct control *sc = &d->control;
	char *copy;

	if (!sc->listens)
		return;
	copy = xstrdup(line->text);
	if (sc->line_cnt == DAEMON_LINES_MAX) {
		free(sc->lines[0]);
		memmove(sc->lines, sc->lines + 1, --sc->line_cnt * sizeof(*sc->lines));
	}
	sc->lines[sc->line_cnt++] = copy;
	answer_waiters(d, nr, copy, NULL);
}

void control__gave_up(struct daemon *d, uint64_t nr, const char *why)
{
	answer_waiters(d, nr, NULL, why);
}

/* ---- requests ---- */

/* False: it has its answer, a refusal. */
static bool parse(struct daemon *d, struct http_request *rq, enum control_what what,
		  struct control_request *cr)
{
	char why[WHY_MAX];

	if (!control_request__parse(what, rq->body, rq->len, cr, why, sizeof(why)))
		return true;
	d->control.malformed++;
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
	struct daemon *d = arg;
	struct control *sc = &d->control;
	struct control_request cr;
	struct window_request wr;
	char why[WHY_MAX];
	uint64_t nr = 0;
	int err;

	if (!parse(d, rq, CONTROL_TRIGGER, &cr))
		return;
	wr = (struct window_request){
		.trigger = { .kind = "request", .by_pid = rq->pid, .by_uid = rq->uid },
		.pid_cnt = cr.pid_cnt,
		.duration_ns = cr.duration_ns,
		.start_real_ns = cr.start_real_ns
	};
	memcpy(wr.pids, cr.pids, cr.pid_cnt * sizeof(*cr.pids));
	sc->triggers++;
	err = request__open(d, &wr, &nr, why, sizeof(why));
	if (err) {
		sc->refused++;
		pr_info("a window that uid %u, pid %d requested is refused: %s", rq->uid, rq->pid,
			why);
		http_request__refuse(rq, status_of(err), UINT64_MAX, why);
		return;
	}
	pr_info("window %llu: requested by uid %u, pid %d", (unsigned long long)nr, rq->uid,
		rq->pid);
	if (!cr.wait) {
		answer_window(rq, nr, NULL);
		return;
	}
	sc->waiters[sc->waiter_cnt].rq = rq;
	sc->waiters[sc->waiter_cnt++].nr = nr;
}

static void on_toggle(void *arg, struct http_request *rq)
{
	struct daemon *d = arg;
	struct control_request cr;
	const char *why;
	struct answer a;

	if (!parse(d, rq, CONTROL_TOGGLE, &cr))
		return;
	why = daemon__toggle(d, &cr);
	if (why) {
		pr_info("uid %u, pid %d: --toggle is refused: %s", rq->uid, rq->pid, why);
		http_request__refuse(rq, HTTP_BAD_REQUEST, UINT64_MAX, why);
		return;
	}
	begin_answer(&a);
	JSONW_U64(&a.w, "from_window", d->nr);
	if (d->off)
		JSONW_STR(&a.w, "off", d->off);
	send_answer(&a, rq);
}

static void on_status(void *arg, struct http_request *rq)
{
	struct answer a;

	begin_answer(&a);
	status__write(arg, &a.w);
	send_answer(&a, rq);
}

static void on_metrics(void *arg, struct http_request *rq)
{
	struct daemon *d = arg;
	bool openmetrics = http_request__accepts(rq, OPENMETRICS);
	size_t len;
	char *text;

	d->metrics.cpu_ns = clock__cpu_ns_with_children();
	text = metrics__text(&d->metrics, openmetrics, &len);
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
static int serve(struct daemon *d, int fd, bool own, const struct http_route *routes)
{
	int err = http_server__listen(d->control.server, fd, own, routes);

	if (err)
		pr_error("libmicrohttpd does not start: %s", errstr(err));
	return err;
}

static int open_control(struct daemon *d, bool needed)
{
	struct control *sc = &d->control;
	const char *path = d->set->control;
	char own[CONTROL_PATH_MAX];
	int fd;

	if (!path) {
		mkdir(CONTROL_DIR, 0755); /* else the socket cannot be created, which is reported */
		control_socket__clean();
		fd = control_socket__path(d->dir.path, own);
		path = own;
		if (fd)
			return fd;
	}
	fd = http_listen__path(path, !needed, &sc->path);
	if (fd < 0)
		return needed ? fd : 0;
	pr_info("control: %s", path);
	sc->listens = true;
	return serve(d, fd, true, control_routes);
}

static int open_metrics(struct daemon *d, const char *address)
{
	char url[HTTP_URL_MAX];
	int fd = http_listen__port(address, url);

	if (fd < 0)
		return fd;
	pr_info("metrics: %s", url);
	return serve(d, fd, false, metrics_routes);
}

int control__open(struct daemon *d)
{
	const char *path = d->set->control, *address = d->set->metrics;
	bool control = !path || strcmp(path, SAMPLE_CONTROL_OFF) != 0;
	bool needed = control && (path || d->schedule.none);
	int err;

	if (!control && !address)
		return 0;
	err = http_server__open(d, !needed && !address, &d->control.server);
	if (err)
		return needed || address ? err : 0;
	if (address)
		err = open_metrics(d, address);
	if (!err && control)
		err = open_control(d, needed);
	return err;
}

void control__close(struct daemon *d)
{
	http_listen__remove(&d->control.path);
	http_server__free(d->control.server);
	d->control.server = NULL;
	while (d->control.line_cnt)
		free(d->control.lines[--d->control.line_cnt]);
}
