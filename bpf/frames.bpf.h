/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Open calls of each thread, so that an exit finds what only its entry knew. Frames are ordered by
 * stack pointer; what an exception left behind lies below the next entry and is dropped there. The
 * ring keeps the innermost calls: if a call has lost its frame, so has everything outside it, and no
 * exit can take the frame of another call.
 */
#ifndef PTB_FRAMES_BPF_H
#define PTB_FRAMES_BPF_H

static __always_inline struct call_frames *frames_get(__u64 flags)
{
	struct call_frames *fs = bpf_task_storage_get(&call_frames, bpf_get_current_task_btf(),
						      NULL, flags);
	__u32 window = *(volatile __u32 *)&active;

	if (fs && fs->window != window) {
		fs->window = window;
		fs->cnt = 0;
	}
	return fs;
}

static __always_inline struct call_frame *frames_top(struct call_frames *fs)
{
	return &fs->ring[(fs->top - 1) & (PTB_FRAMES_MAX - 1)];
}

/* Takes off the frames with an entry at or below sp. */
static __always_inline void frames_prune(struct call_frames *fs, __u64 sp)
{
	__u32 i;

	for (i = 0; i < PTB_FRAMES_MAX; i++) {
		if (!fs->cnt || frames_top(fs)->sp > sp)
			return;
		fs->top--;
		fs->cnt--;
	}
}

/* fs may be NULL: the exit will count that */
static __always_inline void frames_push(struct call_frames *fs, __u64 sp, __u64 result, __u32 args,
					__u32 cnt)
{
	struct call_frame *f;

	if (!fs)
		return;
	frames_prune(fs, sp);
	fs->top++;
	if (fs->cnt < PTB_FRAMES_MAX)
		fs->cnt++;
	f = frames_top(fs);
	f->sp = sp;
	f->result = result;
	f->args = args;
	f->cnt = cnt;
}

/*
 * The exit of a call of program `args` with its stack pointer at sp: its frame is the innermost with an
 * entry above it. If that is of another call, the entry of this one was not seen.
 */
static __always_inline struct call_frame *frames_pop(__u64 sp, __u32 args)
{
	struct call_frames *fs = frames_get(0);
	struct call_frame *f;

	if (!fs)
		return NULL;
	frames_prune(fs, sp);
	f = frames_top(fs);
	if (!fs->cnt || f->args != args)
		return NULL;
	fs->top--;
	fs->cnt--;
	return f;
}

#endif /* PTB_FRAMES_BPF_H */
