/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The only file that traces threads. A thread is seized (no signal, no stop that its parent or a
 * shell could see), interrupted, inspected, and detached. What a stop alone would change is put
 * right: calls that the kernel does not restart are made again. No options are set, so nothing
 * happens to the process when ptbpf dies.
 */
#define LOG_DOMAIN "inject"
#include "inject/inject_priv.h"

#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc_read.h"
#include "inject/seccomp.h"
#include "target/proc.h"

/* clang-format off */
#define STOP_NS 100000000ULL /* a thread that does not stop by then does not soon */
#define SIGMASK_SZ 8
/* struct rseq (Linux uapi/linux/rseq.h): the critical section that it may be in */
#define RSEQ_CS_OFF 8
/* clang-format on */

static long ptrace_request(unsigned int request, pid_t tid, uintptr_t addr, void *data)
{
	long rc = ptrace((enum __ptrace_request)request, tid, (void *)addr, data);

	return rc < 0 ? -errno : rc;
}

static int get_regs(pid_t tid, struct user_regs_struct *regs)
{
	struct iovec iov = { regs, sizeof(*regs) };
	long rc = ptrace_request(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov);

	return rc                           ? (int)rc :
	       iov.iov_len == sizeof(*regs) ? 0 :
					      -ENOTSUP; /* shorter: a 32-bit program */
}

static int set_regs(pid_t tid, const struct user_regs_struct *regs)
{
	struct user_regs_struct copy = *regs;
	struct iovec iov = { &copy, sizeof(copy) };

	return (int)ptrace_request(PTRACE_SETREGSET, tid, NT_PRSTATUS, &iov);
}

/* 0: stopped for us; 1: at the delivery of *sig; negative errno. */
static int wait_stopped(pid_t tid, int *sig)
{
	uint64_t end = clock__mono_ns() + STOP_NS;
	struct timespec nap = { 0, 20000 };
	int st, event;
	pid_t got;

	for (;;) {
		got = waitpid(tid, &st, __WALL | WNOHANG);
		if (got == tid)
			break;
		if (got < 0)
			return -errno;
		if (clock__mono_ns() > end)
			return -ETIMEDOUT;
		nanosleep(&nap, NULL);
	}
	if (!WIFSTOPPED(st))
		return -ESRCH;
	event = st >> 16;
	*sig = WSTOPSIG(st);
	if (event == PTRACE_EVENT_STOP)
		return *sig == SIGTRAP ? 0 : -EBUSY; /* the process is stopped by a signal */
	return event ? 0 : 1;
}

/* Where its struct rseq is; 0: it has none. A kernel that does not report it: *known is false. */
static uint64_t rseq_area(const struct divert_req *req, bool *known)
{
	struct __ptrace_rseq_configuration conf;

	*known = ptrace_request(PTRACE_GET_RSEQ_CONFIGURATION, req->tid, sizeof(conf), &conf) >=
		 (long)sizeof(conf);
	return *known ? conf.rseq_abi_pointer : 0;
}

static const char *check_rseq(const struct divert_req *req)
{
	bool known;
	uint64_t cs, area = rseq_area(req, &known);

	if (!area)
		return NULL;
	if (remote__read(req->pid, area + RSEQ_CS_OFF, &cs, sizeof(cs)))
		return "its rseq area cannot be read";
	return cs ? "it may be in a restartable sequence" : NULL;
}

/* Is it an ordinary thread of this C library? struct tcbhead_t (glibc) points to itself, twice. */
static bool has_tls(const struct divert_req *req, const struct user_regs_struct *regs)
{
	uint64_t tcb[3];

	return regs->fs_base && !remote__read(req->pid, regs->fs_base, tcb, sizeof(tcb)) &&
	       tcb[0] == regs->fs_base && tcb[2] == regs->fs_base;
}

/* NULL: now. */
static const char *why_not_now(const struct divert_req *req, const struct user_regs_struct *regs)
{
	struct thread_view tv = { .regs = *regs };
	struct stack_map sm;
	uint8_t code[2], *stack;
	const char *why;

	if (!has_tls(req, regs))
		return "it is not a thread of the C library";
	if (!thread_facts__stack(req->pid, regs->rsp, &sm))
		return "its stack cannot be found";
	tv.mapped = regs->rsp - sm.start;
	tv.room = regs->rsp - sm.floor;
	tv.stack_sz = sm.end - regs->rsp;
	if (tv.stack_sz > SAFE_POINT_STACK_MAX)
		tv.stack_sz = SAFE_POINT_STACK_MAX;
	if (remote__read(req->pid, regs->rip - sizeof(code), code, sizeof(code)))
		memset(code, 0, sizeof(code));
	tv.code = code;
	stack = xmalloc(tv.stack_sz);
	tv.stack = stack;
	why = remote__read(req->pid, regs->rsp, stack, tv.stack_sz) ?
		      "its stack cannot be read" :
		      safe_point__refuse(req->cp, &tv);
	free(stack);
	return why ? why : check_rseq(req);
}

static int read_thread_state(const struct divert_req *req, struct detour_in *in, uint8_t *xstate,
			     size_t cap)
{
	struct iovec iov = { xstate, cap };
	long rc = ptrace_request(PTRACE_GETREGSET, req->tid, NT_X86_XSTATE, &iov);

	if (!rc)
		rc = ptrace_request(PTRACE_GETSIGMASK, req->tid, SIGMASK_SZ, &in->sigmask);
	if (!rc)
		rc = remote__read(req->pid, in->regs.fs_base + req->cp->errno_tpoff,
				  &in->saved_errno, sizeof(in->saved_errno));
	in->xstate = xstate;
	in->xstate_sz = iov.iov_len;
	in->path = req->path;
	return (int)rc;
}

/*
 * Is the block in the memory that the thread has now? `mem` is that of the program which the
 * process executed when it was opened; the thread may execute another one, which other privileges
 * may come with, while a process that shares the old memory keeps it alive.
 */
static int check_written(const struct divert_req *req, const struct detour *d)
{
	uint8_t *got = xmalloc(d->len);
	int err;

	err = remote__read(req->tid, d->addr, got, d->len) || memcmp(got, d->bytes, d->len) ?
		      -ESRCH :
		      0;
	free(got);
	return err;
}

static int start_detour(struct divert_req *req, const struct user_regs_struct *regs,
			bool call_again)
{
	struct detour_in in = { .regs = *regs, .call_again = call_again };
	struct detour *d = xmalloc(sizeof(*d));
	uint8_t *xstate = xmalloc(SIG_FRAME_XSTATE_MAX);
	int err = read_thread_state(req, &in, xstate, SIG_FRAME_XSTATE_MAX);

	if (!err && getrandom(in.mark, sizeof(in.mark), 0) != sizeof(in.mark))
		err = -EIO;
	if (!err)
		err = sig_frame__build(req->cp, &in, d);
	if (!err)
		/* below the red zone: unused stack */
		err = remote_mem__write(req->mem, d->addr, d->bytes, d->len);
	if (!err)
		err = check_written(req, d);
	if (!err)
		err = set_regs(req->tid, &d->regs);
	if (!err) {
		req->own_mask = in.sigmask;
		/* after the registers: alone it would be for ever */
		ptrace_request(PTRACE_SETSIGMASK, req->tid, SIGMASK_SZ, &d->sigmask);
		req->end = DIVERT_DONE;
	}
	free(d);
	free(xstate);
	return err;
}

/* Do its seccomp filters, if it has any, let it load the library? */
static bool check_filters(struct divert_req *req, const struct thread_status *st)
{
	bool known;
	bool rseq = rseq_area(req, &known) != 0;

	if (!st->seccomp)
		return true;
	req->err = seccomp_check__thread(req->tid, rseq || !known, req->text, sizeof(req->text));
	if (!req->err)
		return true;
	req->why = req->text;
	req->end = DIVERT_REFUSED;
	return false;
}

static void divert_stopped(struct divert_req *req)
{
	struct user_regs_struct regs;
	struct thread_status st;
	struct blocked_call call;
	bool again;

	/* it is stopped now: were its ids given to another process meanwhile? */
	if (!inject__is_running(req->pidfd)) {
		req->end = DIVERT_GONE;
		return;
	}
	req->err = get_regs(req->tid, &regs);
	if (!req->err)
		req->err = thread_status__read(req->pid, req->tid, &st);
	if (req->err)
		return;
	call = (struct blocked_call){ (long)regs.orig_rax,
				      { regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9 },
				      false };
	if (st.pending & ~st.blocked) {
		req->why = "a signal is pending for it";
		return; /* which is why its call ended, if it did */
	}
	again = safe_point__call_fate(&call, (int64_t)regs.rax) == CALL_AGAIN;
	if (!req->only_filters)
		req->why =
			again && !req->asleep_too ?
				"it is blocked in a system call, where it receives the process's signals" :
				why_not_now(req, &regs);
	if (!req->why && check_filters(req, &st)) {
		if (req->only_filters)
			req->end = DIVERT_DONE;
		else
			req->err = start_detour(req, &regs, again);
	}
	if ((req->end != DIVERT_DONE || req->only_filters) &&
	    safe_point__make_again(&call, (int64_t)regs.rax)) {
		regs.rax = regs.orig_rax;
		regs.rip -= 2;
		regs.orig_rax = (unsigned long long)-1;
		set_regs(req->tid, &regs);
	}
}

static void *divert_thread(void *arg)
{
	struct divert_req *req = arg;
	uint64_t begin;
	int stop, sig = 0;
	long rc = ptrace_request(PTRACE_SEIZE, req->tid, 0, NULL);

	if (rc) {
		/* threads of the kernel's own (io_uring) are among them: no reason to give up the
		 * others */
		req->end = rc == -ESRCH         ? DIVERT_GONE :
			   req->tid == req->pid ? DIVERT_REFUSED :
						  DIVERT_NOT_NOW;
		req->err = (int)rc;
		req->why = "ptrace is not permitted";
		return NULL;
	}
	begin = clock__mono_ns();
	rc = ptrace_request(PTRACE_INTERRUPT, req->tid, 0, NULL);
	stop = rc ? (int)rc : wait_stopped(req->tid, &sig);
	if (!stop)
		divert_stopped(req);
	else if (stop == 1)
		req->why = "a signal is pending for it";
	else if (stop == -EBUSY)
		req->why = "the process is stopped";
	else if (stop == -ESRCH)
		req->end = DIVERT_GONE;
	else
		req->why = "it does not stop";
	ptrace_request(PTRACE_DETACH, req->tid, 0,
		       (void *)(uintptr_t)(stop == 1 ? (unsigned int)sig : 0));
	req->stopped_ns = clock__mono_ns() - begin;
	return NULL; /* the end of a tracing thread lets go of what was not stopped */
}

void divert__try(struct divert_req *req)
{
	pthread_t thread;

	req->end = DIVERT_NOT_NOW;
	req->err = 0;
	req->why = NULL;
	req->stopped_ns = 0;
	req->err = -pthread_create(&thread, NULL, divert_thread, req);
	if (req->err) {
		req->end = DIVERT_REFUSED;
		req->why = "cannot create a thread to trace it";
		return;
	}
	pthread_join(thread, NULL);
	if (req->err && req->end == DIVERT_NOT_NOW) {
		if (!req->why)
			req->why = req->err == -ENOTSUP ? "its vector state is not "
							  "supported" :
							  errstr(req->err);
		if (req->err == -ESRCH)
			req->end = DIVERT_GONE;
	}
}

bool divert__is_over(pid_t pid, pid_t tid, uint64_t own_mask)
{
	struct thread_status st;

	return thread_status__read(pid, tid, &st) /* the thread is gone */ ||
	       !((st.blocked ^ own_mask) & SIG_FRAME_MARK);
}
