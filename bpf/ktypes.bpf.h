/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The few kernel types that the programs read, with only the members that they read; CO-RE
 * relocates them on the running kernel. Must not grow into a copy of vmlinux.h.
 */
#ifndef PTB_KTYPES_BPF_H
#define PTB_KTYPES_BPF_H

#define KTYPE __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} KTYPE;

struct pid_namespace {
	unsigned int level;
	struct ns_common ns;
} KTYPE;

struct upid {
	int nr;
	struct pid_namespace *ns;
} KTYPE;

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* one per namespace level, the initial one first */
} KTYPE;

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;       /* threads that have not begun to exit */
	int group_exit_code; /* as wait() reports it, 0: the last thread's own holds */
} KTYPE;

struct thread_struct {
	unsigned long fsbase;
} KTYPE;

struct timerqueue_node {
	long long expires;
} KTYPE;

struct hrtimer {
	struct timerqueue_node node;
	void *function;
} KTYPE;

/* since Linux 6.2; `counters` is of every processor's own memory */
struct percpu_counter {
	long long count;
	int *counters;
} KTYPE;

struct task_struct;

struct mm_struct {
	struct percpu_counter rss_stat[4];
	unsigned long brk, total_vm;
	struct task_struct *owner; /* CONFIG_MEMCG */
} KTYPE;

/* before */
struct old_counter {
	long long counter;
} KTYPE;

struct mm_rss_stat {
	struct old_counter count[4];
} KTYPE;

struct mm_struct___old {
	struct mm_rss_stat rss_stat;
} KTYPE;

struct task_rss_stat {
	int count[4];
} KTYPE;

struct task_struct___old {
	struct task_rss_stat rss_stat; /* not where there are few processors */
} KTYPE;

struct bpf_array {
	void *pptrs[0]; /* of a map with memory of every processor's own */
} KTYPE;

struct compact_control {
	int order;
} KTYPE;

/*
 * What the tracepoints of single system calls hand on. Not trace_event_raw_sys_enter and _exit,
 * which are raw_syscalls': their `id` is a long, so that all behind it moves where trace_entry is
 * no multiple of 8 bytes (kernels with PREEMPT_RT before 6.13).
 */
struct syscall_trace_enter {
	unsigned long args[0];
} KTYPE;

struct syscall_trace_exit {
	long ret;
} KTYPE;

struct seq_file;
struct super_block {
	unsigned int s_dev;
	unsigned long s_magic;
} KTYPE;

struct inode {
	struct super_block *i_sb;
	unsigned short i_mode;
	unsigned int i_rdev;
} KTYPE;

struct bpf_iter_meta {
	struct seq_file *seq;
	unsigned long long seq_num;
} KTYPE;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} KTYPE;

struct file {
	struct inode *f_inode;
} KTYPE;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} KTYPE;

struct files_struct {
	struct fdtable *fdt;
} KTYPE;

struct vm_area_struct {
	unsigned long vm_start, vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
} KTYPE;

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
} KTYPE;

struct sched_info {
	unsigned long long last_arrival, last_queued; /* on a processor, to wait for one */
} KTYPE;

struct sched_entity {
	unsigned long long sum_exec_runtime; /* on processors, ns; up to date at a switch */
} KTYPE;

struct task_struct {
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	char comm[16];
	struct signal_struct *signal;
	struct thread_struct thread;
	unsigned int self_exec_id;
	int exit_code;
	unsigned long min_flt, maj_flt;
	unsigned long long stime;      /* ns; by ticks, unless a processor has none */
	unsigned long long start_time; /* CLOCK_MONOTONIC */
	struct mm_struct *mm;
	void *bpf_storage;
	int on_cpu;
	unsigned int __state; /* 0: it could run */
	struct sched_info sched_info;
	struct sched_entity se;
	unsigned long nvcsw, nivcsw; /* times that it stopped running */
	unsigned int in_iowait : 1;
	struct files_struct *files;
} KTYPE;

/* Linux arch/x86/include/asm/ptrace.h; linux/ptrace.h has the names of user space. */
struct pt_regs___kernel {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip;
	unsigned long sp;
} KTYPE;

#endif /* PTB_KTYPES_BPF_H */
