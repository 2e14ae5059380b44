// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Life of processes and threads from scheduler tracepoints (BTF-typed: no kprobes needed), for
 * watched processes only. Independent of the window: a process born outside it must still be known.
 * The collector decides what to do about them.
 */

static __always_inline bool is_watched(__u32 tgid)
{
	return tgid && bpf_map_lookup_elem(&watched, &tgid);
}

static __always_inline void emit_task(__u8 kind, struct task_struct *who, struct task_struct *child,
				      __u32 group_dead, __u32 status)
{
	struct ptb_task r = {};
	struct hit hit = {
		.ts_ns = bpf_ktime_get_ns(),
		.tgid = task_tgid(who),
		.tid = task_tid(who),
	};

	hdr_fill(&r.h, sizeof(r), kind, 0, &hit);
	if (child) {
		r.child_tgid = task_tgid(child);
		r.child_tid = task_tid(child);
	}
	r.group_dead = group_dead;
	r.status = status;
	BPF_CORE_READ_STR_INTO(&r.comm, child ?: who, comm);
	emit_copy(&hit, &r, sizeof(r));
}

/* Fires for threads too, before the new task runs. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(task_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = task_tgid(parent), child_tgid;
	__u32 one = 1;

	if (!is_watched(tgid))
		return 0;
	child_tgid = task_tgid(child);
	if (child_tgid == tgid) {
		emit_task(PTB_REC_THREAD_NEW, parent, child, 0, 0);
		return 0;
	}
	if (watch_children && child_tgid)
		bpf_map_update_elem(&watched, &child_tgid, &one, BPF_ANY);
	emit_task(PTB_REC_FORK, parent, child, 0, 0);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(task_exec, struct task_struct *task)
{
	__u32 tgid = task_tgid(task);

	if (!is_watched(tgid))
		return 0;
	bpf_map_delete_elem(&sampled, &tgid); /* its Python is gone */
	if (by_tgid)
		/* what it maps next is another program's */
		bpf_map_delete_elem(&shared_procs, &tgid);
	emit_task(PTB_REC_EXEC, task, NULL, 0, 0);
	return 0;
}

/*
 * Older kernels do not pass group_dead; `live` is already decremented here. Two threads that exit
 * together may both see 0: the one that unwatches the process reports its end.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(task_exit, struct task_struct *task)
{
	__u32 tgid = task_tgid(task), dead = 0, status = 0;

	if (!is_watched(tgid))
		return 0;
	if (!BPF_CORE_READ(task, signal, live.counter)) {
		if (bpf_map_delete_elem(&watched, &tgid))
			return 0;
		if (by_tgid)
			/* before another process has its pid */
			bpf_map_delete_elem(&shared_procs, &tgid);
		dead = 1;
		status = (__u32)BPF_CORE_READ(task, signal, group_exit_code);
		if (!status)
			status = (__u32)BPF_CORE_READ(task, exit_code);
	}
	emit_task(PTB_REC_EXIT, task, NULL, dead, status);
	return 0;
}

#define VM_EXEC 0x4
#define VM_MAYEXEC 0x40
#define VM_MAYSHARE 0x80
#define VM_HUGETLB 0x400000
#define FUSE_MAGIC 0x65735546 /* Linux fs/fuse/inode.c */

/*
 * Which process has mapped which file, as the kernel decides it for a probe
 * (kernel/events/uprobes.c, valid_vma()): not only as code, and whatever names a file has in
 * containers. /proc/PID/maps has neither, and may not be readable. And who has mapped files of
 * FUSE.
 */
SEC("iter/task_vma")
int mappings(struct bpf_iter__task_vma *ctx)
{
	struct task_struct *task = ctx->task;
	struct vm_area_struct *vma = ctx->vma;
	struct ptb_mapping m = {};
	struct super_block *sb;
	struct inode *inode;
	__u64 flags;

	if (!task || !vma)
		return 0;
	inode = BPF_CORE_READ(vma, vm_file, f_inode);
	if (!inode)
		return 0;
	flags = BPF_CORE_READ(vma, vm_flags);
	sb = BPF_CORE_READ(inode, i_sb);
	if (BPF_CORE_READ(sb, s_magic) == FUSE_MAGIC)
		m.fuse = BPF_CORE_READ(sb, s_dev); /* which fuse_ctl_add_conn() names it by */
	if ((flags & (VM_MAYEXEC | VM_MAYSHARE | VM_HUGETLB)) == VM_MAYEXEC)
		m.inode = (__u64)inode;
	else if (!m.fuse)
		return 0;
	m.start = BPF_CORE_READ(vma, vm_start);
	m.end = BPF_CORE_READ(vma, vm_end);
	m.off = BPF_CORE_READ(vma, vm_pgoff) << 12;
	m.exec = (flags & VM_EXEC) != 0;
	m.tgid = task_tgid(task);
	bpf_seq_write(ctx->meta->seq, &m, sizeof(m));
	return 0;
}
