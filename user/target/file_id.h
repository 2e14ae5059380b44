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
	uint64_t mount; /* never given again; 0: not known, or the device is a disk, whose number says as much */
	int64_t mtime_s, mtime_ns, ctime_s, ctime_ns;
};

/* 0 or negative errno. */
int file_id__get(int fd, struct file_id *id);
bool file_id__same(const struct file_id *a, const struct file_id *b);
/*
 * Does the identity stand for this content as long as this process runs? A write now gets times other than those of the file, and
 * no other file gets the identity: the kernel gives a disk's number to nothing else. The numbers of overlays, memory, FUSE
 * and loop devices come again, with whatever inode and times the next owner likes; their files are known by the mount
 * (Linux 6.8), or nothing is remembered about them.
 */
bool file_id__is_lasting(const struct file_id *id);

/*
 * SHA-256 of the first size bytes: of everything that the analysis may read. copy: memory of that size (memfd_create())
 * which gets the bytes that are hashed; -1: none. 0; -EFBIG: beyond LIMIT_ELF_FILE_MIB;
 * -ESTALE: the file is shorter by now; -ECANCELED: a signal is pending; another negative errno. A
 * child reads it (base/sandbox.h), which does nothing else: no content of the file makes the hash another one.
 */
int file_hash__get(int fd, uint64_t size, int copy, uint8_t hash[FILE_HASH_SZ]);

#endif /* TARGET_FILE_ID_H */
