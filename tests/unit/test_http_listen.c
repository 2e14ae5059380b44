/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * http_listen and control_socket: addresses, and paths at which somebody listens, listened, or
 * has a file.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sample/http_server.h"
#include "scratch_dir.h"

static struct http_path hp;

static int listen_at(const char *name)
{
	hp = (struct http_path){ .ino = 0 };
	return http_listen__path(at(name), true, &hp);
}

TEST("addresses")
{
	static const char *const good[] = { "9464",           ":9464",       "0",
					    "127.0.0.1:9464", "localhost:1", "[::1]:9464",
					    "[::]:65535" };
	static const char *const bad[] = { "",          ":",           "x",        "65536",
					   "127.0.0.1", "127.0.0.1:",  "::1:9464", "[::1]",
					   "[]:1",      "[::1:9464",   "a:-1",     "a:1x",
					   "1 ",        "/run/socket", "host:9464" };

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CU_ASSERT(http_listen__valid(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT(!http_listen__valid(bad[i]));
}

TEST("a port")
{
	char url[HTTP_URL_MAX], address[16];
	int fd = http_listen__port("0", url), port;

	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT_EQUAL_FATAL(sscanf(url, "http://127.0.0.1:%d/metrics", &port), 1);
	snprintf(address, sizeof(address), ":%d", port);
	CU_ASSERT_EQUAL(http_listen__port(address, url), -EADDRINUSE);
	close(fd);
	fd = http_listen__port(address, url);
	CU_ASSERT(fd >= 0);
	close(fd);
}

/*
 * A path at which a killed one listened is used again, one at which somebody listens is not, and
 * a file stays.
 */
TEST("paths")
{
	char name[200];
	struct http_path first;
	struct stat st;
	pid_t pid = fork();
	int fd, peer;

	if (!pid) {
		listen_at("s");
		_exit(0); /* as if killed */
	}
	waitpid(pid, NULL, 0);
	CU_ASSERT_EQUAL(control_socket__connect(at("s")), -ECONNREFUSED);
	fd = listen_at("s");
	CU_ASSERT_FATAL(fd >= 0);
	first = hp;
	CU_ASSERT(!lstat(at("s"), &st) && S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0600);
	peer = control_socket__connect(at("s"));
	CU_ASSERT(peer >= 0);
	close(peer);
	CU_ASSERT_EQUAL(listen_at("s"), -EADDRINUSE);
	close(fd);
	fd = listen_at("s");
	CU_ASSERT(fd >= 0);
	http_listen__remove(&first); /* another one has replaced it */
	CU_ASSERT(!lstat(at("s"), &st));
	http_listen__remove(&hp);
	CU_ASSERT(lstat(at("s"), &st));
	close(fd);
	put_text(at("file"), "text");
	CU_ASSERT_EQUAL(listen_at("file"), -EEXIST);
	CU_ASSERT_STRING_EQUAL(get_text(at("file")), "text");
	CU_ASSERT_EQUAL(listen_at("no/such"), -ENOENT);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	CU_ASSERT_EQUAL(listen_at(name), -ENAMETOOLONG);
}

/* By the directory, however it is written. */
TEST("names")
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

int main(void)
{
	return run_suite_in_scratch("http_listen");
}
