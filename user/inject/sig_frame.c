/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Layouts: Linux arch/x86/include/asm/sigframe.h (struct rt_sigframe), uapi/asm/sigcontext.h
 * (struct sigcontext, struct _fpx_sw_bytes), uapi/asm/ucontext.h; rules of rt_sigreturn:
 * arch/x86/kernel/signal_64.c, fpu/signal.c.
 */
#include "inject/inject_priv.h"

#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct kernel_sigcontext {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15, di, si, bp, bx, dx, ax, cx, sp, ip, flags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
};

struct kernel_frame {
	uint64_t pretcode;
	uint64_t uc_flags, uc_link, ss_sp;
	uint32_t ss_flags, pad;
	uint64_t ss_size;
	struct kernel_sigcontext mc;
	uint64_t sigmask;
	uint8_t siginfo[128];
};

_Static_assert(sizeof(struct kernel_sigcontext) == 256, "struct sigcontext_64");
_Static_assert(offsetof(struct kernel_frame, sigmask) == 8 + 296, "struct ucontext");

#define UC_FP_XSTATE 1u
#define UC_SIGCONTEXT_SS 2u
#define UC_STRICT_RESTORE_SS 4u
/* No such state of an alternative stack: sigreturn keeps the one that is set ("squash all but
 * EFAULT", Linux kernel/signal.c, restore_altstack()). */
#define SS_FLAGS_KEEP 3u

#define SW_BYTES_OFF 464
#define XCR0_OFF SW_BYTES_OFF /* in the regset: the features of this machine (Linux regset.c) */
#define XSTATE_BV_OFF 512
#define XSTATE_LEGACY 576
#define XFEATURE_TILE_DATA 18
#define RED_ZONE 128
#define FLAGS_CLEAN 0x202 /* interrupts on, and the bit that is always 1 */

struct sw_bytes {
	uint32_t magic1, extended_size;
	uint64_t xfeatures;
	uint32_t xstate_size, padding[7];
};

/*
 * The size of the state that every thread may have: without the tiles of AMX, for which a thread
 * must ask; sigreturn takes nothing larger than what the thread has.
 */
static size_t common_size(uint64_t features)
{
	unsigned int eax, ebx, ecx, edx;
	size_t end = XSTATE_LEGACY;

	for (unsigned int i = 2; i < 63; i++) {
		if (!(features >> i & 1) || i == XFEATURE_TILE_DATA)
			continue;
		if (!__get_cpuid_count(0xd, i, &eax, &ebx, &ecx, &edx))
			return 0;
		if (ebx + (size_t)eax > end)
			end = ebx + (size_t)eax;
	}
	return end;
}

/* The state as sigreturn wants it; *out_sz with the magic word at its end. */
static int put_xstate(const struct detour_in *in, uint8_t *to, size_t room, size_t *out_sz)
{
	struct sw_bytes sw = { .magic1 = FP_XSTATE_MAGIC1 };
	uint32_t magic2 = FP_XSTATE_MAGIC2;
	uint64_t features, present;
	size_t size;

	if (in->xstate_sz < XSTATE_LEGACY)
		return -ENOTSUP;
	memcpy(&features, in->xstate + XCR0_OFF, sizeof(features));
	memcpy(&present, in->xstate + XSTATE_BV_OFF, sizeof(present));
	size = common_size(features);
	if (present >> XFEATURE_TILE_DATA & 1 || !size || size > in->xstate_sz)
		return -ENOTSUP;
	if (size + sizeof(magic2) > room)
		return -E2BIG;
	sw.xfeatures = features & ~(1ULL << XFEATURE_TILE_DATA);
	sw.xstate_size = (uint32_t)size;
	sw.extended_size = (uint32_t)(size + sizeof(magic2));
	memcpy(to, in->xstate, size);
	memcpy(to + SW_BYTES_OFF, &sw, sizeof(sw));
	memcpy(to + size, &magic2, sizeof(magic2));
	*out_sz = size + sizeof(magic2);
	return 0;
}

static void frame__init(struct kernel_frame *f, const struct target_code *cp,
			const struct user_regs_struct *r, uint64_t sigmask, uint64_t fpstate)
{
	memset(f, 0, sizeof(*f));
	f->pretcode = cp->restore_rt;
	f->uc_flags = (fpstate ? UC_FP_XSTATE : 0) | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
	f->ss_flags = SS_FLAGS_KEEP;
	f->sigmask = sigmask;
	f->mc = (struct kernel_sigcontext){
		.r8 = r->r8,
		.r9 = r->r9,
		.r10 = r->r10,
		.r11 = r->r11,
		.r12 = r->r12,
		.r13 = r->r13,
		.r14 = r->r14,
		.r15 = r->r15,
		.di = r->rdi,
		.si = r->rsi,
		.bp = r->rbp,
		.bx = r->rbx,
		.dx = r->rdx,
		.ax = r->rax,
		.cx = r->rcx,
		.sp = r->rsp,
		.ip = r->rip,
		.flags = r->eflags,
		.cs = (uint16_t)r->cs,
		.ss = (uint16_t)r->ss,
		.fpstate = fpstate,
	};
}

/* A handler's mask: everything but what a fault raises, and the mark. */
static uint64_t detour_mask(uint64_t own)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
	uint64_t mask = ~0ULL;

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		mask &= ~(1ULL << (faults[i] - 1));
	return (mask & ~SIG_FRAME_MARK) | (~own & SIG_FRAME_MARK);
}

/* swab() swaps the bytes of each pair. */
static uint32_t swap_byte_pairs(uint32_t v)
{
	return (v & 0x00ff00ff) << 8 | (v >> 8 & 0x00ff00ff);
}

/* Where the parts are, from the top of the block downwards. */
struct detour_layout {
	uint64_t fp, text, mark, err, back, call;
};

static void lay_out(struct detour_layout *p, uint64_t rsp, size_t fp_sz, size_t text_sz)
{
	p->fp = (rsp - RED_ZONE - fp_sz) & ~63ULL;
	p->text = (p->fp - text_sz) & ~15ULL;
	p->mark = p->text - SIG_FRAME_MARK_SZ;
	p->err = p->mark - 16;
	/* at a function's first instruction the stack is 8 off a multiple of 16 */
	p->back = ((p->err - sizeof(struct kernel_frame)) & ~15ULL) - 8;
	p->call = ((p->back - sizeof(struct kernel_frame)) & ~15ULL) - 8;
}

static struct user_regs_struct call_regs(const struct user_regs_struct *from, uint64_t func,
					 uint64_t rsp)
{
	struct user_regs_struct r = *from;

	r.rip = func;
	r.rsp = rsp;
	r.eflags = FLAGS_CLEAN;
	r.orig_rax = (unsigned long long)-1; /* no system call that the kernel would restart */
	r.rax = 0;
	return r;
}

int sig_frame__build(const struct target_code *cp, const struct detour_in *in, struct detour *out)
{
	size_t text_sz = strlen(in->path) + 1, fp_sz;
	struct user_regs_struct own = in->regs, put;
	uint8_t fp[SIG_FRAME_XSTATE_MAX];
	struct kernel_frame back, call;
	uint32_t err = swap_byte_pairs(in->saved_errno);
	struct detour_layout p;
	int rc;

	if (text_sz > 4096)
		return -E2BIG;
	rc = put_xstate(in, fp, sizeof(fp), &fp_sz);
	if (rc)
		return rc;
	if (in->call_again) {
		own.rip -= 2;
		own.rax = own.orig_rax;
	}
	lay_out(&p, own.rsp, fp_sz, text_sz);
	out->addr = p.call;
	out->len = p.fp + fp_sz - p.call;
	if (out->len > sizeof(out->bytes))
		return -E2BIG;
	out->sigmask = detour_mask(in->sigmask);
	put = call_regs(&own, cp->swab, p.back);
	put.rdi = p.err;
	put.rsi = own.fs_base + cp->errno_tpoff;
	put.rdx = sizeof(err);
	frame__init(&back, cp, &own, in->sigmask, p.fp);
	frame__init(&call, cp, &put, out->sigmask, 0);
	memset(out->bytes, 0, out->len);
	memcpy(out->bytes, &call, sizeof(call));
	memcpy(out->bytes + (p.back - p.call), &back, sizeof(back));
	memcpy(out->bytes + (p.err - p.call), &err, sizeof(err));
	memcpy(out->bytes + (p.mark - p.call), in->mark, sizeof(in->mark));
	memcpy(out->bytes + (p.text - p.call), in->path, text_sz);
	memcpy(out->bytes + (p.fp - p.call), fp, fp_sz);
	out->regs = call_regs(&own, cp->dlopen, p.call);
	out->regs.rdi = p.text;
	out->regs.rsi = cp->dlopen_flags;
	return 0;
}
