/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See proc_select.h. */
#include "sample/proc_select.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sort.h"
#include "target/proc_info.h"
#include "target/torch_proc.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

/* Is path the group, or below it? */
static bool is_below(const char *group, const char *path, size_t path_len)
{
	size_t len;

	if (!strncmp(group, CGROUP_ROOT, strlen(CGROUP_ROOT)))
		group += strlen(CGROUP_ROOT);
	for (len = strlen(group); len && group[len - 1] == '/';)
		len--;
	if (*group && *group != '/') { /* without the slash at its beginning */
		path++;
		path_len -= path_len > 0;
	}
	return path_len >= len && !memcmp(group, path, len) && (path_len == len || path[len] == '/');
}

/* Any of its hierarchies. */
static bool is_in_cgroup(pid_t pid, const char *group)
{
	char *text = NULL;
	const char *at;
	struct proc_cgroup cg;
	size_t len;
	bool found = false;

	if (proc_file__read(pid, 0, "cgroup", &text, &len))
		return false;
	for (at = text; !found && proc_cgroup__next(&at, &cg);)
		found = is_below(group, cg.path, cg.len);
	free(text);
	return found;
}

static bool matches(const struct proc_select *sel, pid_t pid)
{
	char comm[16];

	if (sel->comm && (proc__comm(pid, 0, comm) || fnmatch(sel->comm, comm, 0) != 0))
		return false;
	return !sel->cgroup || is_in_cgroup(pid, sel->cgroup);
}

static bool has_torch(pid_t pid)
{
	return pid != getpid() && torch_proc__peek(pid) > 0;
}

static int by_pid(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return sort__cmp((uint64_t)*x, (uint64_t)*y);
}

int proc_select__find(const struct proc_select *sel, pid_t *pids, uint32_t cap, uint32_t *over)
{
	DIR *d = opendir("/proc");
	struct dirent *de;
	uint32_t cnt = 0;

	*over = 0;
	if (!d)
		return -errno;
	while ((de = readdir(d))) {
		pid_t pid = (pid_t)strtol(de->d_name, NULL, 10);

		if (pid <= 0 || !matches(sel, pid) || !has_torch(pid))
			continue;
		if (cnt < cap)
			pids[cnt++] = pid;
		else
			++*over;
	}
	closedir(d);
	qsort(pids, cnt, sizeof(*pids), by_pid);
	return (int)cnt;
}

bool proc_select__leaves_out(const struct proc_select *sel)
{
	DIR *d = sel->comm || sel->cgroup ? opendir("/proc") : NULL;
	struct dirent *de;
	bool found = false;

	while (d && !found && (de = readdir(d))) {
		pid_t pid = (pid_t)strtol(de->d_name, NULL, 10);

		found = pid > 0 && !matches(sel, pid) && has_torch(pid);
	}
	if (d)
		closedir(d);
	return found;
}

uint32_t proc_select__turn(pid_t *pids, uint32_t cnt, uint32_t limit, pid_t *last)
{
	pid_t next[PROC_SELECT_MAX];
	uint32_t first = 0;

	if (cnt <= limit || limit > PROC_SELECT_MAX)
		return cnt;
	while (first < cnt && pids[first] <= *last)
		first++;
	for (uint32_t i = 0; i < limit; i++)
		next[i] = pids[(first + i) % cnt];
	memcpy(pids, next, limit * sizeof(*pids));
	*last = limit ? next[limit - 1] : *last;
	qsort(pids, limit, sizeof(*pids), by_pid);
	return limit;
}
