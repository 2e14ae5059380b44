/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See elf.h. Owns the choice among the names that a mapped file has; knows nothing of what is in
 * it. */
#define LOG_DOMAIN "mapped_file"
#include "target/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/proc_read.h"
#include "target/proc.h"
#include "target/torch.h"

#define PAGE_MASK_4K 0xfffULL

uint64_t mapped_file__linked_addr(const struct elf_outline *o, const struct proc_map *map)
{
	for (uint32_t i = 0; i < o->seg_cnt; i++) {
		const struct elf_exec_seg *seg = &o->segs[i];

		/* mappings start at whole pages, segments need not */
		if (map->off >= (seg->off & ~PAGE_MASK_4K) && map->off < seg->off + seg->file_sz)
			return seg->addr + (map->off - seg->off);
	}
	return UINT64_MAX;
}

/* Does the process's memory hold the same build-id (without one: the same headers) as the file? */
static bool same_in_memory(pid_t pid, const struct elf_outline *o, uint64_t load_bias)
{
	uint8_t mem[ELF_MARK_MAX];

	return o->mark_addr != UINT64_MAX && o->mark_sz &&
	       !remote__read(pid, o->mark_addr + load_bias, mem, o->mark_sz) &&
	       !memcmp(mem, o->mark, o->mark_sz);
}

enum identity {
	ID_SAME,   /* the mapped file */
	ID_UNSURE, /* compare with the memory */
	ID_OTHER,  /* some other file, or none: probes in it would never fire */
};

/*
 * Overlayfs and btrfs show another device to stat() than in maps, overlayfs also an inode number
 * with marks in the high bits (xino); a file put there anew has another number.
 */
static enum identity compare_inode(const struct statx *st, const struct proc_map *map)
{
	if ((uint32_t)st->stx_ino != (uint32_t)map->ino)
		return ID_OTHER;
	if (st->stx_ino == map->ino && st->stx_dev_major == map->dev_major &&
	    st->stx_dev_minor == map->dev_minor)
		return ID_SAME;
	return ID_UNSURE;
}

/* Above those of the standard streams; takes fd. */
static int move_above_stdio(int fd)
{
	int high, err;

	if (fd > STDERR_FILENO)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	err = -errno;
	close(fd);
	return high < 0 ? err : high;
}

/*
 * Opens for reading what a descriptor of O_PATH stands for, and closes that. Checked before: the
 * server of its file system may never answer, and opening a FIFO or a device of the target's choice
 * may block, or do something.
 */
static int open_regular(pid_t pid, int name, struct statx *st)
{
	char self[40];
	int fd, err;

	if (name < 0)
		return name;
	err = file_server__check(name, pid, FILE_SERVER_ROOTS);
	if (!err && statx(name, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, st))
		err = -errno;
	if (!err && !S_ISREG(st->stx_mode))
		err = -ENOEXEC;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", name);
	fd = err ? err : open(self, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (!err && fd < 0)
		err = -errno;
	close(name);
	return err ? err : move_above_stdio(fd);
}

/*
 * /proc/PID/map_files names the mapped file itself, but needs CAP_CHECKPOINT_RESTORE. The path in
 * maps is the target's for another mount namespace, ours for a mere chroot, and another file may be
 * there by now. A descriptor or negative errno.
 */
static int open_mapped(pid_t pid, const struct proc_map *map, enum identity *id)
{
	struct statx st;
	int fd = proc_map_file__open(pid, map->start, map->end);

	*id = ID_SAME;
	if (fd >= 0)
		return open_regular(pid, fd, &st);
	fd = open_regular(pid, file_server__open(pid, map->path, FILE_SERVER_ROOTS), &st);
	if (fd == -EXDEV)
		return fd;
	*id = fd < 0 ? ID_OTHER : compare_inode(&st, map);
	if (*id != ID_OTHER)
		return fd;
	if (fd >= 0)
		close(fd);
	fd = open_regular(getpid(), file_server__open(getpid(), map->path, FILE_SERVER_ROOTS), &st);
	if (fd >= 0 && compare_inode(&st, map) == ID_SAME)
		*id = ID_SAME;
	return fd;
}

/* Takes fd. */
static ssize_t read_head(int fd, void *buf, size_t cap)
{
	ssize_t n = fd < 0 ? fd : pread(fd, buf, cap, 0);

	if (fd >= 0)
		close(fd);
	return n;
}

ssize_t mapped_file__head(pid_t pid, const struct proc_map *map, void *buf, size_t cap)
{
	enum identity id;

	return read_head(open_mapped(pid, map, &id), buf, cap);
}

/* In maps a path has the directory before it to which a process has changed its root. */
ssize_t named_file__head(pid_t pid, const char *path, void *buf, size_t cap)
{
	char link[32], root[PATH_MAX];
	struct statx st;
	ssize_t n;
	int name;

	snprintf(link, sizeof(link), "/proc/%d/root", (int)pid);
	n = readlink(link, root, sizeof(root));
	if (n > 1 && !strncmp(path, root, (size_t)n) && path[n] == '/')
		path += n;
	name = file_server__open(pid, path, FILE_SERVER_ROOTS);
	return read_head(open_regular(pid, name, &st), buf, cap);
}

static int not_the_file(pid_t pid, const struct proc_map *map)
{
	pr_warn("%s is not the file that process %d has mapped, and /proc/%d/map_files is closed",
		map->path, pid, pid);
	return -ENOEXEC;
}

/* ---- files that are not read ---- */

#define REFUSED_MAX 64

struct refused {
	pid_t pid;
	uint64_t ino;
	uint32_t dev_major, dev_minor;
};

static struct refused refused_files[REFUSED_MAX]; /* a ring */
static uint64_t refused_cnt;

static int refuse_served_file(pid_t pid, const struct proc_map *map)
{
	struct refused r = { .pid = pid,
			     .ino = map->ino,
			     .dev_major = map->dev_major,
			     .dev_minor = map->dev_minor };

	for (uint32_t i = 0; i < REFUSED_MAX && i < refused_cnt; i++)
		if (!memcmp(&refused_files[i], &r, sizeof(r)))
			return -EXDEV;
	refused_files[refused_cnt++ % REFUSED_MAX] = r;
	pr_warn("'%s' of process %d is not read: a process of a user other than root serves its "
		"file system (FUSE), or may do so below an overlay that a user mounted, and could block "
		"ptbpf and, with a probe there, every fork on this machine",
		map->path, pid);
	return -EXDEV;
}

uint64_t torch_proc__refused_files(void)
{
	return refused_cnt;
}

char *mapped_file__fd_path(int fd)
{
	return xasprintf("/proc/self/fd/%d", fd);
}

static int check_identity(pid_t pid, const struct proc_map *map, enum identity id,
			  struct mapped_file *mf)
{
	uint64_t addr = mapped_file__linked_addr(&mf->answer.outline, map);

	if (addr == UINT64_MAX)
		return -ENOEXEC;
	mf->load_bias = map->start - addr;
	if (id == ID_UNSURE && !same_in_memory(pid, &mf->answer.outline, mf->load_bias))
		return not_the_file(pid, map);
	return 0;
}

int mapped_file__ask(pid_t pid, const struct proc_map *map, const struct elf_question *q,
		     struct mapped_file *out)
{
	enum identity id;
	int err;

	memset(out, 0, sizeof(*out));
	out->fd = open_mapped(pid, map, &id);
	if (out->fd == -EXDEV)
		err = refuse_served_file(pid, map);
	else if (id == ID_OTHER)
		err = not_the_file(pid, map);
	else
		err = out->fd < 0 ? out->fd : elf_child__ask(out->fd, map->path, q, &out->answer);
	if (!err)
		err = check_identity(pid, map, id, out);
	if (err)
		mapped_file__clear(out);
	return err;
}

void mapped_file__clear(struct mapped_file *mf)
{
	elf_answer__clear(&mf->answer);
	if (mf->fd > 0)
		close(mf->fd);
	memset(mf, 0, sizeof(*mf));
}
