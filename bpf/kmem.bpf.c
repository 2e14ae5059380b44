// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Kernel memory events of watched threads, from tracepoints, added up per thread (kmem.bpf.h); rare
 * and large ones have a record each. A task without sums is not watched: this check is all that the
 * other tasks of the host pay for.
 */

#define SLICE_FAULTS 256 /* then the sums are emitted in the midst of an operator */
#define SLICE_NS 10000000
#define SLICE_CHECK 16 /* faults between two readings of the clock */
#define PF_WRITE 0x2   /* arch/x86/include/asm/trap_pf.h, X86_PF_WRITE */

static __always_inline void kmem_hit(struct hit *hit, __u64 now)
{
	hit->ts_ns = now;
	hit->site = 0;
	hit->quiet = false;
	current_ids(&hit->tgid, &hit->tid);
}

/* Its sums could not be made at its birth. */
static __noinline struct kmem_acc *kmem_acc_late(struct task_struct *task)
{
	__u32 window = *(volatile __u32 *)&kmem_active;
	struct kmem_acc *acc;
	__u32 tgid, tid;

	current_ids(&tgid, &tid);
	if (!task || !is_watched(tgid))
		return NULL;
	acc = bpf_task_storage_get(&kmem_accs, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!acc) {
		count(PTB_CNT_KMEM_NO_ROOM);
		return NULL;
	}
	if (acc->window != window)
		kmem_begin(acc, task, window);
	return acc;
}

/* NULL: not watched, or no window. */
static __always_inline struct kmem_acc *kmem_acc_of(struct task_struct *task)
{
	__u32 window = *(volatile __u32 *)&kmem_active;
	struct kmem_acc *acc = NULL;

	if (!window)
		return NULL;
	/* this check is cheaper than the call */
	if (!bpf_core_field_exists(task->bpf_storage) || task->bpf_storage)
		acc = bpf_task_storage_get(&kmem_accs, task, NULL, 0);
	if (acc)
		return acc->window == window ? acc : NULL;
	return *(volatile __u32 *)&kmem_lazy ? kmem_acc_late(task) : NULL;
}

/* A call of this thread may free so many pages; 0: none does. */
static __always_inline void call_is_shrinking(struct kmem_acc *acc, __s64 pages)
{
	if (acc->shrinks != pages)
		__sync_fetch_and_add(&kmem_shrinking, pages - acc->shrinks);
	acc->shrinks = pages;
}

/* ---- page faults ---- */

SEC("tp_btf/page_fault_user")
int BPF_PROG(kmem_fault, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct kmem_acc *acc = kmem_acc_of(task);
	struct hit hit;
	__u32 faults;
	__u64 now;

	if (!acc)
		return 0;
	if (error_code & PF_WRITE)
		acc->writes++;
	else
		acc->reads++;
	faults = acc->reads + acc->writes;
	acc->dirty = 1;
	if (*(volatile __s64 *)&kmem_shrinking) {
		call_is_shrinking(acc, false); /* if the kernel has skipped its exit */
		current_ids(&hit.tgid, &hit.tid);
		rss_settle(hit.tgid, acc, task, false);
	}
	if (faults == 1 || address < acc->addr_min)
		acc->addr_min = address;
	if (address > acc->addr_max)
		acc->addr_max = address;
	if (acc->begin_ns && faults % SLICE_CHECK)
		return 0;
	now = bpf_ktime_get_ns();
	if (!acc->begin_ns)
		acc->begin_ns = now;
	if (faults >= SLICE_FAULTS || now - acc->begin_ns > SLICE_NS) {
		kmem_hit(&hit, now);
		emit_kmem(&hit, acc, task);
	}
	return 0;
}

/* ---- stalls ---- */

static __always_inline int stall_begin(__u32 what, __u32 order)
{
	struct kmem_acc *acc = kmem_acc_of(bpf_get_current_task_btf());

	if (acc) {
		acc->stall_ns[what] = bpf_ktime_get_ns();
		acc->stall_order[what] = order;
	}
	return 0;
}

static __always_inline int stall_end(__u32 what, __u64 reclaimed)
{
	struct kmem_acc *acc = kmem_acc_of(bpf_get_current_task_btf());
	struct ptb_kmem_stall r = {};
	struct hit hit;
	__u64 ns;

	if (!acc || !acc->stall_ns[what])
		return 0;
	kmem_hit(&hit, bpf_ktime_get_ns());
	ns = hit.ts_ns - acc->stall_ns[what];
	if (what == PTB_STALL_COMPACTION) {
		acc->compactions++;
		acc->compact_ns += ns;
	} else {
		acc->reclaims++;
		acc->reclaim_ns += ns;
	}
	kmem_touch(acc);
	if (!acc->begin_ns)
		acc->begin_ns = acc->stall_ns[what];
	if (ns >= PTB_KMEM_STALL_MIN_NS) {
		hdr_fill(&r.h, sizeof(r), PTB_REC_KMEM_STALL, 0, &hit);
		r.begin_ns = acc->stall_ns[what];
		r.reclaimed = reclaimed;
		r.what = what;
		r.order = acc->stall_order[what];
		emit_copy(&hit, &r, sizeof(r));
	}
	acc->stall_ns[what] = 0;
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(kmem_reclaim_begin, int order)
{
	return stall_begin(PTB_STALL_RECLAIM, (__u32)order);
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(kmem_reclaim_end, unsigned long reclaimed)
{
	return stall_end(PTB_STALL_RECLAIM, reclaimed);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(kmem_cgroup_begin, int order)
{
	return stall_begin(PTB_STALL_MEMCG_RECLAIM, (__u32)order);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(kmem_cgroup_end, unsigned long reclaimed)
{
	return stall_end(PTB_STALL_MEMCG_RECLAIM, reclaimed);
}

/* (struct compact_control *, ...) since Linux 6.1, before that four numbers */
SEC("tp_btf/mm_compaction_begin")
int kmem_compact_begin(unsigned long long *ctx)
{
	__u32 order = 0;

	if (compact_has_cc) {
		struct compact_control *cc = (void *)ctx[0];

		order = (__u32)cc->order;
	}
	return stall_begin(PTB_STALL_COMPACTION, order);
}

SEC("tp_btf/mm_compaction_end")
int kmem_compact_end(unsigned long long *ctx)
{
	return stall_end(PTB_STALL_COMPACTION, 0);
}

/* ---- rare events ---- */

static __always_inline void emit_happening(struct ptb_kmem_event *r, __u32 tgid, __u32 tid)
{
	struct hit hit = { .ts_ns = bpf_ktime_get_ns(), .tgid = tgid, .tid = tid };

	hdr_fill(&r->h, sizeof(*r), PTB_REC_KMEM_EVENT, 0, &hit);
	emit_copy(&hit, r, sizeof(*r));
}

#define SCAN_SUCCEED 1 /* mm/khugepaged.c, enum scan_result */

/* who puts pages together, and how many of them were not there */
__u32 collapse_tid = 0, collapse_pages = 0;

/* (page, pages that were not there, ...): the process grows by them if it succeeds */
SEC("tp_btf/mm_collapse_huge_page_isolate")
int kmem_huge_page_isolate(unsigned long long *ctx)
{
	if (!*(volatile __u32 *)&kmem_active)
		return 0;
	collapse_pages = (__u32)ctx[1];
	collapse_tid = (__u32)bpf_get_current_pid_tgid();
	return 0;
}

/* Another task did it: no thread of the process grows it. */
static __always_inline void collapsed_from_outside(__u32 owner)
{
	struct kmem_rss *r = bpf_map_lookup_elem(&kmem_rss, &owner);

	if (r && collapse_tid == (__u32)bpf_get_current_pid_tgid())
		__sync_fetch_and_add(&r->last, (__s64)collapse_pages);
}

/* By the kernel's thread for any process, or by the process for itself. */
SEC("tp_btf/mm_collapse_huge_page")
int BPF_PROG(kmem_huge_page, struct mm_struct *mm, int isolated, int status)
{
	struct ptb_kmem_event r = { .what = PTB_KMEM_HUGE_PAGE };
	__u32 owner = 0, tgid, tid;

	if (!*(volatile __u32 *)&kmem_active)
		return 0;
	current_ids(&tgid, &tid);
	if (bpf_core_field_exists(mm->owner)) {
		struct task_struct *task = BPF_CORE_READ(mm, owner);

		owner = task ? task_tgid(task) : 0;
	}
	if (!owner)
		owner = tgid;
	if (!is_watched(owner))
		return 0;
	r.pages = status == SCAN_SUCCEED ? HUGE_PAGES : 0;
	r.failed = (__u64)status;
	if (r.pages && tgid != owner)
		collapsed_from_outside(owner);
	emit_happening(&r, owner, tgid == owner ? tid : 0);
	return 0;
}

/* The verifier takes no computed index: keeps the compiler from merging several into one. */
#define CTX_ARG(ctx, i)                                                                            \
	({                                                                                         \
		__u64 v_ = (ctx)[i];                                                               \
		asm volatile("" : "+r"(v_));                                                       \
		(__u32) v_;                                                                        \
	})

/* (succeeded, failed, ..., mode, reason) */
SEC("tp_btf/mm_migrate_pages")
int kmem_migrate(unsigned long long *ctx)
{
	struct ptb_kmem_event r = { .what = PTB_KMEM_MIGRATE };
	__u32 tgid, tid;

	if (!kmem_acc_of(bpf_get_current_task_btf()))
		return 0;
	r.pages = ctx[0];
	r.failed = ctx[1];
	if (migrate_reason_arg == 3)
		r.reason = CTX_ARG(ctx, 3);
	else if (migrate_reason_arg == 6)
		r.reason = CTX_ARG(ctx, 6);
	else if (migrate_reason_arg == 7)
		r.reason = CTX_ARG(ctx, 7);
	current_ids(&tgid, &tid);
	emit_happening(&r, tgid, tid);
	return 0;
}

/* The thread that asked for memory runs the killer; victim or killer must be ours. */
static __always_inline int oom_kill(__u32 victim, __u64 pages)
{
	struct ptb_kmem_event r = { .what = PTB_KMEM_OOM_KILL, .pages = pages };
	__u32 tgid, tid;

	current_ids(&tgid, &tid);
	if (is_watched(tgid)) {
		r.by_tgid = tgid;
		r.by_tid = tid;
	}
	if (r.by_tgid || is_watched(victim))
		emit_happening(&r, victim, r.by_tgid == victim ? tid : 0);
	return 0;
}

SEC("tp_btf/mark_victim")
int BPF_PROG(kmem_oom_kill, struct task_struct *victim)
{
	struct rss_reading reading = {};

	if (!*(volatile __u32 *)&kmem_active)
		return 0;
	rss_read(victim, &reading);
	return oom_kill(task_tgid(victim), (__u64)rss_sum(reading.sum));
}

/* Before Linux 6.9: a number of the initial pid namespace. */
SEC("tp_btf/mark_victim")
int BPF_PROG(kmem_oom_kill_pid, int pid)
{
	if (!*(volatile __u32 *)&kmem_active || ns_level)
		return 0;
	return oom_kill((__u32)pid, 0);
}

/* ---- life of threads ---- */

SEC("tp_btf/sched_process_fork")
int BPF_PROG(kmem_task_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = task_tgid(parent), child_tgid = task_tgid(child);
	__u32 window = *(volatile __u32 *)&kmem_window;
	struct kmem_acc *acc;

	if (!window || !is_watched(tgid) || (child_tgid != tgid && !watch_children))
		return 0;
	acc = bpf_task_storage_get(&kmem_accs, child, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!acc) {
		*(volatile __u32 *)&kmem_lazy = 1;
		return 0;
	}
	kmem_begin(acc, child, window);
	if (child_tgid != tgid)
		rss_begin(child_tgid, acc, child);
	return 0;
}

/* Another program, another memory. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(kmem_task_exec, struct task_struct *task)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct kmem_acc *acc = kmem_acc_of(me);

	if (acc)
		rss_begin(task_tgid(me), acc, me);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(kmem_task_exit, struct task_struct *task)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct kmem_acc *acc = kmem_acc_of(me);
	struct hit hit;

	if (!acc)
		return 0;
	kmem_hit(&hit, bpf_ktime_get_ns());
	call_is_shrinking(acc, 0);
	rss_leave(hit.tgid, acc);
	if (kmem_changed(acc, me))
		emit_kmem(&hit, acc, me);
	acc->window = 0;
	return 0;
}

/*
 * Run by user space over all tasks: before a window, when a process joins, and after the window has
 * been closed for kernel memory. Its thread may run meanwhile, but adds nothing.
 */
SEC("iter/task")
int kmem_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 window = kmem_window, tgid;
	struct kmem_acc *acc;
	struct hit hit = {};

	if (!task)
		return 0;
	tgid = task_tgid(task);
	if (!is_watched(tgid))
		return 0;
	acc = bpf_task_storage_get(&kmem_accs, task, NULL,
				   kmem_closing ? 0 : BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!kmem_closing) {
		if (!acc)
			*(volatile __u32 *)&kmem_lazy = 1;
		else if (acc->window != window)
			kmem_begin(acc, task, window);
		rss_settle(tgid, acc, task, false);
		return 0;
	}
	if (!acc || acc->window != window || !kmem_changed(acc, task))
		return 0;
	hit.ts_ns = bpf_ktime_get_ns();
	hit.tgid = tgid;
	hit.tid = task_tid(task);
	emit_kmem(&hit, acc, task);
	return 0;
}

__s64 own_rss[PTB_RSS_KINDS] = {}; /* pages of the process that ran kmem_setup */
__u64 address = 0;                 /* a pointer becomes a number by going through memory */

/*
 * Where each processor's own memory is: by how far its value of a map is from what the map knows
 * all of them by. (The kernel's table of it has a name that not every kernel gives away.)
 */
static __always_inline void find_cpus(void)
{
	__u64 base = 0, elem;
	__u32 key = 0;

	*(volatile __u64 *)&address = (__u64)&counters;
	bpf_probe_read_kernel(&base, sizeof(base),
			      (void *)(*(volatile __u64 *)&address +
				       bpf_core_field_offset(struct bpf_array, pptrs)));
	for (__u32 i = 0; i < PTB_CPUS_MAX; i++) {
		if (i >= nr_cpus)
			break;
		elem = (__u64)bpf_map_lookup_percpu_elem(&counters, &key, (__u32)cpu_off[i]);
		*(volatile __u64 *)&address = elem;
		cpu_off[i] = *(volatile __u64 *)&address - base;
	}
}

/* Run once by BPF_PROG_TEST_RUN: what is needed to read resident memory, and the caller's own to
 * compare. */
SEC("raw_tp/sys_enter")
int kmem_setup(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rss_reading reading = {};
	struct mm_struct *mm = task->mm;

	if (!mm)
		return 0;
	if (bpf_core_type_exists(struct mm_rss_stat)) {
		struct mm_struct___old *old = (void *)mm;

		/* as /proc shows it: without what the tasks have not added yet, which can be
		 * megabytes */
		bpf_core_read(reading.sum, sizeof(reading.sum), &old->rss_stat.count);
	} else {
		find_cpus();
		RSS_OWN(mm, 0, &reading.own[0]);
		RSS_OWN(mm, 1, &reading.own[1]);
		RSS_OWN(mm, 2, &reading.own[2]);
		RSS_OWN(mm, 3, &reading.own[3]);
		rss_packed = reading.own[1] == reading.own[0] + 4 &&
			     reading.own[2] == reading.own[0] + 8 &&
			     reading.own[3] == reading.own[0] + 12;
		rss_read(task, &reading);
	}
	for (__u32 i = 0; i < PTB_RSS_KINDS; i++)
		own_rss[i] = reading.sum[i];
	return 0;
}
