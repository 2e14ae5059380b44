/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See http_server.h. */
#define LOG_DOMAIN "http"
#include "sample/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
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

/* Numbers and localhost: what resolves other names (NSS) is in libraries of the system. */
struct address {
	char host[INET6_ADDRSTRLEN];
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at;
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
	bool brackets = n > 2 && text[0] == '[' && text[n - 1] == ']';

	if (brackets) {
		text++;
		n -= 2;
	}
	if (!is_port(port) || n >= sizeof(a->host))
		return false;
	snprintf(a->host, sizeof(a->host), "%.*s", (int)n, text);
	if (!n || !strcmp(a->host, "localhost"))
		strcpy(a->host, LOOPBACK);
	memset(&a->at, 0, sizeof(a->at));
	a->at.any.sa_family = brackets ? AF_INET6 : AF_INET;
	if (brackets)
		a->at.v6.sin6_port = htons((uint16_t)atoi(port));
	else
		a->at.v4.sin_port = htons((uint16_t)atoi(port));
	return inet_pton(a->at.any.sa_family, a->host,
			 brackets ? (void *)&a->at.v6.sin6_addr : &a->at.v4.sin_addr) == 1;
}

bool http_listen__valid(const char *address)
{
	struct address a;

	return parse_address(address, &a);
}

/* A socket or negative errno. */
static int listen_at(struct address *a)
{
	const int one = 1;
	socklen_t len = sizeof(a->at);
	int fd = socket(a->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

	if (fd < 0)
		return -errno;
	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) &&
	    !bind(fd, &a->at.any, len) && !listen(fd, BACKLOG) &&
	    !getsockname(fd, &a->at.any, &len))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int http_listen__port(const char *address, char url[HTTP_URL_MAX])
{
	struct address a;
	bool v6;
	int fd;

	if (!parse_address(address, &a))
		return -EINVAL;
	v6 = a.at.any.sa_family == AF_INET6;
	fd = listen_at(&a);
	if (fd < 0)
		pr_error("metrics cannot be served at %s: %s", address, errstr(fd));
	else
		snprintf(url, HTTP_URL_MAX, v6 ? "http://[%s]:%u/metrics" : "http://%s:%u/metrics",
			 a.host, ntohs(v6 ? a.at.v6.sin6_port : a.at.v4.sin_port));
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
