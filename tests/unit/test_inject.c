/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The pieces of user/inject that decide: fates of system calls, safe points, the bytes of a detour, and the table
 * of a Python that may be hostile. A detour is also made for real, by a child that is its own C library's user.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc_read.h"
#include "inject/inject.h"
#include "inject/inject_priv.h"
#include "suite.h"
#include "target/proc.h"

#ifdef __SANITIZE_ADDRESS__
#define OWN_ALLOCATOR true /* and reads that go through it */
#else
#define OWN_ALLOCATOR false
#endif
#define SYS(nr_, ...) ((struct blocked_call){ .nr = (nr_), .args = { __VA_ARGS__ } })

/* ---- system calls ---- */

TEST("which calls a thread may be stopped in")
{
	struct blocked_call on_pipe = SYS(SYS_read, 3, 4096, 1), none = { .nr = -1 };
	uint64_t bitset = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, plain = FUTEX_WAIT | FUTEX_PRIVATE_FLAG;

	on_pipe.on_pipe = true;
	CU_ASSERT(safe_point__may_stop(&none));
	CU_ASSERT(safe_point__may_stop(&on_pipe));
	CU_ASSERT(!safe_point__may_stop(&SYS(SYS_read, 3, 4096, 1))); /* a socket may have a time limit */
	CU_ASSERT(!safe_point__may_stop(&SYS(SYS_recvfrom, 3)));
	CU_ASSERT(safe_point__may_stop(&SYS(SYS_futex, 4096, bitset, 0, 8192)));
	CU_ASSERT(safe_point__may_stop(&SYS(SYS_futex, 4096, plain, 7, 0)));
	CU_ASSERT(!safe_point__may_stop(&SYS(SYS_futex, 4096, plain, 7, 8192))); /* relative */
	CU_ASSERT(!safe_point__may_stop(&SYS(SYS_futex, 4096, plain, 2, 0)));    /* a lock */
	CU_ASSERT(!safe_point__may_stop(&SYS(SYS_futex, 4096, FUTEX_LOCK_PI, 0, 0)));
	CU_ASSERT(!safe_point__may_stop(&SYS(SYS_epoll_wait, 3, 4096, 1, (uint32_t)-1)));
	CU_ASSERT(!safe_point__may_stop(&SYS(SYS_epoll_wait, 3, 4096, 1, 1000)));
	CU_ASSERT(safe_point__may_stop(&SYS(SYS_poll, 4096, 1, (uint32_t)-1)));
	CU_ASSERT(!safe_point__may_stop(&SYS(SYS_poll, 4096, 1, 5)));
	CU_ASSERT(safe_point__may_stop(&SYS(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, 4096)));
	CU_ASSERT(!safe_point__may_stop(&SYS(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, 4096)));
	CU_ASSERT(!safe_point__may_stop(&SYS(SYS_nanosleep, 4096)));
	CU_ASSERT(!safe_point__may_stop(&SYS(SYS_rt_sigtimedwait, 4096)));
	CU_ASSERT(!safe_point__may_stop(&SYS(SYS_mmap, 0)));
	CU_ASSERT(!safe_point__may_stop(&SYS(SYS_exit, 0)));
	CU_ASSERT(!safe_point__may_stop(&SYS(100000, 0)));
}

TEST("what becomes of an interrupted call")
{
	struct blocked_call forever = SYS(SYS_epoll_wait, 3, 4096, 1, (uint32_t)-1);

	CU_ASSERT_EQUAL(safe_point__call_fate(&SYS(-1, 0), -512), CALL_NONE);
	CU_ASSERT_EQUAL(safe_point__call_fate(&SYS(SYS_read, 3), 17), CALL_NONE);
	CU_ASSERT_EQUAL(safe_point__call_fate(&SYS(SYS_read, 3), -EAGAIN), CALL_NONE);
	CU_ASSERT_EQUAL(safe_point__call_fate(&SYS(SYS_read, 3), -512), CALL_AGAIN);
	CU_ASSERT_EQUAL(safe_point__call_fate(&SYS(SYS_wait4, 3), -513), CALL_AGAIN);
	CU_ASSERT_EQUAL(safe_point__call_fate(&SYS(SYS_pause, 3), -514), CALL_AGAIN);
	CU_ASSERT_EQUAL(safe_point__call_fate(&SYS(SYS_nanosleep, 4096), -516), CALL_KERNEL);
	CU_ASSERT_EQUAL(safe_point__call_fate(&SYS(SYS_poll, 4096, 1, 70), -516), CALL_KERNEL);
	CU_ASSERT_EQUAL(safe_point__call_fate(&SYS(SYS_poll, 4096, 1, (uint32_t)-1), -516), CALL_AGAIN);
	CU_ASSERT_EQUAL(safe_point__call_fate(&SYS(SYS_futex, 4096, FUTEX_WAIT_BITSET, 0, 1), -516),
			CALL_AGAIN);
	CU_ASSERT_EQUAL(safe_point__call_fate(&forever, -EINTR), CALL_AGAIN);
	CU_ASSERT_EQUAL(safe_point__call_fate(&SYS(SYS_epoll_wait, 3, 4096, 1, 5), -EINTR), CALL_KERNEL);
	CU_ASSERT(safe_point__make_again(&SYS(SYS_recvfrom, 3), -EINTR));
	CU_ASSERT(!safe_point__make_again(&SYS(SYS_close, 3), -EINTR)); /* never twice */
	CU_ASSERT(!safe_point__make_again(&SYS(SYS_recvfrom, 3), -EAGAIN));
	CU_ASSERT(safe_point__make_again(&SYS(SYS_futex, 4096, FUTEX_WAIT_BITSET, 0, 1), -516));
	CU_ASSERT(!safe_point__make_again(&SYS(SYS_futex, 4096, FUTEX_WAIT, 0, 1), -516));
	CU_ASSERT(!safe_point__make_again(&SYS(SYS_read, 3), -512)); /* the kernel does it */
}

/* ---- stacks ---- */

#define LOADER 0x7f0000000000ULL
#define LIBC 0x7f1000000000ULL
#define MALLOC 0x7f2000000000ULL
#define RESTORE (LIBC + 0x5000)

static struct target_code places(void)
{
	struct target_code cp = { .obj_cnt = 3, .busy_cnt = 2, .restore_rt = RESTORE };

	cp.objs[0] = (struct code_object){ .kind = CODE_LOADER, .start = LOADER, .end = LOADER + 0x10000 };
	cp.objs[1] = (struct code_object){ .kind = CODE_LIBC, .start = LIBC, .end = LIBC + 0x10000 };
	cp.objs[2] = (struct code_object){ .kind = CODE_ALLOCATOR, .start = MALLOC, .end = MALLOC + 0x10000 };
	cp.busy[0] = (struct code_range){ LIBC + 0x100, LIBC + 0x200, true };  /* dl_iterate_phdr */
	cp.busy[1] = (struct code_range){ LIBC + 0x300, LIBC + 0x400, false }; /* malloc */
	return cp;
}

static const char *ask(uint64_t rip, long nr, int64_t rax, size_t at, uint64_t word)
{
	static const uint8_t syscall_code[] = { 0x0f, 0x05 };
	static uint64_t stack[16384];
	struct thread_view tv = { .code = syscall_code,
				  .stack = (const uint8_t *)stack,
				  .stack_sz = sizeof(stack),
				  .mapped = 1 << 20,
				  .room = 1 << 20 };
	struct target_code cp = places();

	memset(stack, 0, sizeof(stack));
	stack[at / 8] = word;
	tv.regs.cs = 0x33;
	tv.regs.rip = rip;
	tv.regs.orig_rax = (unsigned long long)nr;
	tv.regs.rax = (unsigned long long)rax;
	tv.regs.rsi = FUTEX_WAIT_BITSET;
	return safe_point__refuse(&cp, &tv);
}

TEST("safe points")
{
	uint64_t own = 0x400000;

	CU_ASSERT_PTR_NULL(ask(own, -1, 5, 0, 0));
	CU_ASSERT_PTR_NOT_NULL(ask(LOADER + 8, -1, 5, 0, 0));
	CU_ASSERT_PTR_NOT_NULL(ask(LIBC + 8, -1, 5, 0, 0));
	CU_ASSERT_PTR_NOT_NULL(ask(MALLOC + 8, -1, 5, 0, 0));
	CU_ASSERT_PTR_NULL(ask(LIBC + 8, SYS_futex, -512, 0, 0)); /* waits, in libc */
	CU_ASSERT_PTR_NULL(ask(LIBC + 8, SYS_futex, 0, 0, 0));
	CU_ASSERT_PTR_NOT_NULL(ask(LIBC + 0x310, SYS_futex, -512, 0, 0)); /* inside malloc */
	CU_ASSERT_PTR_NOT_NULL(ask(LOADER + 8, SYS_futex, -512, 0, 0));
	CU_ASSERT_PTR_NOT_NULL(ask(LIBC + 8, SYS_munmap, 0, 0, 0));
	CU_ASSERT_PTR_NOT_NULL(ask(LIBC + 8, SYS_nanosleep, -516, 0, 0));
	/* return addresses: near the top, far from it, and too far */
	CU_ASSERT_PTR_NOT_NULL(ask(own, -1, 5, 64, LOADER + 16));
	CU_ASSERT_PTR_NULL(ask(own, -1, 5, 8192, LOADER + 16));
	CU_ASSERT_PTR_NOT_NULL(ask(own, -1, 5, 64, LIBC + 0x310));
	CU_ASSERT_PTR_NULL(ask(own, -1, 5, 8192, LIBC + 0x310));
	CU_ASSERT_PTR_NOT_NULL(ask(own, -1, 5, 64, LIBC + 0x110));
	CU_ASSERT_PTR_NOT_NULL(ask(own, -1, 5, 8192, LIBC + 0x110));
	CU_ASSERT_PTR_NULL(ask(own, -1, 5, 64, LIBC + 0x510));
	CU_ASSERT_PTR_NOT_NULL(ask(own, -1, 5, 64, MALLOC + 16));
}

TEST("threads that are refused")
{
	static const uint8_t int80[] = { 0xcd, 0x80 };
	static uint64_t stack[512];
	struct thread_view tv = { .code = int80,
				  .stack = (const uint8_t *)stack,
				  .stack_sz = sizeof(stack),
				  .mapped = 1 << 20,
				  .room = 1 << 20 };
	struct target_code cp = places();

	tv.regs = (struct user_regs_struct){ .cs = 0x33,
					     .rip = 0x400000,
					     .orig_rax = (unsigned long long)-1 };
	CU_ASSERT_PTR_NULL(safe_point__refuse(&cp, &tv));
	tv.room = SAFE_POINT_ROOM - 1;
	CU_ASSERT_PTR_NOT_NULL(safe_point__refuse(&cp, &tv));
	tv.room = 1 << 20;
	tv.mapped = SAFE_POINT_MAPPED - 1;
	CU_ASSERT_PTR_NOT_NULL(safe_point__refuse(&cp, &tv));
	tv.mapped = 1 << 20;
	tv.regs.cs = 0x23;
	CU_ASSERT_PTR_NOT_NULL(safe_point__refuse(&cp, &tv));
	tv.regs.cs = 0x33;
	tv.regs.orig_rax = SYS_futex; /* but not by a syscall instruction */
	tv.regs.rsi = FUTEX_WAIT_BITSET;
	CU_ASSERT_PTR_NOT_NULL(safe_point__refuse(&cp, &tv));
	tv.regs.orig_rax = (unsigned long long)-1;
	/* a signal frame, whole, and one that is cut off by the end */
	stack[200] = RESTORE;
	stack[200 + 24] = 0x33;
	CU_ASSERT_PTR_NOT_NULL(safe_point__refuse(&cp, &tv));
	stack[201] = 77; /* no flags that a frame has */
	CU_ASSERT_PTR_NULL(safe_point__refuse(&cp, &tv));
	stack[200] = 0;
	stack[511] = RESTORE;
	CU_ASSERT_PTR_NOT_NULL(safe_point__refuse(&cp, &tv));
}

/* ---- the detour ---- */

static void put_word(uint8_t *at, uint64_t w)
{
	memcpy(at, &w, sizeof(w));
}

static uint64_t word_at(const struct detour *d, uint64_t addr)
{
	uint64_t w = 0;

	CU_ASSERT_FATAL(addr >= d->addr && addr + 8 <= d->addr + d->len);
	memcpy(&w, d->bytes + (addr - d->addr), sizeof(w));
	return w;
}

TEST("the bytes of a detour")
{
	static struct detour d;
	static uint8_t xstate[8192];
	struct target_code cp = { .dlopen = 0x1000, .swab = 0x2000, .restore_rt = 0x3000, .dlopen_flags = 2 };
	struct detour_in in = { .xstate = xstate,
				.xstate_sz = sizeof(xstate),
				.path = "/x/y.so",
				.sigmask = 6,
				.saved_errno = 0x01020304,
				.call_again = true };
	uint64_t back, sp;

	in.regs.rsp = 0x7ffff0000123;
	in.regs.rip = 0x5002;
	in.regs.orig_rax = 202;
	in.regs.rax = (unsigned long long)-512;
	put_word(xstate + 464, 7); /* x87, SSE, AVX */
	CU_ASSERT_EQUAL_FATAL(sig_frame__build(&cp, &in, &d), 0);
	CU_ASSERT(d.addr + d.len <= in.regs.rsp - 128); /* the red zone is the thread's */
	CU_ASSERT_EQUAL(d.regs.rip, cp.dlopen);
	CU_ASSERT_EQUAL(d.regs.rsp % 16, 8);
	CU_ASSERT_EQUAL((int64_t)d.regs.orig_rax, -1);
	CU_ASSERT_EQUAL(word_at(&d, d.regs.rsp), cp.restore_rt);
	CU_ASSERT_STRING_EQUAL((const char *)d.bytes + (d.regs.rdi - d.addr), in.path);
	CU_ASSERT(((d.sigmask ^ in.sigmask) & SIG_FRAME_MARK) != 0);
	/* first frame: swab(); the second: the thread itself, its system call made again */
	sp = word_at(&d, d.regs.rsp + 8 + 160);
	CU_ASSERT_EQUAL(word_at(&d, d.regs.rsp + 8 + 168), cp.swab);
	CU_ASSERT_EQUAL(sp % 16, 8);
	back = sp + 8;
	CU_ASSERT_EQUAL(word_at(&d, sp), cp.restore_rt);
	CU_ASSERT_EQUAL(word_at(&d, back + 160), in.regs.rsp);
	CU_ASSERT_EQUAL(word_at(&d, back + 168), 0x5000);
	CU_ASSERT_EQUAL(word_at(&d, back + 144), 202);
	CU_ASSERT_EQUAL(word_at(&d, back + 296), 6);
	CU_ASSERT_EQUAL(word_at(&d, back + 224) % 64, 0); /* of the vector state */
	CU_ASSERT_EQUAL((uint32_t)word_at(&d, word_at(&d, back + 224) + 464), 0x46505853u);
}

TEST("detours that are refused")
{
	static struct detour d;
	static uint8_t xstate[SIG_FRAME_XSTATE_MAX];
	static char path[5000];
	struct target_code cp = { .dlopen = 0x1000 };
	struct detour_in in = { .xstate = xstate, .xstate_sz = 500, .path = "/x" };

	in.regs.rsp = 0x7ffff0000123;
	CU_ASSERT_EQUAL(sig_frame__build(&cp, &in, &d), -ENOTSUP); /* no header */
	in.xstate_sz = 600;
	put_word(xstate + 464, 7);
	CU_ASSERT_EQUAL(sig_frame__build(&cp, &in, &d), -ENOTSUP); /* no room for AVX, that it has */
	in.xstate_sz = sizeof(xstate);
	put_word(xstate + 512, 1ULL << 18);
	CU_ASSERT_EQUAL(sig_frame__build(&cp, &in, &d), -ENOTSUP); /* tiles in use */
	put_word(xstate + 512, 0);
	memset(path, 'a', sizeof(path) - 1);
	in.path = path;
	CU_ASSERT_EQUAL(sig_frame__build(&cp, &in, &d), -E2BIG);
}

/* ---- Python's table ---- */

/* As 3.14.0 has it (Include/internal/pycore_debug_offsets.h), without what is not read. */
static size_t good_table(uint8_t *bytes, uint64_t version)
{
	static const uint64_t support[] = { 24, 304, 8076, 0, 4, 512 };
	uint64_t w[256] = { 0 };

	memcpy(w, "xdebugpy", 8);
	w[1] = version;
	w[3] = 316616;
	w[5] = 808;
	w[6] = 225864;
	w[10] = 7360;
	for (size_t i = 11; i < 89; i++)
		w[i] = i % 5 * 16;
	for (size_t i = 0; i < 6; i++)
		w[89 + i] = support[i];
	for (size_t i = 95; i < 256; i++)
		w[i] = (uint64_t)i << 40 | i;
	memcpy(bytes, w, sizeof(w));
	return sizeof(w);
}

TEST("Python's table for debuggers")
{
	struct py_offsets off;
	uint8_t bytes[2048];
	size_t len = good_table(bytes, 0x030e0af0);
	const char *why;

	CU_ASSERT_EQUAL_FATAL(py_offsets__parse(bytes, len, &off, &why), 0);
	CU_ASSERT(off.minor == 14 && !off.free_threaded && off.interpreters_head == 808 &&
		  off.threads_main == 7360);
	CU_ASSERT(off.eval_breaker == 24 && off.support == 304 && off.enabled == 8076 && off.path == 4);
	CU_ASSERT(off.pending == 0 && off.path_size == 512);
	for (size_t i = 0; i < 95 * 8; i += 8)
		CU_ASSERT_EQUAL(py_offsets__parse(bytes, i, &off, &why), -ENOTSUP); /* cut off */
	good_table(bytes, 0x030d01f0);
	CU_ASSERT_EQUAL(py_offsets__parse(bytes, len, &off, &why), -ENOTSUP);
	CU_ASSERT(strstr(why, "older") != NULL);
	good_table(bytes, 0x040000f0);
	CU_ASSERT_EQUAL(py_offsets__parse(bytes, len, &off, &why), -ENOTSUP);
	good_table(bytes, 0x030e0af0);
	bytes[0] ^= 1;
	CU_ASSERT_EQUAL(py_offsets__parse(bytes, len, &off, &why), -ENOTSUP);
}

/* The result is bounded for any table. */
TEST("a hostile table")
{
	struct py_offsets off;
	uint8_t bytes[2048];
	uint64_t seed = 88172645463325252ULL;
	size_t len, at;
	const char *why;
	uint32_t taken = 0;

	for (uint32_t i = 0; i < 200000; i++) {
		len = good_table(bytes, 0x030e0af0);
		seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
		at = (seed % 84 + 11) * 8;
		if (i & 1)
			at = ((seed >> 8) % 8 + 3) * 8;
		put_word(bytes + at, i & 2 ? seed : seed % 100000);
		if (py_offsets__parse(bytes, len, &off, &why))
			continue;
		taken++;
		CU_ASSERT(off.interpreters_head < 8u << 20 && off.threads_main < 8u << 20);
		CU_ASSERT(off.enabled < 8u << 20 && off.eval_breaker < off.support && off.support < 65536);
		CU_ASSERT(off.pending + off.path <= 128 && off.path_size <= 65536);
	}
	CU_ASSERT(taken > 1000 && taken < 200000);
}

/* ---- real threads ---- */

TEST("facts of a thread")
{
	struct thread_status st;
	struct stack_map sm;
	sigset_t set;
	int local = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	CU_ASSERT_EQUAL(thread_status__read(getpid(), 0, &st), 0);
	CU_ASSERT(st.state == 'R' && !st.tracer && st.ns_pid == getpid() && st.uid == getuid() &&
		  st.gid == getgid());
	CU_ASSERT_EQUAL(st.blocked, 1ULL << (SIGUSR1 - 1));
	CU_ASSERT_EQUAL(st.pending, 1ULL << (SIGUSR1 - 1));
	signal(SIGUSR1, SIG_IGN);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	CU_ASSERT_EQUAL(thread_status__read(1 << 22 | 1, 0, &st), -ESRCH);
	CU_ASSERT(thread_facts__stack(getpid(), (uintptr_t)&local, &sm));
	CU_ASSERT(sm.start <= (uintptr_t)&local && sm.end > (uintptr_t)&local && sm.floor < sm.start);
	CU_ASSERT(!thread_facts__stack(getpid(), (uintptr_t)run_suite, &sm)); /* not writable */
	CU_ASSERT(!thread_facts__stack(getpid(), 16, &sm));
}

static int fill_x(void *arg, int fd)
{
	(void)arg;
	return write(fd, "x", 1) == 1 ? 0 : -EIO;
}

static int fill_nothing(void *arg, int fd)
{
	(void)fd;
	++*(int *)arg;
	return -ENOSPC;
}

/* Temporary files of a process: here this one, whose root directory is ours. */
TEST("temporary files")
{
	struct root_temp a = ROOT_TEMP_NONE, b = ROOT_TEMP_NONE;
	char stem[400];
	struct stat st;
	int tried = 0;

	CU_ASSERT_EQUAL_FATAL(root_temp__create(getpid(), "ptbpf-test", ".x", ROOT_TEMP_CODE,
						fill_x, NULL, &a),
			      0);
	CU_ASSERT_EQUAL_FATAL(root_temp__create(getpid(), "ptbpf-test", ".x", ROOT_TEMP_ANSWER,
						NULL, NULL, &b),
			      0);
	CU_ASSERT(strcmp(a.path, b.path) != 0 && strstr(a.path, "/ptbpf-test-") &&
		  !strcmp(strrchr(a.path, '.'), ".x"));
	CU_ASSERT(!stat(a.path, &st) && S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0600 &&
		  st.st_uid == geteuid());
	CU_ASSERT_EQUAL(st.st_size, 1);
	root_temp__remove(&a);
	CU_ASSERT(a.fd == -1 && !a.exists && stat(a.path, &st) && errno == ENOENT);
	root_temp__remove(&a); /* again: nothing */
	close(b.fd);
	b.fd = -1;
	root_temp__remove(&b);
	CU_ASSERT(stat(b.path, &st) && errno == ENOENT);
	/* one that is full: the next is tried */
	CU_ASSERT_EQUAL(root_temp__create(getpid(), "ptbpf-test", ".x", ROOT_TEMP_SCRIPT,
					  fill_nothing, &tried, &a),
			-ENOSPC);
	CU_ASSERT(tried > 1 && !a.exists && a.fd == -1 && a.dir == -1);
	memset(stem, 'a', sizeof(stem) - 1);
	stem[sizeof(stem) - 1] = '\0';
	CU_ASSERT_EQUAL(root_temp__create(getpid(), stem, ".x", ROOT_TEMP_SCRIPT, NULL, NULL, &a),
			-ENAMETOOLONG);
	CU_ASSERT(root_temp__create(1 << 22 | 1, "x", ".x", ROOT_TEMP_SCRIPT, NULL, NULL, &a) < 0 &&
		  !a.exists);
}

/* No link in the path of a file is followed. */
TEST("no link is followed")
{
	char dir[] = "/tmp/ptbpf-root-file.XXXXXX", path[96], link[96];
	int fd;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/file", dir);
	snprintf(link, sizeof(link), "%s/link", dir);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	CU_ASSERT_FATAL(fd >= 0);
	close(fd);
	fd = file_server__open(getpid(), path, FILE_SERVER_KERNEL);
	CU_ASSERT(fd >= 0);
	close(fd);
	CU_ASSERT_EQUAL(symlink(dir, link), 0);
	snprintf(path, sizeof(path), "%s/link/file", dir);
	CU_ASSERT(file_server__open(getpid(), path, FILE_SERVER_KERNEL) < 0);
	CU_ASSERT_EQUAL(file_server__open(getpid(), link, FILE_SERVER_KERNEL), -ELOOP);
	snprintf(path, sizeof(path), "%s/../x", dir);
	CU_ASSERT(file_server__open(getpid(), path, FILE_SERVER_KERNEL) < 0);
	unlink(link);
	snprintf(path, sizeof(path), "%s/file", dir);
	unlink(path);
	rmdir(dir);
}

TEST("places in the code")
{
	struct target_code cp;
	uint64_t got;
	char why[128];

	CU_ASSERT_EQUAL_FATAL(target_code__find(getpid(), &cp, why, sizeof(why)), 0);
	CU_ASSERT_PTR_NOT_NULL(target_code__object(&cp, cp.dlopen));
	CU_ASSERT(!memcmp((const void *)(uintptr_t)cp.restore_rt, "\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9));
	CU_ASSERT(OWN_ALLOCATOR || target_code__busy(&cp, (uintptr_t)malloc) != NULL);
	CU_ASSERT_PTR_NULL(target_code__object(&cp, (uintptr_t)run_suite));
	__asm__ volatile("mov %%fs:0, %0" : "=r"(got));
	CU_ASSERT_EQUAL(got + cp.errno_tpoff, (uintptr_t)&errno);
	target_code__clear(&cp);
	CU_ASSERT(target_code__find(1 << 22 | 1, &cp, why, sizeof(why)) < 0 && *why);
}

/* A child that waits in read(): loaded into, it waits on, and finds its errno as it was. */
TEST("a real detour")
{
	struct inject_opts opts = { .lib_path = INJECT_LIB, .only = INJECT_PTRACE };
	struct inject_result res;
	uint64_t begin;
	int fds[2], st;
	pid_t pid;
	char c;

	CU_ASSERT_FATAL(!pipe(fds));
	pid = fork();
	if (!pid) {
		errno = 33;
		st = read(fds[0], &c, 1) == 1 && c == 'x' && errno == 33 ? 0 : 1;
		_exit(st);
	}
	opts.limit_ns = OWN_ALLOCATOR ? 200000000 : 2000000000;
	begin = clock__mono_ns();
	CU_ASSERT_EQUAL(inject__load(pid, &opts, &res), OWN_ALLOCATOR ? -EBUSY : 0);
	if (!OWN_ALLOCATOR) {
		CU_ASSERT(res.method == INJECT_PTRACE && res.tries >= 1 && res.stopped_ns && !*res.why);
		/* the only thread, asleep: not before half of the time */
		CU_ASSERT(clock__mono_ns() - begin >= opts.limit_ns / 2);
		CU_ASSERT_EQUAL(inject__load(pid, &opts, &res), 0); /* again: nothing to do */
		CU_ASSERT_EQUAL(res.method, INJECT_NONE);
	}
	opts.only = INJECT_REMOTE_EXEC;
	opts.lib_path = STATIC_PROGRAM;
	CU_ASSERT_EQUAL(inject__load(pid, &opts, &res), -EAGAIN); /* no Python */
	CU_ASSERT(*res.why != 0);
	CU_ASSERT_EQUAL(waitpid(pid, &st, WNOHANG), 0);
	CU_ASSERT_EQUAL(write(fds[1], "x", 1), 1);
	CU_ASSERT_EQUAL(waitpid(pid, &st, 0), pid);
	CU_ASSERT_EQUAL(st, 0);
}

/* A child that waits in read(), and ends with 0 when it gets a byte. */
static pid_t waiting_child(int to_child[2])
{
	pid_t pid;
	char c;

	CU_ASSERT_FATAL(!pipe(to_child));
	pid = fork();
	if (!pid)
		_exit(read(to_child[0], &c, 1) == 1 && c == 'x' ? 0 : 1);
	return pid;
}

/* The memory is another one's, as after an exec, with a stack at the same place: its thread is not touched. */
TEST("the memory of another program")
{
	struct inject_opts opts = { .lib_path = INJECT_LIB, .only = INJECT_PTRACE, .limit_ns = 300000000 };
	struct inject_result res;
	int fds[2][2], st;
	pid_t pid[2];

	for (int i = 0; i < 2; i++)
		pid[i] = waiting_child(fds[i]);
	CU_ASSERT_EQUAL_FATAL(remote_mem__open(pid[1], true, &opts.mem), 0);
	CU_ASSERT_EQUAL(inject__load(pid[0], &opts, &res), -EBUSY);
	CU_ASSERT(OWN_ALLOCATOR || res.tries > 0);
	remote_mem__close(opts.mem);
	for (int i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(write(fds[i][1], "x", 1), 1);
		CU_ASSERT_EQUAL(waitpid(pid[i], &st, 0), pid[i]);
		CU_ASSERT_EQUAL(st, 0);
	}
}

/* A static program has no loader: refused with a sentence. */
TEST("a static program")
{
	struct inject_opts opts = { .lib_path = INJECT_LIB, .limit_ns = 300000000 };
	struct inject_result res;
	int in[2], out[2], st;
	char c;
	pid_t pid;

	CU_ASSERT_FATAL(!pipe(in) && !pipe(out));
	pid = fork();
	if (!pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		execl(STATIC_PROGRAM, STATIC_PROGRAM, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	CU_ASSERT_EQUAL(read(out[0], &c, 1), 1);
	CU_ASSERT_EQUAL(inject__load(pid, &opts, &res), -ENOTSUP);
	CU_ASSERT(strstr(res.why, "static") != NULL);
	close(in[1]);
	CU_ASSERT_EQUAL(waitpid(pid, &st, 0), pid);
	CU_ASSERT_EQUAL(st, 0);
}

SUITE("inject")
