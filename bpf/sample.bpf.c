// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Samples of Python stacks, without probes. A thread that runs is interrupted by the tick of its
 * processor, or by a timer where that is not possible, and reads its own stack. One that does not
 * run cannot change its stack: an iterator over the process's threads reads it from outside, and it
 * counts if the thread has not run meanwhile, which the number of its context switches shows.
 */

#define PY_SAMPLERS_MAX (PTB_CPUS_MAX + 1)
#define KERNEL_FRAMES 64
#define REG_CS 17 /* Linux struct pt_regs; 3 in its low bits: not in the kernel */

/* Room to work in: of each processor, whose tick or timer cannot be interrupted by itself, and
 * behind them of the iterator. */
struct py_sampler {
	struct py_walk walk;
	struct py_known known;
	__u64 last_ns; /* of the timer */
	/* at the last tick: its number, and the thread that it interrupted, which had been switched
	 * out so many times */
	__u64 tick, switches;
	__u32 tid;
	__u32 pad;
	/* when the tick began: its number, and the thread's time in the kernel, to which it adds
	 * when it has interrupted the kernel */
	__u64 this_tick, kernel_time;
	__u64 kernel[KERNEL_FRAMES]; /* its stack */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PY_SAMPLERS_MAX);
	__type(key, __u32);
	__type(value, struct py_sampler);
} py_samplers SEC(".maps");

/* What the iterator saw of a thread last. */
struct py_seen {
	__u64 switches;
	__u64 id, op;
	__u32 window;
	__u32 flags; /* PTB_SAMPLE_NO_STACK, PTB_SAMPLE_OPS */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct py_seen);
} py_seen SEC(".maps");

static __always_inline void add_to_counter(__u32 id, __u64 n)
{
	__u64 *v = bpf_map_lookup_elem(&counters, &id);

	if (v)
		__sync_fetch_and_add(v, n);
}

static __always_inline void emit_sample(const struct hit *hit, __u64 id, __u64 op, __u32 flags,
					__u64 ns)
{
	struct slot s = slot_reserve(hit, sizeof(struct ptb_py_sample), PTB_REC_PY_SAMPLE, 0);
	struct ptb_py_sample *r = s.rec;

	if (!r)
		return;
	r->id = id;
	r->ns = ns;
	r->flags = flags;
	r->pad = 0;
	r->op = op;
	slot_submit(&s, hit);
}

/* In a process of its own each stack has an id of its own. */
static __always_inline enum py_walked sample_walk(py_reader rd, struct py_sampler *s, __u32 proc,
						  const struct ptb_py_layout *l, __u64 thread)
{
	s->walk.sp = 0;
	s->walk.gen = 0;
	return py_walk(rd, &s->walk, s->known.checked, l, proc, thread,
		       py_mix(py_mix(py_seed, *(volatile __u32 *)&active), proc));
}

/* The flags and the id of a sample. */
static __always_inline __u32 sample_result(const struct hit *hit, struct py_sampler *s,
					   enum py_walked got, __u64 *id)
{
	*id = 0;
	if (got == PY_NO_FRAMES)
		return 0;
	if (got == PY_NO_STATE) {
		count(PTB_CNT_PY_NO_STATE);
		return PTB_SAMPLE_NO_STACK;
	}
	count_stack(&s->walk);
	define_stack(hit, &s->walk, &s->known);
	*id = s->walk.def.id;
	return 0;
}

#define OPEN_ENDED_MAX 8 /* operators that have ended, and others begun after them have not */

/* The innermost operator of `open` that has not ended; 0 and no flag: it could not be read. */
static __always_inline __u64 innermost_op(py_reader rd, __u64 open, __u32 *flags)
{
	struct ptb_open_head head = {};
	struct ptb_open_op op = {};

	if (PY_READ(rd, &head, sizeof(head), open) || head.over || head.cnt > PTB_OPEN_MAX)
		return 0;
	for (__u32 i = 0; i < OPEN_ENDED_MAX && head.cnt; i++) {
		head.cnt--;
		if (PY_READ(rd, &op, sizeof(op), open + sizeof(head) + head.cnt * sizeof(op)))
			return 0;
		if (!op.rf)
			continue;
		*flags |= op.name ? PTB_SAMPLE_OPS : 0;
		return op.name;
	}
	*flags |= head.cnt ? 0 : PTB_SAMPLE_OPS;
	return 0;
}

/* What the process's agent says of the thread; see ptb_agent.h. */
static __always_inline __u64 open_op(py_reader rd, const struct ptb_py_layout *l, __u64 thread,
				     __u32 *flags)
{
	__u64 open = 0, op;
	__u32 on = 0;

	if (!l->open_on)
		return 0;
	if (PY_READ(rd, &on, sizeof(on), l->open_on) || !on ||
	    PY_READ(rd, &open, sizeof(open), thread + (__u64)l->open_tls)) {
		count(PTB_CNT_OPEN_UNREAD);
		return 0;
	}
	if (!open)
		return 0; /* none has begun, but one from before may be open */
	op = innermost_op(rd, open, flags);
	if (!(*flags & PTB_SAMPLE_OPS))
		count(PTB_CNT_OPEN_UNREAD);
	return op;
}

/* Does the kernel handle a page fault of the current thread, or a system call for memory? Without a
 * call its stack says so: it may have been interrupted as well where it switches to the thread. */
static __always_inline bool takes_memory(void *ctx, struct task_struct *task, struct py_sampler *s,
					 bool in_kernel)
{
	const struct pt_regs___kernel *regs = (void *)bpf_task_pt_regs(task);
	long nr = (long)regs->orig_ax, bytes; /* -1: no system call */

	if (nr >= 0 && nr < PTB_SYSCALLS)
		return wait_of_call[nr & (PTB_SYSCALLS - 1)] == PTB_WAIT_MEMORY;
	if (nr != -1 || !in_kernel || !page_fault_bytes)
		return false;
	bytes = bpf_get_stack(ctx, s->kernel, sizeof(s->kernel), 0);
	for (__u32 i = 0; i < KERNEL_FRAMES && (long)(i * sizeof(s->kernel[0])) < bytes; i++)
		if (s->kernel[i] - page_fault_function < page_fault_bytes)
			return true;
	return false;
}

/* Does this thread collect garbage? The one that does has the GIL. */
static __always_inline bool collects_garbage(__u32 tgid, __u64 thread,
					     const struct ptb_py_layout *l)
{
	const struct ptb_py_gil *gil = bpf_map_lookup_elem(&py_gils, &tgid);
	__u64 at = l->interp + l->off.interp_gc + l->off.gc_collecting;
	__u32 collecting;

	return gil && !bpf_probe_read_user(&collecting, sizeof(collecting), (void *)at) &&
	       collecting && gil_thread(gil) == thread;
}

static __always_inline struct ptb_py_layout *sampled_layout(__u32 tgid, __u32 *proc)
{
	__u32 *found = tgid ? bpf_map_lookup_elem(&sampled, &tgid) : NULL;
	struct ptb_py_layout *l;

	if (!found)
		return NULL;
	*proc = *found;
	l = bpf_map_lookup_elem(&py_layouts, proc);
	return l && l->code_type ? l : NULL;
}

/* Of this processor since its last one. */
static __always_inline void count_late(const struct py_sampler *s, __u64 now)
{
	__u64 ticks = s->last_ns ? (now - s->last_ns + sample_ns / 2) / sample_ns : 1;

	if (ticks > 1)
		add_to_counter(PTB_CNT_SAMPLES_LATE, ticks - 1);
}

/* The current thread, which a tick or timer has interrupted. False: its process is not sampled. */
static __always_inline bool sample_current(void *ctx, struct hit *hit, struct py_sampler *s,
					   bool in_kernel)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct ptb_py_layout *l;
	__u32 flags, proc, ops = 0;
	__u64 id, op;

	current_ids(&hit->tgid, &hit->tid);
	l = sampled_layout(hit->tgid, &proc);
	if (!l)
		return false;
	flags = sample_result(hit, s, sample_walk(NULL, s, proc, l, task->thread.fsbase), &id);
	op = open_op(NULL, l, task->thread.fsbase, &ops);
	flags |= PTB_SAMPLE_RAN | (takes_memory(ctx, task, s, in_kernel) ? PTB_SAMPLE_MEMORY : 0) |
		 (collects_garbage(hit->tgid, task->thread.fsbase, l) ? PTB_SAMPLE_GC : 0);
	emit_sample(hit, id, op, flags | ops, sample_ns);
	add_to_counter(PTB_CNT_SAMPLES_NS, bpf_ktime_get_ns() - hit->ts_ns);
	return true;
}

/* A processor's timer. */
SEC("perf_event")
int py_sample_timer(__u64 *regs)
{
	struct hit hit = { .ts_ns = bpf_ktime_get_ns() };
	__u32 cpu = bpf_get_smp_processor_id();
	struct py_sampler *s = bpf_map_lookup_elem(&py_samplers, &cpu);

	if (!s)
		return 0;
	if (!*(volatile __u32 *)&active) {
		s->last_ns = 0;
		return 0;
	}
	if (sample_current(regs, &hit, s, !(regs[REG_CS] & 3)))
		count_late(s, hit.ts_ns);
	s->last_ns = hit.ts_ns;
	return 0;
}

static __always_inline __u64 switches_of(struct task_struct *task)
{
	return BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
}

/* An int in Linux 6.18, one byte in 7.2. */
static __always_inline bool is_on_cpu(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD_PROBED(task, on_cpu) != 0;
}

/* Samples due until this tick since the machine's start; whatever a processor skips when it is
 * idle, the others are the same ones. */
static __always_inline __u64 samples_due(__u64 tick)
{
	return tick * sample_hz / tick_hz;
}

/*
 * A processor's tick, which comes anyway: another interrupt would cost the program more, above all
 * in a virtual machine. Of the ticks, `sample_hz` a second are chosen by their numbers, since a
 * choice by the time of the last sample would favour threads that run briefly after a pause.
 */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(py_tick_begins, struct hrtimer *timer)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct py_sampler *s;

	if (!*(volatile __u32 *)&active || (__u64)BPF_CORE_READ(timer, function) != tick_function)
		return 0;
	s = bpf_map_lookup_elem(&py_samplers, &cpu);
	if (!s)
		return 0;
	s->this_tick = (__u64)BPF_CORE_READ(timer, node.expires) / tick_ns;
	s->kernel_time = bpf_get_current_task_btf()->stime;
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(py_sample_tick, struct hrtimer *timer)
{
	struct hit hit = { .ts_ns = bpf_ktime_get_ns() };
	__u32 cpu = bpf_get_smp_processor_id(), tid;
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 tick, last, switches;
	struct py_sampler *s;

	if (!*(volatile __u32 *)&active || (__u64)BPF_CORE_READ(timer, function) != tick_function)
		return 0;
	s = bpf_map_lookup_elem(&py_samplers, &cpu);
	if (!s || !s->this_tick)
		return 0;
	tick = s->this_tick;
	s->this_tick = 0;
	tid = (__u32)BPF_CORE_READ(task, pid);
	switches = switches_of(task);
	/* ticks that the kernel has left out while the thread ran */
	last = s->tick && s->tid == tid && s->switches == switches ? s->tick : tick - 1;
	s->tick = tick;
	s->tid = tid;
	s->switches = switches;
	if (samples_due(tick) != samples_due(last) &&
	    sample_current(ctx, &hit, s, task->stime != s->kernel_time) &&
	    samples_due(tick) > samples_due(last) + 1)
		add_to_counter(PTB_CNT_SAMPLES_LATE, samples_due(tick) - samples_due(last) - 1);
	return 0;
}

/* Has it not run since it had been switched out so many times? */
static __always_inline bool stands_still(struct task_struct *task, __u64 switches)
{
	return !is_on_cpu(task) && switches_of(task) == switches;
}

/* Did it run at the moment that this run is for, until ptbpf, or what ran before that, took its
 * processor? */
static __always_inline bool gave_way(struct task_struct *task)
{
	struct task_struct *self = bpf_get_current_task_btf();
	__u64 since;

	if (!bpf_core_field_exists(task->sched_info.last_queued))
		return false;
	since = BPF_CORE_READ(task, sched_info.last_queued);
	return since && since + *(volatile __u64 *)&sample_late_ns >=
				BPF_CORE_READ(self, sched_info.last_arrival);
}

/* False: it began to run. */
static __always_inline bool see_task(const struct hit *hit, struct task_struct *task, __u32 proc,
				     const struct ptb_py_layout *l, struct py_seen *seen)
{
	__u32 key = sample_cpus;
	struct py_sampler *s = bpf_map_lookup_elem(&py_samplers, &key);
	__u64 switches = switches_of(task);
	enum py_walked got;
	__u32 ops = 0;

	if (!s)
		return false;
	got = sample_walk(task, s, proc, l, task->thread.fsbase);
	seen->op = open_op(task, l, task->thread.fsbase, &ops);
	if (!stands_still(task, switches))
		return false;
	seen->flags = sample_result(hit, s, got, &seen->id) | ops;
	seen->switches = switches;
	seen->window = *(volatile __u32 *)&active;
	return true;
}

/* A thread that does not run now. */
SEC("iter.s/task")
int py_sample_blocked(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u64 ticks = *(volatile __u64 *)&sample_ticks, once = ticks ? wait_sample_ns : 0;
	struct hit hit = { .ts_ns = bpf_ktime_get_ns() };
	struct ptb_py_layout *l;
	struct py_seen *seen;
	__u32 proc, flags;

	if (!task || !*(volatile __u32 *)&active || is_on_cpu(task) || gave_way(task))
		return 0;
	if (ctx->meta->seq_num >= *(volatile __u64 *)&sample_room) {
		count(PTB_CNT_OVER_THREADS);
		return 0;
	}
	sample_looked++; /* only ptbpf's own thread is here */
	hit.tgid = task_tgid(task);
	hit.tid = task_tid(task);
	l = sampled_layout(hit.tgid, &proc);
	seen = l ? bpf_task_storage_get(&py_seen, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) :
		   NULL;
	if (!seen) {
		if (l)
			count(PTB_CNT_PY_NO_ROOM);
		return 0;
	}
	flags = BPF_CORE_READ(task, __state) ? 0 : PTB_SAMPLE_WAITED;
	if (seen->window == *(volatile __u32 *)&active && stands_still(task, seen->switches)) {
		emit_sample(&hit, seen->id, seen->op, seen->flags | flags, ticks * wait_sample_ns);
		return 0;
	}
	if (ticks > 1)
		add_to_counter(PTB_CNT_SAMPLES_LATE, (ticks - 1) * wait_sample_ns / sample_ns);
	if (see_task(&hit, task, proc, l, seen)) {
		emit_sample(&hit, seen->id, seen->op, seen->flags | flags, once);
		return 0;
	}
	seen->window = 0;
	count(PTB_CNT_SAMPLES_RAN);
	emit_sample(&hit, 0, 0, PTB_SAMPLE_NO_STACK | flags, once);
	return 0;
}
