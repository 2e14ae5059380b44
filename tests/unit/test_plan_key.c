/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a plan is valid for: the same bytes, independent of their file's build-id, name and identity. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "plan/plan.h"
#include "suite.h"

static char dir[] = "/tmp/ptbpf-key-test.XXXXXX";
static char cache[64], lib[64], copy[64];

#define SIZE 300000

static void fill(const char *path, uint8_t seed)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	static uint8_t bytes[SIZE];

	CU_ASSERT_FATAL(fd >= 0);
	memset(bytes, seed, sizeof(bytes));
	CU_ASSERT_EQUAL(write(fd, bytes, sizeof(bytes)), SIZE);
	close(fd);
}

static int key_of(const char *path, bool use_cache, struct plan_key *key)
{
	struct torch_proc tp = { .pid = getpid() };
	struct torch_lib *l = &tp.libs[TORCH_LIB_CPU];
	int err;

	l->present = true;
	l->path = (char *)(uintptr_t)path;
	l->fd = open(path, O_RDONLY | O_CLOEXEC);
	CU_ASSERT_FATAL(l->fd > 0);
	err = plan_key__get(tp.libs, use_cache, cache, key);
	close(l->fd);
	return err;
}

static void set_times(const char *path, const struct timespec *at)
{
	struct timespec both[2] = { *at, *at };

	CU_ASSERT_EQUAL(utimensat(AT_FDCWD, path, both, 0), 0);
}

/* A copy has the same key, since every byte is the same; what was written over it has another one, though its time is the same. */
TEST("content")
{
	static const struct timespec old = { .tv_sec = 1000000000 };
	struct plan_key a, b, c;

	fill(lib, 1);
	fill(copy, 1);
	set_times(lib, &old);
	set_times(copy, &old);
	CU_ASSERT_EQUAL(key_of(lib, false, &a), 0);
	CU_ASSERT_EQUAL(key_of(lib, false, &b), 0);
	CU_ASSERT(a.known && plan_key__same(&a, &b));
	CU_ASSERT_EQUAL(key_of(copy, false, &b), 0);
	CU_ASSERT(plan_key__same(&a, &b));
	usleep(20000); /* another tick of the file system's clock */
	fill(lib, 2);
	set_times(lib, &old);
	CU_ASSERT_EQUAL(key_of(lib, false, &c), 0);
	CU_ASSERT(!plan_key__same(&a, &c));
}

static uint32_t hashes(void)
{
	char name[200];
	struct stat st;
	FILE *f;
	uint32_t n = 0;

	snprintf(name, sizeof(name), "ls %s 2>/dev/null | grep -c '[.]hash$'", cache);
	f = popen(name, "r");
	CU_ASSERT_FATAL(f != NULL);
	CU_ASSERT(fscanf(f, "%u", &n) == 1);
	pclose(f);
	CU_ASSERT(!n || (!stat(cache, &st) && (st.st_mode & 0777) == 0700));
	return n;
}

/* Of what a later file may have too, nothing is remembered: of a write just now, and of devices whose numbers come again. */
TEST("identities that last")
{
	struct file_id id = { .ino = 7, .size = 8, .mtime_s = 1000000000, .ctime_s = 1000000000 };

	id.dev = makedev(254, 1);
	CU_ASSERT(file_id__is_lasting(&id));
	id.dev = makedev(0, 40); /* an overlay, memory, FUSE */
	CU_ASSERT(!file_id__is_lasting(&id));
	id.mount = 1ull << 32;
	CU_ASSERT(file_id__is_lasting(&id));
	id.mount = 0;
	id.dev = makedev(7, 1); /* an image of whoever mounts it */
	CU_ASSERT(!file_id__is_lasting(&id));
	id.dev = makedev(254, 1);
	id.ctime_s = time(NULL);
	CU_ASSERT(!file_id__is_lasting(&id));
}

/* A file that was written just now may be written again under the same identity: its hash is not kept. */
TEST("hashes are remembered")
{
	int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);
	struct plan_key a, b;
	struct file_id id;

	CU_ASSERT_FATAL(fd >= 0 && !file_id__get(fd, &id));
	close(fd);
	fill(lib, 3);
	CU_ASSERT_EQUAL(key_of(lib, true, &a), 0);
	CU_ASSERT_EQUAL(hashes(), 0);
	CU_ASSERT_EQUAL(key_of("/bin/sh", true, &a), 0);
	CU_ASSERT_EQUAL(hashes(), !id.mount && file_id__is_lasting(&id)); /* in a container it is on no disk */
	CU_ASSERT_EQUAL(key_of("/bin/sh", true, &b), 0);
	CU_ASSERT(plan_key__same(&a, &b));
}

/* What failed after a long time is known for an hour; another file, or one that is not known, is
 * not. */
TEST("failures")
{
	const uint64_t sec = 1000000000, now = 1000 * sec;
	struct plan_key a = { .known = true, .digest = { 1 } }, b = { .known = true, .digest = { 2 } };
	struct plan_key unknown = { .digest = { 3 } };

	plan_failures__note(&a, -ETIMEDOUT, sec / 20, now);
	CU_ASSERT_EQUAL(plan_failures__find(&a, now), 0);
	plan_failures__note(&b, -ECANCELED, 100 * sec, now);
	plan_failures__note(&unknown, -ETIMEDOUT, 100 * sec, now);
	plan_failures__note(&a, -ETIMEDOUT, 100 * sec, now);
	CU_ASSERT_EQUAL(plan_failures__find(&a, now + 3599 * sec), -ETIMEDOUT);
	CU_ASSERT_EQUAL(plan_failures__find(&a, now + 3600 * sec), 0);
	CU_ASSERT_EQUAL(plan_failures__find(&b, now), 0);
	CU_ASSERT_EQUAL(plan_failures__find(&unknown, now), 0);
	plan_failures__note(&b, -ETIMEDOUT, 100 * sec, now);
	for (uint8_t i = 10; i < 200; i++) {
		a.digest[0] = i;
		plan_failures__note(&a, -E2BIG, 100 * sec, now);
	}
	CU_ASSERT_EQUAL(plan_failures__find(&a, now), -E2BIG);
	CU_ASSERT_EQUAL(plan_failures__find(&b, now), 0); /* the oldest are forgotten */
}

/* Written while it is used: seen afterwards. */
TEST("a write is noticed")
{
	struct torch_proc tp = { .pid = getpid() };
	struct torch_lib *l = &tp.libs[TORCH_LIB_C10];
	struct plan_key key;

	fill(lib, 4);
	l->present = true;
	l->path = lib;
	l->fd = open(lib, O_RDWR | O_CLOEXEC);
	CU_ASSERT_FATAL(l->fd > 0);
	CU_ASSERT_EQUAL(plan_key__get(tp.libs, false, NULL, &key), 0);
	CU_ASSERT(plan_key__holds(tp.libs, &key));
	usleep(20000);
	CU_ASSERT_EQUAL(pwrite(l->fd, "x", 1, 77), 1);
	CU_ASSERT(!plan_key__holds(tp.libs, &key));
	close(l->fd);
}

/* Files that are no readable libraries are refused in bounded time; a library known by name only has no key. */
TEST("what is refused")
{
	struct torch_proc tp = { .pid = getpid() };
	struct plan_key key;
	int fd;

	fill(lib, 5);
	fd = open(lib, O_WRONLY | O_CLOEXEC);
	CU_ASSERT_EQUAL(ftruncate(fd, (off_t)(LIMIT_ELF_FILE_MIB + 1LL) << 20), 0); /* sparse */
	close(fd);
	CU_ASSERT_EQUAL(key_of(lib, false, &key), -EFBIG);
	CU_ASSERT(!key.known);
	CU_ASSERT_EQUAL(unlink(lib), 0);
	CU_ASSERT_EQUAL(key_of(dir, false, &key), -ENOEXEC);
	tp.libs[TORCH_LIB_CPU].present = true;
	CU_ASSERT_EQUAL(plan_key__get(tp.libs, false, NULL, &key), 0);
	CU_ASSERT(!key.known && !plan_key__same(&key, &key));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int main(void)
{
	int rc;

	if (geteuid()) {
		printf("SKIP: the cache is root's, and this is not root\n");
		return 77;
	}
	if (!mkdtemp(dir))
		return 1;
	snprintf(cache, sizeof(cache), "%s/cache", dir);
	snprintf(lib, sizeof(lib), "%s/lib.so", dir);
	snprintf(copy, sizeof(copy), "%s/copy.so", dir);
	rc = run_suite("plan_key");
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return rc;
}
