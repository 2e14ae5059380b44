/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See proc_read.h. */
#include "base/proc_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/containers.h"
#include "base/guards.h"
#include "base/mem.h"

#define FILE_MAX (64u << 20) /* vm.max_map_count's default makes maps of about 10 MiB */

static uint64_t limit_ns;

/* ---- files ---- */

void proc_read__limit(uint64_t cpu_ns)
{
	limit_ns = cpu_ns;
}

/* To open some of them waits, too. */
static int open_file(pid_t pid, pid_t tid, const char *name, int flags)
{
	char path[96];
	int fd, err;

	if (tid)
		snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
	else
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	stall__begin(pid);
	fd = open(path, flags | O_CLOEXEC);
	err = -errno;
	stall__end();
	return fd < 0 ? err : fd;
}

static ssize_t read_file(pid_t pid, int fd, void *buf, size_t len)
{
	ssize_t n;
	int err;

	do {
		stall__begin(pid);
		n = read(fd, buf, len);
		err = -errno;
		stall__end();
	} while (n < 0 && err == -EINTR);
	return n < 0 ? err : n;
}

static int read_all(pid_t pid, int fd, char **text, size_t *len)
{
	uint32_t cap = 0;
	ssize_t got;

	for (*len = 0; *len <= FILE_MAX; *len += (size_t)got) {
		vec_reserve((void **)text, &cap, *len + 4096 + 1, 1);
		if (limit_ns && clock__cpu_ns() > limit_ns)
			return -ETIME;
		got = read_file(pid, fd, *text + *len, cap - *len - 1);
		if (got < 0)
			return (int)got;
		if (!got) {
			(*text)[*len] = 0;
			return 0;
		}
	}
	return -EFBIG;
}

int proc_file__read(pid_t pid, pid_t tid, const char *name, char **text, size_t *len)
{
	int fd = open_file(pid, tid, name, O_RDONLY), err;

	*text = NULL;
	if (fd < 0)
		return fd == -ENOENT ? -ESRCH : fd;
	err = read_all(pid, fd, text, len);
	close(fd);
	if (err) {
		free(*text);
		*text = NULL;
	}
	return err;
}

ssize_t proc_file__read_some(pid_t pid, const char *name, void *buf, size_t cap)
{
	int fd = open_file(pid, 0, name, O_RDONLY);
	size_t len = 0;
	ssize_t got = 0;

	if (fd < 0)
		return fd == -ENOENT ? -ESRCH : fd;
	while (len < cap && (got = read_file(pid, fd, (char *)buf + len, cap - len)) > 0)
		len += (size_t)got;
	close(fd);
	return got < 0 ? got : (ssize_t)len;
}

int proc_map_file__open(pid_t pid, uint64_t start, uint64_t end)
{
	char name[64];

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, start, end);
	return open_file(pid, 0, name, O_PATH);
}

int proc_map_file__stat(pid_t pid, uint64_t start, uint64_t end, struct statx *st)
{
	char path[96];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, start, end);
	stall__begin(pid);
	err = statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, st) ? -errno : 0;
	stall__end();
	return err;
}

/* ---- memory ---- */

ssize_t proc_mem__readv(pid_t pid, const struct iovec *local, const struct iovec *remote,
			uint32_t cnt)
{
	ssize_t n;

	stall__begin(pid);
	n = process_vm_readv(pid, local, cnt, remote, cnt, 0);
	stall__end();
	return n;
}

struct remote_mem {
	pid_t pid;
	int fd; /* of /proc/PID/mem */
};

int remote_mem__open(pid_t pid, bool write, struct remote_mem **out)
{
	struct remote_mem *rm = xmalloc(sizeof(*rm));

	*out = NULL;
	*rm = (struct remote_mem){ pid, open_file(pid, 0, "mem", write ? O_RDWR : O_RDONLY) };
	if (rm->fd < 0) {
		int err = rm->fd == -ENOENT ? -ESRCH : rm->fd;

		free(rm);
		return err;
	}
	*out = rm;
	return 0;
}

void remote_mem__close(struct remote_mem *rm)
{
	if (rm)
		close(rm->fd);
	free(rm);
}

/* Linux fs/proc/base.c, mem_rw(): 0 where the memory has no users any more, EIO where nothing is
 * mapped. */
static ssize_t answer(ssize_t n)
{
	const int err = errno;

	stall__end();
	if (n < 0)
		return err == EIO ? -EFAULT : -err;
	return n ? n : -ESRCH;
}

ssize_t remote_mem__read(const struct remote_mem *rm, uint64_t addr, void *buf, size_t len)
{
	if (addr > INT64_MAX)
		return -EFAULT;
	stall__begin(rm->pid);
	return answer(pread(rm->fd, buf, len, (off_t)addr));
}

int remote_mem__write(const struct remote_mem *rm, uint64_t addr, const void *buf, size_t len)
{
	ssize_t n;

	if (addr > INT64_MAX)
		return -EFAULT;
	stall__begin(rm->pid);
	n = answer(pwrite(rm->fd, buf, len, (off_t)addr));
	return n == (ssize_t)len ? 0 : n < 0 ? (int)n : -EFAULT;
}
