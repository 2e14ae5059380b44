/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* /proc's values about a process's memory, compared with this process's own actions and the kernel's counters. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"
#include "target/proc_info.h"

#define BYTES (8ULL << 20)

/* Touched pages are resident memory of their kind, and the faults are those of getrusage(). */
static void touch(int flags, enum ptb_rss_kind kind)
{
	struct proc_memory before, after;
	struct rusage ru;
	char *p;

	CU_ASSERT_EQUAL_FATAL(proc_memory__read(getpid(), &before), 0);
	p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
	CU_ASSERT_PTR_NOT_EQUAL_FATAL(p, MAP_FAILED);
	madvise(p, BYTES, MADV_NOHUGEPAGE);
	memset(p, 1, BYTES);
	CU_ASSERT_EQUAL_FATAL(proc_memory__read(getpid(), &after), 0);
	CU_ASSERT_EQUAL(getrusage(RUSAGE_SELF, &ru), 0);
	CU_ASSERT(after.rss[kind] >= before.rss[kind] + BYTES);
	CU_ASSERT(after.rss[kind] < before.rss[kind] + 2 * BYTES);
	CU_ASSERT(after.vm_bytes >= before.vm_bytes + BYTES);
	CU_ASSERT(after.minor >= before.minor + BYTES / 65536); /* an architecture may have larger pages */
	CU_ASSERT(after.minor <= (uint64_t)ru.ru_minflt);
	CU_ASSERT(after.major <= (uint64_t)ru.ru_majflt);
	munmap(p, BYTES);
}

TEST("own memory")
{
	touch(MAP_PRIVATE, PTB_RSS_ANON);
	touch(MAP_SHARED, PTB_RSS_SHMEM);
}

/* A process that has ended has no memory, though its number is still taken. */
TEST("a process that ended")
{
	struct proc_memory mem;
	pid_t pid = fork();
	siginfo_t si;

	if (!pid)
		_exit(0);
	CU_ASSERT_FATAL(pid > 0);
	CU_ASSERT_EQUAL(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	CU_ASSERT_EQUAL(proc_memory__read(pid, &mem), -ESRCH);
	waitpid(pid, NULL, 0);
	CU_ASSERT_EQUAL(proc_memory__read(pid, &mem), -ESRCH);
}

SUITE("proc_memory")
