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
#include "cli/sampler.h"
#include "sample/control_msg.h"
#include "sample/control_socket.h"

#define WHY_MAX 256

/* ---- answers ---- */

static void refuse(struct sampler *s, uint64_t conn, uint64_t nr, const char *why)
{
	struct jsonw_text text;

	control_answer__refuse(&text, nr, why);
	control_server__answer(s->control.server, conn, text.text, text.len);
}

typedef void (*put_fn)(struct sampler *s, struct jsonw *w, uint64_t nr, const char *line);

/* An answer that `put` has the keys of. False: it was not sent. */
static bool answer(struct sampler *s, uint64_t conn, put_fn put, uint64_t nr, const char *line)
{
	struct jsonw_memory m = { .len = 0 };
	char *text = NULL;
	struct jsonw w;
	bool sent;

	if (!control_answer__begin(&w, jsonw__to_memory, &m)) {
		put(s, &w, nr, line);
		jsonw__end_obj(&w);
		text = jsonw__take(&w, &m);
	}
	sent = text && control_server__answer(s->control.server, conn, text, m.len);
	free(text);
	return sent;
}

static void put_accepted(struct sampler *s, struct jsonw *w, uint64_t nr, const char *line)
{
	(void)s;
	(void)line;
	JSONW_U64(w, "window", nr);
}

static void put_ended(struct sampler *s, struct jsonw *w, uint64_t nr, const char *line)
{
	(void)s;
	JSONW_U64(w, "window", nr);
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

static void forget_gone(struct sample_control *sc)
{
	for (uint32_t i = 0; i < sc->waiter_cnt;) {
		if (control_server__connected(sc->server, sc->waiters[i].conn))
			i++;
		else
			sc->waiters[i] = sc->waiters[--sc->waiter_cnt];
	}
}

static bool waits(struct sample_control *sc, uint64_t conn)
{
	forget_gone(sc);
	for (uint32_t i = 0; i < sc->waiter_cnt; i++)
		if (sc->waiters[i].conn == conn)
			return true;
	return false;
}

static void add_waiter(struct sample_control *sc, uint64_t conn, uint64_t nr)
{
	if (sc->waiter_cnt == CONTROL_CONNECTIONS) /* no more than connections: each waits once */
		return;
	sc->waiters[sc->waiter_cnt].conn = conn;
	sc->waiters[sc->waiter_cnt++].nr = nr;
	control_server__promise(sc->server, conn, true);
}

/* line NULL: there is none, because of `why` */
static void tell_waiters(struct sampler *s, uint64_t nr, const char *line, const char *why)
{
	struct sample_control *sc = &s->control;

	for (uint32_t i = 0; i < sc->waiter_cnt;) {
		uint64_t conn = sc->waiters[i].conn;

		if (sc->waiters[i].nr != nr) {
			i++;
			continue;
		}
		sc->waiters[i] = sc->waiters[--sc->waiter_cnt];
		control_server__promise(sc->server, conn, false);
		if (line)
			answer(s, conn, put_ended, nr, line);
		else
			refuse(s, conn, nr, why);
	}
}

static void keep_line(struct sample_control *sc, const char *line)
{
	char *copy = strdup(line);

	if (!copy)
		return;
	if (sc->line_cnt == SAMPLE_CONTROL_LINES) {
		free(sc->lines[0]);
		memmove(sc->lines, sc->lines + 1, --sc->line_cnt * sizeof(*sc->lines));
	}
	sc->lines[sc->line_cnt++] = copy;
}

void sample_control__ended(struct sampler *s, uint64_t nr, const struct jsonw_text *line)
{
	if (!s->control.server)
		return;
	keep_line(&s->control, line->text);
	tell_waiters(s, nr, line->text, NULL);
}

void sample_control__gave_up(struct sampler *s, uint64_t nr, const char *why)
{
	if (s->control.server)
		tell_waiters(s, nr, NULL, why);
}

/* ---- requests ---- */

static void trigger(struct sampler *s, uint64_t conn, const struct control_peer *peer,
		    const struct control_request *rq)
{
	struct window_request wr = {
		.trigger = { .kind = "request", .by_pid = peer->pid, .by_uid = peer->uid },
		.pid_cnt = rq->pid_cnt,
		.duration_ns = rq->duration_ns,
		.start_real_ns = rq->start_real_ns
	};
	char why[WHY_MAX] = "this connection waits for a window already";
	uint64_t nr = 0;
	int err = waits(&s->control, conn) ? -EBUSY : 0;

	memcpy(wr.pids, rq->pids, rq->pid_cnt * sizeof(*rq->pids));
	s->control.triggers++;
	if (!err)
		err = sampler__request(s, &wr, &nr, why, sizeof(why));
	if (err) {
		s->control.refused++;
		pr_info("a window that uid %u, pid %d requested is refused: %s", peer->uid,
			peer->pid, why);
		refuse(s, conn, UINT64_MAX, why);
		return;
	}
	pr_info("window %llu: requested by uid %u, pid %d", (unsigned long long)nr, peer->uid, peer->pid);
	if (answer(s, conn, put_accepted, nr, NULL) && rq->wait)
		add_waiter(&s->control, conn, nr);
}

static void toggle(struct sampler *s, uint64_t conn, const struct control_peer *peer,
		   const struct control_request *rq)
{
	char why[WHY_MAX];

	if (sampler__toggle(s, rq, why, sizeof(why))) {
		pr_info("uid %u, pid %d: --toggle is refused: %s", peer->uid, peer->pid, why);
		refuse(s, conn, UINT64_MAX, why);
		return;
	}
	answer(s, conn, put_toggled, s->nr, NULL);
}

static void on_request(void *arg, uint64_t conn, const struct control_peer *peer, const char *text,
		       size_t len)
{
	struct sampler *s = arg;
	struct control_request rq;
	char why[WHY_MAX];

	if (control_request__parse(text, len, &rq, why, sizeof(why))) {
		s->control.malformed++;
		refuse(s, conn, UINT64_MAX, why);
	} else if (rq.what == CONTROL_TRIGGER) {
		trigger(s, conn, peer, &rq);
	} else if (rq.what == CONTROL_TOGGLE) {
		toggle(s, conn, peer, &rq);
	} else {
		answer(s, conn, put_status, 0, NULL);
	}
}

/* ---- the socket ---- */

int sample_control__open(struct sampler *s)
{
	const char *path = s->cfg->control;
	bool needed = path || s->schedule.none;
	char own[CONTROL_PATH_MAX];
	int err = 0;

	if (path && !strcmp(path, SAMPLE_CONTROL_OFF))
		return 0;
	if (!path) {
		mkdir(CONTROL_DIR, 0755); /* else the socket cannot be created, which is reported */
		control_socket__clean();
		err = control_socket__path(s->dir.path, own);
		path = own;
	}
	if (!err)
		err = control_server__open(path, !needed, on_request, s, &s->control.server);
	if (!err)
		pr_info("control: %s", path);
	return needed ? err : 0;
}

int sample_control__fd(const struct sampler *s)
{
	return s->control.server ? control_server__fd(s->control.server) : -1;
}

void sample_control__serve(struct sampler *s)
{
	if (s->control.server)
		control_server__run(s->control.server);
}

void sample_control__close(struct sampler *s)
{
	control_server__free(s->control.server);
	s->control.server = NULL;
	while (s->control.line_cnt)
		free(s->control.lines[--s->control.line_cnt]);
}
