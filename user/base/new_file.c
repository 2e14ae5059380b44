/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Output files that appear complete or not at all; see new_file.h. */
#define LOG_DOMAIN "new_file"
#include "base/new_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define LINKS_MAX 40 /* as the kernel has it */
#define PARTIAL_SUFFIX ".partial"
#define NUMBER_LEN 16 /* hexadecimal digits */

/* The part of a name that its partial name has: the dots, the number and the suffix need room. */
#define STEM_MAX (NAME_MAX - 2 - NUMBER_LEN - ((int)sizeof(PARTIAL_SUFFIX) - 1))

/* Who can put an entry into a directory, or replace one. */
enum trust {
	TRUST_OURS,    /* root and the effective user */
	TRUST_STICKY,  /* others, too, but each only his own entries */
	TRUST_FOREIGN, /* others; holds for everything below it */
};

/* How far a path has been walked. */
struct walk {
	int dir; /* O_PATH: the directory of `name` */
	enum trust trust;
	uint32_t links;
	char rest[PATH_MAX]; /* what is still to be walked */
	char name[NAME_MAX + 1];
	bool last;
	bool exists;
	bool moved;         /* somebody else can replace a directory on the way */
	bool magic;         /* name is a link of /proc to something that has no path */
	struct stat st;     /* of what exists */
	const char *reason; /* why the walk was refused; NULL: errno says */
};

struct new_file {
	int dir, fd;
	bool in_place, replaces;
	char name[NAME_MAX + 1];
	char temp[NAME_MAX + 1]; /* "": none is there */
	char *path;
	char *partial; /* path of temp, for people */
	bool readable; /* stays when memory is exhausted */
	pid_t owner;
	struct new_file *next; /* in open_files */
};

static struct new_file *open_files; /* for mem__end() */

static void remove_unfinished(void)
{
	for (const struct new_file *nf = open_files; nf; nf = nf->next) {
		if (!nf->temp[0] || nf->owner != getpid())
			continue;
		if (nf->readable)
			pr_hint("what was recorded until then is in %s", nf->partial);
		else
			unlinkat(nf->dir, nf->temp, 0);
	}
}

static bool is_ours(uid_t uid)
{
	return !uid || uid == geteuid();
}

static enum trust trust_of(const struct stat *st)
{
	bool group = st->st_mode & S_IWGRP && st->st_gid && st->st_gid != getegid();

	if (!is_ours(st->st_uid))
		return TRUST_FOREIGN;
	if (!(st->st_mode & S_IWOTH) && !group)
		return TRUST_OURS;
	return st->st_mode & S_ISVTX ? TRUST_STICKY : TRUST_FOREIGN;
}

/* Nobody but root, the effective user and the one who called sudo can put something there. */
static const char *why_not_ours(const struct stat *st)
{
	uint32_t uid, gid;
	bool sudo = new_file__caller(&uid, &gid);

	if (st->st_mode & S_IWOTH)
		return "every user may write there; use a directory of its own";
	if (!is_ours(st->st_uid) && !(sudo && st->st_uid == uid))
		return "it belongs to another user; use a directory of its own";
	if (st->st_mode & S_IWGRP && st->st_gid && st->st_gid != getegid() &&
	    !(sudo && st->st_gid == gid))
		return "a group of users may write there; use a directory of its own";
	return NULL;
}

/* Of a directory on the way: nobody else can put another one in place of what comes next, which the
 * next check says of a sticky one. */
static bool is_way(const struct stat *st)
{
	struct stat as_ours = *st;

	if (st->st_mode & S_ISVTX)
		as_ours.st_mode &= ~(mode_t)(S_IWOTH | S_IWGRP);
	return !why_not_ours(&as_ours);
}

static bool entry_trusted(const struct walk *w)
{
	return w->trust == TRUST_OURS || (w->trust == TRUST_STICKY && is_ours(w->st.st_uid));
}

/* Moves to directory fd, which the walk owns from now on. fresh: the walk began anew. */
static int enter(struct walk *w, int fd, bool fresh)
{
	struct stat st;

	if (fd < 0)
		return -errno;
	if (w->dir >= 0)
		close(w->dir);
	w->dir = fd;
	if (fstat(fd, &st))
		return -errno;
	w->moved |= !is_way(&st);
	if (fresh || w->trust != TRUST_FOREIGN)
		w->trust = trust_of(&st);
	return 0;
}

static int enter_start(struct walk *w)
{
	return enter(w, open(*w->rest == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC), true);
}

/* Takes the next component from rest. */
static int next_name(struct walk *w)
{
	const char *p = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(p, "/");
	const char *after = p + len;

	if (!len) /* "/", or a slash at the end */
		return -EISDIR;
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(w->name, p, len);
	w->name[len] = '\0';
	w->last = !*after;
	memmove(w->rest, after, strlen(after) + 1);
	return 0;
}

static bool in_procfs(int dir)
{
	struct statfs fs;

	return !fstatfs(dir, &fs) && fs.f_type == PROC_SUPER_MAGIC;
}

/* Puts the link's target before rest. 1: the walk ends here, at a link to something without a
 * path. */
static int follow(struct walk *w)
{
	char target[PATH_MAX];
	ssize_t n;

	if (!entry_trusted(w)) {
		w->reason = "a symbolic link in its path may belong to another user; name the "
			    "file by its real path";
		return -ELOOP;
	}
	if (++w->links > LINKS_MAX)
		return -ELOOP;
	if (w->last && in_procfs(w->dir)) { /* /proc/self/fd/N */
		if (fstatat(w->dir, w->name, &w->st, 0))
			return -errno;
		w->magic = !S_ISREG(w->st.st_mode);
		if (w->magic)
			return 1;
	}
	n = readlinkat(w->dir, w->name, target, sizeof(target));
	if (n < 0)
		return -errno;
	if ((size_t)n + strlen(w->rest) >= sizeof(target))
		return -ENAMETOOLONG;
	strcpy(target + n, w->rest);
	strcpy(w->rest, target);
	return *target == '/' ? enter_start(w) : 0;
}

static int walk_path(struct walk *w, const char *path)
{
	int err;

	if (!*path)
		return -ENOENT;
	if (strlen(path) >= sizeof(w->rest))
		return -ENAMETOOLONG;
	strcpy(w->rest, path);
	err = enter_start(w);
	while (!err && !(err = next_name(w))) {
		w->exists = !fstatat(w->dir, w->name, &w->st, AT_SYMLINK_NOFOLLOW);
		if (!w->exists)
			return errno == ENOENT && w->last ? 0 : -errno;
		if (S_ISLNK(w->st.st_mode)) {
			err = follow(w);
			if (err > 0)
				return 0;
			continue;
		}
		if (w->last)
			return S_ISDIR(w->st.st_mode) ? -EISDIR : 0;
		err = enter(w,
			    openat(w->dir, w->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
			    false);
	}
	return err;
}

static bool is_special(const struct walk *w)
{
	return w->exists && !S_ISREG(w->st.st_mode);
}

static int check_special(struct walk *w, enum new_file_kind kind)
{
	if (kind == NEW_FILE_REGULAR || S_ISBLK(w->st.st_mode)) {
		w->reason = "it is not a regular file";
		return -EEXIST;
	}
	if (!entry_trusted(w)) {
		w->reason = "it is not a regular file, and another user may have created it";
		return -EPERM;
	}
	return 0;
}

static int resolve_path(const char *path, enum new_file_kind kind, struct walk *w)
{
	int err;

	*w = (struct walk){ .dir = -1 };
	err = walk_path(w, path);
	return !err && is_special(w) ? check_special(w, kind) : err;
}

static int log_failure(const char *path, const struct walk *w, int err)
{
	pr_error("cannot create '%s': %s", path, w->reason ? w->reason : errstr(err));
	return err;
}

int new_file__check(const char *path, enum new_file_kind kind)
{
	struct walk w;
	int err = resolve_path(path, kind, &w);

	if (!err && !is_special(&w) && faccessat(w.dir, ".", W_OK | X_OK, AT_EACCESS))
		err = -errno;
	if (w.dir >= 0)
		close(w.dir);
	return err ? log_failure(path, &w, err) : 0;
}

/* ---- opening ---- */

/* A pipe without a reader fails instead of waiting for one. */
static int open_special(struct new_file *nf, const struct walk *w)
{
	int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (w->magic ? 0 : O_NOFOLLOW);
	struct stat st;

	nf->fd = openat(w->dir, w->name, flags);
	if (nf->fd < 0 || fstat(nf->fd, &st) || fcntl(nf->fd, F_SETFL, 0))
		return -errno;
	if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode))
		return -EEXIST;
	nf->in_place = true;
	return 0;
}

static bool parse_id(const char *name, uint32_t *id)
{
	const char *text = getenv(name);
	size_t len = text ? strlen(text) : 0;
	unsigned long v;

	if (!len || len > 10 || strspn(text, "0123456789") != len)
		return false;
	v = strtoul(text, NULL, 10);
	*id = (uint32_t)v;
	return v < UINT32_MAX; /* (uid_t)-1 is no id */
}

bool new_file__caller(uint32_t *uid, uint32_t *gid)
{
	return !getuid() && !geteuid() && parse_id("SUDO_UID", uid) && parse_id("SUDO_GID", gid) &&
	       *uid;
}

void new_file__give_to_caller(int fd, const char *path)
{
	uint32_t uid, gid;

	if (!new_file__caller(&uid, &gid))
		return;
	if (fchown(fd, uid, gid))
		pr_warn("'%s' remains owned by root; cannot change its owner to uid %u: "
			"%s",
			path, uid, errstr(errno));
}

static int create_temp(struct new_file *nf, const char *path)
{
	const char *slash = strrchr(path, '/');
	int dir_len = slash ? (int)(slash - path) + 1 : 0;
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	snprintf(nf->temp, sizeof(nf->temp), ".%.*s.%0*" PRIx64 PARTIAL_SUFFIX, STEM_MAX, nf->name,
		 NUMBER_LEN, number);
	nf->fd =
		openat(nf->dir, nf->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (nf->fd < 0) {
		int err = -errno;

		nf->temp[0] = '\0';
		return err;
	}
	nf->partial = xasprintf("%.*s%s", dir_len, path, nf->temp);
	new_file__give_to_caller(nf->fd, path);
	return 0;
}

/* 0 or negative errno. */
static int create(struct new_file *nf, enum new_file_kind kind, struct walk *w)
{
	int err;

	if (kind == NEW_FILE_MEMORY) {
		nf->fd = memfd_create(nf->path, MFD_CLOEXEC);
		nf->in_place = true;
		return nf->fd < 0 ? -errno : 0;
	}
	err = resolve_path(nf->path, kind, w);
	nf->dir = w->dir;
	if (err)
		return err;
	strcpy(nf->name, w->name);
	nf->replaces = w->exists;
	return is_special(w) ? open_special(nf, w) : create_temp(nf, nf->path);
}

int new_file__open(const char *path, enum new_file_kind kind, struct new_file **out)
{
	struct new_file *nf = xcalloc(1, sizeof(*nf));
	struct walk w = { .dir = -1 };
	int err;

	nf->dir = nf->fd = -1;
	nf->path = xstrdup(path);
	nf->owner = getpid();
	nf->next = open_files;
	open_files = nf;
	mem__set_cleanup(remove_unfinished);
	err = create(nf, kind, &w);
	if (!err) {
		*out = nf;
		return 0;
	}
	log_failure(path, &w, err);
	new_file__free(nf);
	return err;
}

int new_file__fd(const struct new_file *nf)
{
	return nf->fd;
}

int new_file__write(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			return -EIO;
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

int new_file__old(const struct new_file *nf)
{
	struct stat st;
	int fd;

	if (nf->dir < 0)
		return -ENOENT;
	fd = openat(nf->dir, nf->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EEXIST;
}

const char *new_file__partial(const struct new_file *nf)
{
	return nf->partial ? nf->partial : nf->path;
}

/* ---- the end ---- */

static int sync_fd(int fd)
{
	return !fsync(fd) || errno == EINVAL || errno == EROFS || errno == ENOSYS ? 0 : -errno;
}

int new_file__commit(struct new_file *nf)
{
	int err = nf->replaces && !nf->in_place ? sync_fd(nf->fd) : 0;

	/* a full or remote file system may report only now that it did not take the bytes */
	if (close(nf->fd) && errno != EINTR && !err)
		err = -errno;
	nf->fd = -1;
	if (err) {
		pr_error("cannot write '%s': %s", nf->path, errstr(err));
		return err;
	}
	if (nf->in_place)
		return 0;
	if (renameat(nf->dir, nf->temp, nf->dir, nf->name)) {
		err = -errno;
		pr_error("cannot rename '%s' to '%s': %s", nf->partial, nf->path, errstr(err));
		return err;
	}
	nf->temp[0] = '\0';
	if (nf->replaces)
		pr_info("'%s' replaces an older file", nf->path);
	return 0;
}

void new_file__is_readable(struct new_file *nf)
{
	nf->readable = true;
}

void new_file__keep(struct new_file *nf)
{
	nf->temp[0] = '\0';
}

void new_file__free(struct new_file *nf)
{
	struct new_file **at = &open_files;

	if (!nf)
		return;
	while (*at != nf)
		at = &(*at)->next;
	*at = nf->next;
	if (nf->fd >= 0)
		close(nf->fd);
	if (nf->temp[0])
		unlinkat(nf->dir, nf->temp, 0);
	if (nf->dir >= 0)
		close(nf->dir);
	free(nf->partial);
	free(nf->path);
	free(nf);
}

/* ---- directories ---- */

int new_file__directory(const char *path, const char **reason)
{
	struct walk w = { .dir = -1 };
	struct stat st;
	bool made = false;
	int err = walk_path(&w, path), fd = -1;

	if (err == -EISDIR && !(w.last && w.exists && S_ISDIR(w.st.st_mode)))
		strcpy(w.name, "."); /* a slash at the end of a link's text: the walk is in it */
	if (w.moved && (!err || err == -EISDIR)) {
		w.reason =
			"another user can replace a directory above it; use one below root's directories";
		err = -EPERM;
	}
	if (!err && w.exists)
		err = -ENOTDIR;
	else if (!err && !(made = !mkdirat(w.dir, w.name, 0700)) && errno != EEXIST)
		err = -errno;
	if (!err || err == -EISDIR) {
		fd = openat(w.dir, w.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		err = fd < 0 || fstat(fd, &st) ? -errno : 0;
	}
	*reason = err ? w.reason : why_not_ours(&st);
	if (*reason && !err)
		err = -EPERM;
	if (!err && made)
		new_file__give_to_caller(fd, path);
	if (w.dir >= 0)
		close(w.dir);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

/* ---- what a killed process left ---- */

static bool is_partial_of(const char *entry, const char *name)
{
	size_t stem = strlen(name) < (size_t)STEM_MAX ? strlen(name) : (size_t)STEM_MAX;
	size_t len = strlen(entry);

	return len == 2 + stem + NUMBER_LEN + strlen(PARTIAL_SUFFIX) && *entry == '.' &&
	       !memcmp(entry + 1, name, stem) && entry[1 + stem] == '.' &&
	       strspn(entry + 2 + stem, "0123456789abcdef") == NUMBER_LEN &&
	       !strcmp(entry + len - strlen(PARTIAL_SUFFIX), PARTIAL_SUFFIX);
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

char *new_file__find_partial(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char *dir_path = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
	DIR *dir = opendir(dir_path);
	const struct dirent *de;
	struct timespec newest = { 0 };
	char *found = NULL;

	while (dir && (de = readdir(dir))) {
		struct stat st;

		if (!is_partial_of(de->d_name, name) ||
		    fstatat(dirfd(dir), de->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(st.st_mode) || (found && is_before(&st.st_mtim, &newest)))
			continue;
		free(found);
		found = xasprintf("%s%s", slash ? dir_path : "", de->d_name);
		newest = st.st_mtim;
	}
	if (dir)
		closedir(dir);
	free(dir_path);
	return found;
}
