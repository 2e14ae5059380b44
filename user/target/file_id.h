/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which file an open file is, and what is in it. The identity changes whenever somebody writes the file, puts
 * another one in its place or touches its inode, but for writes through a shared mapping, which may show in it
 * later; the hash is of every byte. Neither is of any use for a name, only for a descriptor.
 */
#ifndef TARGET_FILE_ID_H
#define TARGET_FILE_ID_H

#include <stdbool.h>
#include <stdint.h>

#define FILE_HASH_SZ 32

struct file_id { /* without padding: compared and hashed as bytes */
	uint64_t dev, ino, size;
	int64_t mtime_s, mtime_ns, ctime_s, ctime_ns;
};

/* 0 or negative errno. */
int file_id__get(int fd, struct file_id *id);
bool file_id__same(const struct file_id *a, const struct file_id *b);
/* Nobody can have written the file again since without another identity: its times lie so far back that a write
 * now gets other ones. */
bool file_id__settled(const struct file_id *id);

/*
 * SHA-256 of the first size bytes: of everything that the analysis may read. 0; -EFBIG: beyond LIMIT_ELF_FILE_MIB;
 * -ESTALE: the file is shorter by now; -ECANCELED: a signal is pending; another negative errno. A
 * child reads it (base/sandbox.h).
 */
int file_hash__get(int fd, uint64_t size, uint8_t hash[FILE_HASH_SZ]);

#endif /* TARGET_FILE_ID_H */
