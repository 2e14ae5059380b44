/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See window_dir.h. */
#define LOG_DOMAIN "window_dir"
#include "sample/window_dir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/new_file.h"
#include "base/vec.h"

#define LOG_MAX (16 << 20)
#define LOG_OLD WINDOW_LOG ".1"

int window_dir__open(const char *path, struct window_dir *dir)
{
	bool made = !mkdir(path, 0700);
	struct stat st;
	size_t len = strlen(path);
	int err = 0;

	while (len > 1 && path[len - 1] == '/')
		len--;
	if (len >= sizeof(dir->path) - 300)
		err = -ENAMETOOLONG;
	if (!err && !made && errno != EEXIST)
		err = -errno;
	dir->fd = err ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!err && (dir->fd < 0 || fstat(dir->fd, &st)))
		err = -errno;
	if (!err && st.st_mode & S_IWOTH) {
		pr_error("--dir '%s': every user may write there; use a directory of its own", path);
		window_dir__close(dir);
		return -EPERM;
	}
	if (err) {
		pr_error("--dir '%s' cannot be used: %s", path, errstr(err));
		window_dir__close(dir);
		return err;
	}
	if (made)
		new_file__give_to_caller(dir->fd, path);
	snprintf(dir->path, sizeof(dir->path), "%.*s", (int)len, path);
	if (gethostname(dir->host, sizeof(dir->host)))
		dir->host[0] = '\0';
	dir->host[sizeof(dir->host) - 1] = '\0';
	for (char *c = dir->host; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '-')
			*c = '_';
	return 0;
}

void window_dir__close(struct window_dir *dir)
{
	if (dir->fd >= 0)
		close(dir->fd);
	dir->fd = -1;
}

int window_dir__name(const struct window_dir *dir, pid_t pid, uint64_t ns, const char *suffix,
		     char *buf, size_t cap)
{
	int n = snprintf(buf, cap, "%s/%s_%d.%" PRIu64 "%s", dir->path, dir->host, pid, ns, suffix);

	return n < 0 || (size_t)n >= cap ? -ENAMETOOLONG : 0;
}

/* A regular file that no other directory entry leads to. */
static int open_log(const struct window_dir *dir, struct stat *st)
{
	int fd = openat(dir->fd, WINDOW_LOG,
			O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	if (fstat(fd, st) || !S_ISREG(st->st_mode) || st->st_nlink != 1) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

int window_dir__log(const struct window_dir *dir, const struct jsonw_text *line)
{
	struct stat st;
	int fd = open_log(dir, &st), err = 0;
	char text[sizeof(line->text) + 1];

	if (fd >= 0 && st.st_size + (off_t)line->len > LOG_MAX) {
		close(fd);
		fd = renameat(dir->fd, WINDOW_LOG, dir->fd, LOG_OLD) ? -errno : open_log(dir, &st);
	}
	if (fd < 0) {
		err = fd;
	} else {
		if (!st.st_size)
			new_file__give_to_caller(fd, WINDOW_LOG);
		memcpy(text, line->text, line->len);
		text[line->len] = '\n';
		if (write(fd, text, line->len + 1) != (ssize_t)line->len + 1) {
			err = errno ? -errno : -ENOSPC;
			if (ftruncate(fd, st.st_size)) /* no half line */
				pr_warn("'%s/" WINDOW_LOG "' ends with a part of a line", dir->path);
		}
		close(fd);
	}
	if (err)
		pr_error("cannot write to '%s/" WINDOW_LOG "': %s", dir->path, errstr(err));
	return err;
}

/* ---- the quota ---- */

struct window_file {
	char name[NAME_MAX + 1];
	uint64_t ns, bytes;
};

struct file_list {
	struct window_file *items;
	uint32_t cnt, cap;
	uint64_t bytes, newest;
};

/* Is it HOST_PID.NS and a suffix of ours, or what was left of such a file by a killed process? */
static bool parse_name(const struct window_dir *dir, const char *name, uint64_t *ns)
{
	static const char *const suffixes[] = { ".ptb", ".pt.trace.json", ".pt.trace.json.gz" };
	bool partial = *name == '.';
	size_t host = strlen(dir->host), digits;
	char *end;

	name += partial;
	if (strncmp(name, dir->host, host) != 0 || name[host] != '_')
		return false;
	name += host + 1;
	digits = strspn(name, "0123456789");
	if (!digits || name[digits] != '.')
		return false;
	name += digits + 1;
	if (*name < '0' || *name > '9')
		return false;
	*ns = strtoull(name, &end, 10);
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		size_t len = strlen(suffixes[i]);

		if (!strcmp(end, suffixes[i]) ||
		    (partial && !strncmp(end, suffixes[i], len) && end[len] == '.'))
			return true;
	}
	return false;
}

/* 0 or negative errno. */
static int list_files(const struct window_dir *dir, struct file_list *list)
{
	int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (!err && (de = readdir(d))) {
		struct window_file f = { .ns = 0 };
		struct stat st;

		if (!parse_name(dir, de->d_name, &f.ns) ||
		    fstatat(dir->fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
			continue;
		snprintf(f.name, sizeof(f.name), "%s", de->d_name);
		f.bytes = (uint64_t)st.st_blocks * 512;
		err = vec_push(list->items, list->cnt, list->cap, f);
		list->bytes += f.bytes;
		if (f.ns > list->newest)
			list->newest = f.ns;
	}
	closedir(d);
	return err;
}

static int by_age(const void *a, const void *b)
{
	const struct window_file *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

int window_dir__trim(const struct window_dir *dir, uint64_t max_bytes, uint64_t keep_ns)
{
	struct file_list list = { .cnt = 0 };
	uint64_t last = 0;
	int err = list_files(dir, &list), windows = 0;

	if (!err && list.cnt)
		qsort(list.items, list.cnt, sizeof(*list.items), by_age);
	for (uint32_t i = 0; !err && i < list.cnt; i++) {
		const struct window_file *f = &list.items[i];

		/* a window goes whole */
		if (f->ns == list.newest || f->ns >= keep_ns || (list.bytes <= max_bytes && f->ns != last))
			break;
		if (unlinkat(dir->fd, f->name, 0))
			err = -errno;
		list.bytes -= f->bytes;
		windows += f->ns != last;
		last = f->ns;
	}
	free(list.items);
	if (err)
		pr_error("cannot delete old windows in '%s': %s", dir->path, errstr(err));
	return err ? err : windows;
}
