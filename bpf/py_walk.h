/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The walk over the Python frames of a thread, which runs it or is blocked: the same C for BPF and
 * for tests on the host. Bounded on any memory; user/python/frames.c does the same from outside,
 * for the verification of a layout.
 */
#ifndef PTB_PY_WALK_H
#define PTB_PY_WALK_H

#include "py_check.h"

#define PY_FRAMES_SEEN (PTB_PY_FRAMES_MAX + 512) /* with native ones, which have no record */
#define PY_STEP_FRAMES 1 /* in each step: more need more stack than a BPF program has */
#define PY_POSITION_MAX (1 << 28)

/*
 * Reading costs the same for 8 bytes as for a thousand, and most frames of a thread lie one above
 * the other. So the memory before a frame is read with it, within an aligned part that lies in one
 * page. The thread state, and frames on the thread's own stack, are read alone.
 */
#define PY_PART 2048u
#define PY_ALONE 3072u /* where in mem[] that is */
#define PY_MEM_MASK 0xff8u
#define PY_STACK_BYTES (16u << 20) /* above the stack pointer: the thread's stack */

/* A code object's check value, as long as no code object of the process ends. */
#define PY_CHECKED 256
struct py_checked {
	__u64 code; /* enum py_module_call is or-ed to it */
	__u32 check;
	__u32 gen;
};

struct py_walk {
	__u64 frame; /* the next one; 0: there is none */
	__u64 hash;
	__u64 sp;       /* of the thread */
	__u64 part;     /* address of what mem[] begins with, */
	__u32 part_len; /* so many bytes */
	__u32 pos;      /* in mem[]: the frame */
	__u32 gen;      /* of the process's code objects; 0: not known */
	__u32 wrapped;  /* 1: PY_WRAPPED_CALLs were seen, so PY_CALL is no call of its own */
	__u64 mem[PY_MEM_MASK / 8 + 1];
	struct py_check_mem check;
	__u64 at;   /* the current frame */
	__u32 call; /* enum py_module_call: what it is */
	__u32 pad;
	struct ptb_py_frame now, class; /* its record, and of the module that it calls */
	struct ptb_py_stack_def def;
	struct ptb_py_frame frames[PTB_PY_FRAMES_MAX];
};

enum py_walked {
	PY_NO_STATE,  /* the thread's state is not where it should be */
	PY_NO_FRAMES, /* it has none, or no state */
	PY_WALKED,    /* def.id, def.flags and the frames are set */
};

PY_FN void *py_mem_at(struct py_walk *w, __u32 pos)
{
	return (__u8 *)w->mem + (pos & PY_MEM_MASK);
}

/* The word of the object that was read last. */
PY_FN __u64 py_word(struct py_walk *w, __u16 off)
{
	return *(__u64 *)py_mem_at(w, w->pos + off);
}

/* An object of its own. */
PY_FN bool py_read_alone(py_reader rd, struct py_walk *w, __u32 size, __u64 addr)
{
	w->pos = PY_ALONE;
	return !PY_READ(rd, py_mem_at(w, PY_ALONE), size, addr);
}

/* A number for the moments at which so many code objects of this process had ended. */
PY_FN __u32 py_generation(__u32 proc, __u64 ends)
{
	return (__u32)py_mix(proc, ends) | 1;
}

/* The frame that runs on the thread of this thread pointer. */
PY_FN enum py_walked py_first_frame(py_reader rd, struct py_walk *w, const struct ptb_py_layout *l,
				    __u32 proc, __u64 thread)
{
	const struct ptb_py_offsets *off = &l->off;
	__u64 p;

	if (PY_READ(rd, &w->frame, 8, thread + (__u64)(__s64)l->slot))
		return PY_NO_STATE;
	for (__u32 i = 0; i < 2; i++)
		if (i < l->slot_hops && w->frame &&
		    PY_READ(rd, &w->frame, 8, w->frame + l->slot_hop[i]))
			return PY_NO_STATE;
	if (!w->frame)
		return PY_NO_FRAMES;
	if (w->frame & 7 || !py_read_alone(rd, w, PTB_PY_TSTATE_BYTES, w->frame) ||
	    py_word(w, off->tstate_thread_id) != thread)
		return PY_NO_STATE;
	if (off->interp_code_ends != PTB_PY_NONE &&
	    !PY_READ(rd, &p, 8, py_word(w, off->tstate_interp) + off->interp_code_ends))
		w->gen = py_generation(proc, p);
	if (off->tstate_cframe == PTB_PY_NONE) {
		w->frame = py_word(w, off->tstate_frame);
	} else {
		p = py_word(w, off->tstate_cframe);
		if (p & 7 || PY_READ(rd, &w->frame, 8, p + off->tstate_frame))
			return PY_NO_STATE;
	}
	return w->frame ? PY_WALKED : PY_NO_FRAMES;
}

/* False: no such position. */
PY_FN bool py_position(struct py_walk *w, const struct ptb_py_layout *l, __u64 code, __s32 *at)
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

PY_FN bool py_read_frame(py_reader rd, struct py_walk *w, const struct ptb_py_layout *l)
{
	__u64 start = w->frame & ~(__u64)(PY_PART - 1);
	__u32 len = (__u32)(w->frame - start) + PTB_PY_FRAME_BYTES;

	if (w->frame & 7)
		return false;
	if (l->off.lines != PTB_PY_LOCATIONS)
		return py_read_alone(rd, w, PTB_PY_FRAME_OBJECT_BYTES, w->frame);
	if (w->part_len && w->frame - w->part <= w->part_len - PTB_PY_FRAME_BYTES) {
		w->pos = (__u32)(w->frame - w->part);
		return true;
	}
	if (w->frame - w->sp < PY_STACK_BYTES)
		return py_read_alone(rd, w, PTB_PY_FRAME_BYTES, w->frame);
	PY_PIN(len);
	if (len > PY_PART + PTB_PY_FRAME_BYTES || PY_READ(rd, w->mem, len, start))
		return py_read_alone(rd, w, PTB_PY_FRAME_BYTES, w->frame);
	w->part = start;
	w->part_len = len;
	w->pos = len - PTB_PY_FRAME_BYTES;
	return true;
}

/* A code object that a frame has does not end; so what was found when the same number of them had
 * ended is still true. */
PY_FN bool py_check_of(py_reader rd, struct py_walk *w, struct py_checked *checked,
		       const struct ptb_py_layout *l, __u64 code, __u32 *check)
{
	struct py_checked *c = &checked[(code >> 5 ^ code >> 13) & (PY_CHECKED - 1)];

	if (w->gen && (c->code & ~7ULL) == code && c->gen == w->gen) {
		*check = c->check;
		w->call = c->code & 7;
		return true;
	}
	if (!py_check(rd, &w->check, l, code, check))
		return false;
	w->call = l->modules ? py_module_call(rd, &w->check, &l->off) : PY_NO_CALL;
	c->code = code | w->call;
	c->check = *check;
	c->gen = w->gen;
	return true;
}

/* The module that the frame calls: its first variable. */
PY_FN void py_class_of(py_reader rd, struct py_walk *w, const struct ptb_py_layout *l, __u64 frame)
{
	struct ptb_py_frame *f = &w->class;
	__u64 *words = w->check.text; /* the stack of a BPF program has no room */

	f->code = PTB_PY_CLASS;
	f->at = 0;
	f->check = 0;
	if (PY_READ(rd, words, 8, frame + l->off.frame_locals))
		return;
	words[0] &= ~(__u64)l->off.frame_tags;
	if (PY_READ(rd, words + 1, 8, words[0] + l->off.type) || words[1] & 7)
		return;
	f->code |= words[1];
	f->at = (__s32)(words[0] >> 4); /* before words[] is used for its name */
	f->check = py_check_class(rd, &w->check, &l->off, words[1]);
	if (f->check)
		return;
	f->code = PTB_PY_CLASS;
	f->at = 0;
}

PY_FN bool py_is_native(struct py_walk *w, const struct ptb_py_offsets *off)
{
	__u16 at = off->frame_owner;

	return at != PTB_PY_NONE && (py_word(w, at) >> 8 * (at & 7) & 0xff) >= off->frame_native;
}

struct py_run {
	py_reader rd;
	struct py_walk *w;
	struct py_checked *checked;
	const struct ptb_py_layout *l;
};

PY_FN void py_put_frame(struct py_walk *w, const struct ptb_py_frame *f)
{
	__u32 n = w->def.frame_cnt;

	PY_PIN(n); /* the mask stays */
	w->frames[n & (PTB_PY_FRAMES_MAX - 1)] = *f;
	w->def.frame_cnt = n + 1;
	w->hash = py_mix(w->hash, f->code * PY_KEY_LENGTH + ((__u64)f->check << 32 | (__u32)f->at));
}

/* One frame. 1: it was the last one. */
PY_FN long py_one(py_reader rd, struct py_walk *w, struct py_checked *checked,
		  const struct ptb_py_layout *l)
{
	__u32 n = w->def.frame_cnt;
	struct ptb_py_frame *f = &w->now; /* the stack of a BPF program has no room */

	if (!w->frame)
		return 1;
	if (n >= PTB_PY_FRAMES_MAX) {
		w->def.flags = PTB_PY_CUT;
		return 1;
	}
	PY_PIN(n); /* the mask below stays */
	if (!py_read_frame(rd, w, l))
		goto fault;
	w->at = w->frame;
	w->frame = py_word(w, l->off.frame_previous);
	if (py_is_native(w, &l->off)) {
		if (n) {
			w->frames[(n - 1) & (PTB_PY_FRAMES_MAX - 1)].code |= PTB_PY_NATIVE;
			w->hash = py_mix(w->hash, PTB_PY_NATIVE);
		}
		return 0;
	}
	f->code = py_word(w, l->off.frame_code) & ~(__u64)l->off.frame_tags;
	if (!py_position(w, l, f->code, &f->at) ||
	    !py_check_of(rd, w, checked, l, f->code, &f->check))
		goto fault;
	if (w->call == PY_WRAPPED_CALL)
		w->wrapped = 1;
	if (w->call && (w->call == PY_WRAPPED_CALL || !w->wrapped) &&
	    w->def.frame_cnt < PTB_PY_FRAMES_MAX - 1) {
		py_class_of(rd, w, l, w->at);
		py_put_frame(w, &w->class);
	}
	py_put_frame(w, f);
	return 0;
fault:
	w->def.flags = PTB_PY_FAULT;
	return 1;
}
_Static_assert((PTB_PY_FRAMES_MAX & (PTB_PY_FRAMES_MAX - 1)) == 0, "frames are found with a mask");

static long py_step(__u32 nr, void *ctx)
{
	const struct py_run *r = ctx;
	struct py_walk *w = r->w;
	struct py_checked *checked = r->checked;
	const struct ptb_py_layout *l = r->l;
	py_reader rd = r->rd;

	(void)nr;
#ifdef __bpf__
#pragma clang loop unroll(disable) /* two copies need more stack than there is */
#endif
	for (__u32 i = 0; i < PY_STEP_FRAMES; i++)
		if (py_one(rd, w, checked, l))
			return 1;
	return 0;
}

/* The stack of the thread of this thread pointer; w->sp, w->gen are set. checked: PY_CHECKED of
 * them. seed: ids of another one mean other stacks. */
PY_FN enum py_walked py_walk(py_reader rd, struct py_walk *w, struct py_checked *checked,
			     const struct ptb_py_layout *l, __u32 proc, __u64 thread, __u64 seed)
{
	struct py_run run = { .rd = rd, .w = w, .checked = checked, .l = l };
	enum py_walked got = py_first_frame(rd, w, l, proc, thread);

	if (got != PY_WALKED)
		return got;
	w->hash = seed;
	w->part_len = 0;
	w->def.frame_cnt = 0;
	w->def.flags = 0;
#ifdef __bpf__
	bpf_loop(PY_FRAMES_SEEN / PY_STEP_FRAMES, py_step, &run, 0);
#else
	for (__u32 i = 0; i < PY_FRAMES_SEEN / PY_STEP_FRAMES && !py_step(i, &run); i++)
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
