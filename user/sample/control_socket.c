/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See control.h. */
#include "sample/control.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/containers.h"

#define SUFFIX ".sock"
#define CONNECT_S 5
#define NAME_CHARS 32 /* of the directory's name */

int control_socket__path(const char *dir, char path[CONTROL_PATH_MAX])
{
	static const uint64_t key[2] = { 0, 0 };
	char real[PATH_MAX], name[NAME_CHARS + 1];
	const char *base;
	size_t len;

	if (!realpath(dir, real))
		return -errno;
	base = strrchr(real, '/') + 1;
	for (len = 0; len < NAME_CHARS && base[len]; len++)
		name[len] = isalnum((unsigned char)base[len]) || base[len] == '-' ? base[len] : '_';
	name[len] = '\0';
	snprintf(path, CONTROL_PATH_MAX, CONTROL_DIR "/%s-%016" PRIx64 SUFFIX, name,
		 siphash__keyed(key, real, strlen(real)));
	return 0;
}

int control_socket__address(const char *path, struct sockaddr_un *at)
{
	size_t len = strlen(path);

	*at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (len >= sizeof(at->sun_path))
		return -ENAMETOOLONG;
	memcpy(at->sun_path, path, len + 1);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The next one. False: there is none. */
static bool next_socket(DIR *d, char path[CONTROL_PATH_MAX])
{
	struct dirent *de;

	while ((de = readdir(d))) {
		size_t len = strlen(de->d_name);
		int n = snprintf(path, CONTROL_PATH_MAX, CONTROL_DIR "/%s", de->d_name);

		if (de->d_name[0] != '.' && len > strlen(SUFFIX) &&
		    !strcmp(de->d_name + len - strlen(SUFFIX), SUFFIX) && n > 0 &&
		    (size_t)n < CONTROL_PATH_MAX)
			return true;
	}
	return false;
}

int control_socket__list(char paths[][CONTROL_PATH_MAX])
{
	DIR *d = opendir(CONTROL_DIR);
	int cnt = 0;

	if (!d)
		return errno == ENOENT ? 0 : -errno;
	while (cnt < CONTROL_SOCKETS_MAX && next_socket(d, paths[cnt]))
		cnt++;
	closedir(d);
	if (cnt)
		qsort(paths, (size_t)cnt, CONTROL_PATH_MAX, by_name);
	return cnt;
}

void control_socket__clean(void)
{
	DIR *d = opendir(CONTROL_DIR);
	char path[CONTROL_PATH_MAX];

	while (d && next_socket(d, path)) {
		struct sockaddr_un at;
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd < 0)
			break;
		if (!control_socket__address(path, &at) &&
		    connect(fd, (const struct sockaddr *)&at, sizeof(at)) && errno == ECONNREFUSED)
			unlink(path);
		close(fd);
	}
	if (d)
		closedir(d);
}

int control_socket__connect(const char *path)
{
	const struct timeval limit = { .tv_sec = CONNECT_S };
	struct sockaddr_un at;
	struct ucred peer;
	socklen_t len = sizeof(peer);
	int fd, err = control_socket__address(path, &at);

	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* of a queue that is full */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		err = -errno;
	else if (peer.uid && peer.uid != geteuid())
		err = -EOWNERDEAD;
	if (!err)
		return fd;
	close(fd);
	return err;
}
