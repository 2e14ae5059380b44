/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * http_server: who is served, answers at once and later, and clients that are slow, many, send
 * anything or read nothing.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sample/http_server.h"
#include "scratch_dir.h"

#define MANY 300
#define NOBODY 65534
#define LARGE (4 << 20) /* more than a socket takes */

static struct http_server *hs;
static struct http_path hp;
static struct http_request *later;
static pid_t last_pid;
static uid_t last_uid;
static char reply[LARGE + 1000];

static void on_plain(void *arg, struct http_request *rq)
{
	bool open = http_request__accepts(rq, "application/open");

	CU_ASSERT_PTR_EQUAL(arg, &hs);
	http_request__answer(rq, HTTP_OK, open ? "application/open" : "text/plain",
			     strdup(open ? "open\n" : "plain\n"), open ? 5 : 6);
}

static void on_echo(void *arg, struct http_request *rq)
{
	(void)arg;
	last_pid = rq->pid;
	last_uid = rq->uid;
	CU_ASSERT(rq->len <= HTTP_BODY_MAX && !rq->body[rq->len]);
	http_request__answer(rq, HTTP_CONFLICT, "text/plain", strdup(rq->body), strlen(rq->body));
}

static void on_later(void *arg, struct http_request *rq)
{
	(void)arg;
	later = rq;
}

static void on_large(void *arg, struct http_request *rq)
{
	char *text = malloc(LARGE);

	(void)arg;
	memset(text, 'x', LARGE);
	http_request__answer(rq, HTTP_OK, "text/plain", text, LARGE);
}

static const struct http_route routes[] = {
	{ "/plain", "GET", on_plain }, { "/echo", "POST", on_echo }, { "/later", "GET", on_later },
	{ "/large", "GET", on_large }, { NULL, NULL, NULL },
};

static void open_server(void)
{
	int fd;

	hp = (struct http_path){ .ino = 0 };
	CU_ASSERT_EQUAL_FATAL(http_server__open(&hs, false, &hs), 0);
	fd = http_listen__path(at("s"), false, &hp);
	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT_EQUAL_FATAL(http_server__listen(hs, fd, true, routes), 0);
}

static void close_server(void)
{
	http_listen__remove(&hp);
	http_server__free(hs);
}

static int connect_to(void)
{
	int fd = control_socket__connect(at("s"));

	CU_ASSERT_FATAL(fd >= 0);
	return fd;
}

static void put(int fd, const char *request, size_t len)
{
	CU_ASSERT_EQUAL(send(fd, request, len, MSG_NOSIGNAL), (ssize_t)len);
}

static int request(const char *text)
{
	int fd = connect_to();

	put(fd, text, strlen(text));
	return fd;
}

static void serve(void)
{
	for (int i = 0; i < 6; i++) /* accepts, reads, resumes */
		http_server__run(hs);
}

/* Serves until the connection is closed. Returns the length of what came. */
static size_t take_reply(int fd)
{
	struct pollfd p[2] = { { .fd = http_server__fd(hs), .events = POLLIN },
			       { .fd = fd, .events = POLLIN } };
	size_t len = 0;
	ssize_t n = 1;
	int wait;

	while (n > 0) {
		wait = http_server__wait_ms(hs, 20000);
		CU_ASSERT_FATAL(poll(p, 2, wait) > 0 || !wait); /* else only time helped */
		http_server__run(hs);
		if (!p[1].revents)
			continue;
		n = recv(fd, reply + len, sizeof(reply) - len - 1, 0);
		len += n > 0 ? (size_t)n : 0;
	}
	reply[len] = '\0';
	close(fd);
	return len;
}

static const char *ask(const char *text)
{
	take_reply(request(text));
	return reply;
}

#define HAS(part) CU_ASSERT_PTR_NOT_NULL(strstr(reply, part))

TEST("answers")
{
	open_server();
	ask("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS("HTTP/1.1 200 OK");
	HAS("Content-Type: text/plain");
	HAS("Connection: close");
	HAS("\r\n\r\nplain\n");
	ask("GET /plain?x=y HTTP/1.1\r\nHost: x\r\nAccept: application/open;version=1.0.0,*/*;q=0.1\r\n\r\n");
	HAS("\r\n\r\nopen\n");
	ask("HEAD /plain HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS("HTTP/1.1 200 OK");
	HAS("Content-Length: 6");
	CU_ASSERT_PTR_NULL(strstr(reply, "plain\n"));
	ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\none");
	HAS("HTTP/1.1 409");
	HAS("\r\n\r\none");
	CU_ASSERT(last_pid == getpid() && last_uid == geteuid());
	ask("POST /echo HTTP/1.0\r\n\r\n");
	HAS("Content-Length: 0");
	ask("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
	HAS("\r\n\r\nonetwo");
	ask("GET /etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS("HTTP/1.1 404");
	HAS("there is only /plain /echo /later /large");
	ask("POST /plain HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\nxxxx");
	HAS("HTTP/1.1 405");
	HAS("Allow: GET");
	HAS("/plain takes GET only");
	close_server();
	CU_ASSERT_EQUAL(control_socket__connect(at("s")), -ENOENT);
}

/*
 * A request that is answered when something has happened, however long that takes; its client may
 * have gone, or the server ends.
 */
TEST("answers that come later")
{
	struct pollfd p = { .events = POLLIN };
	int fd, other;

	open_server();
	p.fd = http_server__fd(hs);
	fd = request("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
	serve();
	CU_ASSERT_PTR_NOT_NULL_FATAL(later);
	CU_ASSERT_EQUAL(http_server__wait_ms(hs, 20000), 20000);
	ask("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS("plain\n");
	http_request__answer(later, HTTP_OK, "text/plain", strdup("done"), 4);
	CU_ASSERT_EQUAL(http_server__wait_ms(hs, 20000), 0);
	take_reply(fd);
	HAS("\r\n\r\ndone");
	later = NULL;
	fd = request("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
	serve();
	CU_ASSERT_PTR_NOT_NULL_FATAL(later);
	close(fd);
	serve();
	CU_ASSERT(poll(&p, 1, 0) == 0 && http_server__wait_ms(hs, 20000) == 20000); /* it sleeps */
	http_request__answer(later, HTTP_OK, "text/plain", strdup("done"), 4);
	ask("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS("plain\n");
	fd = request("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
	serve();
	http_request__answer(later, HTTP_OK, "text/plain", strdup("last"), 4);
	other = request("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
	serve();
	close_server(); /* sends what has been answered */
	CU_ASSERT(recv(fd, reply, sizeof(reply), 0) > 0);
	HAS("\r\n\r\nlast");
	CU_ASSERT(recv(other, reply, sizeof(reply), 0) <= 0);
	close(other);
	close(fd);
}

/* Bodies that are too long, with their length and without. */
TEST("long bodies")
{
	static char text[HTTP_BODY_MAX * 4];
	int n;

	open_server();
	n = snprintf(text, sizeof(text),
		     "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", HTTP_BODY_MAX);
	memset(text + n, 'x', HTTP_BODY_MAX);
	text[n + HTTP_BODY_MAX] = '\0';
	CU_ASSERT_EQUAL(strlen(strstr(ask(text), "\r\n\r\n") + 4), HTTP_BODY_MAX);
	ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 8193\r\n\r\nx");
	HAS("HTTP/1.1 413");
	HAS("too long");
	n = snprintf(text, sizeof(text),
		     "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n",
		     HTTP_BODY_MAX + 1);
	memset(text + n, 'x', HTTP_BODY_MAX + 1);
	text[n + HTTP_BODY_MAX + 1] = '\0';
	CU_ASSERT_STRING_EQUAL(ask(text), "");
	CU_ASSERT_EQUAL(http_server__counts(hs).too_long, 2);
	close_server();
}

/* Whatever is sent, the next client has its answer. */
TEST("garbage")
{
	static const char *const starts[] = { "",
					      "\r\n",
					      "GET ",
					      "GET /plain HTTP/1.1\r\nHost: ",
					      "\x16\x03\x01",
					      "POST /echo HTTP/1.1\r\nContent-Length: 99999\r\n\r\n",
					      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 8000\r\n\r\n" };
	char bytes[40000];
	uint32_t x = 1;

	open_server();
	for (int i = 0; i < repetitions(70, 2000); i++) {
		int fd = request(starts[(size_t)i % (sizeof(starts) / sizeof(starts[0]))]);

		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (char)((x = x * 1664525 + 1013904223) >> 24);
		(void)!send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
		shutdown(fd, SHUT_WR);
		take_reply(fd);
		ask("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
		HAS("\r\n\r\nplain\n");
	}
	close_server();
}

/*
 * Connections that say nothing, or half of a request, make room for others; one that waits for
 * its answer stays.
 */
TEST("many connections")
{
	int fds[MANY], first, top;

	open_server();
	first = request("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
	serve();
	for (int i = 0; i < MANY; i++) {
		fds[i] = connect_to();
		put(fds[i], "GET /plai", i % 2 ? 9 : 1);
		http_server__run(hs);
		CU_ASSERT_FATAL(i % 50 ||
				strstr(ask("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n"), "plain\n"));
	}
	top = dup(0);
	CU_ASSERT(top < MANY + HTTP_CONNECTIONS + 30); /* the server's are among them */
	close(top);
	CU_ASSERT(http_server__counts(hs).closed >= MANY - HTTP_CONNECTIONS);
	http_request__answer(later, HTTP_OK, "text/plain", strdup("done"), 4);
	take_reply(first);
	HAS("\r\n\r\ndone");
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	ask("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS("plain\n");
	close_server();
}

/* All connect before any of them is served. */
TEST("a burst of connections")
{
	int fds[60];

	open_server();
	for (size_t i = 0; i < 60; i++)
		fds[i] = connect_to();
	ask("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS("plain\n");
	for (size_t i = 0; i < 60; i++)
		close(fds[i]);
	close_server();
}

/* Clients that never read are no obstacle to others, and the server sleeps meanwhile. */
TEST("clients that do not read")
{
	struct pollfd p;
	int fds[10];

	open_server();
	for (size_t i = 0; i < 10; i++)
		fds[i] = request("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
	CU_ASSERT(take_reply(request("GET /large HTTP/1.1\r\nHost: x\r\n\r\n")) > LARGE);
	p = (struct pollfd){ .fd = http_server__fd(hs), .events = POLLIN };
	while (!http_server__wait_ms(hs, 100))
		http_server__run(hs);
	CU_ASSERT_EQUAL(poll(&p, 1, 0), 0);
	for (size_t i = 0; i < 10; i++)
		close(fds[i]);
	close_server();
}

/* Of another user, even if the mode of the socket let him connect. Needs root. */
TEST("another user")
{
	int status = 0;
	pid_t pid;

	if (geteuid()) {
		printf("skip: not root ");
		return;
	}
	open_server();
	CU_ASSERT(!chmod(at("s"), 0666));
	last_uid = 0;
	pid = fork();
	if (!pid) {
		const char text[] = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx";
		const char *path = at("s");
		struct sockaddr_un to;
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		if (setuid(NOBODY) || control_socket__address(path, &to) ||
		    connect(fd, (const struct sockaddr *)&to, sizeof(to)))
			_exit(1);
		put(fd, text, sizeof(text) - 1);
		if (recv(fd, reply, sizeof(reply) - 1, 0) <= 0 || !strstr(reply, " 403 ") ||
		    !strstr(reply, "only root"))
			_exit(2);
		_exit(recv(fd, reply, sizeof(reply), 0) > 0 ? 3 : 0);
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		http_server__run(hs);
		usleep(1000);
	}
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL(http_server__counts(hs).foreign, 1);
	CU_ASSERT_EQUAL(last_uid, 0);
	close_server();
}

int main(void)
{
	return run_suite_in_scratch("http_server");
}
