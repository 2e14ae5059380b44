// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What watched threads do when they do not run: from the tracepoints of context switches and
 * wake-ups. A thread's registers at the switch say which system call it is in, so no other probe is
 * needed to know what it waits for. These programs run under the lock of a run queue: nothing here
 * wakes a task or allocates. The locks that they take, of a ring and of a hash bucket, are held
 * with interrupts off (with PREEMPT_RT since Linux 6.12, before which they are refused). A task
 * without sums is not watched: this check is all that the other tasks of the host pay for.
 */

#define SCHED_SUM_NS 1000000 /* then the sums of short waits are emitted */
/* Where hundreds of threads want to run, all waits are long: a processor emits no more than so many
 * records in a period (1.05 ms), and what would be another one is added to the sums. */
#define SCHED_PERIOD_SHIFT 20
#define SCHED_PERIOD_RECORDS 10
/* Linux include/linux/sched.h */
#define STATE_STOPPED 0x4
#define STATE_TRACED 0x8

/* Is this thread in a system call? Else an interrupt woke whoever is woken now, or the kernel. */
static __always_inline bool in_call(struct task_struct *task)
{
	const struct pt_regs___kernel *regs;

	if (!task->mm)
		return false;
	regs = (void *)bpf_task_pt_regs(task);
	return (long)regs->orig_ax >= 0;
}

static __always_inline struct sched_acc *sched_acc_of(struct task_struct *task)
{
	__u32 window = *(volatile __u32 *)&sched_active;
	struct sched_acc *acc = NULL;

	/* this check is cheaper than the call */
	if (!bpf_core_field_exists(task->bpf_storage) || task->bpf_storage)
		acc = bpf_task_storage_get(&sched_accs, task, NULL, 0);
	return acc && acc->window == window ? acc : NULL;
}

static __always_inline bool sched_may_emit(__u64 now)
{
	__u32 key = 0;
	struct sched_period *p = bpf_map_lookup_elem(&sched_periods, &key);

	if (!p)
		return false;
	if (p->nr != now >> SCHED_PERIOD_SHIFT) {
		p->nr = now >> SCHED_PERIOD_SHIFT;
		p->records = 0;
	}
	return p->records++ < SCHED_PERIOD_RECORDS;
}

/* The sums since the last ones; begins anew. */
static __noinline int sched_emit_sums(struct sched_acc *acc, __u64 now)
{
	struct ptb_sched r = {};
	struct hit hit = { .ts_ns = now };

	if (!acc)
		return 0;
	hit.tgid = acc->tgid;
	hit.tid = acc->tid;
	hdr_fill(&r.h, sizeof(r), PTB_REC_SCHED, 0, &hit);
	r.since_ns = acc->since_ns;
	r.begin_ns = acc->begin_ns;
	__builtin_memcpy(r.ns, acc->ns, sizeof(r.ns));
	r.voluntary = acc->voluntary;
	r.preempted = acc->preempted;
	emit_bytes(&hit, &r, sizeof(r), false);
	__builtin_memset(acc->ns, 0, sizeof(acc->ns));
	acc->voluntary = acc->preempted = 0;
	acc->begin_ns = 0;
	return 0;
}

/* ---- what it waits for ---- */

#define S_IFMT 0170000
#define S_IFCHR 0020000
#define S_IFDIR 0040000
#define S_IFBLK 0060000
#define S_IFREG 0100000
#define MINOR_BITS 20 /* Linux include/linux/kdev_t.h */

/* By the kind of file that the descriptor names. */
static __always_inline __u32 wait_of_file(struct task_struct *task, __u32 fd)
{
	struct files_struct *files = task->files;
	struct fdtable *fdt = files ? files->fdt : NULL;
	struct file *file = NULL;
	struct inode *inode;
	__u32 major;

	if (!fdt || fd >= fdt->max_fds)
		return PTB_WAIT_OTHER;
	bpf_probe_read_kernel(&file, sizeof(file), fdt->fd + fd);
	inode = BPF_CORE_READ(file, f_inode);
	switch (BPF_CORE_READ(inode, i_mode) & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFBLK:
		return PTB_WAIT_FILE;
	case S_IFCHR:
		major = BPF_CORE_READ(inode, i_rdev) >> MINOR_BITS;
		return major && (major == gpu_majors[0] || major == gpu_majors[1]) ? PTB_WAIT_GPU :
										     PTB_WAIT_OTHER;
	default:
		return PTB_WAIT_PIPE;
	}
}

/* The thread that holds the GIL. */
static __always_inline __u32 gil_holder(const struct ptb_py_gil *gil, __u32 tgid)
{
	struct ptb_thread_key key = { .tgid = tgid, .fsbase = gil_thread(gil) };
	__u32 *tid;

	if (!key.fsbase)
		return 0;
	tid = bpf_map_lookup_elem(&thread_of_fsbase, &key);
	return tid ? *tid : 0;
}

/* A program's first thread gets its thread pointer after its birth. */
static __always_inline void sched_know(struct sched_acc *acc, __u64 fsbase)
{
	struct ptb_thread_key key = { .tgid = acc->tgid, .fsbase = fsbase };

	if (acc->fsbase == fsbase)
		return;
	acc->fsbase = fsbase;
	bpf_map_update_elem(&thread_of_fsbase, &key, &acc->tid, BPF_ANY);
}

static __always_inline __u32 wait_of_futex(struct sched_acc *acc, struct task_struct *task,
					   bool current)
{
	const struct ptb_py_gil *gil = bpf_map_lookup_elem(&py_gils, &acc->tgid);

	if (!gil || acc->arg < gil->start || acc->arg >= gil->end)
		return PTB_WAIT_LOCK;
	if (current) {
		sched_know(acc, task->thread.fsbase);
		acc->holder = gil_holder(gil, acc->tgid);
		if (acc->holder == acc->tid) /* it waits for another one to take it */
			acc->holder = 0;
	}
	return PTB_WAIT_GIL;
}

static __always_inline void classify(struct sched_acc *acc, struct task_struct *task, __u32 state,
				     bool current)
{
	const struct pt_regs___kernel *regs = (void *)bpf_task_pt_regs(task);
	__u32 what = PTB_WAIT_OTHER;

	acc->nr = (__s32)regs->orig_ax;
	acc->arg = regs->di;
	acc->io = BPF_CORE_READ_BITFIELD(task, in_iowait) != 0;
	acc->holder = 0;
	if (acc->nr >= 0 && acc->nr < PTB_SYSCALLS)
		what = wait_of_call[acc->nr & (PTB_SYSCALLS - 1)];
	else if (acc->nr == -1)
		what = PTB_WAIT_MEMORY;
	if (state & (STATE_STOPPED | STATE_TRACED))
		what = PTB_WAIT_STOP;
	else if (what == PTB_WAIT_LOCK)
		what = wait_of_futex(acc, task, current);
	else if (what == PTB_WAIT_BY_FILE)
		what = acc->io ? PTB_WAIT_FILE : wait_of_file(task, (__u32)acc->arg);
	acc->what = what;
}

static __always_inline void sched_stopped(struct sched_acc *acc, struct task_struct *task,
					  bool preempted, __u32 state, bool current)
{
	acc->preempted_now = preempted;
	if (!preempted) {
		classify(acc, task, state, current);
		return;
	}
	acc->what = PTB_WAIT_CPU;
	acc->nr = -1;
	acc->arg = acc->holder = acc->io = 0;
}

/* ---- switches ---- */

static __always_inline void sched_add(struct sched_acc *acc, __u64 blocked, __u64 queued)
{
	acc->ns[acc->what & (PTB_WAIT_SLOTS - 1)] += blocked;
	acc->ns[PTB_WAIT_CPU] += queued;
	acc->voluntary += !acc->preempted_now;
	acc->preempted += acc->preempted_now;
	if (!acc->begin_ns)
		acc->begin_ns = acc->out_ns;
}

/* The interval since the thread ran last ends, or is cut off by the window's end. */
static __always_inline void sched_ended(struct sched_acc *acc, __u64 now)
{
	__u64 ready = acc->preempted_now ? acc->out_ns : now;
	struct ptb_sched_wait r = {};
	struct hit hit = { .ts_ns = now };
	bool woken = acc->waking_ns >= acc->out_ns;

	if (!acc->preempted_now && woken)
		ready = acc->waking_ns;
	else if (!acc->preempted_now && !acc->out_cut && acc->waking_ns > acc->in_ns)
		ready = acc->out_ns; /* it was woken before the switch, and never slept */
	if (ready > now)
		ready = now;
	if (!acc->out_cut && (now - acc->out_ns < PTB_SCHED_LONG_NS || !sched_may_emit(now))) {
		sched_add(acc, ready - acc->out_ns, now - ready);
		if (now - acc->begin_ns > SCHED_SUM_NS && sched_may_emit(now))
			sched_emit_sums(acc, now);
		return;
	}
	hit.tgid = acc->tgid;
	hit.tid = acc->tid;
	hdr_fill(&r.h, sizeof(r), PTB_REC_SCHED_WAIT, 0, &hit);
	r.begin_ns = acc->out_ns;
	r.ready_ns = ready;
	r.arg = acc->arg;
	r.nr = acc->nr;
	r.what = acc->what;
	r.flags = (acc->preempted_now ? PTB_SCHED_PREEMPTED : 0) | (acc->io ? PTB_SCHED_IO : 0);
	r.cpu = acc->cpu;
	r.holder = acc->holder;
	if (woken && !acc->preempted_now) {
		r.waker_tgid = acc->waker_tgid;
		r.waker_tid = acc->waker_tid;
	}
	emit_bytes(&hit, &r, sizeof(r), false);
}

/*
 * Some kernels leave out switches of some tasks, and now and then the wake-up before. How long the
 * thread waited between two switches that were reported is known from the kernel's own count of
 * the time that it ran.
 */
static __always_inline __u64 sched_unseen(const struct sched_acc *acc, struct task_struct *task,
					  __u64 since, __u64 now)
{
	__u64 ran = task->se.sum_exec_runtime - acc->ran_ns;

	count(PTB_CNT_SCHED_UNSEEN);
	return since + ran < now ? now - since - ran : 0;
}

static __always_inline void sched_out(struct sched_acc *acc, struct task_struct *task,
				      bool preempted, __u32 state, __u64 now)
{
	if (acc->out_ns) { /* its return was left out: it ran until now */
		__u64 in = acc->out_ns + sched_unseen(acc, task, acc->out_ns, now);

		sched_ended(acc, in);
		acc->in_ns = in;
	}
	acc->out_ns = now;
	acc->ran_ns = task->se.sum_exec_runtime;
	acc->cpu = bpf_get_smp_processor_id();
	sched_stopped(acc, task, preempted, state, true);
}

static __always_inline void sched_in(struct sched_acc *acc, struct task_struct *task, __u64 now)
{
	if (!acc->out_ns && acc->in_ns) { /* that it stopped was left out: it ran until then */
		acc->out_ns = now - sched_unseen(acc, task, acc->in_ns, now);
		sched_stopped(acc, task, task->nvcsw == acc->nvcsw, 0, false);
	}
	if (acc->out_ns)
		sched_ended(acc, now);
	acc->out_ns = acc->out_cut = 0;
	acc->in_ns = now;
	acc->ran_ns = task->se.sum_exec_runtime;
	acc->nvcsw = task->nvcsw;
}

SEC("tp_btf/sched_switch")
int sched_switched(unsigned long long *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct sched_acc *acc;
	__u32 state;
	__u64 now;

	if (!*(volatile __u32 *)&sched_active)
		return 0;
	now = bpf_ktime_get_ns();
	acc = sched_acc_of(prev);
	if (acc) {
		state = sched_state_arg ? (__u32)ctx[3] : prev->__state;
		sched_out(acc, prev, ctx[0] || !state, state, now);
	}
	acc = sched_acc_of(next);
	if (acc)
		sched_in(acc, next, now);
	return 0;
}

/* In the one who wakes it, before it can run. */
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_woken, struct task_struct *task)
{
	struct sched_acc *acc;

	if (!*(volatile __u32 *)&sched_active)
		return 0;
	acc = sched_acc_of(task);
	if (!acc)
		return 0;
	acc->waking_ns = bpf_ktime_get_ns();
	if (in_call(bpf_get_current_task_btf()))
		current_ids(&acc->waker_tgid, &acc->waker_tid);
	else
		acc->waker_tgid = acc->waker_tid = 0;
	return 0;
}

/* ---- life of threads ---- */

static __always_inline void sched_begin(struct sched_acc *acc, struct task_struct *task,
					__u32 window)
{
	__builtin_memset(acc, 0, sizeof(*acc));
	acc->tgid = task_tgid(task);
	acc->tid = task_tid(task);
	acc->since_ns = bpf_ktime_get_ns();
	sched_know(acc, task->thread.fsbase);
	*(volatile __u32 *)&acc->window = window;
}

/* It runs first when it is switched in. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_task_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = task_tgid(parent), child_tgid = task_tgid(child);
	__u32 window = *(volatile __u32 *)&sched_active;
	struct sched_acc *acc;

	if (!window || !is_watched(tgid) || (child_tgid != tgid && !watch_children))
		return 0;
	acc = bpf_task_storage_get(&sched_accs, child, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!acc) {
		count(PTB_CNT_SCHED_NO_ROOM);
		return 0;
	}
	sched_begin(acc, child, window);
	sched_emit_sums(acc, acc->since_ns);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_task_exec, struct task_struct *task)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct sched_acc *acc = sched_acc_of(me);
	__u32 tgid = task_tgid(me);

	bpf_map_delete_elem(&py_gils, &tgid); /* its Python is gone */
	if (acc)
		acc->tid = task_tid(me); /* that of the first thread, whichever it was */
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_task_exit, struct task_struct *task)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct sched_acc *acc = sched_acc_of(me);
	struct ptb_thread_key key;
	__u32 *tid;

	if (!acc)
		return 0;
	sched_emit_sums(acc, bpf_ktime_get_ns());
	key = (struct ptb_thread_key){ .tgid = acc->tgid, .fsbase = acc->fsbase };
	tid = bpf_map_lookup_elem(&thread_of_fsbase, &key);
	if (tid && *tid == acc->tid) /* else another thread has its stack already */
		bpf_map_delete_elem(&thread_of_fsbase, &key);
	acc->window = 0;
	return 0;
}

/*
 * Run by user space over all tasks: before a window, when a process joins, and after the window has
 * been closed for these programs. A thread that does not run at one of the window's ends waits
 * there for what it waits for then.
 */
SEC("iter/task")
int sched_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u64 now = bpf_ktime_get_ns();
	struct sched_acc *acc;
	__u32 state;

	if (!task || !is_watched(task_tgid(task)))
		return 0;
	acc = bpf_task_storage_get(&sched_accs, task, NULL,
				   sched_closing ? 0 : BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (sched_closing) {
		if (!acc || acc->window != sched_window)
			return 0;
		now = sched_end_ns; /* what it did since then is not known */
		if (acc->out_ns && acc->out_ns < now) {
			acc->out_cut = 1;
			sched_ended(acc, now);
		}
		sched_emit_sums(acc, now);
		acc->window = 0;
		return 0;
	}
	if (!acc) {
		count(PTB_CNT_SCHED_NO_ROOM);
		return 0;
	}
	if (acc->window == sched_window)
		return 0;
	sched_begin(acc, task, 0);
	if (!is_on_cpu(task)) {
		state = BPF_CORE_READ(task, __state);
		sched_stopped(acc, task, !state, state, false);
		acc->out_ns = now;
	}
	acc->in_ns = now;
	acc->ran_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	sched_emit_sums(acc, acc->since_ns);
	*(volatile __u32 *)&acc->window = sched_window;
	return 0;
}
