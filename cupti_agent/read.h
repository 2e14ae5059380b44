/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Reading the process's own memory at an address that may be wrong. */
#ifndef READ_H
#define READ_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Is the aligned word at `addr` readable? The kernel copies a signal mask in before it looks at `how`: EFAULT, or
 * EINVAL and nothing changed. No sandbox forbids this call, process_vm_readv() may end the process in one.
 */
static inline bool read__word_ok(uint64_t addr)
{
	return syscall(SYS_rt_sigprocmask, ~0, addr, 0, 8) < 0 && errno == EINVAL;
}

/* len bytes, which may lie on several pages; errno stays. */
static inline bool read__safe(void *dst, uint64_t addr, uint64_t len)
{
	uint64_t page = addr & ~7ull;
	int err = errno;
	bool ok = addr + len >= addr;

	for (; ok && page < addr + len; page = (page | 4095) + 1)
		ok = read__word_ok(page);
	errno = err;
	if (ok)
		memcpy(dst, (const void *)(uintptr_t)addr, len);
	return ok;
}

#endif /* READ_H */
