/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The rules of inject_priv.h. The loader and the allocator are not re-entrant: dlopen() on a thread
 * that is inside of one of them would see half-changed data, or wait for a lock that its own thread
 * holds.
 *
 * - A thread that runs (is in no system call): its instruction is in neither libc, loader nor
 *   allocator.
 * - One that waits in a system call: only in calls that wait, never in those by which memory and
 *   locks are managed, and not for a lock of the kind that guards the allocator.
 * - Near the top of its stack is no return address into any of them that may hold a lock, and none
 *   in a wide circle into those that call foreign functions while they do (dl_iterate_phdr, fork,
 *   exit, dlclose). A constructor, far below dlopen(), may call dlopen() itself: that is no reason.
 *   Addresses that finished calls have left there cannot be distinguished from others; they cost
 *   nothing but another poll.
 * - Nowhere on its stack is a signal frame: what it interrupted may be any of these.
 */
#include "inject/inject_priv.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "target/elf.h"

/* Linux include/linux/errno.h: never seen by programs, but by a tracer */
#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516

#define NEAR 2048u /* bytes of stack that a function without calls has at most */
#define FAR 65536u /* and that a callback of libc's may have */

/* ---- system calls ---- */

enum call_kind {
	KIND_OTHER, /* not one of those below */
	KIND_WAITS, /* restarted by the kernel, by making it again */
	/* the same, but with EINTR from a socket that has a time limit, and from some devices */
	KIND_IO,
	/* the same, but for a relative time limit, which only the kernel can continue */
	KIND_TIMED,
	KIND_SLEEP,  /* the same, unless args[1] says that it is absolute */
	KIND_SELECT, /* with a pointer to one in args[4], NULL: none */
	KIND_PPOLL,  /* in args[2] */
	KIND_POLL,   /* in args[2] in ms, negative: none */
	KIND_FUTEX,
	KIND_EPOLL,  /* fails with EINTR at any stop; time limit in args[3], negative: none */
	KIND_EPOLL2, /* the same with a pointer to it, NULL: none */
	KIND_EINTR,  /* fails with EINTR at any stop */
};

static enum call_kind call_kind_of(long nr)
{
	switch (nr) {
	case SYS_read:
	case SYS_readv:
	case SYS_write:
	case SYS_writev:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_recvfrom:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_accept:
	case SYS_accept4:
		return KIND_IO;
	case SYS_wait4:
	case SYS_waitid:
	case SYS_pause:
	case SYS_sched_yield:
	case SYS_flock:
		return KIND_WAITS;
	case SYS_nanosleep:
		return KIND_TIMED;
	case SYS_clock_nanosleep:
		return KIND_SLEEP;
	case SYS_select:
	case SYS_pselect6:
		return KIND_SELECT;
	case SYS_ppoll:
		return KIND_PPOLL;
	case SYS_poll:
		return KIND_POLL;
	case SYS_futex:
		return KIND_FUTEX;
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return KIND_EPOLL;
	case SYS_epoll_pwait2:
		return KIND_EPOLL2;
	case SYS_rt_sigtimedwait:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_io_getevents:
	case SYS_io_pgetevents:
	case SYS_io_uring_enter:
	case SYS_futex_waitv:
		return KIND_EINTR;
	default:
		return KIND_OTHER;
	}
}

static int futex_op(const struct blocked_call *call)
{
	return (int)(uint32_t)call->args[1] & FUTEX_CMD_MASK;
}

/*
 * Does the call end at the same moment when it is made again? Waits on conditions, semaphores and
 * threads have an absolute time limit or none (glibc nptl/futex-internal.c).
 */
static bool is_timeless(const struct blocked_call *call)
{
	switch (call_kind_of(call->nr)) {
	case KIND_SLEEP:
		return call->args[1] & TIMER_ABSTIME;
	case KIND_SELECT:
		return !call->args[4];
	case KIND_PPOLL:
		return !call->args[2];
	case KIND_POLL:
		return (int32_t)call->args[2] < 0;
	case KIND_FUTEX:
		return futex_op(call) == FUTEX_WAIT_BITSET ||
		       (futex_op(call) == FUTEX_WAIT && !call->args[3]);
	case KIND_EPOLL:
		return (int32_t)call->args[3] < 0;
	case KIND_EPOLL2:
		return !call->args[3];
	case KIND_WAITS:
		return true;
	case KIND_IO:
		return call->on_pipe;
	default:
		return false;
	}
}

static bool is_our_eintr(const struct blocked_call *call, int64_t result)
{
	enum call_kind kind = call_kind_of(call->nr);

	return call->nr >= 0 && result == -EINTR &&
	       (kind == KIND_EPOLL || kind == KIND_EPOLL2 || kind == KIND_EINTR || kind == KIND_IO);
}

enum call_fate safe_point__call_fate(const struct blocked_call *call, int64_t result)
{
	if (call->nr < 0)
		return CALL_NONE;
	switch (result) {
	case -ERESTARTSYS:
	case -ERESTARTNOINTR:
	case -ERESTARTNOHAND:
		return CALL_AGAIN;
	case -ERESTART_RESTARTBLOCK:
		return is_timeless(call) ? CALL_AGAIN : CALL_KERNEL;
	case -EINTR:
		return is_our_eintr(call, result) ? (is_timeless(call) ? CALL_AGAIN : CALL_KERNEL) :
						    CALL_NONE;
	default:
		return CALL_NONE;
	}
}

bool safe_point__make_again(const struct blocked_call *call, int64_t result)
{
	return is_our_eintr(call, result) || (result == -ERESTART_RESTARTBLOCK &&
					      safe_point__call_fate(call, result) == CALL_AGAIN);
}

/* Waits for a lock of libc's lowest kind, or a mutex: which, is not known. */
static bool waits_for_lock(const struct blocked_call *call)
{
	return call->nr == SYS_futex && futex_op(call) != FUTEX_WAIT_BITSET &&
	       !(futex_op(call) == FUTEX_WAIT && call->args[2] != 2);
}

bool safe_point__may_stop(const struct blocked_call *call)
{
	switch (call_kind_of(call->nr)) {
	case KIND_OTHER:
	case KIND_EINTR:
	case KIND_EPOLL: /* it could be made again, but not if ptbpf were killed at that moment */
	case KIND_EPOLL2:
	case KIND_TIMED:
		return call->nr < 0;
	default:
		return is_timeless(call) && !waits_for_lock(call);
	}
}

/* ---- stack ---- */

static uint64_t stack_word(const struct thread_view *tv, size_t off)
{
	uint64_t w;

	memcpy(&w, tv->stack + off, sizeof(w));
	return w;
}

/* Is there a call instruction before addr? Then addr may be where it returns to. */
static bool follows_call(const struct code_object *o, uint64_t addr)
{
	uint32_t modrm, want;
	uint8_t p[8];

	if (o->fd <= 0 || !code_object__before(o, addr, p))
		return true; /* at the very beginning of the text: cannot be excluded */
	if (p[3] == 0xe8)
		return true;
	for (uint32_t n = 2; n <= 7; n++) { /* ff /2 with ModRM, SIB and displacement */
		modrm = p[8 - n + 1];
		if (p[8 - n] != 0xff || (modrm >> 3 & 7) != 2)
			continue;
		want = modrm >> 6 != 3 && (modrm & 7) == 4 ? 3 : 2;
		want += modrm >> 6 == 1 ? 1 : modrm >> 6 == 2 || (modrm & 0xc7) == 5 ? 4 : 0;
		if (n == want || (n == 7 && want == 3)) /* SIB without base: disp32 */
			return true;
	}
	return false;
}

static const char *unfinished_call(const struct target_code *cp, const struct thread_view *tv)
{
	size_t end = tv->stack_sz < FAR ? tv->stack_sz : FAR;
	const struct code_object *o;
	const struct code_range *busy;
	uint64_t w;

	for (size_t off = 0; off + 8 <= end; off += 8) {
		w = stack_word(tv, off);
		o = target_code__object(cp, w);
		busy = o && o->kind == CODE_LIBC ? target_code__busy(cp, w) : NULL;
		if (!o || (o->kind == CODE_LIBC && !busy) ||
		    (off >= NEAR && !(busy && busy->calls_out)) || !follows_call(o, w))
			continue;
		return o->kind == CODE_LOADER ?
			       "a call of the loader is unfinished" :
		       o->kind == CODE_ALLOCATOR ?
			       "a call of the allocator is unfinished" :
			       "a call of the C library that holds a lock is unfinished";
	}
	return NULL;
}

/*
 * struct rt_sigframe (Linux arch/x86/include/asm/sigframe.h): the address that the handler returns
 * to, then struct ucontext: flags (few), link (0), stack, registers with rip at 168 and cs at 184
 * of it.
 */
static bool is_signal_frame(const struct thread_view *tv, size_t off)
{
	uint64_t flags, cs;

	if (off + 8 + 304 > tv->stack_sz)
		return true; /* cut off: cannot be excluded */
	flags = stack_word(tv, off + 8);
	cs = stack_word(tv, off + 8 + 184) & 0xffff;
	return flags < 16 && !stack_word(tv, off + 16) && cs == tv->regs.cs;
}

static bool in_handler(const struct target_code *cp, const struct thread_view *tv)
{
	for (size_t off = 0; off + 8 <= tv->stack_sz; off += 8)
		if (stack_word(tv, off) == cp->restore_rt && is_signal_frame(tv, off))
			return true;
	return false;
}

/* ---- the whole ---- */

static const char *refuse_call(const struct thread_view *tv, const struct blocked_call *call)
{
	if (call->nr < 0)
		return NULL;
	if (tv->code[0] != 0x0f || tv->code[1] != 0x05)
		return "it is in a system call that was not made as 64-bit programs do";
	if (call_kind_of(call->nr) == KIND_OTHER)
		return "it is in a system call";
	if (safe_point__call_fate(call, (int64_t)tv->regs.rax) == CALL_KERNEL)
		return "it is in a timed wait that would restart";
	if (waits_for_lock(call))
		return "it waits for a lock";
	return NULL;
}

const char *safe_point__refuse(const struct target_code *cp, const struct thread_view *tv)
{
	const struct user_regs_struct *r = &tv->regs;
	const struct code_object *o = target_code__object(cp, r->rip);
	struct blocked_call call = { .nr = (long)r->orig_rax,
				     .args = { r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9 } };
	const char *why;

	if (r->cs != 0x33)
		return "it runs 32-bit code";
	why = refuse_call(tv, &call);
	if (why)
		return why;
	if (o && o->kind == CODE_LOADER)
		return "it is in the loader";
	if (o && o->kind == CODE_ALLOCATOR)
		return "it is in the allocator";
	if (o && (call.nr < 0 || target_code__busy(cp, r->rip)))
		return "it is in the C library";
	if (tv->room < SAFE_POINT_ROOM || tv->mapped < SAFE_POINT_MAPPED)
		return "it has too little stack left";
	why = unfinished_call(cp, tv);
	if (why)
		return why;
	return in_handler(cp, tv) ? "it is in a signal handler" : NULL;
}
