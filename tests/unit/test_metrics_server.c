/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* metrics_server: addresses, answers, and clients that are slow, many, or send anything. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sample/metrics_server.h"
#include "suite.h"

#define MANY 300

static struct metrics_server *ms;
static uint16_t port;
static char reply[100000];

static char *text(void *arg, bool openmetrics, size_t *len)
{
	char *copy = strdup(openmetrics ? "open\n" : "plain\n");

	(void)arg;
	*len = copy ? strlen(copy) : 0;
	return copy;
}

static void open_server(void)
{
	CU_ASSERT_EQUAL_FATAL(metrics_server__open("0", text, NULL, &ms), 0);
	CU_ASSERT_EQUAL_FATAL(sscanf(metrics_server__url(ms), "http://127.0.0.1:%hu/metrics", &port), 1);
}

static int connect_to(void)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons(port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT_EQUAL_FATAL(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void put(int fd, const char *request, size_t len)
{
	CU_ASSERT_EQUAL(send(fd, request, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* Serves until the connection is closed. Returns the length of what came. */
static size_t take_reply(int fd)
{
	struct pollfd p[2] = { { .fd = metrics_server__fd(ms), .events = POLLIN },
			       { .fd = fd, .events = POLLIN } };
	size_t len = 0;
	ssize_t n = 1;
	int wait;

	while (n > 0) {
		wait = metrics_server__wait_ms(ms, 20000);
		CU_ASSERT_FATAL(poll(p, 2, wait) > 0 || !wait); /* else only time helped */
		metrics_server__run(ms);
		if (!p[1].revents)
			continue;
		n = recv(fd, reply + len, sizeof(reply) - len - 1, 0);
		len += n > 0 ? (size_t)n : 0;
	}
	reply[len] = '\0';
	close(fd);
	return len;
}

static const char *ask(const char *request)
{
	int fd = connect_to();

	put(fd, request, strlen(request));
	take_reply(fd);
	return reply;
}

#define HAS(part) CU_ASSERT_PTR_NOT_NULL(strstr(reply, part))

static void test_answers(void)
{
	open_server();
	ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS("HTTP/1.1 200 OK");
	HAS("Content-Type: text/plain; version=0.0.4; charset=utf-8");
	HAS("Connection: close");
	HAS("\r\n\r\nplain\n");
	ask("GET /metrics?x=y HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n\r\n");
	HAS("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8");
	HAS("\r\n\r\nopen\n");
	ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS("HTTP/1.1 200 OK");
	HAS("Content-Length: 6");
	CU_ASSERT_PTR_NULL(strstr(reply, "plain\n"));
	ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS("href=\"/metrics\"");
	ask("GET /etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS("HTTP/1.1 404");
	ask("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\nxxxx");
	HAS("HTTP/1.1 405");
	HAS("Allow: GET, HEAD");
	metrics_server__free(ms);
}

/* Whatever is sent, the next client has its answer. */
static void test_garbage(void)
{
	static const char *const starts[] = {
		"", "\r\n", "GET ", "GET /metrics HTTP/1.1\r\nHost: ", "\x16\x03\x01", "POST / HTTP/1.1\r\nContent-Length: 99999\r\n\r\n"
	};
	char bytes[40000];
	uint32_t x = 1;

	open_server();
	for (int i = 0; i < repetitions(60, 2000); i++) {
		const char *start = starts[(size_t)i % (sizeof(starts) / sizeof(starts[0]))];
		int fd = connect_to();

		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (char)((x = x * 1664525 + 1013904223) >> 24);
		put(fd, start, strlen(start));
		(void)!send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
		shutdown(fd, SHUT_WR);
		take_reply(fd);
		ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
		HAS("\r\n\r\nplain\n");
	}
	metrics_server__free(ms);
}

/* Connections that say nothing, or half of a request, make room for others. */
static void test_many(void)
{
	int fds[MANY], fd_cnt;

	open_server();
	for (int i = 0; i < MANY; i++) {
		fds[i] = connect_to();
		put(fds[i], "GET /metr", i % 2 ? 9 : 1);
		metrics_server__run(ms);
		CU_ASSERT_FATAL(i % 50 ||
				strstr(ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "plain\n"));
	}
	fd_cnt = dup(0);
	CU_ASSERT(fd_cnt < MANY + METRICS_CONNECTIONS + 30); /* the server's are among them */
	close(fd_cnt);
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS("plain\n");
	metrics_server__free(ms);
}

/* All connect before any of them is served. */
static void test_burst(void)
{
	int fds[60];

	open_server();
	for (size_t i = 0; i < 60; i++)
		fds[i] = connect_to();
	ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	HAS("plain\n");
	for (size_t i = 0; i < 60; i++)
		close(fds[i]);
	metrics_server__free(ms);
}

/* A child keeps neither the port nor connections. */
static void test_child(void)
{
	struct metrics_server *second = NULL;
	char address[16];
	int go[2], closed[2], fd;
	pid_t pid;

	open_server();
	fd = connect_to();
	metrics_server__run(ms);
	CU_ASSERT_FATAL(!pipe(go) && !pipe(closed));
	pid = fork();
	if (!pid) {
		close(go[1]);
		metrics_server__child(ms);
		close(closed[1]);
		(void)!read(go[0], address, 1);
		_exit(0);
	}
	CU_ASSERT_FATAL(pid > 0);
	close(closed[1]);
	CU_ASSERT_EQUAL(read(closed[0], address, 1), 0);
	put(fd, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 35);
	take_reply(fd);
	HAS("plain\n");
	metrics_server__free(ms);
	snprintf(address, sizeof(address), ":%u", port);
	CU_ASSERT_EQUAL(metrics_server__open(address, text, NULL, &second), 0);
	CU_ASSERT_EQUAL(metrics_server__open(address, text, NULL, &ms), -EADDRINUSE);
	metrics_server__free(second);
	close(go[1]);
	close(go[0]);
	close(closed[0]);
	waitpid(pid, NULL, 0);
}

static void test_addresses(void)
{
	static const char *const good[] = { "9464",           ":9464",       "0",
					    "127.0.0.1:9464", "localhost:1", "[::1]:9464",
					    "[::]:65535" };
	static const char *const bad[] = { "",          ":",          "x",        "65536",
					   "127.0.0.1", "127.0.0.1:", "::1:9464", "[::1]",
					   "[]:1",      "[::1:9464",  "a:-1",     "a:1x",
					   "1 ",        "/run/socket" };

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CU_ASSERT(metrics_server__valid(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT(!metrics_server__valid(bad[i]));
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "addresses", test_addresses },
		{ "answers", test_answers },
		{ "garbage", test_garbage },
		{ "many connections", test_many },
		{ "a burst of connections", test_burst },
		{ "a child", test_child },
		CU_TEST_INFO_NULL,
	};

	return run_suite("metrics_server", tests);
}
