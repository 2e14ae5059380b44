/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Stages (--when): only what happens inside annotations with one name is recorded, and every Nth of these alone (--every). Decides
 * at each hit whether it is inside; records and names are those of the other files.
 *
 * An occurrence is such an annotation that begins where its thread is in no other. Which hits are inside:
 *  - a thread in an occurrence of its own is inside, unless --every skips that one;
 *  - a thread that has begun an annotation of its own in this window, and is in no occurrence, is outside;
 *  - any other thread (autograd's, those of a pool) is inside while an occurrence of its process is open. Annotations within
 *    a backward node, which hooks begin there, do not make a thread one of the second kind.
 *
 * An operator is recorded whole or not at all: its end is if its entry was, wherever the stage has ended meanwhile. So each thread
 * has the functions that are open and recorded, and all that are open in these, by stack pointer and function, as calls.bpf.h explains.
 * Backward nodes are there always.
 *
 * Allocators and ends of tensors are recorded everywhere: sums over them, and what an address means, would be wrong otherwise.
 */
#ifndef PTB_WHEN_BPF_H
#define PTB_WHEN_BPF_H

#define WHEN_FRAMES 128 /* recorded operators inside one another */
#define WHEN_NAME_NS                                                                               \
	100000000ULL      /* from a name to its object: NAME_VALID_NS of user/model/scopes.c */
#define WHEN_TRIES 8      /* to find a free occurrence */
#define WHEN_USER_SCOPE 7 /* at::RecordScope of annotations */

enum when_name { WHEN_OTHER, WHEN_RECORD, WHEN_SKIP, WHEN_WITHIN };

/* call_head.pad of a frame: its entry is recorded. */
struct when_thread {
	struct call_stack calls;
	struct call_head ring[WHEN_FRAMES];
	__u64 occurrence; /* the thread's own; 0: it is in none */
	__u64 node_sp;    /* entry of the outermost backward node; 0: it is in none */
	__u64 kept_sp;    /* of the outermost function whose entry is recorded; 0: none is open */
	__u64 name_sp;    /* entry of the function that has announced a name; 0: none has */
	__u64 name_ns;
	__u64 exit_sp; /* the last end that was recorded: a function may have two on one way out; 0: none */
	__u32 exit_func;
	__u32 name;      /* enum when_name: what was announced */
	__u32 annotated; /* the thread follows its own annotations */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct when_thread);
} when_threads SEC(".maps");

/* By the low bits of their ids. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PTB_WHEN_OCCURRENCES);
	__type(key, __u32);
	__type(value, struct ptb_when_occurrence);
} when_occurrences SEC(".maps");

/* Entries are made by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PTB_PROC_MAX);
	__type(key, __u32); /* tgid */
	__type(value, struct ptb_when_proc);
} when_procs SEC(".maps");

/* Which function each site belongs to. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PTB_WHEN_SITES);
	__type(key, __u32);
	__type(value, __u32);
} when_funcs SEC(".maps");

__u32 when_count = 0; /* of ids given */

static const struct call_use when_use = {
	.map = &when_threads,
	.size = sizeof(struct call_head),
	.depth = WHEN_FRAMES,
};

/* This thread's state; that of an earlier window is forgotten. flags: BPF_LOCAL_STORAGE_GET_F_CREATE (counted where that fails) or 0. */
static __always_inline struct when_thread *when_thread(__u64 flags)
{
	struct when_thread *t =
		bpf_task_storage_get(&when_threads, bpf_get_current_task_btf(), NULL, flags);
	__u32 window = *(volatile __u32 *)&active;

	if (!t) {
		if (flags)
			count(PTB_CNT_WHEN_NO_ROOM);
		return NULL;
	}
	if (t->calls.window != window) {
		t->calls.window = window;
		t->calls.cnt = 0;
		t->occurrence = t->node_sp = t->kept_sp = t->name_sp = t->exit_sp = 0;
		t->annotated = 0;
	}
	return t;
}

static __always_inline __u32 when_func(const struct hit *hit)
{
	__u32 site = hit->site, *func = bpf_map_lookup_elem(&when_funcs, &site);

	return func ? *func : 0;
}

static __always_inline struct ptb_when_occurrence *when_occurrence(__u64 id)
{
	__u32 key = (__u32)id & (PTB_WHEN_OCCURRENCES - 1);

	return bpf_map_lookup_elem(&when_occurrences, &key);
}

/* t: NULL: the thread has no state. */
static __always_inline bool when_inside(struct when_thread *t, const struct hit *hit)
{
	struct ptb_when_occurrence *o;
	struct ptb_when_proc *p;
	__u32 tgid = hit->tgid;

	if (t && t->occurrence) {
		o = when_occurrence(t->occurrence);
		if (o && *(volatile __u64 *)&o->id == t->occurrence)
			return !o->skipped;
		t->occurrence = 0; /* it has ended on another thread */
	}
	if ((t && t->annotated) || !*(volatile __u32 *)&when_open)
		return false;
	p = bpf_map_lookup_elem(&when_procs, &tgid);
	return p && *(volatile __u64 *)&p->open;
}

/* ---- operators ---- */

/* Frames with an entry at or below sp are over. */
static __always_inline void when_prune(struct when_thread *t, const struct hit *hit, __u64 sp)
{
	calls_prune(&when_use, &t->calls, hit, sp);
	if (t->node_sp <= sp)
		t->node_sp = 0;
	if (t->kept_sp <= sp)
		t->kept_sp = 0;
}

/* The entry of a function. True: it is recorded. */
static __noinline int when_enter(const struct hit *hit, __u64 sp, __u32 is_node)
{
	struct when_thread *t = when_thread(0);
	struct call_head *f;
	__u32 inside;

	if (!hit)
		return false;
	inside = when_inside(t, hit);
	if (t) {
		when_prune(t, hit, sp);
		t->exit_sp = 0;
	}
	if (!inside && !is_node && !(t && t->kept_sp))
		return false;
	if (!t)
		t = when_thread(BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return false;
	if (t->calls.cnt >= WHEN_FRAMES)
		count(PTB_CNT_WHEN_NO_ROOM); /* the outermost one's end */
	f = calls_push(&when_use, &t->calls, hit, sp, when_func(hit));
	f->pad = inside;
	if (is_node && !t->node_sp)
		t->node_sp = sp;
	if (inside && !t->kept_sp)
		t->kept_sp = sp;
	return inside;
}

/* Its end. True: its entry is recorded. */
static __noinline int when_exit(const struct hit *hit, __u64 sp)
{
	struct when_thread *t = when_thread(0);
	struct call_head *f;
	__u32 func;

	if (!hit || !t)
		return false;
	func = when_func(hit);
	if (t->exit_sp == sp && t->exit_func == func)
		return true;
	t->exit_sp = 0;
	when_prune(t, hit, sp);
	f = calls_pop(&when_use, &t->calls, hit, sp, func);
	if (!f)
		return false;
	if (f->sp == t->node_sp)
		t->node_sp = 0;
	if (f->sp == t->kept_sp)
		t->kept_sp = 0;
	if (!f->pad)
		return false;
	t->exit_sp = sp;
	t->exit_func = func;
	return true;
}

/* Inside the innermost operator that is recorded; func: that must be this function, 0: any. */
static __noinline int when_in_frame(const struct hit *hit, __u64 sp, __u32 func)
{
	struct when_thread *t = when_thread(0);
	struct call_head *f;

	if (!hit || !t || !t->calls.cnt)
		return false;
	when_prune(t, hit, sp);
	f = calls_top(&when_use, &t->calls);
	if (!t->calls.cnt || !f->pad)
		return false;
	return func ? f->args == func : when_inside(t, hit);
}

/* An exception has been caught: operators that are recorded may end here. */
static __noinline int when_caught(const struct hit *hit, __u64 sp)
{
	struct when_thread *t = when_thread(0);

	if (!hit || !t || !t->calls.cnt)
		return false;
	when_prune(t, hit, sp);
	return true;
}

/* ---- annotations ---- */

static __always_inline bool when_matches(const char *text, const struct text *read)
{
	const __u64 *words = (const void *)text;

	if (read->flags & PTB_F_READ_FAULT || (when_prefix ? read->len < when_len : read->len != when_len))
		return false;
#pragma unroll
	for (__u32 i = 0; i < PTB_WHEN_MAX / 8; i++)
		if ((words[i] ^ when_text[i]) & when_mask[i])
			return false;
	return true;
}

/* An annotation of that name is about to begin: what becomes of it. */
static __always_inline enum when_name when_number(const struct when_thread *t, const struct hit *hit)
{
	__u32 tgid = hit->tgid;
	struct ptb_when_proc *p;

	if (t->occurrence)
		return WHEN_WITHIN;
	p = bpf_map_lookup_elem(&when_procs, &tgid);
	if (!p)
		return WHEN_OTHER;
	return when_every > 1 && __sync_fetch_and_add(&p->seen, 1) % when_every ? WHEN_SKIP : WHEN_RECORD;
}

/* Is the name that was announced last that of what begins with its stack pointer at sp? */
static __always_inline bool when_takes_name(const struct when_thread *t, const struct hit *hit, __u64 sp)
{
	return sp < t->name_sp && hit->ts_ns <= t->name_ns + WHEN_NAME_NS;
}

/*
 * A name is announced by a function with this entry. own: it is an annotation, whatever its name. True: it is recorded, as is the
 * object that has it.
 */
static __noinline int when_announce(const struct hit *hit, __u64 sp, __u32 matches, __u32 own)
{
	struct when_thread *t = when_thread(BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u32 inside;

	if (!hit || !t)
		return false;
	when_prune(t, hit, sp);
	t->exit_sp = 0;
	if ((own || matches) && !t->node_sp)
		t->annotated = 1;
	inside = when_inside(t, hit);
	if (!matches)
		t->name = WHEN_OTHER;
	else if (t->name == WHEN_OTHER || !when_takes_name(t, hit, sp)) /* else one of its callers has announced it */
		t->name = when_number(t, hit);
	t->name_sp = sp;
	t->name_ns = hit->ts_ns;
	return inside || t->name == WHEN_RECORD;
}

/* Before the record of an object: will it be made? */
static __noinline int when_expects(const struct hit *hit, __u64 sp)
{
	struct when_thread *t = when_thread(0);

	if (!hit)
		return false;
	return when_inside(t, hit) || (t && t->name == WHEN_RECORD && when_takes_name(t, hit, sp));
}

/* A new occurrence; 0: there is no room, which is counted. */
static __always_inline __u64 when_new(const struct hit *hit, bool skipped)
{
	struct ptb_when_occurrence *o;
	__u64 id;

#pragma unroll
	for (__u32 i = 0; i < WHEN_TRIES; i++) {
		id = ((__u64) * (volatile __u32 *)&active << 32) | __sync_fetch_and_add(&when_count, 1);
		o = when_occurrence(id);
		if (o && !__sync_val_compare_and_swap(&o->busy, 0, 1)) {
			o->open = 1;
			o->tgid = hit->tgid;
			o->skipped = skipped;
			*(volatile __u64 *)&o->id = id;
			return id;
		}
	}
	count(PTB_CNT_WHEN_NO_ROOM);
	return 0;
}

/* Begins the occurrence of the thread. */
static __always_inline void when_begin(struct when_thread *t, const struct hit *hit, bool skipped)
{
	__u32 tgid = hit->tgid;
	struct ptb_when_proc *p = bpf_map_lookup_elem(&when_procs, &tgid);

	t->occurrence = when_new(hit, skipped);
	if (!t->occurrence)
		return;
	count(skipped ? PTB_CNT_WHEN_SKIPPED : PTB_CNT_WHEN_RECORDED);
	if (skipped)
		return;
	if (p)
		__sync_fetch_and_add(&p->open, 1);
	__sync_fetch_and_add(&when_open, 1);
}

/* What is open of the occurrence has become one less. */
static __always_inline void when_end(__u64 id)
{
	struct ptb_when_occurrence *o = when_occurrence(id);
	struct ptb_when_proc *p;
	__u32 tgid;

	if (!o || o->id != id || __sync_fetch_and_add(&o->open, -1) != 1)
		return;
	if (!o->skipped) {
		tgid = o->tgid;
		p = bpf_map_lookup_elem(&when_procs, &tgid);
		if (p)
			__sync_fetch_and_add(&p->open, -1);
		__sync_fetch_and_add(&when_open, -1);
	}
	*(volatile __u64 *)&o->id = 0;
	*(volatile __u64 *)&o->busy = 0;
}

/*
 * An object begins. It has the name that was announced, or names itself, then `itself` is what becomes of that. Sets what is
 * remembered of it.
 */
static __noinline int when_object(const struct hit *hit, __u64 sp, __u32 itself, struct scope_state *s)
{
	struct when_thread *t = when_thread(0);
	struct ptb_when_occurrence *o;
	__u32 name = itself;

	if (!hit || !s)
		return 0;
	s->outside = !when_inside(t, hit);
	if (!t)
		return 0;
	when_prune(t, hit, sp);
	t->exit_sp = 0;
	if (when_takes_name(t, hit, sp)) {
		name = t->name;
		t->name_sp = 0;
	}
	if (name == WHEN_RECORD || name == WHEN_SKIP) {
		when_begin(t, hit, name == WHEN_SKIP);
		s->outside = !when_inside(t, hit);
	} else if (name == WHEN_WITHIN && t->occurrence) {
		o = when_occurrence(t->occurrence);
		if (o)
			__sync_fetch_and_add(&o->open, 1);
	} else {
		return 0;
	}
	s->occurrence = t->occurrence;
	return 0;
}

/* An annotation names itself, by before() from a function with this entry: what becomes of it. */
static __noinline int when_names_itself(const struct hit *hit, __u64 sp, __u32 matches)
{
	struct when_thread *t = when_thread(BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!hit || !t)
		return WHEN_OTHER;
	when_prune(t, hit, sp);
	if (!t->node_sp)
		t->annotated = 1;
	when_inside(t, hit); /* so that t->occurrence is one that is open */
	return matches ? when_number(t, hit) : WHEN_OTHER;
}

/* The current thread ends, or becomes another program. */
static __always_inline void when_leave(void)
{
	struct when_thread *t = bpf_task_storage_get(&when_threads, bpf_get_current_task_btf(), NULL, 0);
	struct ptb_when_occurrence *o;

	if (!t || t->calls.window != *(volatile __u32 *)&active || !t->occurrence)
		return;
	o = when_occurrence(t->occurrence);
	if (o && o->id == t->occurrence) {
		o->open = 1;
		when_end(t->occurrence);
	}
	t->occurrence = 0;
	t->calls.cnt = 0;
}

/* ---- every hit ---- */

static __always_inline bool when_counted(const struct hit *hit, bool passes)
{
	if (!passes)
		count_bare(PTB_CNT_WHEN_OUTSIDE, hit->tgid);
	return passes;
}

/* May program `prog` run? Sets hit->outside where it decides about its records by itself. */
static __always_inline bool when_passes(struct pt_regs *ctx, struct hit *hit, __u32 prog)
{
	__u64 sp = PT_REGS_SP(ctx);

	switch (prog) {
	case PTB_PROG_OP_ENTER:
	case PTB_PROG_NODE_CALL:
	case PTB_PROG_PYFUNC_ENTER:
	case PTB_PROG_SCRIPT_ENTER:
		return when_counted(hit, when_enter(hit, sp, false));
	case PTB_PROG_NODE_ENTER:
		return when_counted(hit, when_enter(hit, sp, true));
	case PTB_PROG_OP_EXIT:
	case PTB_PROG_BOXED_EXIT:
		return when_counted(hit, when_exit(hit, sp));
	case PTB_PROG_OP_LATE:
		return when_counted(hit, when_in_frame(hit, sp, when_func(hit)));
	case PTB_PROG_SEQ:
		return when_counted(hit, when_in_frame(hit, sp, 0));
	case PTB_PROG_CATCH:
		return when_counted(hit, when_caught(hit, sp));
	case PTB_PROG_CUDA_ENTER:
		return when_counted(hit, when_inside(when_thread(0), hit));
	case PTB_PROG_BOXED_ENTER:
		hit->outside = !when_enter(hit, sp, false);
		return true;
	case PTB_PROG_SCOPE_CTOR:
	case PTB_PROG_BEFORE_CSTR:
	case PTB_PROG_BEFORE_STR:
	case PTB_PROG_BEFORE_VAR:
		hit->outside = !when_expects(hit, sp);
		return true;
	default:
		return true;
	}
}

#endif /* PTB_WHEN_BPF_H */
