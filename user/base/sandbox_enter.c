/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the child of sandbox.c gives up. The order matters: descriptors and limits while it may still
 * set them, then the identity, then what a change of identity resets (the signal at the parent's death, being
 * dumpable), the filter last.
 */
#define LOG_DOMAIN "sandbox"
#include "base/sandbox_priv.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534

#ifdef __SANITIZE_ADDRESS__
/* AddressSanitizer reserves 20 TiB of addresses: RLIMIT_AS would leave it none. */
#define LIMIT_MEMORY 0
#else
#define LIMIT_MEMORY 1
#endif

/* ---- descriptors ---- */

static int cmp_fd(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

static int close_range_of(unsigned int first, unsigned int last)
{
	return first <= last && syscall(SYS_close_range, first, last, 0) ? -errno : 0;
}

/* Closes all but stderr, out_fd and the job's. */
static int close_others(const struct sandbox_job *job, int out_fd)
{
	uint32_t cnt = job->fd_cnt + 2, i;
	int *keep = calloc(cnt, sizeof(*keep)), err = 0;
	unsigned int next = 0;

	if (!keep)
		return -ENOMEM;
	for (i = 0; i < job->fd_cnt; i++)
		keep[i] = job->fds[i];
	keep[job->fd_cnt] = out_fd;
	keep[job->fd_cnt + 1] = STDERR_FILENO;
	qsort(keep, cnt, sizeof(*keep), cmp_fd);
	for (i = 0; i < cnt && !err; i++) {
		if (keep[i] < (int)next)
			continue;
		if (keep[i] > (int)next)
			err = close_range_of(next, (unsigned int)keep[i] - 1);
		next = (unsigned int)keep[i] + 1;
	}
	free(keep);
	return err ? err : close_range_of(next, ~0u);
}

/* ---- limits ---- */

/* Bytes of address space that the process has; 0: not known. */
static uint64_t mapped_bytes(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%llu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int limit(int what, uint64_t soft, uint64_t hard)
{
	struct rlimit now, rl = { .rlim_cur = soft, .rlim_max = hard };

	if (getrlimit((__rlimit_resource_t)what, &now))
		return -errno;
	if (rl.rlim_max > now.rlim_max) /* it may be lowered only */
		rl.rlim_max = now.rlim_max;
	if (rl.rlim_cur > rl.rlim_max)
		rl.rlim_cur = rl.rlim_max;
	return setrlimit((__rlimit_resource_t)what, &rl) ? -errno : 0;
}

static int set_limits(const struct sandbox_limits *l)
{
	uint64_t mapped = mapped_bytes();
	int err = LIMIT_MEMORY && mapped ?
			  limit(RLIMIT_AS, mapped + l->mem_bytes, mapped + l->mem_bytes) :
			  0;

	if (!err)
		err = limit(RLIMIT_CPU, l->cpu_s, l->cpu_s + 1ull);
	if (!err)
		err = limit(RLIMIT_FSIZE, 0, 0);
	if (!err)
		err = limit(RLIMIT_CORE, 0, 0);
	return err ? err : limit(RLIMIT_NOFILE, 0, 0);
}

/* ---- identity ---- */

static int drop_privileges(pid_t parent)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	/* only who may can become another user: the rest holds for any user */
	if (setgroups(0, NULL) && errno != EPERM)
		return -errno;
	if (setresgid(NOBODY, NOBODY, NOBODY) && errno != EPERM && errno != EINVAL)
		return -errno;
	if (setresuid(NOBODY, NOBODY, NOBODY) && errno != EPERM && errno != EINVAL)
		return -errno;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); /* they go with the permitted ones anyway */
	if (syscall(SYS_capset, &head, none) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
		return -errno;
	return getppid() == parent ? 0 : -ESRCH;
}

/* ---- system calls ---- */

/* What memory, time and the end need; everything else fails with EPERM, which no library takes amiss. */
static const int allowed[] = {
	SYS_brk,         SYS_munmap,        SYS_mremap,         SYS_madvise,      SYS_exit_group,
	SYS_exit,        SYS_clock_gettime, SYS_gettimeofday,   SYS_rt_sigreturn, SYS_futex,
	SYS_getrandom,   SYS_sched_yield,   SYS_rt_sigprocmask, SYS_getpid,       SYS_gettid,
	SYS_fstat,       SYS_pread64, /* of descriptors that it was given: as good as mapping them, and without SIGBUS when a file is cut */
#ifdef __SANITIZE_ADDRESS__
	SYS_sigaltstack, /* AddressSanitizer, before a function that does not return */
#endif
};

#define ALLOWED_CNT (sizeof(allowed) / sizeof(allowed[0]))
#define ARG(n) ((uint32_t)offsetof(struct seccomp_data, args[n])) /* the low half */
#define PROG_MAX (2 * ALLOWED_CNT + 32)

struct prog {
	struct sock_filter insns[PROG_MAX];
	unsigned short cnt;
};

static void add(struct prog *p, struct sock_filter insn)
{
	p->insns[p->cnt++] = insn;
}

/* Returns `action` when the accumulator equals k. */
static void when_equal(struct prog *p, uint32_t k, uint32_t action)
{
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1));
	add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* mmap and mprotect: nothing that can be executed. */
static void no_exec(struct prog *p, uint32_t nr)
{
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 4));
	add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(2)));
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1));
	add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

static int filter_calls(int out_fd)
{
	struct prog p = { .cnt = 0 };
	struct sock_fprog prog = { .filter = p.insns };
	size_t i;

	add(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     offsetof(struct seccomp_data, arch)));
	add(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
	add(&p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	add(&p,
	    (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
	for (i = 0; i < ALLOWED_CNT; i++)
		when_equal(&p, (uint32_t)allowed[i], SECCOMP_RET_ALLOW);
	no_exec(&p, SYS_mmap);
	no_exec(&p, SYS_mprotect);
	/* write, to the two pipes */
	add(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0));
	add(&p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	add(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(0)));
	when_equal(&p, (uint32_t)out_fd, SECCOMP_RET_ALLOW);
	when_equal(&p, STDERR_FILENO, SECCOMP_RET_ALLOW);
	add(&p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	prog.len = p.cnt;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) ? -errno : 0;
}

int sandbox_enter(const struct sandbox_job *job, int out_fd, pid_t parent)
{
	int err = close_others(job, out_fd);

	if (!err)
		err = set_limits(&job->limits);
	if (!err)
		err = drop_privileges(parent);
	return err ? err : filter_calls(out_fd);
}
