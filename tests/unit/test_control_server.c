/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* control_server and control_socket: who is served, and clients that are many, send anything or read nothing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sample/control_msg.h"
#include "sample/control_server.h"
#include "sample/control_socket.h"
#include "scratch_dir.h"

#define MANY 300
#define NOBODY 65534

static struct control_server *cs;
static uint64_t last_conn;
static struct control_peer last_peer;
static bool silent; /* the owner does not answer */

static void on_request(void *arg, uint64_t conn, const struct control_peer *peer, const char *text,
		       size_t len)
{
	(void)arg;
	last_conn = conn;
	last_peer = *peer;
	CU_ASSERT_EQUAL(strlen(text), len);
	if (!silent)
		control_server__answer(cs, conn, text, len); /* an echo */
}

static void open_server(void)
{
	silent = false;
	CU_ASSERT_EQUAL_FATAL(control_server__open(at("s"), false, on_request, NULL, &cs), 0);
}

static int connect_to(void)
{
	int fd = control_socket__connect(at("s"));

	CU_ASSERT_FATAL(fd >= 0);
	return fd;
}

static int put(int fd, const void *data, size_t len)
{
	return send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len ? 0 : -errno;
}

/* Serves, then the next answer; "": the connection is closed. */
static const char *take(int fd)
{
	static char buf[CONTROL_REQUEST_MAX + 1];
	char *text = NULL;

	for (int i = 0; i < 4; i++) /* accepts, reads */
		control_server__run(cs);
	if (control_socket__receive(fd, 0, &text))
		return "";
	snprintf(buf, sizeof(buf), "%s", text);
	free(text);
	return buf;
}

static void test_answers(void)
{
	struct stat st;
	int fd;

	open_server();
	CU_ASSERT(!lstat(at("s"), &st) && S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0600);
	fd = connect_to();
	CU_ASSERT(!put(fd, "one", 3));
	CU_ASSERT(!put(fd, "two", 3));
	CU_ASSERT_STRING_EQUAL(take(fd), "one");
	CU_ASSERT_STRING_EQUAL(take(fd), "two");
	CU_ASSERT(last_peer.pid == getpid() && last_peer.uid == geteuid());
	CU_ASSERT(control_server__connected(cs, last_conn));
	close(fd);
	control_server__run(cs);
	CU_ASSERT(!control_server__connected(cs, last_conn));
	CU_ASSERT(!control_server__answer(cs, last_conn, "x", 1));
	control_server__free(cs);
	CU_ASSERT(lstat(at("s"), &st));
}

/* Requests that are too long, and such as are none: only the first end a connection. */
static void test_garbage(void)
{
	char bytes[CONTROL_REQUEST_MAX * 4];
	uint32_t x = 1;
	int fd;

	open_server();
	for (int i = 0; i < repetitions(200, 20000); i++) {
		size_t len = (x = x * 1664525 + 1013904223) % sizeof(bytes);

		memset(bytes, (int)(x >> 8 & 0x7f) | 1, sizeof(bytes));
		fd = connect_to();
		CU_ASSERT(!put(fd, bytes, len + 1));
		if (len + 1 > CONTROL_REQUEST_MAX) {
			CU_ASSERT_PTR_NOT_NULL(strstr(take(fd), "too long"));
		} else {
			CU_ASSERT_EQUAL(strlen(take(fd)), len + 1);
		}
		CU_ASSERT_STRING_EQUAL(take(fd), "");
		close(fd);
	}
	CU_ASSERT(control_server__counts(cs).long_requests > 0);
	fd = connect_to();
	CU_ASSERT(!put(fd, "", 0) || errno);
	take(fd);
	close(fd);
	fd = connect_to();
	CU_ASSERT(!put(fd, "ok", 2));
	CU_ASSERT_STRING_EQUAL(take(fd), "ok");
	close(fd);
	control_server__free(cs);
}

/* The oldest make room for new ones; one that has been promised an answer stays longest. */
static void test_many(void)
{
	int fds[MANY], first, top;

	open_server();
	silent = true;
	first = connect_to();
	CU_ASSERT(!put(first, "wait", 4));
	take(first);
	control_server__promise(cs, last_conn, true);
	silent = false;
	for (int i = 0; i < MANY; i++) {
		fds[i] = connect_to();
		take(fds[i]);
	}
	top = dup(0);
	CU_ASSERT(top < MANY + CONTROL_CONNECTIONS + 20); /* both ends are in this process */
	close(top);
	CU_ASSERT(control_server__answer(cs, 1, "done", 4));
	CU_ASSERT_STRING_EQUAL(take(first), "done");
	CU_ASSERT(!put(fds[MANY - 1], "last", 4));
	CU_ASSERT_STRING_EQUAL(take(fds[MANY - 1]), "last");
	CU_ASSERT_EQUAL(control_server__counts(cs).closed, MANY + 1 - CONTROL_CONNECTIONS);
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	close(first);
	control_server__free(cs);
}

/* One that sends and never reads. */
static void test_deaf(void)
{
	char bytes[CONTROL_REQUEST_MAX];
	int fd;

	open_server();
	memset(bytes, 'x', sizeof(bytes));
	fd = connect_to();
	for (int i = 0; i < 10000 && !control_server__counts(cs).closed; i++) {
		put(fd, bytes, sizeof(bytes));
		control_server__run(cs);
	}
	CU_ASSERT_EQUAL(control_server__counts(cs).closed, 1);
	close(fd);
	control_server__free(cs);
}

/* Of another user, even if the mode of the socket let him connect. Needs root. */
static void test_foreign(void)
{
	int status = 0;
	pid_t pid;

	if (geteuid()) {
		printf("skip: not root ");
		return;
	}
	open_server();
	CU_ASSERT(!chmod(at("s"), 0666));
	pid = fork();
	if (!pid) {
		const char *path = at("s");
		struct sockaddr_un to;
		char buf[512] = "";
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		if (setuid(NOBODY) || control_socket__address(path, &to) ||
		    connect(fd, (const struct sockaddr *)&to, sizeof(to)))
			_exit(1);
		put(fd, "x", 1);
		if (recv(fd, buf, sizeof(buf) - 1, 0) <= 0 || !strstr(buf, "only root"))
			_exit(2);
		_exit(recv(fd, buf, sizeof(buf), 0) > 0 ? 3 : 0);
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		control_server__run(cs);
		usleep(1000);
	}
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL(control_server__counts(cs).foreign, 1);
	CU_ASSERT_EQUAL(last_peer.uid, geteuid());
	control_server__free(cs);
}

/* A path at which a killed one listened is used again, one at which somebody listens is not, and a file stays. */
static void test_paths(void)
{
	struct control_server *second = NULL;
	char name[200];
	pid_t pid = fork();
	int fd;

	if (!pid) {
		open_server();
		_exit(0); /* as if killed */
	}
	waitpid(pid, NULL, 0);
	CU_ASSERT_EQUAL(control_socket__connect(at("s")), -ECONNREFUSED);
	open_server();
	fd = connect_to();
	CU_ASSERT(!put(fd, "x", 1));
	CU_ASSERT_STRING_EQUAL(take(fd), "x");
	CU_ASSERT_EQUAL(control_server__open(at("s"), true, on_request, NULL, &second), -EADDRINUSE);
	CU_ASSERT_STRING_EQUAL(take(fd), "");
	close(fd);
	control_server__free(cs);
	put_text(at("file"), "text");
	CU_ASSERT_EQUAL(control_server__open(at("file"), true, on_request, NULL, &second), -EEXIST);
	CU_ASSERT_STRING_EQUAL(get_text(at("file")), "text");
	CU_ASSERT_EQUAL(control_server__open(at("no/such"), true, on_request, NULL, &second), -ENOENT);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	CU_ASSERT_EQUAL(control_server__open(at(name), true, on_request, NULL, &second), -ENAMETOOLONG);
}

/* By the directory, however it is written. */
static void test_names(void)
{
	char a[CONTROL_PATH_MAX], b[CONTROL_PATH_MAX];

	CU_ASSERT(!mkdir(at("a b"), 0700) && !mkdir(at("a_b"), 0700) && !symlink("a b", at("link")));
	CU_ASSERT(!control_socket__path(at("a b"), a) && !control_socket__path(at("link/."), b));
	CU_ASSERT_STRING_EQUAL(a, b);
	CU_ASSERT_PTR_NOT_NULL(strstr(a, CONTROL_DIR "/a_b-"));
	CU_ASSERT(!control_socket__path(at("a_b"), b) && strcmp(a, b) != 0);
	CU_ASSERT_EQUAL(control_socket__path(at("none"), b), -ENOENT);
	CU_ASSERT(!control_socket__path("/", b) && strstr(b, CONTROL_DIR "/-"));
}

/* A child keeps neither the socket nor connections. */
static void test_child(void)
{
	int go[2], fd;
	pid_t pid;

	open_server();
	fd = connect_to();
	CU_ASSERT(!put(fd, "x", 1));
	take(fd);
	CU_ASSERT_FATAL(!pipe(go));
	pid = fork();
	if (!pid) {
		char c;

		close(go[1]);
		close(fd);
		control_server__child(cs);
		(void)!read(go[0], &c, 1);
		_exit(0);
	}
	control_server__free(cs);
	CU_ASSERT_STRING_EQUAL(get_text(at("s")), "(none)");
	CU_ASSERT_EQUAL(control_socket__connect(at("s")), -ENOENT);
	CU_ASSERT_EQUAL(recv(fd, go, sizeof(go), MSG_DONTWAIT), 0);
	close(fd);
	close(go[1]);
	waitpid(pid, NULL, 0);
	close(go[0]);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "answers", test_answers },
		{ "garbage", test_garbage },
		{ "many connections", test_many },
		{ "a client that does not read", test_deaf },
		{ "another user", test_foreign },
		{ "paths", test_paths },
		{ "names", test_names },
		{ "a child", test_child },
		CU_TEST_INFO_NULL,
	};

	return run_suite_in_scratch("control_server", tests);
}
