/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Finds where a process has mapped a file's code, by the inode in /proc: to warn of probes that
 * cannot hit, and to convert file offsets to addresses if the kernel has no cookies.
 */
#define LOG_DOMAIN "attach"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/containers.h"
#include "base/proc_read.h"
#include "probe/probe_impl.h"

/* Inode numbers repeat on other file systems, and for some (overlayfs, btrfs) /proc/PID/maps has
 * another device than stat(). The mapped file itself decides if its inode can be read. Its file
 * system is not asked, because the process that serves it may never answer. */
static bool is_file(pid_t tgid, uint64_t start, uint64_t end, const struct stat *file)
{
	struct statx st;
	int err = proc_map_file__stat(tgid, start, end, &st);

	if (err)
		/* a file system of FUSE that not even root may use */
		return err != -EACCES;
	return makedev(st.stx_dev_major, st.stx_dev_minor) == file->st_dev &&
	       st.stx_ino == file->st_ino;
}

int code_maps__read_all(struct code_maps *m, pid_t tgid)
{
	char *text, *line, *next, perms[5];
	struct code_map map;
	size_t len;
	int err = proc_file__read(tgid, 0, "maps", &text, &len);

	memset(m, 0, sizeof(*m));
	for (line = text; !err && line && *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = 0; /* sscanf() searches for the end of its text */
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64, &map.start,
			   &map.end, perms, &map.off, &map.ino) == 5 &&
		    /* the kernel probes no other mappings */
		    map.ino && perms[2] == 'x' && perms[3] == 'p')
			vec_push(m->items, m->cnt, m->cap, map);
	}
	free(text);
	return err;
}

int code_maps__pick(const struct code_maps *all, pid_t tgid, const char *path, struct code_maps *m)
{
	struct stat st;
	int err = stat(path, &st) ? -errno : 0;

	memset(m, 0, sizeof(*m));
	for (uint32_t i = 0; i < all->cnt && !err; i++)
		if (all->items[i].ino == st.st_ino &&
		    is_file(tgid, all->items[i].start, all->items[i].end, &st))
			vec_push(m->items, m->cnt, m->cap, all->items[i]);
	return err;
}

int code_maps__read(struct code_maps *m, pid_t tgid, const char *path)
{
	struct code_maps all;
	int err = code_maps__read_all(&all, tgid);

	memset(m, 0, sizeof(*m));
	if (!err)
		err = code_maps__pick(&all, tgid, path, m);
	code_maps__free(&all);
	return err;
}

void code_maps__free(struct code_maps *m)
{
	free(m->items);
	memset(m, 0, sizeof(*m));
}
