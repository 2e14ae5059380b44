/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Queries of files: the answers, the children that give them, and what is cached. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"
#include "target/elf.h"

struct reply {
	uint64_t pid; /* of the child */
	uint64_t arg;
};

static int reply(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len)
{
	struct reply r = { .pid = (uint64_t)getpid() };
	uint8_t id[20];

	memcpy(&r.arg, arg, sizeof(r.arg));
	elf_file__build_id(ef, id, sizeof(id));
	elf_answer__give(&r, sizeof(r), out, len);
	return 0;
}

static int crash(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len)
{
	(void)ef;
	(void)arg;
	(void)out;
	(void)len;
	raise(SIGSEGV); /* not allowed either: then by the instruction */
	__builtin_trap();
}

static int refuse(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len)
{
	(void)ef;
	(void)arg;
	(void)out;
	(void)len;
	return -ENOTSUP;
}

static int ask(int fd, uint64_t arg, struct reply *r)
{
	const struct elf_question q = { .fn = reply, .arg = &arg, .arg_sz = sizeof(arg) };
	struct elf_answer a;
	int err = elf_child__ask(fd, "test", &q, &a);

	memset(r, 0, sizeof(*r));
	if (!err) {
		CU_ASSERT(elf_answer__get(&a, r, sizeof(*r)));
		CU_ASSERT(!elf_answer__get(&a, r, sizeof(*r) - 1));
		CU_ASSERT(a.outline.seg_cnt > 0 && a.outline.mark_sz > 0);
	}
	elf_answer__clear(&a);
	return err;
}

/* A copy of this program, written just now. */
static int fresh_copy(void)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	char path[] = "/tmp/elf-child-XXXXXX";
	struct stat st;
	off_t off = 0;

	to = mkstemp(path);
	CU_ASSERT_FATAL(from >= 0 && to >= 0 && !unlink(path) && !fstat(from, &st));
	while (off < st.st_size)
		if (sendfile(to, from, &off, (size_t)(st.st_size - off)) <= 0)
			break;
	CU_ASSERT_EQUAL(off, st.st_size);
	close(from);
	return to;
}

TEST("answers are remembered per file and question")
{
	int fd = open("/lib64/ld-linux-x86-64.so.2", O_RDONLY | O_CLOEXEC);
	struct reply first, again, other;
	struct file_id id;

	CU_ASSERT_FATAL(fd >= 0 && !file_id__get(fd, &id));
	CU_ASSERT_EQUAL(ask(fd, 7, &first), 0);
	CU_ASSERT_EQUAL(ask(fd, 7, &again), 0);
	CU_ASSERT_EQUAL(ask(fd, 8, &other), 0);
	CU_ASSERT(first.arg == 7 && again.arg == 7 && other.arg == 8);
	CU_ASSERT(first.pid != (uint64_t)getpid() && other.pid != first.pid);
	CU_ASSERT_EQUAL(first.pid == again.pid, file_id__is_lasting(&id));
	close(fd);
}

TEST("a file written just now is read again")
{
	struct reply first, again;
	int fd = fresh_copy();

	CU_ASSERT_EQUAL(ask(fd, 7, &first), 0);
	CU_ASSERT_EQUAL(ask(fd, 7, &again), 0);
	CU_ASSERT(first.pid && first.pid != again.pid);
	close(fd);
}

/* Who answers another ptbpf, which remembers nothing. */
static uint64_t ask_elsewhere(const char *dir, int fd)
{
	struct reply r = { .pid = 0 };
	int p[2];
	pid_t pid = -1;

	CU_ASSERT_FATAL(!pipe(p) && (pid = fork()) >= 0);
	if (!pid) {
		elf_child__use_cache(dir);
		ask(fd, 9, &r);
		_exit(write(p[1], &r, sizeof(r)) != sizeof(r));
	}
	close(p[1]);
	CU_ASSERT_EQUAL(read(p[0], &r, sizeof(r)), sizeof(r));
	close(p[0]);
	waitpid(pid, NULL, 0);
	return r.pid;
}

/* Where the file is on a disk, which has a number of its own. A kept answer that is damaged is not believed. */
TEST("answers are kept for others")
{
	int fd = open("/lib64/ld-linux-x86-64.so.2", O_RDONLY | O_CLOEXEC), kept;
	char dir[] = "/tmp/elf-child-XXXXXX", path[sizeof(dir) + 300];
	struct dirent *de;
	struct file_id id;
	uint64_t first;
	DIR *d;

	CU_ASSERT_FATAL(fd >= 0 && !file_id__get(fd, &id) && mkdtemp(dir));
	first = ask_elsewhere(dir, fd);
	CU_ASSERT_EQUAL(ask_elsewhere(dir, fd) == first, !id.mount && file_id__is_lasting(&id));
	CU_ASSERT_FATAL((d = opendir(dir)) != NULL);
	while ((de = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, de->d_name);
		kept = *de->d_name == '.' ? -1 : open(path, O_WRONLY | O_CLOEXEC);
		if (kept < 0)
			continue;
		CU_ASSERT_EQUAL(pwrite(kept, "x", 1, 5), 1);
		close(kept);
		CU_ASSERT(ask_elsewhere(dir, fd) != first);
		unlink(path);
	}
	closedir(d);
	rmdir(dir);
	close(fd);
}

TEST("failures")
{
	const struct elf_question crashes = { .fn = crash }, refuses = { .fn = refuse };
	int fd = fresh_copy(), dir = open("/", O_RDONLY | O_CLOEXEC);
	struct elf_answer a;
	struct reply r;

	CU_ASSERT_EQUAL(elf_child__ask(fd, "test", &crashes, &a), -ENOEXEC);
	CU_ASSERT_EQUAL(elf_child__ask(fd, "test", &refuses, &a), -ENOTSUP);
	CU_ASSERT_EQUAL(ask(fd, 1, &r), 0);
	CU_ASSERT(!ftruncate(fd, 100));
	CU_ASSERT_EQUAL(ask(fd, 1, &r), -ENOEXEC);
	CU_ASSERT(!ftruncate(fd, 1ll << 40));
	CU_ASSERT_EQUAL(ask(fd, 1, &r), -EFBIG);
	CU_ASSERT_EQUAL(ask(dir, 1, &r), -ENOEXEC);
	close(fd);
	close(dir);
}

SUITE("elf_child")
