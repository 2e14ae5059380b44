/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Preloaded into ptbpf: simulates an older kernel's helpers of BPF programs. Calls of $OLD_KERNEL_LACKS (numbers of
 * enum bpf_func_id, "174,181") become calls of a helper that no kernel has, so that the verifier refuses a program
 * that could reach it, and accepts one where it is dead code; libbpf's feature checks fail in the same way.
 *
 * With $OLD_KERNEL_THREAD_LINKS a uprobe_multi link with a pid does not serve the process, as before Linux 6.10, where it served one
 * of its threads: here it serves nobody but ptbpf. Negative pids are no mistake there, but those of nobody.
 */
#include <linux/bpf.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrap_syscall.h"

static int lacks(int helper)
{
	const char *list = getenv("OLD_KERNEL_LACKS");
	char *end;

	while (list && *list) {
		if (strtol(list, &end, 10) == helper)
			return 1;
		list = *end == ',' ? end + 1 : NULL;
	}
	return 0;
}

#define NO_HELPER 0x7fffff

static long load_program(const long *a)
{
	union bpf_attr *attr = (union bpf_attr *)a[1];
	const struct bpf_insn *insns = (const void *)(unsigned long)attr->insns;
	struct bpf_insn *copy = calloc(attr->insn_cnt + 1, sizeof(*copy));
	__u64 given = attr->insns;
	long ret;

	if (!copy)
		return -ENOMEM;
	for (unsigned int i = 0; i < attr->insn_cnt; i++) {
		copy[i] = insns[i];
		if (copy[i].code == (BPF_JMP | BPF_CALL) && !copy[i].src_reg && lacks(copy[i].imm))
			copy[i].imm = NO_HELPER;
	}
	attr->insns = (unsigned long)copy;
	ret = raw_syscall(SYS_bpf, a);
	attr->insns = given;
	free(copy);
	return ret;
}

#define UPROBE_MULTI 48
#define LINK_TYPE                                                                                  \
	2 /* in words: of union bpf_attr, for BPF_LINK_CREATE; older headers have no uprobe_multi */
#define LINK_PID 14

static long create_link(const long *a)
{
	__u32 *attr = (__u32 *)a[1], given = attr[LINK_PID];
	long ret;

	if (attr[LINK_TYPE] != UPROBE_MULTI || !given || !getenv("OLD_KERNEL_THREAD_LINKS"))
		return raw_syscall(SYS_bpf, a);
	attr[LINK_PID] = (__u32)getpid();
	ret = raw_syscall(SYS_bpf, a);
	attr[LINK_PID] = given;
	if ((int)given > 0 || ret < 0)
		return ret;
	close((int)ret);
	return -ESRCH;
}

static long wrap_syscall(long nr, const long *a)
{
	if (nr == SYS_bpf && a[0] == BPF_LINK_CREATE)
		return create_link(a);
	return nr == SYS_bpf && a[0] == BPF_PROG_LOAD ? load_program(a) : raw_syscall(nr, a);
}
