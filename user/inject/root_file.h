/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Files by the names that a process has for them: in its root directory and mount namespace, where no link of
 * its making leads out. */
#ifndef INJECT_ROOT_FILE_H
#define INJECT_ROOT_FILE_H

#include <sys/types.h>

/* A descriptor (close-on-exec) or negative errno. With O_CREAT the file gets mode 0600. */
int root_file__open(pid_t pid, const char *path, int flags);
int root_file__unlink(pid_t pid, const char *path); /* 0 or negative errno */

#endif /* INJECT_ROOT_FILE_H */
