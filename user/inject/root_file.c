/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* openat2() with RESOLVE_IN_ROOT does what chroot() would, without one. */
#include "inject/root_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/thread_facts.h"

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

static int unlink_in_root(pid_t pid, const char *path)
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

/* ---- temporary files ---- */

/* Both calls are about the calling thread alone, in the kernel as in libc. */
static int create_as(pid_t pid, const char *path, const struct thread_status *st)
{
	int gid = setfsgid(st->gid), uid = setfsuid(st->uid);
	int fd = root_file__open(pid, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);

	setfsuid((uid_t)uid);
	setfsgid((gid_t)gid);
	return fd;
}

static bool is_noexec(int fd)
{
	struct statvfs fs;

	return !fstatvfs(fd, &fs) && fs.f_flag & ST_NOEXEC;
}

int root_temp__create(pid_t pid, const char *stem, const char *suffix, bool exec, struct root_temp *out)
{
	static const char *const dirs[] = { "/tmp", "/var/tmp", "/dev/shm" };
	struct thread_status st;
	uint64_t number;
	size_t i;
	int n, err = -EACCES;

	out->exists = false;
	out->fd = -1;
	if (thread_facts__status(pid, 0, &st) || getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]) && !out->exists; i++) {
		n = snprintf(out->path, sizeof(out->path), "%s/%s-%016" PRIx64 "%s", dirs[i], stem, number, suffix);
		if (n >= (int)sizeof(out->path))
			return -ENAMETOOLONG;
		out->fd = create_as(pid, out->path, &st);
		out->exists = out->fd >= 0;
		err = out->exists ? 0 : out->fd;
		if (out->exists && exec && is_noexec(out->fd)) {
			root_temp__remove(pid, out);
			err = -EACCES;
		}
	}
	return err;
}

void root_temp__remove(pid_t pid, struct root_temp *t)
{
	if (!t->exists)
		return;
	unlink_in_root(pid, t->path);
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
	t->exists = false;
}
