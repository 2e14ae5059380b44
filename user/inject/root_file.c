/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* openat2() with RESOLVE_IN_ROOT does what chroot() would, without one. */
#include "inject/root_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_root(pid_t pid)
{
	char root[32];
	int fd;

	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int root_file__open(pid_t pid, const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned int)flags | O_CLOEXEC,
		.mode = flags & O_CREAT ? 0600 : 0,
		.resolve = RESOLVE_IN_ROOT,
	};
	int root = open_root(pid);
	long fd;

	if (root < 0)
		return root;
	fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd < 0)
		fd = -errno;
	close(root);
	return (int)fd;
}

int root_file__unlink(pid_t pid, const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	int fd, err;

	if (!slash || (size_t)(slash - path) >= sizeof(dir))
		return -EINVAL;
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	fd = root_file__open(pid, *dir ? dir : "/", O_PATH | O_DIRECTORY);
	if (fd < 0)
		return fd;
	err = unlinkat(fd, slash + 1, 0) ? -errno : 0;
	close(fd);
	return err;
}
