/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The HTTP server of `ptbpf sample`, by libmicrohttpd and without threads: its owner polls one
 * descriptor and answers each request, at once or later. A connection has one request. Clients
 * may be hostile: a listener has at most HTTP_CONNECTIONS of them, each with a limit on its body,
 * its memory and its idle time, and the oldest are closed for new ones. Must not know windows or
 * metrics.
 */
#ifndef SAMPLE_HTTP_SERVER_H
#define SAMPLE_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/control.h"

/* ---- http_listen.c: where it listens ---- */

#define HTTP_URL_MAX 300

/* "9464", ":9464", "localhost:9464" (127.0.0.1), "192.0.2.1:9464", "[::1]:9464"; port 0: any that is free. */
bool http_listen__valid(const char *address);
/* A socket or negative errno (reported). url: "http://127.0.0.1:9464/metrics" */
int http_listen__port(const char *address, char url[HTTP_URL_MAX]);

/* A socket in the file system that this process has created. Starts zeroed. */
struct http_path {
	dev_t dev;
	ino_t ino; /* 0: there is none */
	char path[CONTROL_PATH_MAX];
};
/*
 * Creates it, mode 0600, in place of one at which nobody listens. A socket or negative errno
 * (reported, as a warning if it may fail).
 */
int http_listen__path(const char *path, bool may_fail, struct http_path *hp);
void http_listen__remove(const struct http_path *hp); /* unless another ptbpf has replaced it */

/* ---- http_server.c: requests and answers ---- */

#define HTTP_CONNECTIONS 32
#define HTTP_BODY_MAX 8192

#define HTTP_OK 200
#define HTTP_BAD_REQUEST 400
#define HTTP_FORBIDDEN 403
#define HTTP_NOT_FOUND 404
#define HTTP_WRONG_METHOD 405
#define HTTP_CONFLICT 409
#define HTTP_TOO_LONG 413
#define HTTP_UNAVAILABLE 503

/* Valid from the call of its route until it is answered. */
struct http_request {
	const char *body; /* NUL-terminated; "": none */
	size_t len;
	pid_t pid; /* the client's, on a Unix socket; 0: not in this pid namespace */
	uid_t uid;
};

struct http_route {
	const char *path, *method; /* path NULL: the end of the list */
	void (*fn)(void *arg, struct http_request *rq);
};

struct http_counts {
	uint64_t connections;
	uint64_t foreign; /* requests of users who are not served */
	uint64_t closed;  /* connections that were closed for new ones */
	uint64_t too_long;
};

struct http_server;
/*
 * Loads libmicrohttpd. arg: for the functions of routes. 0 or negative errno (reported, as a
 * warning if it may fail).
 */
int http_server__open(void *arg, bool may_fail, struct http_server **out);
/*
 * Serves at a listening socket, which belongs to the server from now on; at most two. own: only
 * root and the user of this process are served, other users are refused. 0 or negative errno.
 */
int http_server__listen(struct http_server *hs, int fd, bool own, const struct http_route *routes);
/* Polls readable when there is something to do. */
int http_server__fd(const struct http_server *hs);
/* After so many ms, max at most, http_server__run() must be called even if nothing happens. */
int http_server__wait_ms(const struct http_server *hs, int max);
void http_server__run(struct http_server *hs);
/* The header Accept names this type. */
bool http_request__accepts(const struct http_request *rq, const char *type);
/* type is a literal; text comes from malloc and belongs to the server from now on. */
void http_request__answer(struct http_request *rq, unsigned int status, const char *type,
			  char *text, size_t len);
/* The answer of control_answer__refuse(). */
void http_request__refuse(struct http_request *rq, unsigned int status, uint64_t nr,
			  const char *why);
struct http_counts http_server__counts(const struct http_server *hs);
/* Sends pending answers, and closes connections whose request has none. NULL is fine. */
void http_server__free(struct http_server *hs);

#endif /* SAMPLE_HTTP_SERVER_H */
