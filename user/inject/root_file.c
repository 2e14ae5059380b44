/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See inject_priv.h. Owns the choice of a directory and of whom the file belongs to. */
#include "inject/inject_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/proc_read.h"
#include "target/proc.h"
#include "target/proc_info.h"

/* ---- temporary files ---- */

struct owner {
	uint32_t uid, gid;
};

/* Whom id 0 of the process's user namespace is outside of it; 0 where it cannot be read. */
static uint32_t ns_root_id(pid_t pid, const char *map)
{
	unsigned long inside, outside, cnt;
	char *text, *line;
	uint32_t id = 0;
	size_t len;

	if (proc_file__read(pid, 0, map, &text, &len))
		return 0;
	for (line = text; sscanf(line, "%lu %lu %lu", &inside, &outside, &cnt) == 3; line++) {
		if (!inside)
			id = (uint32_t)outside;
		line = strchr(line, '\n');
		if (!line)
			break;
	}
	free(text);
	return id;
}

/* Both calls are about the calling thread alone, in the kernel as in libc. */
static int create_as(int dir, const char *name, const struct owner *o)
{
	int gid = setfsgid(o->gid), uid = setfsuid(o->uid);
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	fd = fd < 0 ? -errno : fd;
	setfsuid((uid_t)uid);
	setfsgid((gid_t)gid);
	return fd;
}

/*
 * Only these two roots, and the owner of an entry, can rename or remove the entry. The process may
 * have mounted any directory of the machine there: one of the machine's root must be one in which
 * everybody may make files.
 */
static bool is_owned_by_root(int dir, const struct owner *ns_root)
{
	struct stat st;

	if (fstat(dir, &st))
		return false;
	if (st.st_uid == 0)
		return st.st_mode & S_ISVTX && st.st_mode & S_IWOTH;
	return st.st_uid == ns_root->uid &&
	       (st.st_mode & S_ISVTX || !(st.st_mode & (S_IWGRP | S_IWOTH)));
}

static bool is_noexec(int fd)
{
	struct statvfs fs;

	return !fstatvfs(fd, &fs) && fs.f_flag & ST_NOEXEC;
}

struct wanted {
	pid_t pid;
	enum root_temp_use use;
	struct owner user, ns_root;
};

static int create_in(const char *dir, const struct wanted *w, struct root_temp *out)
{
	static const struct owner root = { 0, 0 };
	const char *name = out->path + strlen(dir) + 1;
	int err;

	out->dir = file_server__open(w->pid, dir, FILE_SERVER_KERNEL);
	if (out->dir < 0)
		return out->dir;
	err = is_owned_by_root(out->dir, &w->ns_root) ? 0 : -EPERM;
	if (!err) {
		out->fd = create_as(out->dir, name, w->use == ROOT_TEMP_ANSWER ? &w->user : &root);
		if (out->fd == -EOVERFLOW)
			out->fd = create_as(out->dir, name, &w->ns_root);
		err = out->fd < 0 ? out->fd : 0;
		out->exists = !err;
	}
	if (!err && w->use == ROOT_TEMP_CODE && is_noexec(out->fd))
		err = -EACCES;
	return err;
}

int root_temp__create(pid_t pid, const char *stem, const char *suffix, enum root_temp_use use,
		      root_temp_fill_fn fill, void *arg, struct root_temp *out)
{
	static const char *const dirs[] = { "/tmp", "/var/tmp", "/dev/shm" };
	struct wanted w = { .pid = pid, .use = use };
	struct thread_status st;
	uint64_t number;
	int err = -EACCES;

	*out = (struct root_temp)ROOT_TEMP_NONE;
	if (thread_status__read(pid, 0, &st) ||
	    getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	w.user = (struct owner){ st.uid, st.gid };
	w.ns_root = (struct owner){ ns_root_id(pid, "uid_map"), ns_root_id(pid, "gid_map") };
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		if (snprintf(out->path, sizeof(out->path), "%s/%s-%016" PRIx64 "%s", dirs[i], stem,
			     number, suffix) >= (int)sizeof(out->path))
			return -ENAMETOOLONG;
		err = create_in(dirs[i], &w, out);
		if (!err && fill)
			err = fill(arg, out->fd);
		if (!err)
			return 0;
		root_temp__remove(out);
	}
	return err;
}

void root_temp__remove(struct root_temp *t)
{
	if (t->exists)
		unlinkat(t->dir, strrchr(t->path, '/') + 1, 0);
	if (t->fd >= 0)
		close(t->fd);
	if (t->dir >= 0)
		close(t->dir);
	t->fd = t->dir = -1;
	t->exists = false;
}
