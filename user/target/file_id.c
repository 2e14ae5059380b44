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

#define OPENSSL_SUPPRESS_DEPRECATED /* the newer interface allocates, and without memory OpenSSL 3.0 crashes in it */
#include <openssl/sha.h>

#include "base/limits.h"
#include "base/sandbox.h"

#define CHUNK (1u << 20)
#define SETTLED_S 3 /* beyond the grain of any file system's times (FAT: 2 s) */

int file_id__get(int fd, struct file_id *id)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	*id = (struct file_id){ .dev = st.st_dev,
				.ino = st.st_ino,
				.size = (uint64_t)st.st_size,
				.mtime_s = st.st_mtim.tv_sec,
				.mtime_ns = st.st_mtim.tv_nsec,
				.ctime_s = st.st_ctim.tv_sec,
				.ctime_ns = st.st_ctim.tv_nsec };
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

struct hashing {
	int fd;
	uint64_t size;
};

static int hash_range(const struct hashing *h, uint8_t *buf)
{
	uint64_t off = 0;
	SHA256_CTX ctx;

	SHA256_Init(&ctx);
	while (off < h->size) {
		size_t want = h->size - off < CHUNK ? (size_t)(h->size - off) : CHUNK;
		ssize_t n = pread(h->fd, buf, want, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -ESTALE;
		SHA256_Update(&ctx, buf, (size_t)n);
		off += (uint64_t)n;
	}
	SHA256_Final(buf, &ctx);
	return 0;
}

/* Runs in a child, which can be left behind if the file's server does not answer. */
static int hash_all(void *arg, uint8_t **out, size_t *len)
{
	const struct hashing *h = arg;
	uint8_t *buf = malloc(CHUNK);
	int err = buf ? hash_range(h, buf) : -ENOMEM;

	*out = buf;
	*len = err ? 0 : FILE_HASH_SZ;
	return err;
}

int file_hash__get(int fd, uint64_t size, uint8_t hash[FILE_HASH_SZ])
{
	struct hashing h = { .fd = fd, .size = size };
	struct sandbox_job job = {
		.what = "a library",
		.fn = hash_all,
		.arg = &h,
		.fds = &h.fd,
		.fd_cnt = 1,
		.limits = { (uint64_t)LIMIT_HASH_MIB << 20, LIMIT_PLAN_CPU_S, LIMIT_PLAN_WALL_MS,
			    FILE_HASH_SZ },
	};
	uint8_t *out = NULL;
	size_t len = 0;
	int err;

	if (size > (uint64_t)LIMIT_ELF_FILE_MIB << 20)
		return -EFBIG;
	err = sandbox__run(&job, &out, &len);
	if (!err && len != FILE_HASH_SZ)
		err = -EIO;
	if (!err)
		memcpy(hash, out, FILE_HASH_SZ);
	free(out);
	return err;
}
