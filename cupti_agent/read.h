/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Reading the process's own memory: at an address that may be wrong (careful), or where layouts
 * have proven right. */
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
 * Is the aligned word at `addr` readable? The kernel copies a signal mask in before it checks
 * `how`: EFAULT, or EINVAL and nothing changed. No sandbox forbids this call, process_vm_readv()
 * may end the process in one.
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

static inline bool read__mem(bool careful, void *dst, uint64_t addr, uint64_t len)
{
	if (careful)
		return read__safe(dst, addr, len);
	if (addr < 4096)
		return false;
	memcpy(dst, (const void *)(uintptr_t)addr, len);
	return true;
}

/* libstdc++'s std::string at addr: {pointer, length}, or with the old ABI a pointer behind the
 * length. */
struct text {
	uint64_t at, len;
};
static inline bool read__string(bool careful, bool old_abi, uint64_t addr, struct text *t)
{
	return read__mem(careful, t, addr, old_abi ? 8 : 16) &&
	       (!old_abi || read__mem(careful, &t->len, t->at - 24, 8));
}

/* n bytes of a text, with zeroes to a multiple of 8. */
static inline bool read__padded(bool careful, unsigned char *dst, uint64_t addr, uint32_t n)
{
	if (!n)
		return true;
	memset(dst + ((n - 1) & ~7u), 0, 8);
	return read__mem(careful, dst, addr, n);
}

static inline uint64_t read__word(const void *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

#endif /* READ_H */
