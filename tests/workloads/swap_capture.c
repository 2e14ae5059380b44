/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Preloaded into ptbpf: replaces an output file at the moment when it gets its name, as another process could. After each
 * renameat() to NAME, NAME.other becomes NAME where there is one.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int renameat(int old_dir, const char *old, int new_dir,
						    const char *new);
int renameat(int old_dir, const char *old, int new_dir, const char *new)
{
	char other[PATH_MAX];
	int ret = (int)syscall(SYS_renameat, old_dir, old, new_dir, new);

	snprintf(other, sizeof(other), "%s.other", new);
	if (!ret)
		syscall(SYS_renameat, new_dir, other, new_dir, new);
	return ret;
}
