/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * See file_id.h. The hash has to resist those who choose the file, so it is a cryptographic one. Measured on
 * libtorch_cpu of the wheel 2.15.0 (448 MB, in the page cache): SHA-256 0.25 s with the processor's SHA
 * instructions and about 1 s without, BLAKE2b 0.46 s with either.
 */
#include "target/file_id.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/cancel.h"
#include "base/limits.h"

#define CHUNK	  (1u << 20)
#define SETTLED_S 3 /* beyond the grain of any file system's times (FAT: 2 s) */

int file_id__get(int fd, struct file_id *id)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	*id = (struct file_id){ .dev = st.st_dev, .ino = st.st_ino, .size = (uint64_t)st.st_size,
				.mtime_s = st.st_mtim.tv_sec, .mtime_ns = st.st_mtim.tv_nsec,
				.ctime_s = st.st_ctim.tv_sec, .ctime_ns = st.st_ctim.tv_nsec };
	return 0;
}

bool file_id__same(const struct file_id *a, const struct file_id *b)
{
	return !memcmp(a, b, sizeof(*a));
}

bool file_id__settled(const struct file_id *id)
{
	time_t now = time(NULL);

	return id->mtime_s + SETTLED_S <= now && id->ctime_s + SETTLED_S <= now;
}

static int hash_range(EVP_MD_CTX *ctx, int fd, uint64_t size)
{
	uint8_t *buf = malloc(CHUNK);
	uint64_t off = 0;
	int err = buf ? 0 : -ENOMEM;

	while (!err && off < size) {
		size_t want = size - off < CHUNK ? (size_t)(size - off) : CHUNK;
		ssize_t n = pread(fd, buf, want, (off_t)off);

		if (cancel__pending())
			err = -ECANCELED;
		else if (n < 0)
			err = errno == EINTR ? 0 : -errno;
		else if (!n)
			err = -ESTALE;
		else if (!EVP_DigestUpdate(ctx, buf, (size_t)n))
			err = -EIO;
		if (n > 0)
			off += (uint64_t)n;
	}
	free(buf);
	return err;
}

int file_hash__get(int fd, uint64_t size, uint8_t hash[FILE_HASH_SZ])
{
	EVP_MD_CTX *ctx;
	int err;

	if (size > (uint64_t)LIMIT_ELF_FILE_MIB << 20)
		return -EFBIG;
	ctx = EVP_MD_CTX_new();
	if (!ctx)
		return -ENOMEM;
	err = EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) ? hash_range(ctx, fd, size) : -EIO;
	if (!err && !EVP_DigestFinal_ex(ctx, hash, NULL))
		err = -EIO;
	EVP_MD_CTX_free(ctx);
	return err;
}
