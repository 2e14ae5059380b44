/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The system calls of an injection, and what the kernel would make of them. The list is what glibc
 * 2.31 to 2.42 and the agent were seen to do, with all variants of a call that one of these
 * versions uses.
 */
#define LOG_DOMAIN "inject"
#include "inject/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"

#define FILTERS_MAX 64

enum need {
	NEED_IT,   /* nothing is loaded, or wrong things happen, without */
	NEED_ELSE, /* with ENOSYS another call is made instead */
	NEED_NOT,  /* any error will do */
	NEED_RSEQ, /* NEED_IT where threads register */
};

struct wanted {
	const char *name;
	uint32_t nr;
	enum need need;
	uint8_t cnt; /* of args, which are known; the upper half of an int is not */
	struct {
		uint8_t at;
		uint32_t v;
	} args[2];
};

/* clang-format off */
#define CALL0(name_, need_) { #name_, SYS_##name_, need_, 0, { { 0, 0 } } }
#define CALL1(name_, need_, at_, v_) { #name_, SYS_##name_, need_, 1, { { at_, (uint32_t)(v_) } } }
#define CALL2(name_, need_, at_, v_, at2_, v2_) \
	{ #name_, SYS_##name_, need_, 2, { { at_, (uint32_t)(v_) }, { at2_, (uint32_t)(v2_) } } }
/* clang-format on */
#define MAY(name_) CALL0(name_, NEED_NOT)
#define MMAP(prot_, flags_) CALL2(mmap, NEED_IT, 2, prot_, 3, flags_)
#define FUTEX(op_) CALL1(futex, NEED_IT, 1, op_)

/* glibc sysdeps/unix/sysv/linux/createthread.c and pthread_create.c */
#define THREAD_FLAGS                                                                               \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_SIGHAND | CLONE_THREAD |        \
	 CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

static const struct wanted wanted[] = {
	/* a library is mapped (glibc elf/dl-load.c, dl-map-segments.h, dl-reloc.c) */
	CALL2(openat, NEED_IT, 0, AT_FDCWD, 2, O_RDONLY | O_CLOEXEC),
	CALL0(read, NEED_IT),
	MAY(pread64),
	MAY(fstat), /* one of these, by version; without it the loader says no */
	MAY(newfstatat),
	CALL0(close, NEED_IT),
	MMAP(PROT_READ, MAP_PRIVATE | MAP_DENYWRITE),
	MMAP(PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE),
	MMAP(PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_DENYWRITE),
	MMAP(PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE),
	MMAP(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE),
	MMAP(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS),
	CALL1(mprotect, NEED_IT, 2, PROT_NONE),
	CALL1(mprotect, NEED_IT, 2, PROT_READ),
	CALL0(munmap, NEED_IT),
	/* memory (malloc/, the agent's streams) */
	MMAP(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS),
	MMAP(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS),
	MMAP(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE),
	CALL1(mprotect, NEED_IT, 2, PROT_READ | PROT_WRITE),
	CALL0(brk, NEED_IT), /* glibc takes an error for the new end of the heap */
	MAY(getrandom),
	MAY(sched_getaffinity),
	MAY(madvise),
	MAY(futex), /* others than these */
	FUTEX(FUTEX_WAIT),
	FUTEX(FUTEX_WAIT | FUTEX_PRIVATE_FLAG),
	FUTEX(FUTEX_WAKE | FUTEX_PRIVATE_FLAG),
	FUTEX(FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG),
	FUTEX(FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME),
	/* a thread (nptl/) */
	MMAP(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK),
	MMAP(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK),
	CALL0(clone3, NEED_ELSE),
	CALL1(clone, NEED_IT, 0, THREAD_FLAGS),
	CALL0(rseq, NEED_RSEQ),
	MAY(set_robust_list),
	MAY(rt_sigaction),
	CALL1(rt_sigprocmask, NEED_IT, 0, SIG_BLOCK),
	CALL1(rt_sigprocmask, NEED_IT, 0, SIG_UNBLOCK),
	CALL1(rt_sigprocmask, NEED_IT, 0, SIG_SETMASK),
	CALL1(prctl, NEED_NOT, 0, PR_SET_NAME),
	CALL1(prctl, NEED_NOT, 0, 0x53564d41 /* PR_SET_VMA */),
	CALL0(gettid, NEED_IT),
	/* the return, and the agent's work */
	CALL0(rt_sigreturn, NEED_IT),
	CALL1(rt_sigprocmask, NEED_IT, 0, ~0u), /* cupti_agent/read.h */
	CALL0(nanosleep, NEED_IT), /* one of these, or the agent's thread would never sleep */
	CALL1(clock_nanosleep, NEED_IT, 0, CLOCK_REALTIME),
	MAY(restart_syscall),
	CALL0(clock_gettime, NEED_IT), /* where it is a system call */
	CALL1(membarrier, NEED_NOT, 0, MEMBARRIER_CMD_PRIVATE_EXPEDITED),
	CALL1(membarrier, NEED_NOT, 0, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED),
	/*
	 * Python runs a script (Python/ceval_gil.c, Lib/importlib), the process ends, CUPTI is
	 * started: any of these, with any arguments, and each of them copes with any error.
	 */
	MAY(openat),
	MAY(open),
	MAY(read),
	MAY(write),
	MAY(lseek),
	MAY(ioctl),
	MAY(stat),
	MAY(lstat),
	MAY(statx),
	MAY(getdents64),
	MAY(readlink),
	MAY(readlinkat),
	MAY(getcwd),
	MAY(access),
	MAY(faccessat),
	MAY(fcntl),
	MAY(getpid),
	MAY(getppid),
	MAY(getuid),
	MAY(geteuid),
	MAY(getgid),
	MAY(getegid),
	MAY(mmap),
	MAY(mprotect),
	MAY(mremap),
	MAY(munmap),
	MAY(poll),
	MAY(ppoll),
	MAY(pipe2),
	MAY(eventfd2),
	MAY(sched_yield),
	MAY(sysinfo),
	MAY(uname),
	MAY(prlimit64),
	MAY(getrusage),
	MAY(sched_setaffinity),
	MAY(getcpu),
	MAY(get_mempolicy),
	MAY(gettimeofday),
	MAY(clock_getres),
	MAY(socket),
	MAY(connect),
	MAY(memfd_create),
	MAY(ftruncate),
	MAY(unlink),
	MAY(sigaltstack),
	MAY(tgkill),
	MAY(exit),
	MAY(prctl),
};

/* ---- one call ---- */

static struct seccomp_call seccomp_call_of(const struct wanted *w)
{
	struct seccomp_call c = { .data = { .nr = (int)w->nr, .arch = AUDIT_ARCH_X86_64 },
				  .known = SECCOMP_KNOWN_NR | SECCOMP_KNOWN_ARCH };

	for (uint32_t i = 0; i < w->cnt; i++) {
		c.data.args[w->args[i].at] = w->args[i].v;
		c.known |= SECCOMP_KNOWN_LOW(w->args[i].at);
	}
	return c;
}

bool seccomp_check__call(uint32_t idx, struct seccomp_call *out, bool *spare)
{
	if (idx >= sizeof(wanted) / sizeof(wanted[0]))
		return false;
	*out = seccomp_call_of(&wanted[idx]);
	*spare = wanted[idx].need == NEED_NOT;
	return true;
}

static bool accepts_result(const struct wanted *w, bool rseq, uint32_t ret)
{
	uint32_t data = ret & SECCOMP_RET_DATA;

	switch (ret & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
		return true;
	case SECCOMP_RET_ERRNO:
		if (!data) /* would seem to have been done */
			return false;
		return w->need == NEED_NOT || (w->need == NEED_ELSE && data == ENOSYS) ||
		       (w->need == NEED_RSEQ && !rseq);
	default:
		return false;
	}
}

/* ret: NULL, it is not known. */
static void describe_refusal(const char *name, const uint32_t *ret, char *why, size_t cap)
{
	const char *what = "may kill the program for", *error = "";
	char buf[64];
	int data;

	if (!ret) {
		what = "decides by arguments that are not known in advance about";
	} else if ((*ret & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO) {
		what = "returns a result instead of the Linux kernel for";
		data = (int)(*ret & SECCOMP_RET_DATA);
		snprintf(buf, sizeof(buf), ": %s", data ? errstr(-data) : "done");
		error = buf;
	} else if ((*ret & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_TRAP) {
		what = "may send the program a SIGSYS for";
	} else if ((*ret & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_USER_NOTIF ||
		   (*ret & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_TRACE) {
		what = "may ask another process about";
	}
	snprintf(why, cap, "its seccomp filter %s the system call %s, which the agent would make%s",
		 what, name, error);
}

static int check_call(struct seccomp_scratch *scratch, const struct seccomp_prog *progs,
		      uint32_t cnt, const struct wanted *w, bool rseq, char *why, size_t cap)
{
	struct seccomp_call call = seccomp_call_of(w);
	struct seccomp_answers all = { .ret = { SECCOMP_RET_ALLOW }, .cnt = 1 }, one;

	for (uint32_t i = cnt; i-- > 0;) { /* the newest is asked first */
		seccomp_eval__run(scratch, &progs[i], &call, &one);
		if (i + 1 == cnt)
			all = one;
		else
			seccomp_eval__both(&all, &one, &all);
	}
	for (uint32_t i = 0; i < all.cnt; i++)
		if (!accepts_result(w, rseq, all.ret[i])) {
			describe_refusal(w->name, &all.ret[i], why, cap);
			return -EPERM;
		}
	if (all.any)
		describe_refusal(w->name, NULL, why, cap);
	return all.any ? -EPERM : 0;
}

int seccomp_check__progs(const struct seccomp_prog *progs, uint32_t cnt, bool rseq, char *why,
			 size_t cap)
{
	struct seccomp_scratch *scratch;
	int err = 0;

	for (size_t i = 0; i < cnt && !err; i++)
		err = seccomp_eval__check(&progs[i]);
	if (err) {
		snprintf(why, cap, "its seccomp filter cannot be evaluated");
		return -EPERM;
	}
	scratch = seccomp_scratch__new();
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && !err; i++)
		err = check_call(scratch, progs, cnt, &wanted[i], rseq, why, cap);
	seccomp_scratch__free(scratch);
	return err;
}

/* ---- a thread ---- */

/* The idx-th filter, the oldest is 0. -ENOENT: there are no more. */
static int read_filter(pid_t tid, uint32_t idx, struct seccomp_prog *out)
{
	struct sock_filter *insns;
	long n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)(uintptr_t)idx, NULL);

	if (n <= 0 || n > SECCOMP_PROG_MAX)
		return n < 0 ? -errno : -EINVAL;
	insns = xcalloc((size_t)n, sizeof(*insns));
	if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)(uintptr_t)idx, insns) != n) {
		free(insns);
		return -EIO;
	}
	out->insns = insns;
	out->len = (uint32_t)n;
	return 0;
}

int seccomp_check__thread(pid_t tid, bool rseq, char *why, size_t cap)
{
	struct seccomp_prog progs[FILTERS_MAX];
	uint32_t cnt = 0;
	int err = 0;

	while (cnt < FILTERS_MAX && !(err = read_filter(tid, cnt, &progs[cnt])))
		cnt++;
	if (cnt && err == -ENOENT) {
		err = seccomp_check__progs(progs, cnt, rseq, why, cap);
	} else {
		err = err ? err : -E2BIG;
		snprintf(why, cap,
			 "it runs under a seccomp filter that cannot be read (%s) and "
			 "may kill it for a system call of the loader",
			 errstr(err));
	}
	for (uint32_t i = 0; i < cnt; i++)
		free((void *)(uintptr_t)progs[i].insns);
	return err;
}
