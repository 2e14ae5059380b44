/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A thread's sums of kernel memory events and the resident memory of its process: how they are
 * emitted, and when: before the next probe's record, so that they belong to the operator that was
 * innermost meanwhile. The events themselves are collected in kmem.bpf.c.
 */
#ifndef PTB_KMEM_BPF_H
#define PTB_KMEM_BPF_H

#define PAGE_BYTES 4096ULL
#define RSS_TRIES 3
#define HUGE_PAGES 512 /* pages by which one fault can make a process grow */

/* ---- resident memory ---- */

/*
 * One by one: only where an index is a literal does the compiler leave it to the kernel's layout
 * where the element is.
 */
static __always_inline void rss_counts(struct mm_struct *mm, __s64 *out)
{
	out[0] = mm->rss_stat[0].count;
	out[1] = mm->rss_stat[1].count;
	out[2] = mm->rss_stat[2].count;
	out[3] = mm->rss_stat[3].count;
}

#define RSS_OWN(mm, i, to) bpf_core_read(to, sizeof(*(to)), &(mm)->rss_stat[i].counters)

/* What this processor has not added to the sums yet. */
static long rss_add_cpu(__u32 cpu, void *arg)
{
	struct rss_reading *reading = *(struct rss_reading **)arg;
	int v[PTB_RSS_KINDS] = {};
	__u64 off;

	if (cpu >= PTB_CPUS_MAX || !reading)
		return 1;
	off = cpu_off[cpu];
	if (rss_packed) {
		bpf_probe_read_kernel(v, sizeof(v), (void *)(reading->own[0] + off));
	} else {
		bpf_probe_read_kernel(&v[0], 4, (void *)(reading->own[0] + off));
		bpf_probe_read_kernel(&v[1], 4, (void *)(reading->own[1] + off));
		bpf_probe_read_kernel(&v[2], 4, (void *)(reading->own[2] + off));
		bpf_probe_read_kernel(&v[3], 4, (void *)(reading->own[3] + off));
	}
	reading->sum[0] += v[0];
	reading->sum[1] += v[1];
	reading->sum[2] += v[2];
	reading->sum[3] += v[3];
	return 0;
}

/* Linux 6.2 and later. False: a processor has moved its part to the sum meanwhile. */
static __always_inline bool rss_read_percpu(struct mm_struct *mm, struct rss_reading *reading)
{
	RSS_OWN(mm, 0, &reading->own[0]);
	if (!rss_packed) {
		RSS_OWN(mm, 1, &reading->own[1]);
		RSS_OWN(mm, 2, &reading->own[2]);
		RSS_OWN(mm, 3, &reading->own[3]);
	}
	rss_counts(mm, reading->count);
	rss_counts(mm, reading->sum);
	bpf_loop(nr_cpus, rss_add_cpu, &reading, 0); /* the context must be on the stack */
	return mm->rss_stat[0].count == reading->count[0] &&
	       mm->rss_stat[1].count == reading->count[1] &&
	       mm->rss_stat[2].count == reading->count[2] &&
	       mm->rss_stat[3].count == reading->count[3];
}

/* Before: pages that the kernel keeps with a thread, outside the process's sum. own: zeroed by the
 * caller. */
static __always_inline __s64 rss_cached(struct task_struct *task, int own[PTB_RSS_KINDS])
{
	struct task_struct___old *old_task = (void *)task;

	if (bpf_core_field_exists(old_task->rss_stat))
		bpf_core_read(own, PTB_RSS_KINDS * sizeof(*own), &old_task->rss_stat.count);
	return own[PTB_RSS_FILE] + own[PTB_RSS_ANON] + own[PTB_RSS_SHMEM];
}

/* Sums, and what this task has not added to them yet. */
static __always_inline void rss_read_old(struct task_struct *task, struct mm_struct *mm,
					 struct rss_reading *reading)
{
	struct mm_struct___old *old_mm = (void *)mm;
	int own[PTB_RSS_KINDS] = {};

	bpf_core_read(reading->sum, sizeof(reading->sum), &old_mm->rss_stat.count);
	reading->cached = rss_cached(task, own);
	reading->sum[0] += own[0];
	reading->sum[1] += own[1];
	reading->sum[2] += own[2];
	reading->sum[3] += own[3];
}

/* Pages of the task's process by kind; false: not to be had. */
static __noinline bool rss_read(struct task_struct *task, struct rss_reading *reading)
{
	struct mm_struct *mm;
	__u32 i;

	if (!task || !reading || !nr_cpus || rss_wrong)
		return false;
	mm = task->mm;
	if (!mm)
		return false;
	reading->cached = 0;
	if (bpf_core_type_exists(struct mm_rss_stat)) {
		rss_read_old(task, mm, reading);
	} else {
#pragma clang loop unroll(disable)
		for (i = 0; i < RSS_TRIES; i++)
			if (rss_read_percpu(mm, reading))
				break;
		if (i == RSS_TRIES)
			return false;
	}
#pragma unroll
	for (i = 0; i < PTB_RSS_KINDS; i++)
		if (reading->sum[i] < 0)
			reading->sum[i] = 0;
	return true;
}

static __always_inline __s64 rss_sum(const __s64 *kinds)
{
	return kinds[PTB_RSS_FILE] + kinds[PTB_RSS_ANON] + kinds[PTB_RSS_SHMEM];
}

/* From now on the growth of the process counts. */
static __always_inline void rss_begin(__u32 tgid, struct kmem_acc *acc, struct task_struct *task)
{
	struct kmem_rss *v = &acc->fresh;

	if (!rss_read(task, &acc->reading))
		return;
	v->window = kmem_window;
	v->growth = v->change = 0;
	v->last = rss_sum(acc->reading.sum) - acc->reading.cached;
	acc->rss_cached = acc->reading.cached;
	__builtin_memcpy(v->kinds, acc->reading.sum, sizeof(v->kinds));
	bpf_map_update_elem(&kmem_rss, &tgid, v, BPF_ANY);
}

/*
 * Counts what the process has grown by since one of its threads read its counters last. Before
 * Linux 6.2 the kernel keeps up to 64 pages with the thread whose faults brought them. That thread
 * counts them at once; when the kernel adds them to the process's sum, the thread that reads that
 * counts them again and their thread subtracts them. A call that frees memory hides what faults of
 * other threads bring meanwhile, so each fault reads the counters while such a call is under way
 * (kmem_shrinking). What goes beyond what such calls can free was taken from outside (reclaim,
 * process_madvise() of another process), perhaps while a call waited for mmap_lock: no thread of
 * the process did it.
 */
static __noinline struct kmem_rss *rss_settle(__u32 tgid, struct kmem_acc *acc,
					      struct task_struct *task, bool by_call)
{
	struct kmem_rss *r = bpf_map_lookup_elem(&kmem_rss, &tgid);
	__s64 last, common, grown, moved, freed;
	__u32 i;

	if (!acc)
		return NULL;
	if (!r || r->window != kmem_window) {
		rss_begin(tgid, acc, task);
		return bpf_map_lookup_elem(&kmem_rss, &tgid);
	}
#pragma clang loop unroll(disable)
	for (i = 0; i < RSS_TRIES; i++) {
		last = *(volatile __s64 *)&r->last;
		if (!rss_read(task, &acc->reading))
			return r;
		common = rss_sum(acc->reading.sum) - acc->reading.cached;
		if (__sync_val_compare_and_swap(&r->last, last, common) == last)
			break;
	}
	if (i == RSS_TRIES) /* other threads read them all the time: the next one counts it */
		return r;
	__builtin_memcpy(r->kinds, acc->reading.sum, sizeof(r->kinds));
	grown = common - last;
	moved = acc->reading.cached - acc->rss_cached;
	acc->rss_cached = acc->reading.cached;
	freed = by_call ? acc->shrinks : *(volatile __s64 *)&kmem_shrinking - acc->shrinks;
	if (grown < 0 && grown < -freed)
		grown = -freed;
	__sync_fetch_and_add(&r->change, grown + moved);
	if (by_call)
		grown = grown + moved > 0 ? grown + moved : 0;
	else
		grown = (grown > 0 ? grown : 0) + moved;
	if (grown)
		__sync_fetch_and_add(&r->growth, grown);
	return r;
}

/*
 * A thread has ended: what the kernel kept with it is in the process's sum now, where another
 * thread counts it. One that has done so a moment ago has counted it twice; the growth below 0 is
 * set off against the next.
 */
static __always_inline void rss_leave(__u32 tgid, struct kmem_acc *acc)
{
	struct kmem_rss *r = bpf_map_lookup_elem(&kmem_rss, &tgid);

	if (!r || r->window != acc->window || !acc->rss_cached)
		return;
	__sync_fetch_and_add(&r->growth, -acc->rss_cached);
	__sync_fetch_and_add(&r->change, -acc->rss_cached);
	acc->rss_cached = 0;
}

/* Of that what this many faults can have caused; the rest goes into another thread's record. */
static __always_inline __u64 rss_take_growth(struct kmem_rss *r, __u64 faults)
{
	__s64 all, most = (__s64)(faults * HUGE_PAGES);

	if (!faults || !r->growth)
		return 0;
	all = (__s64)__sync_lock_test_and_set(&r->growth, 0);
	if (all < 0)
		most = 0;
	if (all > most || all < 0) {
		__sync_fetch_and_add(&r->growth, all - most);
		all = most;
	}
	return (__u64)all;
}

/* ---- sums ---- */

static __always_inline void kmem_fill(struct ptb_kmem *r, const struct kmem_acc *acc)
{
	r->begin_ns = acc->begin_ns ?: r->h.ts_ns;
	r->reads = acc->reads;
	r->writes = acc->writes;
	r->addr_min = acc->addr_max ? acc->addr_min : 0;
	r->addr_max = acc->addr_max;
	r->maps = acc->calls[PTB_CALL_MMAP];
	r->unmaps = acc->calls[PTB_CALL_MUNMAP];
	r->remaps = acc->calls[PTB_CALL_MREMAP];
	r->brks = acc->calls[PTB_CALL_BRK];
	r->advises = acc->calls[PTB_CALL_MADVISE];
	r->small_calls = acc->small_calls;
	r->map_bytes = acc->map_bytes;
	r->unmap_bytes = acc->unmap_bytes;
	r->advise_bytes = acc->advise_bytes;
	r->brk_bytes = acc->brk_bytes;
	r->reclaims = acc->reclaims;
	r->compactions = acc->compactions;
	r->reclaim_ns = acc->reclaim_ns;
	r->compact_ns = acc->compact_ns;
}

/* All but what is under way. */
static __always_inline void kmem_clear(struct kmem_acc *acc)
{
	acc->dirty = 0;
	acc->begin_ns = 0;
	acc->reads = acc->writes = 0;
	acc->addr_min = acc->addr_max = 0;
	acc->calls[0] = acc->calls[1] = acc->calls[2] = acc->calls[3] = acc->calls[4] = 0;
	acc->small_calls = 0;
	acc->map_bytes = acc->unmap_bytes = acc->advise_bytes = 0;
	acc->brk_bytes = 0;
	acc->reclaims = acc->compactions = 0;
	acc->reclaim_ns = acc->compact_ns = 0;
}

/*
 * Emits a thread's sums and begins anew. A task in a tracing program is a pointer that the verifier
 * knows, so its counters are plain loads.
 */
static __noinline int emit_kmem(const struct hit *hit, struct kmem_acc *acc,
				struct task_struct *task)
{
	__u64 minor, major;
	struct kmem_rss *rss;
	struct ptb_kmem *r;
	struct slot s;

	if (!hit || !acc || !task)
		return 0;
	minor = task->min_flt - acc->min_flt;
	major = task->maj_flt - acc->maj_flt;
	acc->min_flt += minor;
	acc->maj_flt += major;
	rss = rss_settle(hit->tgid, acc, task, false);
	s = slot_reserve(hit, sizeof(*r), PTB_REC_KMEM, 0);
	r = s.rec;
	if (r) {
		r->h.site = 0;
		kmem_fill(r, acc);
		r->minor = (__u32)minor;
		r->major = (__u32)major;
		r->fault_bytes = rss ? rss_take_growth(rss, minor + major) * PAGE_BYTES : 0;
		r->rss_delta =
			rss ? (__s64)__sync_lock_test_and_set(&rss->change, 0) * (__s64)PAGE_BYTES :
			      0;
#pragma unroll
		for (__u32 i = 0; i < PTB_RSS_KINDS; i++)
			r->rss[i] = rss ? (__u64)rss->kinds[i] * PAGE_BYTES : 0;
		slot_submit(&s, hit);
	}
	kmem_clear(acc);
	return 0;
}

static __always_inline bool kmem_changed(const struct kmem_acc *acc, const struct task_struct *task)
{
	return acc->dirty || task->min_flt != acc->min_flt || task->maj_flt != acc->maj_flt;
}

/* Something has come to a thread's sums that its fault counters do not show. */
static __always_inline void kmem_touch(struct kmem_acc *acc)
{
	acc->dirty = 1;
	__sync_fetch_and_add(&kmem_gen, 1);
}

/*
 * One word, so that a preempted program sees all of it or nothing; if two are ever alike, sums are
 * emitted late.
 */
static __always_inline __u64 kmem_key(const struct hit *hit, const struct task_struct *task)
{
	__u64 faults = task->min_flt + task->maj_flt;

	return (((__u64)hit->tid << 32) | *(volatile __u32 *)&kmem_gen) ^
	       (faults * 0x9e3779b97f4a7c15ULL);
}

static __noinline int kmem_boundary_slow(const struct hit *hit, struct task_struct *task)
{
	struct kmem_acc *acc;

	if (!hit || !task)
		return 0;
	acc = bpf_task_storage_get(&kmem_accs, task, NULL, 0);
	if (acc && acc->window && acc->window == *(volatile __u32 *)&kmem_active &&
	    kmem_changed(acc, task))
		emit_kmem(hit, acc, task);
	return 0;
}

/* Between two probes: mostly nothing has happened, and that must cost next to nothing. */
static __always_inline void kmem_boundary(const struct hit *hit)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id() & (PTB_CPUS_MAX - 1);
	struct kmem_seen *seen = bpf_map_lookup_elem(&kmem_seen, &cpu);
	__u64 key = kmem_key(hit, task);

	if (!seen || *(volatile __u64 *)&seen->key == key)
		return;
	*(volatile __u64 *)&seen->key = key;
	kmem_boundary_slow(hit, task);
}

/* The sums of a thread begin: at its birth, or with what its counters show now. */
static __always_inline void kmem_begin(struct kmem_acc *acc, struct task_struct *task, __u32 window)
{
	bool born = task->start_time >= kmem_since;
	int own[PTB_RSS_KINDS] = {};

	kmem_clear(acc);
	acc->min_flt = born ? 0 : task->min_flt;
	acc->maj_flt = born ? 0 : task->maj_flt;
	acc->rss_cached = rss_cached(task, own);
	acc->call_ns = 0;
	acc->shrinks = 0;
	acc->stall_ns[0] = acc->stall_ns[1] = acc->stall_ns[2] = 0;
	*(volatile __u32 *)&acc->window = window;
}

#endif /* PTB_KMEM_BPF_H */
