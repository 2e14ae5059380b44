/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Temporary files in the root directory and mount namespace of a process. No symbolic link is followed, and no file
 * system that a process or another machine serves is entered (target/file_server.h).
 */
#ifndef INJECT_ROOT_FILE_H
#define INJECT_ROOT_FILE_H

#include <stdbool.h>
#include <sys/types.h>

enum root_temp_use {
	ROOT_TEMP_CODE,   /* a library, mapped by the process: not where code may not be mapped */
	ROOT_TEMP_SCRIPT, /* a text, read by the process */
	ROOT_TEMP_ANSWER, /* written by the process */
};

struct root_temp {
	char path[320]; /* as the process names it */
	int fd;         /* for reading and writing; -1: closed */
	int dir;        /* the directory */
	bool exists;
};

#define ROOT_TEMP_NONE                                                                             \
	{                                                                                          \
		.fd = -1, .dir = -1                                                                \
	}

/* Writes the content of a new file. 0 or negative errno. */
typedef int (*root_temp_fill_fn)(void *arg, int fd);

/*
 * A new file in one of the directories for temporary files, with a new random name:
 * STEM-NUMBERSUFFIX, and what fill writes. What the process executes or reads belongs to root, or where only users of
 * its user namespace own files to the root of that, in a directory of the same root: no other process of its user can
 * write to it or put another file in its place. An answer belongs to the process's user. fill: NULL for an empty file.
 * 0, or negative errno of the last directory that was tried.
 */
int root_temp__create(pid_t pid, const char *stem, const char *suffix, enum root_temp_use use,
		      root_temp_fill_fn fill, void *arg, struct root_temp *out);
void root_temp__remove(struct root_temp *t); /* also closes it */

#endif /* INJECT_ROOT_FILE_H */
