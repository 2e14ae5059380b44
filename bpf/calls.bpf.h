/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Open calls of each thread, so that an exit finds what only its entry knew. Frames are ordered by
 * stack pointer; what an exception left behind lies below the next entry and is dropped there. The
 * ring keeps the innermost calls: if a call has lost its frame, so has everything outside it, and
 * no exit can take the frame of another call.
 *
 * Each use has a task storage of its own (maps.bpf.h), which begins with a struct call_stack and
 * the ring.
 */
#ifndef PTB_CALLS_BPF_H
#define PTB_CALLS_BPF_H

/* A use of call stacks: constants, so that nothing of it is left when it is compiled. */
struct call_use {
	void *map;
	__u32 size;  /* of a frame, which begins with a struct call_head */
	__u32 depth; /* frames in the ring, a power of 2 */
	/* a frame that is dropped without its exit; NULL: nothing is to be done */
	void (*dropped)(const struct hit *hit, const void *frame);
};

/* The thread's stack; those of an earlier window are forgotten. flags:
 * BPF_LOCAL_STORAGE_GET_F_CREATE or 0; may be NULL. */
static __always_inline void *calls_get(const struct call_use *use, __u64 flags)
{
	struct call_stack *cs =
		bpf_task_storage_get(use->map, bpf_get_current_task_btf(), NULL, flags);
	__u32 window = *(volatile __u32 *)&active;

	if (cs && cs->window != window) {
		cs->window = window;
		cs->cnt = 0;
	}
	return cs;
}

/* The innermost frame, if cs->cnt. */
static __always_inline void *calls_top(const struct call_use *use, struct call_stack *cs)
{
	return (void *)(cs + 1) + ((cs->top - 1) & (use->depth - 1)) * use->size;
}

static __always_inline void calls_drop(const struct call_use *use, const void *frame,
				       const struct hit *hit)
{
	if (use->dropped)
		use->dropped(hit, frame);
}

/* Calls with an entry at or below sp are over, and their exits were not seen. */
static __always_inline void calls_prune(const struct call_use *use, struct call_stack *cs,
					const struct hit *hit, __u64 sp)
{
	for (__u32 i = 0; i < use->depth; i++) {
		struct call_head *f = calls_top(use, cs);

		if (!cs->cnt || f->sp > sp)
			return;
		calls_drop(use, f, hit);
		cs->top--;
		cs->cnt--;
	}
}

/* Room for a frame; where calls are nested too deep, the outermost one is dropped. Its head is
 * filled in. */
static __always_inline void *calls_push(const struct call_use *use, struct call_stack *cs,
					const struct hit *hit, __u64 sp, __u32 args)
{
	struct call_head *f;

	cs->top++;
	f = calls_top(use, cs);
	if (cs->cnt < use->depth)
		cs->cnt++;
	else
		calls_drop(use, f, hit);
	f->sp = sp;
	f->args = args;
	return f;
}

/*
 * Takes off the frame of the call that ends with its stack pointer at sp: the innermost with an
 * entry above it. NULL: that is another call's, the entry of this one was not seen.
 */
static __always_inline void *calls_pop(const struct call_use *use, struct call_stack *cs,
				       const struct hit *hit, __u64 sp, __u32 args)
{
	struct call_head *f;

	calls_prune(use, cs, hit, sp);
	f = calls_top(use, cs);
	if (!cs->cnt || f->args != args)
		return NULL;
	cs->top--;
	cs->cnt--;
	return f;
}

/* The six words of arguments in registers. */
static __always_inline void regs_args(struct pt_regs *ctx, __u64 *words)
{
	words[0] = PT_REGS_PARM1(ctx);
	words[1] = PT_REGS_PARM2(ctx);
	words[2] = PT_REGS_PARM3(ctx);
	words[3] = PT_REGS_PARM4(ctx);
	words[4] = PT_REGS_PARM5(ctx);
	words[5] = ctx->r9;
}

#endif /* PTB_CALLS_BPF_H */
