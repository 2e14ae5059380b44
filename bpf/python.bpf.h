/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The Python stack of the thread that hits, before the record of the hit: its frames once for each
 * thread and window, then a number only. Updates no map that threads share: what a thread needs is
 * in its own storage.
 */
#ifndef PTB_PYTHON_BPF_H
#define PTB_PYTHON_BPF_H

#include "py_walk.h"

#define PY_KNOWN 448 /* stacks of a thread that are not emitted again */

const volatile __u32 py_stacks = 0; /* they are recorded */
const volatile __u64 py_seed = 0;

/* By the cookie's process; code_type 0: no stacks of this process. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PTB_PROC_MAX);
	__type(key, __u32);
	__type(value, struct ptb_py_layout);
} py_layouts SEC(".maps");

/* How many code objects of each process have ended, where a probe counts them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PTB_PROC_MAX);
	__type(key, __u32);
	__type(value, __u64);
} py_code_ends SEC(".maps");

/* Kept from one stack of a thread to the next. */
struct py_known {
	struct py_checked checked[PY_CHECKED];
	__u64 stacks[PY_KNOWN]; /* ids; those of another window are other ids */
};

/* Linux 7.2 has at most 8 KiB for one storage of a task (kmalloc_nolock(), mm/slub.c), with some
 * 100 bytes of its own. */
#define PY_STORAGE_MAX (8192 - 256)
_Static_assert(sizeof(struct py_walk) <= PY_STORAGE_MAX, "the kernel has the memory");
_Static_assert(sizeof(struct py_known) <= PY_STORAGE_MAX, "the kernel has the memory");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct py_walk);
} py_walks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct py_known);
} py_known SEC(".maps");

/* A walk that was cut short, or a frame that could not be read. */
static __always_inline void count_stack(const struct py_walk *w)
{
	if (w->def.flags)
		count(w->def.flags & PTB_PY_CUT ? PTB_CNT_PY_CUT : PTB_CNT_PY_FAULT);
}

/* number: of the agent's operator; 0: of the record that follows. */
static __always_inline int emit_stack(const struct hit *hit, __u64 id, __u64 number)
{
	struct slot s =
		number ? slot_reserve(hit, sizeof(struct ptb_agent_stack), PTB_REC_AGENT_STACK, 0) :
			 slot_reserve(hit, sizeof(struct ptb_py_stack), PTB_REC_PY_STACK, 0);
	struct ptb_py_stack *r = s.rec;

	if (!r)
		return 0;
	r->h.site = 0; /* not counted as a hit: that is the record which follows */
	r->id = id;
	if (number)
		((struct ptb_agent_stack *)r)->number = number;
	slot_submit(&s, hit);
	return 0;
}

/* False: lost, and counted. */
static __always_inline bool emit_stack_def(const struct hit *hit, struct py_walk *w)
{
	__u32 len = sizeof(w->def) + w->def.frame_cnt * sizeof(w->frames[0]);

	hdr_fill(&w->def.h, len, PTB_REC_PY_STACK_DEF, 0, hit);
	w->def.h.site = 0;
	barrier_var(len);
	if (len > sizeof(w->def) + sizeof(w->frames))
		return false;
	return emit_copy(hit, &w->def, len);
}

/* Unless it is known. */
static __always_inline void define_stack(const struct hit *hit, struct py_walk *w,
					 struct py_known *known)
{
	__u64 id = w->def.id;
	__u32 at = id % PY_KNOWN;

	barrier_var(at);
	if (at >= PY_KNOWN)
		return; /* never, but a verifier may not know what % leaves */
	if (known->stacks[at] != id)
		known->stacks[at] = emit_stack_def(hit, w) ? id : 0;
}

/* PyCode_Type.tp_dealloc() */
PROBE(code_end)
{
	__u32 proc = hit->proc;
	__u64 *cnt = bpf_map_lookup_elem(&py_code_ends, &proc);

	if (cnt)
		__sync_fetch_and_add(cnt, 1);
	return 0;
}

static __noinline int py_stack(const struct hit *hit, __u64 sp, __u64 number)
{
	__u32 proc = hit->proc, counted;
	const struct ptb_py_layout *l = bpf_map_lookup_elem(&py_layouts, &proc);
	struct task_struct *task = bpf_get_current_task_btf();
	struct py_known *known;
	struct py_walk *w;
	enum py_walked got;
	__u64 *ends;

	if (!l || !l->code_type)
		return 0;
	w = bpf_task_storage_get(&py_walks, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	known = bpf_task_storage_get(&py_known, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!w || !known) {
		count(PTB_CNT_PY_NO_ROOM);
		return emit_stack(hit, 0, number);
	}
	w->sp = sp;
	w->gen = 0;
	counted = l->code_ends - 1;
	ends = l->code_ends ? bpf_map_lookup_elem(&py_code_ends, &counted) : NULL;
	if (ends) {
		proc = counted;
		w->gen = py_generation(proc, *(volatile __u64 *)ends);
	}
	got = py_walk(NULL, w, known->checked, l, proc, task->thread.fsbase,
		      py_mix(py_seed, *(volatile __u32 *)&active));
	if (got == PY_NO_FRAMES)
		return 0;
	if (got == PY_NO_STATE) {
		count(PTB_CNT_PY_NO_STATE);
		return emit_stack(hit, 0, number);
	}
	count_stack(w);
	define_stack(hit, w, known);
	return emit_stack(hit, w->def.id, number);
}

/* The thread that has the current process's GIL or, while it is free, had it last, by its pointer,
 * which is what Python knows it by. 0: it cannot be read. */
static __always_inline __u64 gil_thread(const struct ptb_py_gil *gil)
{
	__u64 tstate, thread;

	if (bpf_probe_read_user(&tstate, sizeof(tstate), (void *)gil->last_holder) || !tstate ||
	    bpf_probe_read_user(&thread, sizeof(thread), (void *)(tstate + gil->tstate_thread_id)))
		return 0;
	return thread;
}

#endif /* PTB_PYTHON_BPF_H */
