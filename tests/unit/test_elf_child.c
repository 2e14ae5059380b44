/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Queries of files: the answers, the children that give them, and what is cached. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite.h"
#include "target/elf_child.h"

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

static void test_answers_are_remembered_per_file_and_question(void)
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

static void test_a_file_written_just_now_is_read_again(void)
{
	struct reply first, again;
	int fd = fresh_copy();

	CU_ASSERT_EQUAL(ask(fd, 7, &first), 0);
	CU_ASSERT_EQUAL(ask(fd, 7, &again), 0);
	CU_ASSERT(first.pid && first.pid != again.pid);
	close(fd);
}

static void test_failures(void)
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

static const CU_TestInfo tests[] = {
	{ "answers are remembered per file and question",
	  test_answers_are_remembered_per_file_and_question },
	{ "a file written just now is read again", test_a_file_written_just_now_is_read_again },
	{ "failures", test_failures },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("elf_child", tests);
}
