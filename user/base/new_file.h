/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Files that ptbpf writes: created under a random name in the directory where they belong, mode
 * 0600, and renamed when they are complete. An older file of that name stays until then.
 *
 * Links: a directory may belong to a user with fewer privileges than ptbpf, whose link could lead
 * it anywhere. A link is followed, and a device or pipe is opened, only where no one but root and
 * the effective user can have put it: in a directory that they own and others cannot write to,
 * reached through such directories. In a sticky directory of theirs (/tmp) the link itself must be
 * theirs, too. The walk opens one component at a time relative to the directory before it, so
 * nothing can change between the check and the use.
 *
 * Owner: under sudo the file belongs to the user who called it (SUDO_UID, SUDO_GID).
 *
 * Disk: the bytes are synced (fsync) before the new file replaces an older one, so that a power cut
 * leaves one of the two complete. A file under a new name is left to the kernel's own write-back.
 *
 * A process that is killed leaves `.NAME.0123456789abcdef.partial` beside NAME; nothing removes it.
 * One that ends because memory is exhausted (base/mem.h) leaves only what is readable as far as it
 * goes.
 */
#ifndef BASE_NEW_FILE_H
#define BASE_NEW_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct new_file;

enum new_file_kind {
	NEW_FILE_REGULAR, /* nothing but a regular file */
	NEW_FILE_ANY,     /* or an existing device or pipe, which is written in place */
	NEW_FILE_MEMORY,  /* in memory: it has no name and goes with its last descriptor */
};

/* 0 or negative errno, with a sentence logged that names the path and the reason. path: of one in
 * memory for messages. */
int new_file__open(const char *path, enum new_file_kind kind, struct new_file **out);
/* Could it be opened? The same sentences; nothing is created. */
int new_file__check(const char *path, enum new_file_kind kind);

/*
 * A directory for files of ptbpf's own: opened, or created with mode 0700, by the same rules for
 * links. Refused where others can write, or can put another directory in place of one in its path:
 * those who may are root, the effective user and the one who called sudo, to whom a new one
 * belongs. Its descriptor, or negative errno: *reason has a sentence, NULL: errno says it.
 */
int new_file__directory(const char *path, const char **reason);

/* for reading and writing, of a device or pipe for writing; nf keeps it */
int new_file__fd(const struct new_file *nf);
/* Writes all of it to a file that is open: 0, or negative errno. */
int new_file__write(int fd, const void *data, size_t len);
/* The regular file that has the name now, for reading: a descriptor that the caller closes,
 * -ENOENT, or another negative errno. */
int new_file__old(const struct new_file *nf);
/* Where the bytes are until the commit. */
const char *new_file__partial(const struct new_file *nf);

/* Closes the file and gives it its name. On an error, which is logged, the bytes are still at the
 * partial name. */
int new_file__commit(struct new_file *nf);
/* What has been written can be used without the rest: the partial file stays when memory is
 * exhausted. */
void new_file__is_readable(struct new_file *nf);
/* The partial file stays when nf is freed. */
void new_file__keep(struct new_file *nf);
/* Removes what was neither committed nor kept. NULL is fine. */
void new_file__free(struct new_file *nf);

/* The user who called sudo. False: nobody did. */
bool new_file__caller(uint32_t *uid, uint32_t *gid);
/* Under sudo the open file or directory, of that path, becomes the property of the user who called
 * it. */
void new_file__give_to_caller(int fd, const char *path);

/* Path of a partial file that a killed process left for `path`, the newest; to be freed. NULL:
 * there is none. */
char *new_file__find_partial(const char *path);

#endif /* BASE_NEW_FILE_H */
