/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The identity and the content of an open file. The identity changes whenever the file is written or replaced, or its
 * inode changes; a write through a shared mapping may change it later. The hash is of every byte. Both are those of a
 * descriptor: a name may refer to another file by then.
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
/* Has a write to the file now another identity for certain? Its times are so old that a write gets different ones. */
bool file_id__settled(const struct file_id *id);

/*
 * SHA-256 of the first size bytes: of everything that the analysis may read. 0; -EFBIG: beyond LIMIT_ELF_FILE_MIB;
 * -ESTALE: the file is shorter by now; -ECANCELED: a signal is pending; another negative errno. A
 * child reads it (base/sandbox.h).
 */
int file_hash__get(int fd, uint64_t size, uint8_t hash[FILE_HASH_SZ]);

#endif /* TARGET_FILE_ID_H */
