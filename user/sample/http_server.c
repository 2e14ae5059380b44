/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * See http_server.h. libmicrohttpd is loaded when there is something to serve: with the libraries
 * for TLS that it needs, linking it would cost each run of ptbpf about 9 ms and 3 MiB. The static
 * program has it without these.
 */
#define LOG_DOMAIN "http"
#include "sample/http_server.h"

#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "sample/control.h"

#define MHD_SONAME "libmicrohttpd.so.12"
/* libmicrohttpd 0.9.75 misses the end of a connection that comes together with half a request. */
#define IDLE_S 5
#define CONNECTION_BYTES 16384
#define OLD_CONNECTIONS 24 /* beyond these the oldest is closed: new ones always find a place */
#define LISTENERS_MAX 2
#define LAST_ANSWERS_MS 1000
#define ROUND_MS 10

/* clang-format off */
#define MHD_FUNCTIONS(X)                                                                             \
	X(start_daemon) X(stop_daemon) X(get_daemon_info) X(get_connection_info) X(run)              \
	X(get_timeout) X(create_response_from_buffer) X(add_response_header) X(queue_response)       \
	X(destroy_response) X(lookup_connection_value) X(suspend_connection) X(resume_connection)
/* clang-format on */

struct mhd {
#define X(name) __typeof__(MHD_##name) *name;
	MHD_FUNCTIONS(X)
#undef X
};

struct connection {
	struct http_request rq;
	struct listener *at;
	struct MHD_Connection *conn;
	const struct http_route *route; /* NULL: its headers have not come */
	int fd;
	bool asked, answered, suspended, shut;
	unsigned int status;
	const char *type;
	char *text;
	size_t text_len;
	char body[HTTP_BODY_MAX + 1];
};

struct listener {
	struct http_server *server;
	struct MHD_Daemon *daemon;
	const struct http_route *routes;
	bool own;
	int fd, epoll_fd;
	struct connection *conns[HTTP_CONNECTIONS]; /* oldest first */
	uint32_t conn_cnt;
};

struct http_server {
	struct mhd mhd;
	int epoll_fd;
	struct listener listeners[LISTENERS_MAX];
	uint32_t listener_cnt;
	void *arg;
	struct http_counts counts;
	/* The last run closed or resumed a connection: only another run accepts new ones again, or
	 * goes on with the resumed one. */
	bool again;
};

/* ---- the library ---- */

#ifdef PTBPF_STATIC
static int load_library(struct mhd *mhd, bool may_fail)
{
	(void)may_fail;
#define X(name) mhd->name = MHD_##name;
	MHD_FUNCTIONS(X)
#undef X
	return 0;
}
#else
static int load_library(struct mhd *mhd, bool may_fail)
{
	const struct {
		const char *name;
		void **at;
	} rows[] = {
#define X(name) { "MHD_" #name, (void **)(void *)&mhd->name },
		MHD_FUNCTIONS(X)
#undef X
	};
	void *lib = dlopen(MHD_SONAME, RTLD_NOW);

	for (size_t i = 0; lib && i < sizeof(rows) / sizeof(rows[0]); i++) {
		*rows[i].at = dlsym(lib, rows[i].name);
		if (!*rows[i].at)
			lib = NULL;
	}
	if (lib)
		return 0;
	if (may_fail)
		pr_warn("nothing is served without libmicrohttpd: %s", dlerror());
	else
		pr_error("nothing is served without libmicrohttpd: %s", dlerror());
	pr_hint("apt install libmicrohttpd12");
	return -ENOENT;
}
#endif

/* ---- requests ---- */

static struct connection *connection_of(const struct listener *l, struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info =
		l->server->mhd.get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static const struct http_route *find_route(const struct listener *l, const char *path)
{
	const struct http_route *r = l->routes;

	while (r->path && strcmp(r->path, path) != 0)
		r++;
	return r;
}

/* The headers have come. */
static void check(struct connection *c, const char *path, const char *method)
{
	const struct listener *l = c->at;
	struct http_server *hs = l->server;
	const char *length =
		hs->mhd.lookup_connection_value(c->conn, MHD_HEADER_KIND, "Content-Length");
	char why[128] = "there is only";

	c->route = find_route(l, path);
	if (l->own && c->rq.uid && c->rq.uid != geteuid()) {
		hs->counts.foreign++;
		http_request__refuse(&c->rq, HTTP_FORBIDDEN, UINT64_MAX,
				     "only root and the user who runs ptbpf sample control it");
	} else if (!c->route->path) {
		for (const struct http_route *r = l->routes; r->path; r++)
			snprintf(why + strlen(why), sizeof(why) - strlen(why), " %s", r->path);
		http_request__refuse(&c->rq, HTTP_NOT_FOUND, UINT64_MAX, why);
	} else if (strcmp(method, c->route->method) != 0 &&
		   (strcmp(method, "HEAD") != 0 || strcmp(c->route->method, "GET") != 0)) {
		snprintf(why, sizeof(why), "%s takes %s only", c->route->path, c->route->method);
		http_request__refuse(&c->rq, HTTP_WRONG_METHOD, UINT64_MAX, why);
	} else if (length && strtoull(length, NULL, 10) > HTTP_BODY_MAX) {
		hs->counts.too_long++;
		http_request__refuse(&c->rq, HTTP_TOO_LONG, UINT64_MAX, "the request is too long");
	}
}

/* MHD_NO closes the connection. */
static enum MHD_Result take_body(struct connection *c, const char *data, size_t *len)
{
	if (*len > HTTP_BODY_MAX - c->rq.len) {
		c->at->server->counts.too_long++;
		return MHD_NO;
	}
	memcpy(c->body + c->rq.len, data, *len);
	c->rq.len += *len;
	*len = 0;
	return MHD_YES;
}

static enum MHD_Result send_answer(struct connection *c)
{
	const struct mhd *mhd = &c->at->server->mhd;
	struct MHD_Response *r;
	enum MHD_Result ok;

	if (!c->text)
		return MHD_NO;
	r = mhd->create_response_from_buffer(c->text_len, c->text, MHD_RESPMEM_MUST_FREE);
	if (!r)
		return MHD_NO;
	c->text = NULL;
	ok = mhd->add_response_header(r, "Content-Type", c->type);
	if (ok)
		ok = mhd->add_response_header(r, "Connection", "close");
	if (ok && c->status == HTTP_WRONG_METHOD)
		ok = mhd->add_response_header(r, "Allow", c->route->method);
	if (ok)
		ok = mhd->queue_response(c->conn, c->status, r);
	mhd->destroy_response(r);
	return ok;
}

/*
 * Called at the end of the headers, for each piece of the body, at its end, and when a suspended
 * request is resumed, which has its answer by then.
 */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *conn, const char *path,
				  const char *method, const char *version, const char *data,
				  size_t *len, void **state)
{
	struct listener *l = arg;
	struct connection *c = connection_of(l, conn);

	(void)version;
	(void)state;
	if (!c)
		return MHD_NO;
	if (!c->route) {
		check(c, path, method);
		return c->answered ? send_answer(c) : MHD_YES;
	}
	if (*len)
		return take_body(c, data, len);
	if (!c->asked) {
		c->asked = true;
		c->route->fn(l->server->arg, &c->rq);
	}
	if (c->answered)
		return send_answer(c);
	c->suspended = true;
	l->server->mhd.suspend_connection(conn);
	return MHD_YES;
}

/* ---- connections ---- */

static void add_connection(struct listener *l, struct MHD_Connection *conn, int fd, void **context)
{
	struct connection *c;
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(peer);

	l->server->counts.connections++;
	if (l->conn_cnt == HTTP_CONNECTIONS)
		return;
	c = xcalloc(1, sizeof(*c));
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	c->rq = (struct http_request){ .body = c->body, .pid = peer.pid, .uid = peer.uid };
	c->at = l;
	c->conn = conn;
	c->fd = fd;
	*context = l->conns[l->conn_cnt++] = c;
}

static void remove_connection(struct listener *l, struct connection *c)
{
	uint32_t i = 0;

	while (l->conns[i] != c)
		i++;
	l->conn_cnt--;
	memmove(&l->conns[i], &l->conns[i + 1], (l->conn_cnt - i) * sizeof(*l->conns));
	l->server->again = true;
	free(c->text);
	free(c);
}

/* Ends the oldest connection that waits for no answer: the library sees that and closes it. */
static void make_room(struct listener *l)
{
	uint32_t i = 0;

	while (i < l->conn_cnt && (l->conns[i]->suspended || l->conns[i]->shut))
		i++;
	if (l->conn_cnt <= OLD_CONNECTIONS || i == l->conn_cnt)
		return;
	shutdown(l->conns[i]->fd, SHUT_RDWR);
	l->conns[i]->shut = true;
	l->server->counts.closed++;
}

static void on_connection(void *arg, struct MHD_Connection *conn, void **context,
			  enum MHD_ConnectionNotificationCode what)
{
	struct listener *l = arg;
	const union MHD_ConnectionInfo *info =
		l->server->mhd.get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);

	if (what == MHD_CONNECTION_NOTIFY_STARTED && info) {
		add_connection(l, conn, info->connect_fd, context);
		make_room(l);
	} else if (what == MHD_CONNECTION_NOTIFY_CLOSED && *context) {
		remove_connection(l, *context);
	}
}

bool http_request__accepts(const struct http_request *rq, const char *type)
{
	const struct connection *c = (const struct connection *)(const void *)rq;
	const char *accept =
		c->at->server->mhd.lookup_connection_value(c->conn, MHD_HEADER_KIND, "Accept");

	return accept && strstr(accept, type);
}

void http_request__answer(struct http_request *rq, unsigned int status, const char *type,
			  char *text, size_t len)
{
	struct connection *c = (struct connection *)(void *)rq;

	c->status = status;
	c->type = type;
	c->text = text;
	c->text_len = len;
	c->answered = true;
	if (!c->suspended)
		return;
	c->suspended = false;
	c->at->server->again = true;
	c->at->server->mhd.resume_connection(c->conn);
}

void http_request__refuse(struct http_request *rq, unsigned int status, uint64_t nr,
			  const char *why)
{
	struct jsonw_text text;

	control_answer__refuse(&text, nr, why);
	http_request__answer(rq, status, "application/json", xstrdup(text.text), text.len);
}

/* ---- the server ---- */

int http_server__open(void *arg, bool may_fail, struct http_server **out)
{
	struct http_server *hs = xcalloc(1, sizeof(*hs));
	int err;

	hs->arg = arg;
	hs->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	err = hs->epoll_fd < 0 ? -errno : load_library(&hs->mhd, may_fail);
	if (err)
		http_server__free(hs);
	else
		*out = hs;
	return err;
}

int http_server__listen(struct http_server *hs, int fd, bool own, const struct http_route *routes)
{
	struct listener *l = &hs->listeners[hs->listener_cnt];
	struct epoll_event ev = { .events = EPOLLIN };
	const union MHD_DaemonInfo *info;

	*l = (struct listener){ .server = hs, .routes = routes, .own = own, .fd = fd };
	l->daemon = hs->mhd.start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
					 on_request, l, MHD_OPTION_LISTEN_SOCKET, fd,
					 MHD_OPTION_CONNECTION_LIMIT, HTTP_CONNECTIONS,
					 MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
					 MHD_OPTION_CONNECTION_MEMORY_LIMIT,
					 (size_t)CONNECTION_BYTES, MHD_OPTION_NOTIFY_CONNECTION,
					 on_connection, l, MHD_OPTION_END);
	if (!l->daemon) {
		close(fd);
		return -EIO;
	}
	hs->listener_cnt++;
	info = hs->mhd.get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	l->epoll_fd = info->epoll_fd;
	return epoll_ctl(hs->epoll_fd, EPOLL_CTL_ADD, l->epoll_fd, &ev) ? -errno : 0;
}

int http_server__fd(const struct http_server *hs)
{
	return hs->epoll_fd;
}

int http_server__wait_ms(const struct http_server *hs, int max)
{
	MHD_UNSIGNED_LONG_LONG left;

	for (uint32_t i = 0; i < hs->listener_cnt; i++)
		if (hs->mhd.get_timeout(hs->listeners[i].daemon, &left) && left < (unsigned int)max)
			max = (int)left;
	return hs->again ? 0 : max;
}

void http_server__run(struct http_server *hs)
{
	hs->again = false;
	for (uint32_t i = 0; i < hs->listener_cnt; i++)
		hs->mhd.run(hs->listeners[i].daemon);
}

struct http_counts http_server__counts(const struct http_server *hs)
{
	return hs->counts;
}

/* Closes the connections that wait for an answer. True: answers are still to be sent. */
static bool end_requests(struct http_server *hs)
{
	bool any = false;

	for (uint32_t i = 0; i < hs->listener_cnt; i++)
		for (uint32_t k = 0; k < hs->listeners[i].conn_cnt; k++) {
			struct connection *c = hs->listeners[i].conns[k];

			if (c->suspended)
				http_request__answer(&c->rq, HTTP_UNAVAILABLE, NULL, NULL, 0);
			any |= c->answered;
		}
	return any;
}

void http_server__free(struct http_server *hs)
{
	struct pollfd p;

	if (!hs)
		return;
	p = (struct pollfd){ .fd = hs->epoll_fd, .events = POLLIN };
	for (int ms = 0; ms < LAST_ANSWERS_MS && end_requests(hs); ms += ROUND_MS) {
		poll(&p, 1, ROUND_MS);
		http_server__run(hs);
	}
	for (uint32_t i = 0; i < hs->listener_cnt; i++)
		hs->mhd.stop_daemon(hs->listeners[i].daemon); /* closes the socket */
	if (hs->epoll_fd >= 0)
		close(hs->epoll_fd);
	free(hs);
}
