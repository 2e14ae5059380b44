/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See proc.h. Uses what the kernel knows without asking: descriptors of O_PATH, statx() of what is
 * cached, /proc/PID/mountinfo. */
#include "target/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/nsfs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/proc_read.h"
#include "target/proc_info.h"

#define BACKING_DEVICES "/sys/class/bdi"
/* Inode of the first user namespace (linux/proc_ns.h, PROC_USER_INIT_INO). */
#define FIRST_USER_NS 0xeffffffdu

/*
 * Does a process or another machine serve the file system? One of FUSE or NFS has an anonymous
 * device with a backing device of its own, named after it (Linux fs/fuse/inode.c, fs/nfs/super.c:
 * super_setup_bdi_name()); overlays and memory have none.
 */
static bool is_served(const struct statx *st)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%u:%u", BACKING_DEVICES, st->stx_dev_major,
		 st->stx_dev_minor);
	return access(BACKING_DEVICES, F_OK) || !access(path, F_OK);
}

/* Was everything in this mount namespace mounted by root of the machine, or in its name by a
 * set-user-id program? */
static bool is_roots_namespace(pid_t pid)
{
	char path[64];
	struct stat st;
	int fd, owner;
	bool roots;

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	owner = ioctl(fd, NS_GET_USERNS);
	close(fd);
	if (owner < 0)
		return false;
	roots = !fstat(owner, &st) && st.st_ino == FIRST_USER_NS;
	close(owner);
	return roots;
}

/* "36 35 98:0 / /mnt rw master:1 - ext3 /dev/sda1 rw,errors=continue" (proc_pid_mountinfo(5));
 * blanks are escaped. */
struct mount_row {
	uint64_t mount;
	unsigned int major, minor; /* of the file system: statx() may say another one */
	const char *type, *opts;   /* "ext3 /dev/sda1 rw,errors=continue", "rw,errors=continue" */
};

static bool parse_row(const char *line, struct mount_row *row)
{
	unsigned long long mount;

	row->type = strstr(line, " - ");
	if (!row->type || sscanf(line, "%llu %*u %u:%u", &mount, &row->major, &row->minor) != 3)
		return false;
	row->mount = mount;
	row->type += 3;
	row->opts = strrchr(row->type, ' '); /* what is before them is the user's text */
	return true;
}

static bool is_overlay(const struct mount_row *row)
{
	return !strncmp(row->type, "overlay ", 8);
}

/* The first row of a process's mounts that is the one that is searched for. *text: of the row, from
 * malloc. */
static bool find_row(pid_t pid, bool (*is_it)(const struct mount_row *row, const void *arg),
		     const void *arg, char **text, struct mount_row *row)
{
	char *line, *end;
	bool found = false;
	size_t len;

	if (proc_file__read(pid, 0, "mountinfo", text, &len))
		return false;
	for (line = *text; line && *line && !found; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		found = parse_row(line, row) && is_it(row, arg);
	}
	if (!found)
		free(*text);
	return found;
}

static bool has_number(const struct mount_row *row, const void *mount)
{
	return row->mount == *(const uint64_t *)mount;
}

static bool is_same_overlay(const struct mount_row *row, const void *arg)
{
	const struct mount_row *other = arg;

	return is_overlay(row) && row->major == other->major && row->minor == other->minor;
}

/* Is an overlay also in a namespace where only root mounts? A container's is that has users of its
 * own. */
static bool is_roots_overlay(const struct mount_row *row)
{
	const pid_t pids[] = { getpid(), 1 };
	struct mount_row found;
	char *text;

	for (size_t i = 0; i < sizeof(pids) / sizeof(pids[0]); i++) {
		if (!is_roots_namespace(pids[i]) ||
		    !find_row(pids[i], is_same_overlay, row, &text, &found))
			continue;
		free(text);
		return true;
	}
	return false;
}

/* Users can mount FUSE, and in a user namespace overlays, which hide the FUSE that is below
 * them. */
static bool is_trusted(const struct mount_row *row, pid_t pid)
{
	const char *user;

	if (is_overlay(row))
		return is_roots_namespace(pid) || is_roots_overlay(row);
	if (strncmp(row->type, "fuse", 4) != 0)
		return true;
	user = row->opts ? strstr(row->opts, ",user_id=") : NULL;
	return is_roots_namespace(pid) && user && !strncmp(user, ",user_id=0,", 11);
}

/* Is the mount in the process's list, and can no user have put something there that a process of
 * his serves? */
static bool is_trusted_mount(pid_t pid, uint64_t mount)
{
	struct mount_row row;
	bool trusted;
	char *text;

	if (!find_row(pid, has_number, &mount, &text, &row))
		return false;
	trusted = is_trusted(&row, pid);
	free(text);
	return trusted;
}

int file_server__check(int fd, pid_t pid, enum file_server_rule rule)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_MNT_ID, &st))
		return -errno;
	if (S_ISLNK(st.stx_mode))
		return -ELOOP;
	if (st.stx_dev_major)
		return 0;
	if ((rule == FILE_SERVER_KERNEL && is_served(&st)) || !(st.stx_mask & STATX_MNT_ID))
		return -EXDEV;
	return is_trusted_mount(pid, st.stx_mnt_id) || is_trusted_mount(getpid(), st.stx_mnt_id) ?
		       0 :
		       -EXDEV;
}

/*
 * One name in a directory, "" for the directory itself; of a link the link. Not by openat2(), which
 * systemd forbids to services with RestrictSUIDSGID=.
 */
static int open_name(int dir, const char *name, int flags)
{
	int fd;

	if (!strcmp(name, ".."))
		return -EINVAL;
	fd = openat(dir, *name ? name : ".", flags | O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Moves *path past its first name, which is copied. 0 or -ENAMETOOLONG. */
static int take_name(const char **path, char name[NAME_MAX + 1])
{
	size_t n;

	*path += strspn(*path, "/");
	n = strcspn(*path, "/");
	if (n > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, *path, n);
	name[n] = '\0';
	*path += n;
	*path += strspn(*path, "/");
	return 0;
}

int file_server__open(pid_t pid, const char *path, enum file_server_rule rule)
{
	char name[NAME_MAX + 1];
	int at, next, err;

	snprintf(name, sizeof(name), "/proc/%d/root", (int)pid);
	at = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return -errno;
	do {
		err = file_server__check(at, pid, rule);
		if (!err)
			err = take_name(&path, name);
		next = err ? err : open_name(at, name, *path ? O_DIRECTORY : 0);
		close(at);
		at = next;
	} while (at >= 0 && *path);
	err = at < 0 ? at : file_server__check(at, pid, rule);
	if (err && at >= 0)
		close(at);
	return err ? err : at;
}
