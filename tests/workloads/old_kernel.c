/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Preloaded into ptbpf: simulates an older kernel's helpers of BPF programs. Calls of $OLD_KERNEL_LACKS (numbers of
 * enum bpf_func_id, "174,181") become calls of a helper that no kernel has, so that the verifier refuses a program
 * that could reach it, and accepts one where it is dead code; libbpf's feature checks fail in the same way.
 */
#include <linux/bpf.h>
#include <stdlib.h>
#include <sys/syscall.h>

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

static long wrap_syscall(long nr, const long *a)
{
	return nr == SYS_bpf && a[0] == BPF_PROG_LOAD ? load_program(a) : raw_syscall(nr, a);
}
