/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The few kernel types that the programs read, with only the members that they read; CO-RE relocates
 * them on the running kernel. Must not grow into a copy of vmlinux.h.
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
	atomic_t live; /* threads that have not begun to exit */
} KTYPE;

struct thread_struct {
	unsigned long fsbase;
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
} KTYPE;

#endif /* PTB_KTYPES_BPF_H */
