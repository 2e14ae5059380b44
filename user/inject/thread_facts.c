/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Parses /proc/PID/task/TID/{syscall,limits} (Linux fs/proc/array.c, base.c) and the anonymous
 * parts of maps. */
#include "inject/inject_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc_read.h"
#include "target/proc_info.h"

static bool is_pipe(pid_t pid, uint64_t fd)
{
	char path[64], to[16];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, (int)fd);
	return readlink(path, to, sizeof(to)) > 6 && !strncmp(to, "pipe:[", 6);
}

bool thread_facts__call(pid_t pid, pid_t tid, struct blocked_call *out)
{
	char *text;
	size_t len;
	int n;

	memset(out, 0, sizeof(*out));
	out->nr = -1;
	if (proc_file__read(pid, tid, "syscall", &text, &len))
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
	size_t len;

	/* prlimit() needs CAP_SYS_RESOURCE for another user's process, this does not */
	if (proc_file__read(pid, 0, "limits", &text, &len))
		return sm->start;
	sscanf(proc_file__field(text, "\nMax stack size"), "%" SCNu64, &limit);
	free(text);
	if (limit < sm->end && sm->end - limit > floor)
		floor = sm->end - limit;
	return floor < sm->start ? floor : sm->start;
}

bool thread_facts__stack(pid_t pid, uint64_t addr, struct stack_map *out)
{
	char perms[5], *text;
	const char *line, *next;
	uint64_t below = 0;
	bool found = false;
	size_t len;

	if (proc_file__read(pid, 0, "maps", &text, &len))
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
