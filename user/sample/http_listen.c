/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See http_server.h. */
#define LOG_DOMAIN "http"
#include "sample/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

#define LOOPBACK "127.0.0.1"
#define BACKLOG 64

/* ---- a port ---- */

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

bool http_listen__valid(const char *address)
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

static uint16_t port_of(int fd)
{
	struct sockaddr_storage at = { 0 };
	socklen_t len = sizeof(at);

	getsockname(fd, (struct sockaddr *)&at, &len);
	return ntohs(at.ss_family == AF_INET6 ?
			     ((const struct sockaddr_in6 *)(const void *)&at)->sin6_port :
			     ((const struct sockaddr_in *)(const void *)&at)->sin_port);
}

int http_listen__port(const char *address, char url[HTTP_URL_MAX])
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *list = NULL;
	struct address a;
	int err, fd = -EINVAL;

	if (!parse_address(address, &a))
		return -EINVAL;
	err = getaddrinfo(a.host, a.port, &hints, &list);
	if (err) {
		pr_error("metrics cannot be served at %s: %s", address, gai_strerror(err));
		return -EADDRNOTAVAIL;
	}
	for (const struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next)
		fd = listen_at(ai);
	freeaddrinfo(list);
	if (fd < 0)
		pr_error("metrics cannot be served at %s: %s", address, errstr(fd));
	else
		snprintf(url, HTTP_URL_MAX,
			 strchr(a.host, ':') ? "http://[%s]:%u/metrics" : "http://%s:%u/metrics",
			 a.host, port_of(fd));
	return fd;
}

/* ---- a path ---- */

/* Nobody listens at the path: what is there may be replaced. 0 or negative errno. */
static int check_path(const char *path)
{
	struct stat st;
	int fd;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = control_socket__connect(path);
	if (fd < 0)
		return fd == -ECONNREFUSED ? 0 : fd;
	close(fd);
	return -EADDRINUSE;
}

/* Under another name until it can be connected to. */
static int create(int fd, struct http_path *hp)
{
	char partial[CONTROL_PATH_MAX];
	struct sockaddr_un at;
	struct stat st;
	mode_t mask;
	int err = 0, n = snprintf(partial, sizeof(partial), "%s.%d", hp->path, getpid());

	if (n < 0 || (size_t)n >= sizeof(partial) || control_socket__address(partial, &at))
		return -ENAMETOOLONG;
	unlink(partial);
	mask = umask(0177);
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)))
		err = -errno;
	umask(mask);
	if (err)
		return err;
	if (listen(fd, BACKLOG) || lstat(partial, &st) || rename(partial, hp->path)) {
		err = -errno;
		unlink(partial);
		return err;
	}
	hp->dev = st.st_dev;
	hp->ino = st.st_ino;
	return 0;
}

static void report(const char *path, bool may_fail, int err)
{
	const char *why = err == -EADDRINUSE ? "another ptbpf sample listens there" :
			  err == -EEXIST     ? "there is a file that is no socket" :
			  err == -EOWNERDEAD ? "another user's program listens there" :
					       errstr(err);

	if (may_fail)
		pr_warn("no control socket at '%s': %s; 'ptbpf trigger' and 'ptbpf status' do not reach this ptbpf",
			path, why);
	else
		pr_error("the control socket '%s' cannot be created: %s", path, why);
}

int http_listen__path(const char *path, bool may_fail, struct http_path *hp)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err = fd < 0 ? -errno : 0;

	if (!err)
		err = strlen(path) < sizeof(hp->path) ? check_path(path) : -ENAMETOOLONG;
	if (!err) {
		snprintf(hp->path, sizeof(hp->path), "%s", path);
		err = create(fd, hp);
	}
	if (!err)
		return fd;
	report(path, may_fail, err);
	if (fd >= 0)
		close(fd);
	return err;
}

void http_listen__remove(const struct http_path *hp)
{
	struct stat st;

	if (hp->ino && !lstat(hp->path, &st) && st.st_dev == hp->dev && st.st_ino == hp->ino)
		unlink(hp->path);
}
