// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The registers of a process's threads in user space, for native stacks. An iterator over them,
 * which user space loads alone and reads like a file: nothing is attached, and no thread is
 * stopped.
 */

static __always_inline void copy_regs(__u64 to[PTB_DWARF_REGS], const struct pt_regs___kernel *from)
{
	to[0] = BPF_CORE_READ(from, ax);
	to[1] = BPF_CORE_READ(from, dx);
	to[2] = BPF_CORE_READ(from, cx);
	to[3] = BPF_CORE_READ(from, bx);
	to[4] = BPF_CORE_READ(from, si);
	to[5] = BPF_CORE_READ(from, di);
	to[6] = BPF_CORE_READ(from, bp);
	to[PTB_DWARF_SP] = BPF_CORE_READ(from, sp);
	to[8] = BPF_CORE_READ(from, r8);
	to[9] = BPF_CORE_READ(from, r9);
	to[10] = BPF_CORE_READ(from, r10);
	to[11] = BPF_CORE_READ(from, r11);
	to[12] = BPF_CORE_READ(from, r12);
	to[13] = BPF_CORE_READ(from, r13);
	to[14] = BPF_CORE_READ(from, r14);
	to[15] = BPF_CORE_READ(from, r15);
	to[PTB_DWARF_IP] = BPF_CORE_READ(from, ip);
}

SEC("?iter/task")
int thread_regs(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct ptb_thread_regs row = {};

	if (!task)
		return 0;
	row.tid = task_tid(task);
	row.running = is_on_cpu(task);
	row.switches = switches_of(task);
	if (!row.running)
		copy_regs(row.regs, (const struct pt_regs___kernel *)bpf_task_pt_regs(task));
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}
