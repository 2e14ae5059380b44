/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * See elf.h. The hash has to resist those who choose the file, so it is a cryptographic one.
 * Measured on libtorch_cpu of the wheel 2.15.0 (448 MB, in the page cache): SHA-256 0.25 s with the
 * processor's SHA instructions and about 1 s without, BLAKE2b 0.46 s with either.
 */
#include "target/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/major.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

/* the newer interface allocates, and without memory OpenSSL 3.0 crashes in it */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/sandbox.h"

#define CHUNK (1u << 20)
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000U
#endif
#define SETTLED_S 3 /* beyond the grain of any file system's times (FAT: 2 s) */

static bool is_disk(unsigned int major)
{
	return major != UNNAMED_MAJOR && major != LOOP_MAJOR;
}

int file_id__get(int fd, struct file_id *id)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID_UNIQUE, &st))
		return -errno;
	if (!S_ISREG(st.stx_mode))
		return -ENOEXEC;
	*id = (struct file_id){ .dev = makedev(st.stx_dev_major, st.stx_dev_minor),
				.ino = st.stx_ino,
				.size = st.stx_size,
				.mount = !is_disk(st.stx_dev_major) &&
							 st.stx_mask & STATX_MNT_ID_UNIQUE ?
						 st.stx_mnt_id :
						 0,
				.mtime_s = st.stx_mtime.tv_sec,
				.mtime_ns = st.stx_mtime.tv_nsec,
				.ctime_s = st.stx_ctime.tv_sec,
				.ctime_ns = st.stx_ctime.tv_nsec };
	return 0;
}

bool file_id__same(const struct file_id *a, const struct file_id *b)
{
	return !memcmp(a, b, sizeof(*a));
}

bool file_id__is_lasting(const struct file_id *id)
{
	time_t now = time(NULL);

	return (id->mount || is_disk(major(id->dev))) && id->mtime_s + SETTLED_S <= now &&
	       id->ctime_s + SETTLED_S <= now;
}

struct hashing {
	int fds[2]; /* the file, the copy */
	uint64_t size;
};

static bool is_zero(const uint8_t *buf, size_t len)
{
	return !buf[0] && !memcmp(buf, buf + 1, len - 1);
}

/* copy: NULL or of the whole size. A hole of the file stays one, so that a copy takes no more
 * memory than the file takes space. */
static int hash_range(const struct hashing *h, uint8_t *buf, uint8_t *copy)
{
	uint64_t off = 0;
	SHA256_CTX ctx;

	SHA256_Init(&ctx);
	while (off < h->size) {
		size_t want = h->size - off < CHUNK ? (size_t)(h->size - off) : CHUNK;
		ssize_t n = pread(h->fds[0], buf, want, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -ESTALE;
		SHA256_Update(&ctx, buf, (size_t)n);
		if (copy && !is_zero(buf, (size_t)n))
			memcpy(copy + off, buf, (size_t)n);
		off += (uint64_t)n;
	}
	SHA256_Final(buf, &ctx);
	return 0;
}

/* Runs in a child, which can be left behind if the file's server does not answer. */
static int hash_all(void *arg, uint8_t **out, size_t *len)
{
	const struct hashing *h = arg;
	uint8_t *buf = xmalloc(CHUNK), *copy = NULL;
	int err = 0;

	if (h->fds[1] >= 0 && h->size) {
		copy = mmap(NULL, h->size, PROT_READ | PROT_WRITE, MAP_SHARED, h->fds[1], 0);
		err = copy == MAP_FAILED ? -errno : 0;
	}
	if (!err)
		err = hash_range(h, buf, copy);
	*out = buf;
	*len = err ? 0 : FILE_HASH_SZ;
	return err;
}

void bytes_hash__get(const void *data, size_t len, uint8_t hash[FILE_HASH_SZ])
{
	SHA256_CTX ctx;

	SHA256_Init(&ctx);
	SHA256_Update(&ctx, data, len);
	SHA256_Final(hash, &ctx);
}

int file_hash__get(int fd, uint64_t size, int copy, uint8_t hash[FILE_HASH_SZ])
{
	struct hashing h = { .fds = { fd, copy }, .size = size };
	struct sandbox_job job = {
		.what = "a library",
		.fn = hash_all,
		.arg = &h,
		.fds = h.fds,
		.fd_cnt = copy < 0 ? 1 : 2,
		.limits = { ((uint64_t)LIMIT_HASH_MIB << 20) + (copy < 0 ? 0 : size),
			    LIMIT_PLAN_CPU_S, LIMIT_PLAN_WALL_MS, FILE_HASH_SZ },
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
