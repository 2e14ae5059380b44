/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Files by the names that a process has for them: in its root directory and mount namespace, where no link of
 * its making leads out. */
#ifndef INJECT_ROOT_FILE_H
#define INJECT_ROOT_FILE_H

#include <stdbool.h>
#include <sys/types.h>

/* A descriptor (close-on-exec) or negative errno. With O_CREAT the file gets mode 0600. */
int root_file__open(pid_t pid, const char *path, int flags);

struct root_temp {
	char path[320]; /* as the process names it */
	int fd;         /* for reading and writing; -1: closed */
	bool exists;
};

/*
 * A new file in one of the directories that a process has for such, with a name that nobody else has had:
 * STEM-NUMBERSUFFIX. It belongs to the process's user, as in a user namespace nothing else can. `exec`: where
 * code can be mapped from it. 0, or negative errno of the last directory that was tried.
 */
int root_temp__create(pid_t pid, const char *stem, const char *suffix, bool exec, struct root_temp *out);
void root_temp__remove(pid_t pid, struct root_temp *t); /* also closes it */

#endif /* INJECT_ROOT_FILE_H */
