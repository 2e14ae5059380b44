/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See window_dir.h. */
#define LOG_DOMAIN "window_dir"
#include "sample/window_dir.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/containers.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/new_file.h"

#define LOG_MAX (16 << 20)
#define LOG_OLD WINDOW_LOG ".1"
#define LOG_TAIL (64 << 10)     /* of it that is read for the number of the last window */
#define LOG_LINE "{\"window\":" /* how a line begins */
#define NUMBER_MAX 1000000000000ULL
#define LOCK_WAIT_MS 5000 /* until an earlier ptbpf's window has ended */
#define FUTURE_NS 3600000000000ULL

/* Another ptbpf must not write there. 1: the file system has no locks. */
static int lock(int fd, const char *path)
{
	struct timespec step = { .tv_nsec = 50000000 };

	for (int ms = 0; flock(fd, LOCK_EX | LOCK_NB); ms += 50) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return 1;
		if (ms >= LOCK_WAIT_MS || cancel__pending())
			return -EBUSY;
		if (ms == 1000)
			pr_info("waiting for the last window of an earlier ptbpf in '%s'", path);
		nanosleep(&step, NULL);
	}
	return 0;
}

static const char *const suffixes[] = { ".ptb", ".pt.trace.json", ".pt.trace.json.gz",
					WINDOW_THREADS };
#define SUFFIXES (sizeof(suffixes) / sizeof(suffixes[0]))

uint64_t window_dir__free_ns(const struct window_dir *dir, pid_t pid, uint64_t ns)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < SUFFIXES; i++)
		while (!window_dir__name(dir, pid, ns, suffixes[i], path, sizeof(path)) &&
		       !faccessat(dir->fd, strrchr(path, '/') + 1, F_OK, AT_SYMLINK_NOFOLLOW)) {
			ns++;
			i = 0;
		}
	return ns;
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
				pr_warn("'%s/" WINDOW_LOG "' ends with a part of a line",
					dir->path);
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
	bool future;  /* the clock has been set back since then */
	bool partial; /* without its final name */
};

struct file_list {
	struct window_file *items;
	uint32_t cnt, cap;
	uint64_t bytes;
};

/* Is it HOST_PID.NS and a suffix of ours, or what was left of such a file by a killed process? */
static bool parse_name(const struct window_dir *dir, const char *name, struct window_file *f)
{
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
	f->ns = strtoull(name, &end, 10);
	f->partial = partial;
	for (size_t i = 0; i < SUFFIXES; i++) {
		size_t len = strlen(suffixes[i]);

		if (!strcmp(end, suffixes[i]) ||
		    (partial && !strncmp(end, suffixes[i], len) && end[len] == '.'))
			return true;
	}
	return false;
}

/* 0 or negative errno. */
static int list_files(const struct window_dir *dir, uint64_t now_ns, struct file_list *list)
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
	while ((de = readdir(d))) {
		struct window_file f = { .ns = 0 };
		struct stat st;

		if (!parse_name(dir, de->d_name, &f) ||
		    fstatat(dir->fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
			continue;
		snprintf(f.name, sizeof(f.name), "%s", de->d_name);
		f.bytes = (uint64_t)st.st_blocks * 512;
		f.future = f.ns > now_ns && f.ns - now_ns > FUTURE_NS;
		vec_push(list->items, list->cnt, list->cap, f);
		list->bytes += f.bytes;
	}
	closedir(d);
	return 0;
}

static int by_age(const void *a, const void *b)
{
	const struct window_file *x = a, *y = b;

	return x->future != y->future ? y->future - x->future : sort__cmp(x->ns, y->ns);
}

static bool is_kept(uint64_t ns, const uint64_t *keep_ns, uint32_t keep_cnt)
{
	for (uint32_t i = 0; i < keep_cnt; i++)
		if (keep_ns[i] == ns)
			return true;
	return false;
}

int window_dir__trim(const struct window_dir *dir, uint64_t max_bytes, uint64_t now_ns,
		     const uint64_t *keep_ns, uint32_t keep_cnt)
{
	struct file_list list = { .cnt = 0 };
	uint64_t last = 0;
	int err = list_files(dir, now_ns, &list), windows = 0;

	if (!err && list.cnt)
		qsort(list.items, list.cnt, sizeof(*list.items), by_age);
	for (uint32_t i = 0; !err && i < list.cnt; i++) {
		const struct window_file *f = &list.items[i];

		/* a window goes whole */
		if (f->ns == list.items[list.cnt - 1].ns ||
		    (list.bytes <= max_bytes && f->ns != last))
			break;
		if (is_kept(f->ns, keep_ns, keep_cnt))
			continue;
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

void window_dir__usage(const struct window_dir *dir, uint64_t *bytes, uint64_t *free_bytes)
{
	struct file_list list = { .cnt = 0 };
	struct statvfs st;

	*bytes = list_files(dir, UINT64_MAX, &list) ? 0 : list.bytes;
	*free_bytes = fstatvfs(dir->fd, &st) ? 0 : (uint64_t)st.f_bavail * st.f_frsize;
	free(list.items);
}

void window_dir__remove_partial(const struct window_dir *dir, uint64_t ns)
{
	struct file_list list = { .cnt = 0 };
	uint32_t removed = 0;

	if (!list_files(dir, 0, &list))
		for (uint32_t i = 0; i < list.cnt; i++)
			if (list.items[i].partial && (!ns || list.items[i].ns == ns))
				removed += !unlinkat(dir->fd, list.items[i].name, 0);
	if (removed)
		pr_info("removed %u incomplete file%s of windows that were killed from '%s'",
			removed, removed == 1 ? "" : "s", dir->path);
	free(list.items);
}

/* ---- what an earlier ptbpf left ---- */

/* The number after the largest of the lines; lines of others' are skipped. 0: there is none. */
static uint64_t after_lines(const char *text)
{
	uint64_t next = 0;

	for (const char *line = text; line; line = strchr(line, '\n')) {
		uint64_t nr;
		char *end;

		line += *line == '\n';
		if (strncmp(line, LOG_LINE, strlen(LOG_LINE)) != 0)
			continue;
		nr = strtoull(line + strlen(LOG_LINE), &end, 10);
		if (*end == ',' && nr < NUMBER_MAX && nr >= next)
			next = nr + 1;
	}
	return next;
}

/* Cuts off half a line at the end of a log, of which text begins at `from`; one that is longer than
 * that is ended. */
static int end_line(int fd, char *text, off_t from)
{
	char *last = strrchr(text, '\n');
	size_t len = last ? (size_t)(last + 1 - text) : 0;

	if (!text[len])
		return 0;
	if (!last && from)
		return pwrite(fd, "\n", 1, from + (off_t)strlen(text)) == 1 ? 0 : -errno;
	text[len] = '\0';
	return ftruncate(fd, from + (off_t)len) ? -errno : 0;
}

/* The last lines of a log; NULL: it is none. */
static char *read_tail(int fd)
{
	struct stat st;
	off_t from, got;
	char *text;
	int err;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_nlink != 1)
		return NULL;
	from = st.st_size > LOG_TAIL ? st.st_size - LOG_TAIL : 0;
	text = xcalloc(1, LOG_TAIL + 1);
	got = pread(fd, text, LOG_TAIL, from);
	if (got < 0) {
		free(text);
		return NULL;
	}
	for (off_t i = 0; i < got; i++)
		text[i] = text[i] ? text[i] : ' ';
	err = end_line(fd, text, from);
	if (err)
		pr_warn("half a line of '" WINDOW_LOG "' remains: %s", errstr(err));
	return text;
}

/* -1: none. */
static int64_t number_of(const cJSON *v)
{
	return cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble < (double)NUMBER_MAX ?
		       (int64_t)v->valuedouble :
		       -1;
}

static bool are_among(const cJSON *list, const pid_t *pids, uint32_t cnt)
{
	const cJSON *pid;
	uint32_t i;

	cJSON_ArrayForEach(pid, list)
	{
		for (i = 0; i < cnt && number_of(pid) != pids[i];)
			i++;
		if (i == cnt)
			return false;
	}
	return true;
}

/* The line of the last window that a schedule has; NULL: there is none. */
static cJSON *last_of_schedule(char *text)
{
	cJSON *last = NULL, *line;
	int64_t nr = -1, n;
	char *next;

	for (; text && *text; text = next) {
		next = strchr(text, '\n');
		if (next)
			*next++ = '\0';
		line = cJSON_ParseWithOpts(text, NULL, 1);
		n = number_of(cJSON_GetObjectItemCaseSensitive(line, "window"));
		if (n > nr && cJSON_GetObjectItemCaseSensitive(line, "schedule")) {
			cJSON_Delete(last);
			last = line;
			nr = n;
		} else {
			cJSON_Delete(line);
		}
	}
	return last;
}

uint64_t window_dir__cycles(const struct window_dir *dir, const char *schedule, const pid_t *pids,
			    uint32_t cnt)
{
	int fd = openat(dir->fd, WINDOW_LOG, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char *text = fd < 0 ? NULL : read_tail(fd);
	cJSON *last = last_of_schedule(text);
	const char *its = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(last, "schedule"));
	int64_t cycle = number_of(cJSON_GetObjectItemCaseSensitive(last, "cycle"));

	if (!its || strcmp(its, schedule) != 0 ||
	    (cnt && !are_among(cJSON_GetObjectItemCaseSensitive(last, "pids"), pids, cnt)))
		cycle = -1;
	cJSON_Delete(last);
	free(text);
	if (fd >= 0)
		close(fd);
	return (uint64_t)(cycle + 1);
}

/* Number of the next window. */
static uint64_t resume_log(const struct window_dir *dir)
{
	static const char *const names[] = { WINDOW_LOG, LOG_OLD };
	uint64_t next = 0;

	for (size_t i = 0; i < 2 && !next; i++) {
		int fd = openat(dir->fd, names[i], O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		char *text = fd < 0 ? NULL : read_tail(fd);

		if (text)
			next = after_lines(text);
		free(text);
		if (fd >= 0)
			close(fd);
	}
	return next;
}

int window_dir__open(const char *path, struct window_dir *dir)
{
	const char *reason = NULL;
	size_t len = strlen(path);
	int locked;

	while (len > 1 && path[len - 1] == '/')
		len--;
	dir->fd = len >= sizeof(dir->path) - 300 ? -ENAMETOOLONG : 0;
	if (!dir->fd) {
		snprintf(dir->path, sizeof(dir->path), "%.*s", (int)len, path);
		dir->fd = new_file__directory(dir->path, &reason);
	}
	if (dir->fd < 0) {
		pr_error("--dir '%s' cannot be used: %s", path, reason ? reason : errstr(dir->fd));
		return dir->fd;
	}
	locked = lock(dir->fd, path);
	if (locked < 0) {
		pr_error(
			"--dir '%s': another ptbpf sample writes windows there; use another directory",
			path);
		window_dir__close(dir);
		return locked;
	}
	if (gethostname(dir->host, sizeof(dir->host)))
		dir->host[0] = '\0';
	dir->host[sizeof(dir->host) - 1] = '\0';
	for (char *c = dir->host; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '-')
			*c = '_';
	dir->next_nr = resume_log(dir);
	if (!locked)
		window_dir__remove_partial(dir, 0);
	return 0;
}

void window_dir__close(struct window_dir *dir)
{
	if (dir->fd >= 0)
		close(dir->fd);
	dir->fd = -1;
}
