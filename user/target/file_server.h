/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which process serves a file. A file system of FUSE is served by a process, which may never answer: a call that opens,
 * reads or stats a file there waits for it, where not even SIGKILL helps, and the kernel reads a page of a library while it
 * places a probe, with every fork on the machine waiting. Nothing here sends a request to such a server. An overlay hides what
 * is below it, so one that a user can have mounted counts as served by that user.
 */
#ifndef TARGET_FILE_SERVER_H
#define TARGET_FILE_SERVER_H

#include <sys/types.h>

enum file_server_rule {
	FILE_SERVER_KERNEL, /* nothing that a process or another machine serves */
	FILE_SERVER_ROOTS,  /* or one that only root can have mounted: NFS, FUSE of root's */
};

/* The file of a descriptor, O_PATH or not, that was found through process pid. 0; -EXDEV: the rule forbids it; -ELOOP: it
 * is a symbolic link; another negative errno. */
int file_server__check(int fd, pid_t pid, enum file_server_rule rule);

/*
 * A descriptor (O_PATH, close-on-exec) of what is at an absolute path in the root directory of process pid; no symbolic
 * link is followed, and no directory is entered that the rule forbids. Negative errno: -ELOOP, -ENOTDIR: there is a link
 * on the way; -EXDEV: the file, or a directory on the way, is forbidden.
 */
int file_server__open(pid_t pid, const char *path, enum file_server_rule rule);

#endif /* TARGET_FILE_SERVER_H */
