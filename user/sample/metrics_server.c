/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * See metrics_server.h. libmicrohttpd is loaded when there is something to serve: with the libraries for TLS that it
 * needs, linking it would cost each run of ptbpf about 9 ms and 3 MiB.
 */
#define LOG_DOMAIN "metrics"
#include "sample/metrics_server.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

#define MHD_SONAME "libmicrohttpd.so.12"
#define LOOPBACK "127.0.0.1"
/* Also of a connection whose end libmicrohttpd 0.9.75 misses, as it does when that comes together with half a request. */
#define IDLE_S 5
#define CONNECTION_BYTES 16384
#define BACKLOG 64
#define OLD_CONNECTIONS 24 /* beyond these the oldest is closed: new ones always find a place */

/* clang-format off */
#define MHD_FUNCTIONS(X)                                                                             \
	X(start_daemon) X(stop_daemon) X(get_daemon_info) X(get_connection_info) X(run)              \
	X(get_timeout) X(create_response_from_buffer) X(add_response_header) X(queue_response)       \
	X(destroy_response) X(lookup_connection_value)
/* clang-format on */

struct mhd {
#define X(name) __typeof__(MHD_##name) *name;
	MHD_FUNCTIONS(X)
#undef X
};

struct metrics_server {
	struct mhd mhd;
	struct MHD_Daemon *daemon;
	metrics_text_fn text;
	void *arg;
	int listen_fd, epoll_fd;
	int clients[METRICS_CONNECTIONS]; /* oldest first */
	uint32_t client_cnt;
	bool closed; /* a client in the last run: only the next one polls for new ones again, had there been too many */
	char url[300];
};

/* ---- the library ---- */

static int load_library(struct mhd *mhd)
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
	pr_error("--metrics needs libmicrohttpd: %s", dlerror());
	pr_hint("apt install libmicrohttpd12");
	return -ENOENT;
}

/* ---- the address ---- */

struct address {
	char host[256], port[8];
};

static bool is_port(const char *text)
{
	size_t n = strspn(text, "0123456789");

	return n && n <= 5 && !text[n] && atoi(text) <= 65535;
}

static bool parse_address(const char *text, struct address *a)
{
	const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
	size_t n = colon ? (size_t)(colon - text) : 0;

	if (!is_port(port) || n >= sizeof(a->host))
		return false;
	if (n && text[0] == '[') {
		if (n < 4 || text[n - 1] != ']')
			return false;
		text++;
		n -= 2;
	} else if (n && memchr(text, ':', n)) {
		return false; /* IPv6 without brackets */
	}
	snprintf(a->host, sizeof(a->host), "%.*s", n ? (int)n : (int)strlen(LOOPBACK),
		 n ? text : LOOPBACK);
	snprintf(a->port, sizeof(a->port), "%s", port);
	return true;
}

bool metrics_server__valid(const char *address)
{
	struct address a;

	return parse_address(address, &a);
}

/* A socket or negative errno. */
static int listen_at(const struct addrinfo *ai)
{
	const int one = 1;
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

	if (fd < 0)
		return -errno;
	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) &&
	    !bind(fd, ai->ai_addr, ai->ai_addrlen) && !listen(fd, BACKLOG))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static void set_url(struct metrics_server *ms, const char *host)
{
	struct sockaddr_storage at = { 0 };
	socklen_t len = sizeof(at);
	uint16_t port = 0;

	getsockname(ms->listen_fd, (struct sockaddr *)&at, &len);
	if (at.ss_family == AF_INET)
		port = ((const struct sockaddr_in *)(const void *)&at)->sin_port;
	else if (at.ss_family == AF_INET6)
		port = ((const struct sockaddr_in6 *)(const void *)&at)->sin6_port;
	snprintf(ms->url, sizeof(ms->url),
		 strchr(host, ':') ? "http://[%s]:%u/metrics" : "http://%s:%u/metrics", host,
		 ntohs(port));
}

/* 0 or negative errno (reported). */
static int open_socket(struct metrics_server *ms, const char *address)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *list = NULL;
	struct address a;
	int err;

	if (!parse_address(address, &a))
		return -EINVAL;
	err = getaddrinfo(a.host, a.port, &hints, &list);
	if (err) {
		pr_error("metrics cannot be served at %s: %s", address, gai_strerror(err));
		return -EADDRNOTAVAIL;
	}
	for (const struct addrinfo *ai = list; ai && ms->listen_fd < 0; ai = ai->ai_next)
		ms->listen_fd = listen_at(ai);
	freeaddrinfo(list);
	if (ms->listen_fd < 0) {
		pr_error("metrics cannot be served at %s: %s", address, errstr(ms->listen_fd));
		return ms->listen_fd;
	}
	set_url(ms, a.host);
	return 0;
}

/* ---- requests ---- */

struct answer {
	unsigned int status;
	const char *type;
	char *text; /* from malloc */
	size_t len;
};

static void set_text(struct answer *a, unsigned int status, const char *type, const char *text)
{
	a->status = status;
	a->type = type;
	a->text = strdup(text);
	a->len = strlen(text);
}

static void make_answer(struct metrics_server *ms, struct MHD_Connection *c, const char *path,
			const char *method, struct answer *a)
{
	const char *accept = ms->mhd.lookup_connection_value(c, MHD_HEADER_KIND, "Accept");
	bool openmetrics = accept && strstr(accept, "application/openmetrics-text");

	if (strcmp(path, "/metrics") != 0 && strcmp(path, "/") != 0) {
		set_text(a, MHD_HTTP_NOT_FOUND, "text/plain", "there is only /metrics\n");
	} else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		set_text(a, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", "there is only GET\n");
	} else if (!path[1]) {
		set_text(a, MHD_HTTP_OK, "text/html; charset=utf-8",
			 "<!DOCTYPE html><title>ptbpf</title><a href=\"/metrics\">metrics</a>\n");
	} else {
		a->status = MHD_HTTP_OK;
		a->type = openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8" :
					"text/plain; version=0.0.4; charset=utf-8";
		a->text = ms->text(ms->arg, openmetrics, &a->len);
	}
}

/* Called at the end of the headers; a body is not read. MHD_NO closes the connection. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *path,
				  const char *method, const char *version, const char *body,
				  size_t *body_len, void **state)
{
	struct metrics_server *ms = arg;
	struct MHD_Response *r;
	struct answer a = { .text = NULL };
	enum MHD_Result ok;

	(void)version;
	(void)body;
	(void)body_len;
	(void)state;
	make_answer(ms, c, path, method, &a);
	if (!a.text)
		return MHD_NO;
	r = ms->mhd.create_response_from_buffer(a.len, a.text, MHD_RESPMEM_MUST_FREE);
	if (!r) {
		free(a.text);
		return MHD_NO;
	}
	ok = ms->mhd.add_response_header(r, "Content-Type", a.type);
	if (ok)
		ok = ms->mhd.add_response_header(r, "Connection", "close");
	if (ok && a.status == MHD_HTTP_METHOD_NOT_ALLOWED)
		ok = ms->mhd.add_response_header(r, "Allow", "GET, HEAD");
	if (ok)
		ok = ms->mhd.queue_response(c, a.status, r);
	ms->mhd.destroy_response(r);
	return ok;
}

/* Keeps the list of clients, and closes the oldest ones when there are too many. */
static void on_client(void *arg, struct MHD_Connection *c, void **state,
		      enum MHD_ConnectionNotificationCode what)
{
	struct metrics_server *ms = arg;
	const union MHD_ConnectionInfo *info =
		ms->mhd.get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	uint32_t i = 0;

	(void)state;
	if (!info)
		return;
	while (i < ms->client_cnt && ms->clients[i] != info->connect_fd)
		i++;
	if (what == MHD_CONNECTION_NOTIFY_STARTED && ms->client_cnt < METRICS_CONNECTIONS) {
		ms->clients[ms->client_cnt++] = info->connect_fd;
	} else if (what == MHD_CONNECTION_NOTIFY_CLOSED && i < ms->client_cnt) {
		ms->closed = true;
		ms->client_cnt--;
		memmove(&ms->clients[i], &ms->clients[i + 1],
			(ms->client_cnt - i) * sizeof(*ms->clients));
	}
	for (i = 0; i + OLD_CONNECTIONS < ms->client_cnt; i++)
		shutdown(ms->clients[i], SHUT_RDWR); /* the library closes it when it sees that */
}

/* ---- the server ---- */

int metrics_server__open(const char *address, metrics_text_fn text, void *arg, struct metrics_server **out)
{
	struct metrics_server *ms = calloc(1, sizeof(*ms));
	const union MHD_DaemonInfo *info;
	int err;

	if (!ms)
		return -ENOMEM;
	ms->text = text;
	ms->arg = arg;
	ms->listen_fd = -1;
	err = open_socket(ms, address);
	if (!err)
		err = load_library(&ms->mhd);
	if (err)
		goto fail;
	ms->daemon = ms->mhd.start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, ms,
					  MHD_OPTION_LISTEN_SOCKET, ms->listen_fd,
					  MHD_OPTION_CONNECTION_LIMIT, METRICS_CONNECTIONS,
					  MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
					  MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
					  MHD_OPTION_NOTIFY_CONNECTION, on_client, ms, MHD_OPTION_END);
	info = ms->daemon ? ms->mhd.get_daemon_info(ms->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info) {
		pr_error("metrics cannot be served at %s: libmicrohttpd does not start", address);
		err = -EIO;
		goto fail;
	}
	ms->epoll_fd = info->epoll_fd;
	*out = ms;
	return 0;
fail:
	metrics_server__free(ms);
	return err;
}

const char *metrics_server__url(const struct metrics_server *ms)
{
	return ms->url;
}

int metrics_server__fd(const struct metrics_server *ms)
{
	return ms->epoll_fd;
}

int metrics_server__wait_ms(const struct metrics_server *ms, int max)
{
	MHD_UNSIGNED_LONG_LONG ms_left;

	if (ms->closed)
		return 0;
	if (!ms->mhd.get_timeout(ms->daemon, &ms_left) || ms_left > (unsigned int)max)
		return max;
	return (int)ms_left;
}

void metrics_server__run(struct metrics_server *ms)
{
	ms->closed = false;
	ms->mhd.run(ms->daemon);
}

void metrics_server__child(const struct metrics_server *ms)
{
	/* not by the library, which would end the parent's connections */
	close(ms->listen_fd);
	close(ms->epoll_fd);
	for (uint32_t i = 0; i < ms->client_cnt; i++)
		close(ms->clients[i]);
}

void metrics_server__free(struct metrics_server *ms)
{
	if (!ms)
		return;
	if (ms->daemon)
		ms->mhd.stop_daemon(ms->daemon); /* closes the socket */
	else if (ms->listen_fd >= 0)
		close(ms->listen_fd);
	free(ms);
}
