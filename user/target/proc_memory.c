/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Resident memory and faults of a process; see proc_memory.h. */
#include "target/proc_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/proc_maps.h"

#define STATUS_MAX 65536 /* bytes; a list of CPUs or groups may be long */

/* "Name:   123 kB" of a status text, in bytes; false when there is no such line. */
static bool status_kb(const char *text, const char *name, uint64_t *bytes)
{
	const char *line = strstr(text, name);
	uint64_t kb;

	if (!line || sscanf(line + strlen(name), "%" SCNu64 " kB", &kb) != 1)
		return false;
	*bytes = kb * 1024;
	return true;
}

static int read_status(pid_t pid, struct proc_memory *out)
{
	static const char *const names[PTB_RSS_KINDS] = {
		[PTB_RSS_FILE] = "\nRssFile:",
		[PTB_RSS_ANON] = "\nRssAnon:",
		[PTB_RSS_SWAP] = "\nVmSwap:",
		[PTB_RSS_SHMEM] = "\nRssShmem:",
	};
	char path[64], *text;
	size_t len;
	bool ok;
	int err, i;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	err = proc_file__read(path, STATUS_MAX, &text, &len);
	if (err)
		return err == -ENOENT ? -ESRCH : err;
	ok = status_kb(text, "\nVmSize:", &out->vm_bytes);
	for (i = 0; i < PTB_RSS_KINDS && ok; i++)
		ok = status_kb(text, names[i], &out->rss[i]) || i == PTB_RSS_SWAP;
	free(text);
	return ok ? 0 : -ESRCH; /* a process that ends loses its memory before its number */
}

static int read_faults(pid_t pid, struct proc_memory *out)
{
	char path[64], *text, *p;
	size_t len;
	bool ok;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	err = proc_file__read(path, STATUS_MAX, &text, &len);
	if (err)
		return err == -ENOENT ? -ESRCH : err;
	p = strrchr(text, ')'); /* the name may hold anything */
	ok = p && sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %" SCNu64,
			 &out->minor, &out->major) == 2;
	free(text);
	return ok ? 0 : -EPROTO;
}

int proc_memory__code(pid_t pid, uint64_t *bytes)
{
	uint64_t exe = 0, lib = 0;
	char path[64], *text;
	size_t len;
	bool ok;
	int err;

	*bytes = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	err = proc_file__read(path, STATUS_MAX, &text, &len);
	if (err)
		return err == -ENOENT ? -ESRCH : err;
	ok = status_kb(text, "\nVmExe:", &exe) && status_kb(text, "\nVmLib:", &lib);
	free(text);
	*bytes = exe + lib;
	return ok ? 0 : -ESRCH;
}

int proc_memory__read(pid_t pid, struct proc_memory *out)
{
	int err;

	*out = (struct proc_memory){ 0 };
	err = read_status(pid, out);
	return err ? err : read_faults(pid, out);
}
