/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Replaces syscall(), by which libbpf and ptbpf enter bpf() and perf_event_open(): a preload library includes this once
 * and defines wrap_syscall(), which returns what the kernel would: a result or a negative errno.
 */
#ifndef TESTS_WRAP_SYSCALL_H
#define TESTS_WRAP_SYSCALL_H

#include <errno.h>
#include <stdarg.h>

static long wrap_syscall(long nr, const long *a);

static long raw_syscall(long nr, const long *a)
{
	register long r10 __asm__("r10") = a[3], r8 __asm__("r8") = a[4], r9 __asm__("r9") = a[5];
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

__attribute__((visibility("default"))) long syscall(long nr, ...);
long syscall(long nr, ...)
{
	long a[6], ret;
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	ret = wrap_syscall(nr, a);
	if (ret < 0 && ret > -4096) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}

#endif /* TESTS_WRAP_SYSCALL_H */
