/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reading a process's memory: this process is its own target, so the truth is at hand. Everything
 * runs twice, the second time in a child whose process_vm_readv is forbidden. And the other facts
 * from /proc.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"
#include "target/proc.h"
#include "target/proc_info.h"

#define PAGE 4096ul

static uint64_t addr_of(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

/* Two readable pages, then one that is not. */
static char *edge(void)
{
	static char *p;

	if (!p) {
		p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CU_ASSERT_FATAL(p != MAP_FAILED);
		munmap(p + 2 * PAGE, PAGE);
	}
	return p;
}

TEST("read")
{
	char buf[2 * PAGE + 1], *p = edge();

	for (size_t i = 0; i < 2 * PAGE; i++)
		p[i] = (char)(i * 7);
	CU_ASSERT_EQUAL(remote__read(getpid(), addr_of(p), buf, 2 * PAGE), 0);
	CU_ASSERT(!memcmp(buf, p, 2 * PAGE));
	CU_ASSERT_EQUAL(remote__read(getpid(), addr_of(p) + 5, buf, PAGE), 0);
	CU_ASSERT(!memcmp(buf, p + 5, PAGE));
	CU_ASSERT_EQUAL(remote__read(getpid(), addr_of(p), buf, 0), 0);
	CU_ASSERT_EQUAL(remote__read(getpid(), addr_of(p), buf, 2 * PAGE + 1), -EFAULT);
	CU_ASSERT_EQUAL(remote__read(getpid(), 0, buf, 8), -EFAULT);
	CU_ASSERT_EQUAL(remote__read(getpid(), UINT64_MAX - 3, buf, 8), -EFAULT);
	CU_ASSERT_EQUAL(remote__read(getpid(), 1ULL << 63, buf, 8), -EFAULT);
	CU_ASSERT_EQUAL(remote__read(1 << 30, addr_of(p), buf, 8), -ESRCH);
	CU_ASSERT_EQUAL(remote__read_some(getpid(), addr_of(p) + PAGE, buf, 2 * PAGE), (ssize_t)PAGE);
}

TEST("pieces")
{
	static uint64_t from[2000], to[2000];
	struct remote_piece pieces[2000];

	for (uint32_t i = 0; i < 2000; i++) {
		from[i] = i * 0x9e3779b97f4a7c15ULL;
		pieces[i].addr = i % 100 == 17 ? 8 :
				 i % 333 == 5  ? UINT64_MAX - 20 :
						 addr_of(&from[i]);
		pieces[i].buf = &to[i];
		pieces[i].len = i % 50 == 3 ? 0 : sizeof(to[i]);
	}
	CU_ASSERT_EQUAL(remote__read_pieces(getpid(), pieces, 2000), 0);
	for (uint32_t i = 0; i < 2000; i++) {
		bool bad = i % 100 == 17 || (i % 333 == 5 && pieces[i].len);

		CU_ASSERT_EQUAL(pieces[i].ok, !bad);
		CU_ASSERT(bad || !pieces[i].len || to[i] == from[i]);
	}
	CU_ASSERT_EQUAL(remote__read_pieces(1 << 30, pieces, 2000), -ESRCH);
}

TEST("C strings")
{
	char buf[64], *p = edge(), *end = p + 2 * PAGE;

	memset(p, 'x', 2 * PAGE);
	strcpy(end - 6, "hello");
	CU_ASSERT_EQUAL(remote__read_cstr(getpid(), addr_of(end - 6), buf, sizeof(buf)), 0);
	CU_ASSERT_STRING_EQUAL(buf, "hello");
	CU_ASSERT_EQUAL(remote__read_cstr(getpid(), addr_of(end - 6), buf, 6), 0);
	CU_ASSERT_EQUAL(remote__read_cstr(getpid(), addr_of(end - 6), buf, 5), -ENAMETOOLONG);
	CU_ASSERT_STRING_EQUAL(buf, "hell");
	end[-1] = '!'; /* no end before the unreadable page */
	CU_ASSERT_EQUAL(remote__read_cstr(getpid(), addr_of(end - 6), buf, sizeof(buf)), -EFAULT);
	CU_ASSERT_STRING_EQUAL(buf, "hello!");
	memcpy(p + PAGE - 3, "across", 7); /* a page boundary inside */
	CU_ASSERT_EQUAL(remote__read_cstr(getpid(), addr_of(p + PAGE - 3), buf, sizeof(buf)), 0);
	CU_ASSERT_STRING_EQUAL(buf, "across");
}

TEST("std::string")
{
	struct {
		uint64_t text, len;
		char local[16];
	} s = { .local = "short" };
	struct {
		uint64_t len, cap, refs;
		char text[32];
	} rep = { 11, 31, 0, "copied text" };
	uint64_t old = addr_of(rep.text);
	char buf[64];

	s.text = addr_of(s.local);
	s.len = 5;
	CU_ASSERT_EQUAL(remote__read_string(getpid(), addr_of(&s), false, buf, sizeof(buf)), 0);
	CU_ASSERT_STRING_EQUAL(buf, "short");
	s.len = 0;
	CU_ASSERT_EQUAL(remote__read_string(getpid(), addr_of(&s), false, buf, sizeof(buf)), 0);
	CU_ASSERT_STRING_EQUAL(buf, "");
	s.len = UINT64_MAX;
	CU_ASSERT_EQUAL(remote__read_string(getpid(), addr_of(&s), false, buf, 4), -ENAMETOOLONG);
	CU_ASSERT_STRING_EQUAL(buf, "sho");
	s.text = 1;
	s.len = 5;
	CU_ASSERT_EQUAL(remote__read_string(getpid(), addr_of(&s), false, buf, sizeof(buf)), -EFAULT);
	CU_ASSERT_STRING_EQUAL(buf, "");
	CU_ASSERT_EQUAL(remote__read_string(getpid(), addr_of(&old), true, buf, sizeof(buf)), 0);
	CU_ASSERT_STRING_EQUAL(buf, "copied text");
	old = 10;
	CU_ASSERT_EQUAL(remote__read_string(getpid(), addr_of(&old), true, buf, sizeof(buf)), -EFAULT);
}

static void check_class(const char *mangled, int err, const char *expect)
{
	struct {
		uint64_t vptr, name;
	} info = { 0, addr_of(mangled) };
	struct {
		uint64_t offset_to_top, info, first_function;
	} vtable = { 0, addr_of(&info), 0 };
	uint64_t spent_ns = 0;
	char buf[128];

	CU_ASSERT_EQUAL(remote__class_name(getpid(), addr_of(&vtable.first_function), &spent_ns,
					   buf, sizeof(buf)),
			err);
	CU_ASSERT_STRING_EQUAL(buf, expect);
}

TEST("class names")
{
	static char longest[2000];
	uint64_t spent_ns = 0;
	char buf[8];

	check_class("N5torch8autograd9generated14AddmmBackward0E", 0,
		    "torch::autograd::generated::AddmmBackward0");
	check_class("*N12_GLOBAL__N_14NodeE", 0, "(anonymous namespace)::Node");
	check_class("3Foo", 0, "Foo");
	check_class("_not_mangled", 0, "_not_mangled");
	check_class("", -EFAULT, "");
	check_class("N5torch\033[2JE", -EFAULT, "");
	check_class((const char *)8, -EFAULT, "");
	memset(longest, 'P', sizeof(longest) - 1); /* pointers to pointers to ... */
	check_class(longest, -ENAMETOOLONG, "");
	CU_ASSERT_EQUAL(remote__class_name(getpid(), 0, &spent_ns, buf, sizeof(buf)), -EFAULT);
}

/* ---- the same through /proc/PID/mem ---- */

static bool forbid_process_vm_readv(void)
{
	struct sock_filter insns[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(insns) / sizeof(insns[0]), insns };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static int run_forbidden(void)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (!forbid_process_vm_readv())
			_exit(2);
		exit(run_suite("memory by /proc/PID/mem"));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* ---- threads, children, states ---- */

static void *sleeper(void *arg)
{
	prctl(PR_SET_NAME, "a (b) c");
	*(pid_t *)arg = (pid_t)syscall(SYS_gettid);
	for (;;)
		pause();
	return NULL;
}

TEST("threads")
{
	volatile pid_t tid = 0;
	pthread_t thread;
	pid_t *tids;
	char comm[16];
	int n, hits = 0;

	CU_ASSERT_FATAL(!pthread_create(&thread, NULL, sleeper, (void *)(uintptr_t)&tid));
	while (!tid)
		usleep(100);
	n = proc__threads(getpid(), &tids);
	CU_ASSERT(n >= 2); /* a sanitizer may have one of its own */
	for (int i = 0; i < n; i++)
		hits += tids[i] == tid || tids[i] == getpid();
	CU_ASSERT_EQUAL(hits, 2);
	free(tids);
	CU_ASSERT_EQUAL(proc__comm(getpid(), tid, comm), 0);
	CU_ASSERT_STRING_EQUAL(comm, "a (b) c");
	CU_ASSERT_EQUAL(proc__comm(getpid(), 0, comm), 0);
	CU_ASSERT_STRING_EQUAL(comm, "test_remote_mem");
	CU_ASSERT_EQUAL(proc__comm(1 << 30, 0, comm), -ESRCH);
	CU_ASSERT_EQUAL(proc__threads(1 << 30, &tids), -ESRCH);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

static void *fork_in_thread(void *arg)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_NAME, ") S 1 (");
		for (;;)
			pause();
	}
	*(pid_t *)arg = pid;
	for (;;)
		pause();
	return NULL;
}

TEST("children")
{
	volatile pid_t child = 0;
	pthread_t thread;
	pid_t *pids;
	char comm[16] = "";
	int n, hits = 0;

	CU_ASSERT_EQUAL(proc__children(getpid(), &pids), 0);
	free(pids);
	CU_ASSERT_FATAL(!pthread_create(&thread, NULL, fork_in_thread, (void *)(uintptr_t)&child));
	while (!child || proc__comm(child, 0, comm) || strcmp(comm, ") S 1 ("))
		usleep(100);
	n = proc__children(getpid(), &pids);
	for (int i = 0; i < n; i++)
		hits += pids[i] == child;
	CU_ASSERT_EQUAL(hits, 1);
	CU_ASSERT_EQUAL(n, 1);
	free(pids);
	CU_ASSERT(proc__state(child) == 'S' || proc__state(child) == 'R');
	CU_ASSERT(proc__same_pidns(child));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	CU_ASSERT_EQUAL(proc__state(child), 0);
	CU_ASSERT(proc__children(1 << 30, &pids) < 0);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

/* A grandchild in a pid namespace of its own, where one may be made. */
TEST("pid namespace")
{
	int fds[2];
	pid_t pid, inner = 0;

	CU_ASSERT_FATAL(!pipe(fds));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		inner = unshare(CLONE_NEWPID) ? -1 : fork();
		if (!inner)
			for (;;)
				pause();
		if (write(fds[1], &inner, sizeof(inner)) != sizeof(inner))
			_exit(1);
		if (inner > 0)
			waitpid(inner, NULL, 0);
		_exit(0);
	}
	CU_ASSERT_FATAL(read(fds[0], &inner, sizeof(inner)) == sizeof(inner));
	if (inner > 0) {
		CU_ASSERT(proc__same_pidns(pid));
		CU_ASSERT_FALSE(proc__same_pidns(inner));
		kill(inner, SIGKILL);
	}
	waitpid(pid, NULL, 0);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	return run_suite("memory and facts") | run_forbidden();
}
