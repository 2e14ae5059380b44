/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Threads, children, names and states of processes, from /proc. */

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vec.h"
#include "target/proc_info.h"
#include "target/proc_maps.h"

#define PROC_TEXT_MAX (4u << 20)

struct pid_list {
	pid_t *pids;
	uint32_t cnt, cap;
};

static int pid_list__add(struct pid_list *list, pid_t pid)
{
	if (vec_reserve((void **)&list->pids, &list->cap, list->cnt + 1ULL, sizeof(*list->pids)))
		return -ENOMEM;
	list->pids[list->cnt++] = pid;
	return 0;
}

/* Names of a directory that are numbers. */
static int list_numbers(const char *path, struct pid_list *list)
{
	struct dirent *de;
	DIR *dir = opendir(path);
	char *end;
	long v;
	int err = 0;

	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while (!err && (de = readdir(dir))) {
		v = strtol(de->d_name, &end, 10);
		if (v > 0 && v <= INT32_MAX && !*end)
			err = pid_list__add(list, (pid_t)v);
	}
	closedir(dir);
	return err;
}

static int finish_list(struct pid_list *list, int err, pid_t **out)
{
	if (err) {
		free(list->pids);
		*out = NULL;
		return err;
	}
	*out = list->pids;
	return (int)list->cnt;
}

int proc__threads(pid_t pid, pid_t **tids)
{
	struct pid_list list = { 0 };
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	err = list_numbers(path, &list);
	if (!err && !list.cnt)
		err = -ESRCH;
	return finish_list(&list, err, tids);
}

/*
 * The fields of /proc/PID/stat behind the name, which may hold blanks and parentheses: state
 * letter, parent, flags. False when there is no such process.
 */
static bool read_stat(pid_t pid, char *state, pid_t *ppid, unsigned int *flags)
{
	char path[64], *text, *p;
	size_t len;
	bool ok;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (proc_file__read(path, PROC_TEXT_MAX, &text, &len))
		return false;
	p = strrchr(text, ')');
	ok = p && sscanf(p + 1, " %c %d %*d %*d %*d %*d %u", state, ppid, flags) == 3;
	free(text);
	return ok;
}

/* Kernels without CONFIG_PROC_CHILDREN: whoever names pid as its parent. */
static int children_by_parent(pid_t pid, struct pid_list *list)
{
	struct pid_list all = { 0 };
	unsigned int flags;
	uint32_t i;
	pid_t ppid;
	char state;
	int err = list_numbers("/proc", &all);

	for (i = 0; i < all.cnt && !err; i++)
		if (read_stat(all.pids[i], &state, &ppid, &flags) && ppid == pid)
			err = pid_list__add(list, all.pids[i]);
	free(all.pids);
	return err;
}

static int add_numbers(const char *text, struct pid_list *list)
{
	char *end;
	long v;
	int err = 0;

	for (; !err; text = end) {
		v = strtol(text, &end, 10);
		if (end == text)
			break;
		if (v > 0 && v <= INT32_MAX)
			err = pid_list__add(list, (pid_t)v);
	}
	return err;
}

int proc__children(pid_t pid, pid_t **pids)
{
	struct pid_list list = { 0 };
	char path[96], *text;
	bool supported = false;
	pid_t *tids;
	size_t len;
	int i, n, err = 0;

	*pids = NULL;
	n = proc__threads(pid, &tids);
	if (n < 0)
		return n;
	for (i = 0; i < n && !err; i++) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, tids[i]);
		if (proc_file__read(path, PROC_TEXT_MAX, &text, &len))
			continue; /* that thread ended, or the kernel has no such file */
		supported = true;
		err = add_numbers(text, &list);
		free(text);
	}
	free(tids);
	if (!supported)
		err = children_by_parent(pid, &list);
	return finish_list(&list, err, pids);
}

int proc__comm(pid_t pid, pid_t tid, char buf[16])
{
	char path[96], *text;
	size_t len;
	int err;

	buf[0] = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid ? tid : pid);
	err = proc_file__read(path, PROC_TEXT_MAX, &text, &len);
	if (err)
		return err == -ENOENT ? -ESRCH : err;
	if (len && text[len - 1] == '\n')
		text[--len] = 0;
	snprintf(buf, 16, "%s", text);
	free(text);
	return 0;
}

int proc__env(pid_t pid, const char *name, char *buf, size_t cap)
{
	size_t len, at, n = strlen(name);
	char path[64], *text;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	err = proc_file__read(path, PROC_TEXT_MAX, &text, &len); /* ends in a NUL of its own */
	if (err)
		return err == -ENOENT ? -ESRCH : err;
	err = -ENOENT;
	for (at = 0; at < len && err; at += strlen(text + at) + 1)
		if (!strncmp(text + at, name, n) && text[at + n] == '=')
			err = (size_t)snprintf(buf, cap, "%s", text + at + n + 1) < cap ? 0 : -ENAMETOOLONG;
	free(text);
	return err;
}

char proc__state(pid_t pid)
{
	unsigned int flags;
	pid_t ppid;
	char state;

	return read_stat(pid, &state, &ppid, &flags) ? state : 0;
}

bool proc_info__is_kthread(pid_t pid)
{
	const unsigned int pf_kthread = 0x00200000; /* linux/sched.h PF_KTHREAD */
	unsigned int flags;
	pid_t ppid;
	char state;

	return read_stat(pid, &state, &ppid, &flags) && (flags & pf_kthread);
}

pid_t proc_info__tgid(pid_t pid)
{
	char path[64], *text, *line;
	pid_t tgid = 0;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (proc_file__read(path, PROC_TEXT_MAX, &text, &len))
		return 0;
	line = strstr(text, "\nTgid:");
	if (!line || sscanf(line, "\nTgid: %d", &tgid) != 1)
		tgid = 0;
	free(text);
	return tgid;
}

/* The last number of a status text's NSpid line: the thread's own in its innermost namespace. */
static pid_t innermost_tid(pid_t pid, pid_t tid)
{
	char path[64], *text, *line, *end;
	pid_t last = 0;
	size_t len;
	long v;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	if (proc_file__read(path, PROC_TEXT_MAX, &text, &len))
		return 0;
	line = strstr(text, "\nNSpid:");
	for (line = line ? line + 7 : NULL; line; line = end) {
		while (*line == ' ' || *line == '\t')
			line++;
		v = strtol(line, &end, 10);
		if (end == line)
			break;
		last = (pid_t)v;
	}
	free(text);
	return last;
}

int proc__tid_of_ns(pid_t pid, pid_t ns_tid, pid_t *tid)
{
	pid_t *tids = NULL;
	int n = proc__threads(pid, &tids), i, err = -ESRCH;

	for (i = 0; i < n && err; i++)
		if (innermost_tid(pid, tids[i]) == ns_tid) {
			*tid = tids[i];
			err = 0;
		}
	free(tids);
	return err;
}

bool proc__same_pidns(pid_t pid)
{
	struct stat own, other;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	return !stat("/proc/self/ns/pid", &own) && !stat(path, &other) &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

char *proc_info__exe_name(pid_t pid)
{
	static const char suffix[] = " (deleted)";
	char path[64], target[4096], *base;
	ssize_t n;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = 0;
	base = strrchr(target, '/');
	base = base ? base + 1 : target;
	len = strlen(base);
	if (len > sizeof(suffix) - 1 && !strcmp(base + len - (sizeof(suffix) - 1), suffix))
		base[len - (sizeof(suffix) - 1)] = 0;
	return strdup(base);
}

char *proc_info__cmdline(pid_t pid)
{
	char path[64], text[4097];
	ssize_t i, n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n < 0)
		n = 0;
	while (n && !text[n - 1])
		n--;
	for (i = 0; i < n; i++) {
		if (!text[i])
			text[i] = ' ';
		else if (iscntrl((unsigned char)text[i])) /* it is shown on terminals */
			text[i] = '?';
	}
	text[n] = 0;
	return strdup(text);
}
