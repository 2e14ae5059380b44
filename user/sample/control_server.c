/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See control_server.h. */
#define LOG_DOMAIN "control"
#include "sample/control_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "sample/control_msg.h"
#include "sample/control_socket.h"

#define BACKLOG 64
#define ACCEPTS_MAX 32 /* in one round */
#define UNREAD_MAX 4096
#define EVENTS_MAX (CONTROL_CONNECTIONS + 1)

struct client {
	uint64_t id; /* > 0 */
	struct control_peer peer;
	int fd;
	bool promised;
};

struct control_server {
	int listen_fd, epoll_fd;
	struct client clients[CONTROL_CONNECTIONS]; /* oldest first */
	uint32_t client_cnt;
	uint64_t last_id;
	control_request_fn fn;
	void *arg;
	struct control_counts counts;
	dev_t dev; /* of the socket's file */
	ino_t ino;
	char path[CONTROL_PATH_MAX];
};

/* ---- clients ---- */

static struct client *find(struct control_server *cs, uint64_t id)
{
	for (uint32_t i = 0; i < cs->client_cnt; i++)
		if (cs->clients[i].id == id)
			return &cs->clients[i];
	return NULL;
}

/* Ends a connection. With requests that have not been read the client would have an error in place of its last answer. */
static void hang_up(int fd)
{
	char byte;

	shutdown(fd, SHUT_RDWR);
	for (int i = 0; i < UNREAD_MAX && recv(fd, &byte, 1, MSG_DONTWAIT) > 0; i++)
		;
	close(fd);
}

static void drop(struct control_server *cs, struct client *c)
{
	uint32_t i = (uint32_t)(c - cs->clients);

	/* a child that has just been forked may have a copy of it, too */
	epoll_ctl(cs->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
	hang_up(c->fd);
	cs->client_cnt--;
	memmove(c, c + 1, (cs->client_cnt - i) * sizeof(*c));
}

/* The oldest that waits for nothing, else the oldest. */
static void make_room(struct control_server *cs)
{
	uint32_t i = 0;

	if (cs->client_cnt < CONTROL_CONNECTIONS)
		return;
	while (i < cs->client_cnt && cs->clients[i].promised)
		i++;
	drop(cs, &cs->clients[i < cs->client_cnt ? i : 0]);
	cs->counts.closed++;
}

static void refuse(int fd, const char *why)
{
	struct jsonw_text text;

	control_answer__refuse(&text, UINT64_MAX, why);
	(void)!send(fd, text.text, text.len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void accept_client(struct control_server *cs, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = cs->last_id + 1 };
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(peer);

	cs->counts.connections++;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) || (peer.uid && peer.uid != geteuid())) {
		cs->counts.foreign++;
		refuse(fd, "only root and the user who runs ptbpf sample control it");
		hang_up(fd);
		return;
	}
	make_room(cs);
	if (epoll_ctl(cs->epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
		close(fd);
		return;
	}
	cs->clients[cs->client_cnt++] = (struct client){ .id = ++cs->last_id,
							 .peer = { .pid = peer.pid, .uid = peer.uid },
							 .fd = fd };
}

static void accept_clients(struct control_server *cs)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(cs->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		accept_client(cs, fd);
	}
}

static void read_client(struct control_server *cs, uint64_t id)
{
	struct client *c = find(cs, id);
	char text[CONTROL_REQUEST_MAX + 1];
	struct control_peer peer;
	ssize_t n;

	if (!c) /* it made room in this round */
		return;
	n = recv(c->fd, text, CONTROL_REQUEST_MAX, MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || n > CONTROL_REQUEST_MAX) {
		if (n > 0) {
			cs->counts.long_requests++;
			refuse(c->fd, "the request is too long");
		}
		drop(cs, c);
		return;
	}
	text[n] = '\0';
	peer = c->peer;
	cs->fn(cs->arg, id, &peer, text, (size_t)n);
}

void control_server__run(struct control_server *cs)
{
	struct epoll_event evs[EVENTS_MAX];
	int n = epoll_wait(cs->epoll_fd, evs, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++)
		if (evs[i].data.u64)
			read_client(cs, evs[i].data.u64);
	for (int i = 0; i < n; i++)
		if (!evs[i].data.u64)
			accept_clients(cs);
}

bool control_server__answer(struct control_server *cs, uint64_t conn, const char *text, size_t len)
{
	struct client *c = find(cs, conn);

	if (!c)
		return false;
	if (send(c->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len)
		return true;
	cs->counts.closed++;
	drop(cs, c);
	return false;
}

void control_server__promise(struct control_server *cs, uint64_t conn, bool promised)
{
	struct client *c = find(cs, conn);

	if (c)
		c->promised = promised;
}

bool control_server__connected(const struct control_server *cs, uint64_t conn)
{
	for (uint32_t i = 0; i < cs->client_cnt; i++)
		if (cs->clients[i].id == conn)
			return true;
	return false;
}

struct control_counts control_server__counts(const struct control_server *cs)
{
	return cs->counts;
}

/* ---- the socket ---- */

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
static int listen_at(struct control_server *cs)
{
	char partial[CONTROL_PATH_MAX];
	struct sockaddr_un at;
	struct stat st;
	mode_t mask;
	int err = 0, n = snprintf(partial, sizeof(partial), "%s.%d", cs->path, getpid());

	if (n < 0 || (size_t)n >= sizeof(partial) || control_socket__address(partial, &at))
		return -ENAMETOOLONG;
	cs->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (cs->listen_fd < 0)
		return -errno;
	unlink(partial);
	mask = umask(0177);
	if (bind(cs->listen_fd, (const struct sockaddr *)&at, sizeof(at)))
		err = -errno;
	umask(mask);
	if (err)
		return err;
	if (listen(cs->listen_fd, BACKLOG) || lstat(partial, &st) || rename(partial, cs->path))
		err = -errno;
	if (err) {
		unlink(partial);
		return err;
	}
	cs->dev = st.st_dev;
	cs->ino = st.st_ino;
	return 0;
}

static int watch(struct control_server *cs)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 0 };

	cs->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (cs->epoll_fd < 0 || epoll_ctl(cs->epoll_fd, EPOLL_CTL_ADD, cs->listen_fd, &ev))
		return -errno;
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

int control_server__open(const char *path, bool may_fail, control_request_fn fn, void *arg,
			 struct control_server **out)
{
	struct control_server *cs = calloc(1, sizeof(*cs));
	int err;

	if (!cs)
		return -ENOMEM;
	cs->listen_fd = cs->epoll_fd = -1;
	cs->fn = fn;
	cs->arg = arg;
	err = strlen(path) < sizeof(cs->path) ? check_path(path) : -ENAMETOOLONG;
	if (!err) {
		snprintf(cs->path, sizeof(cs->path), "%s", path);
		err = listen_at(cs);
	}
	if (!err)
		err = watch(cs);
	if (err) {
		report(path, may_fail, err);
		control_server__free(cs);
		return err;
	}
	*out = cs;
	return 0;
}

int control_server__fd(const struct control_server *cs)
{
	return cs->epoll_fd;
}

void control_server__child(const struct control_server *cs)
{
	close(cs->listen_fd);
	close(cs->epoll_fd);
	for (uint32_t i = 0; i < cs->client_cnt; i++)
		close(cs->clients[i].fd);
}

void control_server__free(struct control_server *cs)
{
	struct stat st;

	if (!cs)
		return;
	/* another ptbpf may have replaced it */
	if (cs->ino && !lstat(cs->path, &st) && st.st_dev == cs->dev && st.st_ino == cs->ino)
		unlink(cs->path);
	while (cs->client_cnt)
		drop(cs, &cs->clients[0]);
	if (cs->listen_fd >= 0)
		close(cs->listen_fd);
	if (cs->epoll_fd >= 0)
		close(cs->epoll_fd);
	free(cs);
}
