/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a child that hostile input has taken over can do: nothing but compute, for a while, with some memory;
 * and what its parent makes of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/sandbox.h"
#include "suite.h"

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define MIB (1ull << 20)

static int run(int (*fn)(void *, uint8_t **, size_t *), void *arg, const int *fds, uint32_t fd_cnt,
	       uint8_t **out, size_t *len)
{
	struct sandbox_job job = { .what = "a test",
				   .fn = fn,
				   .arg = arg,
				   .fds = fds,
				   .fd_cnt = fd_cnt,
				   .limits = { 64 * MIB, 1, 10000, 1 * MIB } };

	return sandbox__run(&job, out, len);
}

/* The error of a job that must give no answer. */
static int error_of(int (*fn)(void *, uint8_t **, size_t *), void *arg)
{
	uint8_t *out;
	size_t len;
	int err = run(fn, arg, NULL, 0, &out, &len);

	CU_ASSERT_PTR_NULL(out);
	CU_ASSERT_EQUAL(len, 0);
	return err;
}

/* ---- answers ---- */

static int fill(void *arg, uint8_t **out, size_t *len)
{
	*len = *(size_t *)arg;
	*out = malloc(*len + 1);
	memset(*out, 'x', *len);
	return 0;
}

static int fail(void *arg, uint8_t **out, size_t *len)
{
	size_t some = 7;

	fill(&some, out, len);
	return -*(int *)arg;
}

TEST("answers")
{
	static const int errs[] = { ENOMEM, EPERM, ENOTSUP, ENOEXEC };
	size_t sizes[] = { 0, 1, 65536, 1 * MIB }, too_much = MIB + 1, len;
	uint8_t *out;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		CU_ASSERT_EQUAL(run(fill, &sizes[i], NULL, 0, &out, &len), 0);
		CU_ASSERT_EQUAL(len, sizes[i]);
		CU_ASSERT(!len || (out && out[0] == 'x' && out[len - 1] == 'x'));
		free(out);
	}
	CU_ASSERT_EQUAL(error_of(fill, &too_much), -E2BIG);
	for (size_t i = 0; i < sizeof(errs) / sizeof(errs[0]); i++)
		CU_ASSERT_EQUAL(error_of(fail, (void *)(uintptr_t)&errs[i]), -errs[i]);
}

/* ---- a child that is taken over ---- */

struct attempts {
	int fd;    /* of the job */
	int other; /* a descriptor that the parent has beside it */
	pid_t parent;
};

#define ATTEMPT_MAX 64

struct findings {
	uint32_t cnt;
	struct {
		char what[31];
		uint8_t worked;
	} tries[ATTEMPT_MAX];
	uint8_t given_fd;
};

static void note(struct findings *f, const char *what, bool worked)
{
	snprintf(f->tries[f->cnt].what, sizeof(f->tries[0].what), "%s", what);
	f->tries[f->cnt++].worked = worked;
}

/* Any other error than that of the filter means that the kernel went on to check the arguments. */
#define TRY(f, what, nr, ...) note(f, what, syscall(nr, __VA_ARGS__) >= 0 || errno != EPERM)

static void try_calls(struct findings *f, const struct attempts *a)
{
	char text[4] = "own";
	struct stat st;

	TRY(f, "open", SYS_open, "/etc/passwd", O_RDONLY);
	TRY(f, "openat", SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY);
	TRY(f, "create", SYS_openat, AT_FDCWD, "/tmp/taken-over", O_CREAT | O_WRONLY, 0600);
	TRY(f, "stat", SYS_stat, "/etc/passwd", &st);
	TRY(f, "unlink", SYS_unlink, "/tmp/none");
	TRY(f, "socket", SYS_socket, AF_INET, SOCK_STREAM, 0);
	TRY(f, "unix socket", SYS_socket, AF_UNIX, SOCK_STREAM, 0);
	TRY(f, "ptrace", SYS_ptrace, PTRACE_TRACEME, 0, 0, 0);
	TRY(f, "ptrace the parent", SYS_ptrace, PTRACE_SEIZE, a->parent, 0, 0);
	TRY(f, "process_vm_writev", SYS_process_vm_writev, a->parent, NULL, 0, NULL, 0, 0);
	TRY(f, "kill", SYS_kill, a->parent, 0);
	TRY(f, "execve", SYS_execve, "/bin/true", NULL, NULL);
	TRY(f, "fork", SYS_fork, 0);
	TRY(f, "clone", SYS_clone, SIGCHLD, 0, 0, 0, 0);
	TRY(f, "bpf", SYS_bpf, 0, NULL, 0);
	TRY(f, "perf_event_open", SYS_perf_event_open, NULL, 0, -1, -1, 0);
	TRY(f, "setuid", SYS_setuid, 0);
	TRY(f, "mount", SYS_mount, "none", "/mnt", "tmpfs", 0, NULL);
	TRY(f, "io_uring", SYS_io_uring_setup, 1, NULL);
	TRY(f, "dup", SYS_dup, STDERR_FILENO);
	TRY(f, "read another descriptor", SYS_read, a->other, text, 1);
	TRY(f, "write to another descriptor", SYS_write, a->other, text, 1);
	TRY(f, "write to stdout", SYS_write, STDOUT_FILENO, text, 3);
	TRY(f, "memory to be executed", SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TRY(f, "memory made executable", SYS_mprotect, (uintptr_t)f & ~4095ul, 4096,
	    PROT_READ | PROT_EXEC);
	TRY(f, "being dumpable", SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
	TRY(f, "outliving the parent", SYS_prctl, PR_SET_PDEATHSIG, 0, 0, 0, 0);
	TRY(f, "more memory", SYS_prlimit64, 0, 9, NULL, NULL);
	TRY(f, "a 32-bit call's number", 0x40000000l + SYS_open, "/etc/passwd", O_RDONLY);
}

static int taken_over(void *arg, uint8_t **out, size_t *len)
{
	const struct attempts *a = arg;
	struct findings *f = calloc(1, sizeof(*f));

	try_calls(f, a);
	f->given_fd = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, a->fd, 0) != MAP_FAILED;
	*out = (uint8_t *)f;
	*len = sizeof(*f);
	return 0;
}

TEST("a child that is taken over can only compute")
{
	struct attempts a = { .fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), .parent = getpid() };
	struct findings *f = NULL;
	uint8_t *out;
	size_t len;

	a.other = open("/dev/null", O_RDWR | O_CLOEXEC);
	CU_ASSERT_FATAL(a.fd >= 0 && a.other >= 0);
	CU_ASSERT_EQUAL_FATAL(run(taken_over, &a, &a.fd, 1, &out, &len), 0);
	CU_ASSERT_EQUAL_FATAL(len, sizeof(*f));
	f = (struct findings *)out;
	CU_ASSERT(f->cnt > 20 && f->cnt <= ATTEMPT_MAX);
	for (uint32_t i = 0; i < f->cnt; i++) {
		if (f->tries[i].worked)
			printf(" %s works;", f->tries[i].what);
		CU_ASSERT(!f->tries[i].worked);
	}
	CU_ASSERT(f->given_fd);
	free(out);
	close(a.fd);
	close(a.other);
}

/* ---- how the kernel describes the child ---- */

static int wait_for_ever(void *arg, uint8_t **out, size_t *len)
{
	const int *fd = arg;

	(void)out;
	(void)len;
	for (;;)
		syscall(SYS_sched_yield, fd);
	return 0;
}

struct status {
	unsigned int uid, gid;
	unsigned long long caps;
	int nnp, seccomp, groups;
};

static bool read_status(pid_t pid, struct status *st)
{
	char path[64], line[256];
	int found = 0;
	FILE *f;

	memset(st, 0xff, sizeof(*st));
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		found += sscanf(line, "Uid: %*u %u", &st->uid) == 1;
		found += sscanf(line, "Gid: %*u %u", &st->gid) == 1;
		found += sscanf(line, "CapPrm: %llx", &st->caps) == 1;
		found += sscanf(line, "NoNewPrivs: %d", &st->nnp) == 1;
		found += sscanf(line, "Seccomp: %d", &st->seccomp) == 1;
		if (!strncmp(line, "Groups:", 7))
			st->groups = (int)strspn(line + 7, " \t\n") != (int)strlen(line + 7);
	}
	if (f)
		fclose(f);
	return found == 5;
}

/* Another process of user nobody may neither trace it nor read its memory. */
static bool nobody_may_trace(pid_t pid)
{
	pid_t kid = fork();
	int status = 0;

	if (!kid) {
		char path[64];

		if (setgid(65534) || setuid(65534))
			_exit(2);
		snprintf(path, sizeof(path), "/proc/%d/mem", pid);
		_exit(!ptrace(PTRACE_SEIZE, pid, 0, 0) || open(path, O_RDONLY) >= 0);
	}
	waitpid(kid, &status, 0);
	return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* The pid of this thread's only child; 0: none yet. */
static pid_t only_child(pid_t of)
{
	char path[64];
	pid_t pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", of, of);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &pid) != 1)
		pid = 0;
	if (f)
		fclose(f);
	return pid;
}

/* The only child that is another one than before, when it is locked in. */
static pid_t next_child(pid_t of, pid_t before)
{
	uint64_t end = clock__mono_ns() + 10000000000ull;
	struct status st;
	pid_t kid;

	do
		kid = only_child(of);
	while ((!kid || kid == before || !read_status(kid, &st) || st.seccomp != 2) &&
	       clock__mono_ns() < end);
	return kid;
}

/* A process that runs a job which does not end by itself; *kid: the job's child, locked in. */
static pid_t start_runner(pid_t *kid)
{
	pid_t runner;

	fflush(stdout);
	runner = fork();
	if (!runner) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		cancel__install();
		_exit(-error_of(wait_for_ever, NULL));
	}
	*kid = next_child(runner, 0);
	return runner;
}

static bool is_gone(pid_t pid)
{
	uint64_t end = clock__mono_ns() + 10000000000ull;

	while (!kill(pid, 0) && clock__mono_ns() < end)
		usleep(1000);
	return kill(pid, 0) != 0;
}

TEST("identity, and death with the parent")
{
	pid_t kid, runner = start_runner(&kid);
	struct status st;

	CU_ASSERT_FATAL(kid > 0 && read_status(kid, &st));
	CU_ASSERT(st.uid >= 0x80000000u && st.gid == st.uid); /* nobody's */
	CU_ASSERT(!st.caps && st.nnp == 1 && st.seccomp == 2 && st.groups == 0);
	CU_ASSERT(!nobody_may_trace(kid));
	kill(runner, SIGKILL);
	waitpid(runner, NULL, 0);
	CU_ASSERT(is_gone(kid));
}

/* ---- signals ---- */

TEST("a signal ends the wait")
{
	static const int signals[] = { SIGINT, SIGTERM };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		pid_t kid, runner = start_runner(&kid);
		int status = 0;

		CU_ASSERT_FATAL(kid > 0);
		kill(runner, signals[i]);
		waitpid(runner, &status, 0);
		CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == ECANCELED);
		CU_ASSERT(is_gone(kid));
	}
}

/* A signal that the input cannot have caused says nothing about it: once it is tried again, and then it is no damaged file. */
TEST("killed by others")
{
	static const int signals[] = { SIGKILL, SIGUSR1 };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		pid_t kid, again, runner = start_runner(&kid);
		int status = 0;

		CU_ASSERT_FATAL(kid > 0);
		kill(kid, signals[i]);
		again = next_child(runner, kid);
		CU_ASSERT_FATAL(again > 0 && again != kid);
		kill(again, signals[i]);
		waitpid(runner, &status, 0);
		CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == EINTR);
	}
}

/* ---- limits ---- */

static int spin(void *arg, uint8_t **out, size_t *len)
{
	volatile uint64_t *n = arg;

	(void)out;
	(void)len;
	for (;;)
		++*n;
	return 0;
}

/* Then SIGKILL follows. */
static int spin_without_signals(void *arg, uint8_t **out, size_t *len)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	return spin(arg, out, len);
}

static int eat_memory(void *arg, uint8_t **out, size_t *len)
{
	uint8_t *p;

	(void)arg;
	(void)out;
	(void)len;
	for (uint32_t i = 0; i < 1024; i++) {
		p = malloc(1 * MIB);
		if (!p)
			return -ENOMEM;
		memset(p, 1, 1 * MIB);
	}
	return 0;
}

TEST("limits")
{
	struct sandbox_job slow = { .what = "a test",
				    .fn = wait_for_ever,
				    .limits = { 64 * MIB, 100, 50, MIB } };
	uint64_t n = 0;
	uint8_t *out;
	size_t len;

	CU_ASSERT_EQUAL(error_of(spin, &n), -ETIMEDOUT);
	CU_ASSERT_EQUAL(error_of(spin_without_signals, &n), -ETIMEDOUT);
	CU_ASSERT_EQUAL(sandbox__run(&slow, &out, &len), -ETIMEDOUT);
	if (!SANITIZED) /* there RLIMIT_AS is left alone, see base/sandbox.c */
		CU_ASSERT_EQUAL(error_of(eat_memory, NULL), -ENOMEM);
}

static int read_cut(void *arg, uint8_t **out, size_t *len)
{
	const volatile uint8_t *p;
	const int *fd = arg;

	(void)out;
	(void)len;
	p = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, *fd, 0);
	if (p == MAP_FAILED)
		return -EINVAL;
	return p[4096] ? -EINVAL : -ENOTSUP;
}

TEST("a truncated file kills the child only")
{
	char path[] = "/tmp/sandbox-cut-XXXXXX";
	int fd = mkstemp(path);
	uint8_t *out;
	size_t len;

	CU_ASSERT_FATAL(fd >= 0 && !unlink(path) && !ftruncate(fd, 1));
	CU_ASSERT_EQUAL(run(read_cut, &fd, &fd, 1, &out, &len), -EIO);
	CU_ASSERT(!ftruncate(fd, 8192));
	CU_ASSERT_EQUAL(run(read_cut, &fd, &fd, 1, &out, &len), -ENOTSUP);
	close(fd);
}

/* ---- messages ---- */

static int talk(void *arg, uint8_t **out, size_t *len)
{
	(void)out;
	(void)len;
	fputs(arg, stderr);
	return 0;
}

TEST("messages are printable")
{
	char path[] = "/tmp/sandbox-output-XXXXXX", text[64] = "";
	char message[] = "a\033[2Jb\xc2\x9b\xff \xc3\xbc\nc";
	int fd = mkstemp(path), old = dup(STDERR_FILENO);
	uint8_t *out;
	size_t len;

	CU_ASSERT_FATAL(fd >= 0 && old >= 0 && !unlink(path));
	dup2(fd, STDERR_FILENO);
	CU_ASSERT_EQUAL(run(talk, message, NULL, 0, &out, &len), 0);
	fflush(stderr);
	dup2(old, STDERR_FILENO);
	CU_ASSERT(pread(fd, text, sizeof(text) - 1, 0) > 0);
	CU_ASSERT_STRING_EQUAL(text, "a?[2Jb?? \xc3\xbc\nc\n");
	free(out);
	close(fd);
	close(old);
}

int main(void)
{
	if (geteuid() != 0) {
		printf("needs root\n");
		return 77;
	}
	return run_suite("sandbox");
}
