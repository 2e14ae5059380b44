/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Parses /proc/PID/task/TID/{status,syscall,limits} (Linux fs/proc/array.c, base.c) and the anonymous parts of
 * maps. */
#include "inject/thread_facts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/proc_maps.h"

#define STATUS_MAX 65536
#define MAPS_MAX (64u << 20)

static int read_task_file(pid_t pid, pid_t tid, const char *name, char **text)
{
	char path[80];
	size_t len;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid ? tid : pid, name);
	err = proc_file__read(path, STATUS_MAX, text, &len);
	return err == -ENOENT ? -ESRCH : err;
}

static const char *field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? at + strlen(name) : "";
}

int thread_facts__status(pid_t pid, pid_t tid, struct thread_status *out)
{
	char *text, *end;
	const char *num;
	int err = read_task_file(pid, tid, "status", &text);

	if (err)
		return err;
	memset(out, 0, sizeof(*out));
	sscanf(field(text, "\nState:"), " %c", &out->state);
	sscanf(field(text, "\nTracerPid:"), "%d", &out->tracer);
	for (num = field(text, "\nNSpid:"); *num == '\t' || *num == ' '; num = end)
		out->ns_pid = (pid_t)strtol(num, &end, 10); /* one for each namespace, the innermost last */
	sscanf(field(text, "\nSeccomp:"), "%" SCNu32, &out->seccomp);
	sscanf(field(text, "\nSeccomp_filters:"), "%" SCNu32, &out->filters);
	sscanf(field(text, "\nUid:"), "%*u %*u %*u %" SCNu32, &out->uid);
	sscanf(field(text, "\nGid:"), "%*u %*u %*u %" SCNu32, &out->gid);
	out->pending = strtoull(field(text, "\nSigPnd:"), NULL, 16) |
		       strtoull(field(text, "\nShdPnd:"), NULL, 16);
	out->blocked = strtoull(field(text, "\nSigBlk:"), NULL, 16);
	out->shadow_stack = !strncmp(field(text, "\nx86_Thread_features:"), "\tshstk", 6) ||
			    strstr(field(text, "\nx86_Thread_features:"), "shstk ");
	free(text);
	return 0;
}

static bool is_pipe(pid_t pid, uint64_t fd)
{
	char path[64], to[16];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, (int)fd);
	return readlink(path, to, sizeof(to)) > 6 && !strncmp(to, "pipe:[", 6);
}

bool thread_facts__call(pid_t pid, pid_t tid, struct blocked_call *out)
{
	char *text;
	int n;

	memset(out, 0, sizeof(*out));
	out->nr = -1;
	if (read_task_file(pid, tid, "syscall", &text))
		return false;
	n = sscanf(text, "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64,
		   &out->nr, &out->args[0], &out->args[1], &out->args[2], &out->args[3],
		   &out->args[4], &out->args[5]);
	if (n < 7)
		out->nr = -1;
	else
		out->on_pipe = is_pipe(pid, out->args[0]);
	n = n >= 7 || n == 3 || !strncmp(text, "running", 7);
	free(text);
	return n;
}

/* The kernel keeps 256 pages free below a stack that grows (Linux mm/mmap.c, stack_guard_gap). */
#define GUARD_GAP (256u * 4096)

static uint64_t grows_to(pid_t pid, const struct stack_map *sm, uint64_t below)
{
	uint64_t floor = below + GUARD_GAP, limit = UINT64_MAX; /* "unlimited" */
	char *text;

	/* prlimit() needs CAP_SYS_RESOURCE for another user's process, this does not */
	if (read_task_file(pid, 0, "limits", &text))
		return sm->start;
	sscanf(field(text, "\nMax stack size"), "%" SCNu64, &limit);
	free(text);
	if (limit < sm->end && sm->end - limit > floor)
		floor = sm->end - limit;
	return floor < sm->start ? floor : sm->start;
}

bool thread_facts__stack(pid_t pid, uint64_t addr, struct stack_map *out)
{
	char path[64], perms[5], *text;
	const char *line, *next;
	uint64_t below = 0;
	bool found = false;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	if (proc_file__read(path, MAPS_MAX, &text, &len))
		return false;
	for (line = text; line && *line && !found; line = next) {
		next = strchr(line, '\n');
		next = next ? next + 1 : NULL;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &out->start, &out->end, perms) != 3)
			break;
		found = addr >= out->start && addr < out->end;
		if (!found)
			below = out->end;
	}
	found = found && !strncmp(perms, "rw", 2);
	out->floor = out->start;
	if (found && next && next - text > 9 && !memcmp(next - 9, " [stack]\n", 9))
		out->floor = grows_to(pid, out, below);
	free(text);
	return found;
}
