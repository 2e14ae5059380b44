/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The walk over the Python frames of the thread that runs it: the same C for BPF and for tests on the host. Bounded on any
 * memory; user/python/frames.c does the same from outside, for the verification of a layout.
 */
#ifndef PTB_PY_WALK_H
#define PTB_PY_WALK_H

#include "py_check.h"

#define PY_STEPS_MAX                                                                               \
	(PTB_PY_FRAMES_MAX + 512) /* frames of Python functions, and native ones between them */
#define PY_POSITION_MAX (1 << 28)

struct py_walk {
	__u64 frame; /* the next one; 0: there is none */
	__u64 hash;
	__u64 raw[32]; /* of the thread state, of a frame */
	struct py_check_mem mem;
	struct ptb_py_stack_def def;
	struct ptb_py_frame frames[PTB_PY_FRAMES_MAX];
};

enum py_walked {
	PY_NO_STATE,  /* the thread's state is not where it should be */
	PY_NO_FRAMES, /* it has none, or no state */
	PY_WALKED,    /* def.id, def.flags and the frames are set */
};

PY_FN __u64 py_word(const struct py_walk *w, __u16 off)
{
	return w->raw[off / 8 & 31];
}

/* The frame that runs on the thread of this thread pointer. */
PY_FN enum py_walked py_first_frame(struct py_walk *w, const struct ptb_py_layout *l, __u64 thread)
{
	const struct ptb_py_offsets *off = &l->off;
	__u64 p;

	if (PY_READ(w->mem.reader, &w->frame, 8, thread + (__u64)(__s64)l->slot))
		return PY_NO_STATE;
	for (__u32 i = 0; i < 2; i++)
		if (i < l->slot_hops && w->frame &&
		    PY_READ(w->mem.reader, &w->frame, 8, w->frame + l->slot_hop[i]))
			return PY_NO_STATE;
	if (!w->frame)
		return PY_NO_FRAMES;
	if (w->frame & 7 || PY_READ(w->mem.reader, w->raw, PTB_PY_TSTATE_BYTES, w->frame) ||
	    py_word(w, off->tstate_thread_id) != thread)
		return PY_NO_STATE;
	if (off->tstate_cframe == PTB_PY_NONE) {
		w->frame = py_word(w, off->tstate_frame);
	} else {
		p = py_word(w, off->tstate_cframe);
		if (p & 7 || PY_READ(w->mem.reader, &w->frame, 8, p + off->tstate_frame))
			return PY_NO_STATE;
	}
	return w->frame ? PY_WALKED : PY_NO_FRAMES;
}

/* False: no such position. */
PY_FN bool py_position(const struct py_walk *w, const struct ptb_py_layout *l, __u64 code, __s32 *at)
{
	__u64 instr = py_word(w, l->off.frame_instr);
	__s64 pos;

	if (l->off.lines == PTB_PY_LOCATIONS)
		pos = (__s64)(instr - (code + l->off.code_start));
	else
		pos = (__s64)(__s32)instr * (l->off.lines == PTB_PY_RANGES ? 2 : 1);
	*at = (__s32)pos;
	return pos >= -2 && pos <= PY_POSITION_MAX;
}

PY_FN bool py_read_frame(struct py_walk *w, const struct ptb_py_layout *l)
{
	if (w->frame & 7)
		return false;
	if (l->off.lines == PTB_PY_LOCATIONS)
		return !PY_READ(w->mem.reader, w->raw, PTB_PY_FRAME_BYTES, w->frame);
	return !PY_READ(w->mem.reader, w->raw, PTB_PY_FRAME_OBJECT_BYTES, w->frame);
}

PY_FN bool py_is_native(const struct py_walk *w, const struct ptb_py_offsets *off)
{
	__u16 at = off->frame_owner;

	return at != PTB_PY_NONE && (py_word(w, at) >> 8 * (at & 7) & 0xff) >= off->frame_native;
}

struct py_run {
	struct py_walk *w;
	const struct ptb_py_layout *l;
};

/* One frame. 1: it was the last one. */
static long py_step(__u32 nr, void *ctx)
{
	struct py_run *r = ctx;
	struct py_walk *w = r->w;
	const struct ptb_py_layout *l = r->l;
	__u32 n = w->def.frame_cnt;
	struct ptb_py_frame f;

	(void)nr;
	if (!w->frame)
		return 1;
	if (n >= PTB_PY_FRAMES_MAX) {
		w->def.flags = PTB_PY_CUT;
		return 1;
	}
	if (!py_read_frame(w, l))
		goto fault;
	w->frame = py_word(w, l->off.frame_previous);
	if (py_is_native(w, &l->off)) {
		if (n) {
			w->frames[(n - 1) & (PTB_PY_FRAMES_MAX - 1)].code |= PTB_PY_NATIVE;
			w->hash = py_mix(w->hash, PTB_PY_NATIVE);
		}
		return 0;
	}
	f.code = py_word(w, l->off.frame_code) & ~(__u64)l->off.frame_tags;
	if (!py_position(w, l, f.code, &f.at) || !py_check(&w->mem, l, f.code, &f.check))
		goto fault;
	w->frames[n & (PTB_PY_FRAMES_MAX - 1)] = f;
	w->def.frame_cnt = n + 1;
	w->hash = py_mix(w->hash, f.code * PY_KEY_LENGTH + ((__u64)f.check << 32 | (__u32)f.at));
	return 0;
fault:
	w->def.flags = PTB_PY_FAULT;
	return 1;
}
_Static_assert((PTB_PY_FRAMES_MAX & (PTB_PY_FRAMES_MAX - 1)) == 0, "frames are found with a mask");

/* The stack of the thread of this thread pointer. seed: ids of another one mean other stacks. */
PY_FN enum py_walked py_walk(struct py_walk *w, const struct ptb_py_layout *l, __u64 thread, __u64 seed)
{
	struct py_run run = { .w = w, .l = l };
	enum py_walked got = py_first_frame(w, l, thread);

	if (got != PY_WALKED)
		return got;
	w->hash = seed;
	w->def.frame_cnt = 0;
	w->def.flags = 0;
#ifdef __bpf__
	bpf_loop(PY_STEPS_MAX, py_step, &run, 0);
#else
	for (__u32 i = 0; i < PY_STEPS_MAX && !py_step(i, &run); i++)
		;
#endif
	if (w->frame && !w->def.flags)
		w->def.flags = PTB_PY_CUT;
	if (!w->def.frame_cnt && !w->def.flags)
		return PY_NO_FRAMES;
	w->def.id = py_mix(w->hash, w->def.flags);
	w->def.id = w->def.id ? w->def.id : 1;
	return PY_WALKED;
}

#endif /* PTB_PY_WALK_H */
