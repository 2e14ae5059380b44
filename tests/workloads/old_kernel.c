/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Preloaded into ptbpf: an older kernel, as far as helpers of BPF programs go. Calls of $OLD_KERNEL_LACKS (numbers of
 * enum bpf_func_id, "174,181") become calls of a helper that no kernel has, so that the verifier refuses a program
 * that could get there, and takes one where it is dead code; libbpf finds out in the same way what there is.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>

long syscall(long nr, ...);

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

static long raw(long nr, const long *a)
{
	register long r10 __asm__("r10") = a[3], r8 __asm__("r8") = a[4], r9 __asm__("r9") = a[5];
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

#define NO_HELPER 0x7fffff

static long load_program(const long *a)
{
	union bpf_attr *attr = (union bpf_attr *)a[1];
	const struct bpf_insn *insns = (const void *)(unsigned long)attr->insns;
	struct bpf_insn *copy = calloc(attr->insn_cnt + 1, sizeof(*copy));
	__u64 given = attr->insns;
	unsigned int i;
	long ret;

	if (!copy)
		return -ENOMEM;
	for (i = 0; i < attr->insn_cnt; i++) {
		copy[i] = insns[i];
		if (copy[i].code == (BPF_JMP | BPF_CALL) && !copy[i].src_reg && lacks(copy[i].imm))
			copy[i].imm = NO_HELPER;
	}
	attr->insns = (unsigned long)copy;
	ret = raw(SYS_bpf, a);
	attr->insns = given;
	free(copy);
	return ret;
}

__attribute__((visibility("default"))) long syscall(long nr, ...)
{
	long a[6], ret;
	va_list ap;
	int i;

	va_start(ap, nr);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	ret = nr == SYS_bpf && a[0] == BPF_PROG_LOAD ? load_program(a) : raw(nr, a);
	if (ret < 0 && ret > -4096) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}
