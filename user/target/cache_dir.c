/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Files that only root can have written; see elf.h. */
#define LOG_DOMAIN "plan_cache"
#include "target/elf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPENSSL_SUPPRESS_DEPRECATED /* as in plan/plan_key.c */

#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

#define NAME_SZ (2 * FILE_HASH_SZ + 16)
#define BLOCK 4096ULL /* what a file takes at least */

/* A directory that others could read is closed; one that they could write may hold anything. */
static int check_dir(int fd, const char *path)
{
	static bool said;
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH))) {
		if (!said && !geteuid()) {
			pr_warn("the cache of plans is not used: %s is writable by users other "
				"than root",
				path);
			pr_hint("remove it, or restrict it to root: chown root, chmod 700");
		}
		said = true;
		return -EPERM;
	}
	if ((st.st_mode & 0777) != 0700 && fchmod(fd, 0700))
		return -errno;
	return 0;
}

int cache_dir__open(const char *path)
{
	int fd, err;

	if (!path)
		path = PLAN_CACHE_DIR;
	if (mkdir(path, 0700) && errno != EEXIST) {
		err = -errno;
		pr_debug("cannot create %s: %s", path, errstr(err));
		return err;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
		pr_debug("cannot open %s: %s", path, errstr(err));
		return err;
	}
	err = check_dir(fd, path);
	if (err)
		close(fd);
	return err ? err : fd;
}

static void file_name(const uint8_t *digest, const char *suffix, char name[NAME_SZ])
{
	for (size_t i = 0; i < FILE_HASH_SZ; i++)
		sprintf(name + 2 * i, "%02x", digest[i]);
	snprintf(name + 2 * FILE_HASH_SZ, NAME_SZ - 2 * FILE_HASH_SZ, "%s", suffix);
}

static int read_all(int fd, size_t max, uint8_t **out, size_t *len)
{
	uint8_t sum[FILE_HASH_SZ];
	struct stat st;
	ssize_t got;
	int err = 0;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != 0 || (st.st_mode & 07777) != 0600 ||
	    st.st_nlink != 1)
		return -EPERM;
	if (st.st_size < FILE_HASH_SZ || (uint64_t)st.st_size > max + FILE_HASH_SZ)
		return -EINVAL;
	*out = xmalloc((size_t)st.st_size + 1);
	for (*len = 0; !err && *len<(size_t)st.st_size; *len += got> 0 ? (size_t)got : 0) {
		got = read(fd, *out + *len, (size_t)st.st_size - *len);
		if (got <= 0 && !(got < 0 && errno == EINTR))
			err = got ? -errno : -EINVAL;
	}
	if (err)
		return err;
	*len -= FILE_HASH_SZ;
	bytes_hash__get(*out, *len, sum);
	return memcmp(*out + *len, sum, FILE_HASH_SZ) ? -EINVAL : 0;
}

int cache_dir__read(int dir, const uint8_t *digest, const char *suffix, size_t max, uint8_t **out,
		    size_t *len)
{
	char name[NAME_SZ];
	int fd, err;

	*out = NULL;
	file_name(digest, suffix, name);
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	err = read_all(fd, max, out, len);
	close(fd);
	if (err) {
		free(*out);
		*out = NULL;
		pr_debug("%s is not used: %s", name, errstr(err));
	}
	return err;
}

/* ---- size ---- */

struct entry {
	char name[256];
	struct timespec made;
	uint64_t bytes;
};

static int cmp_age(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->made.tv_sec != y->made.tv_sec)
		return x->made.tv_sec < y->made.tv_sec ? -1 : 1;
	if (x->made.tv_nsec != y->made.tv_nsec)
		return x->made.tv_nsec < y->made.tv_nsec ? -1 : 1;
	return strcmp(x->name, y->name);
}

static uint64_t list_files(DIR *d, struct entry **items, uint32_t *cnt)
{
	uint64_t total = 0;
	uint32_t cap = 0;
	struct dirent *e;
	struct stat st;

	while ((e = readdir(d)) != NULL) {
		struct entry *it;

		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || S_ISDIR(st.st_mode))
			continue;
		vec_reserve((void **)items, &cap, *cnt + 1ULL, sizeof(**items));
		it = &(*items)[(*cnt)++];
		snprintf(it->name, sizeof(it->name), "%s", e->d_name);
		it->made = st.st_mtim;
		it->bytes = ((uint64_t)st.st_size + BLOCK - 1) / BLOCK * BLOCK;
		total += it->bytes;
	}
	return total;
}

static void prune(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct entry *items = NULL;
	uint32_t cnt = 0;
	uint64_t total;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	total = list_files(d, &items, &cnt);
	if (cnt && total > (uint64_t)LIMIT_PLAN_CACHE_MIB << 20) {
		qsort(items, cnt, sizeof(*items), cmp_age);
		for (uint32_t i = 0; i < cnt && total > (uint64_t)LIMIT_PLAN_CACHE_MIB << 20; i++)
			if (!unlinkat(dir, items[i].name, 0))
				total -= items[i].bytes;
	}
	free(items);
	closedir(d);
}

/* ---- writing ---- */

static int write_all(int fd, const uint8_t *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(fd, data + done, len - done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

void cache_dir__write(int dir, const uint8_t *digest, const char *suffix, const uint8_t *data,
		      size_t len)
{
	uint8_t sum[FILE_HASH_SZ];
	char tmp[32], name[NAME_SZ];
	uint64_t salt;
	int fd, err;

	file_name(digest, suffix, name);
	bytes_hash__get(data, len, sum);
	if (getrandom(&salt, sizeof(salt), 0) != (ssize_t)sizeof(salt))
		return;
	snprintf(tmp, sizeof(tmp), "new.%016llx", (unsigned long long)salt);
	fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		pr_debug("cannot store %s: %s", name, errstr(errno));
		return;
	}
	err = fchmod(fd, 0600) ? -errno : write_all(fd, data, len);
	if (!err)
		err = write_all(fd, sum, sizeof(sum));
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(dir, tmp, dir, name))
		err = -errno;
	if (err) {
		pr_debug("cannot store %s: %s", name, errstr(err));
		unlinkat(dir, tmp, 0);
	} else {
		prune(dir);
	}
}
