/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A preload library that makes one call of ptbpf fail.
 *
 *   PTBPF_FAULT=KIND:N     the call from the N-th distinct call stack of this kind fails, once: alloc (ENOMEM),
 *                          read (EIO), write (ENOSPC; never stderr), bpf (ENOMEM), perf (EMFILE)
 *   PTBPF_FAULT=KIND:0     none fails
 *   PTBPF_FAULT_LOG=FILE   when a call fails and at the end of the process: "STACKS FAILED", the number of distinct stacks
 *                          seen and whether a call was made to fail
 *
 * Stacks are counted in memory that forked children share, so one call fails in all of them
 * together. A program that ptbpf starts is left alone. malloc is the C library's own underneath;
 * nothing here allocates.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include "wrap_syscall.h"

#define STACK_DEPTH 12
#define STACKS_MAX 65536u /* a power of two */

enum fault_kind { FAULT_NONE, FAULT_ALLOC, FAULT_READ, FAULT_WRITE, FAULT_BPF, FAULT_PERF };

struct shared {
	_Atomic uint64_t stacks[STACKS_MAX]; /* hashes; 0: free */
	_Atomic uint32_t cnt;
	_Atomic uint32_t failed;
};

struct walk {
	uint64_t hash;
	int depth;
};

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t cnt, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);
ssize_t __read(int fd, void *buf, size_t len);
ssize_t __write(int fd, const void *buf, size_t len);

static enum fault_kind fault_kind;
static uint32_t fault_at;
static struct shared *fault_shared;
static __thread bool fault_busy;

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *ctx, void *arg)
{
	struct walk *w = arg;

	w->hash = (w->hash ^ (uint64_t)_Unwind_GetIP(ctx)) * 0x9e3779b97f4a7c15ULL;
	w->hash ^= w->hash >> 29;
	return ++w->depth < STACK_DEPTH ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void report(void)
{
	const char *path = getenv("PTBPF_FAULT_LOG");
	char text[64];
	int fd, n;

	fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
	if (fd < 0)
		return;
	n = snprintf(text, sizeof(text), "%u %u\n", fault_shared->cnt, fault_shared->failed);
	if (__write(fd, text, (size_t)n) < 0)
		abort();
	close(fd);
}

/* True when this call is the one that fails. */
static bool fails(enum fault_kind kind)
{
	struct walk w = { .hash = 1 };
	uint64_t seen;
	bool hit = false;

	if (kind != fault_kind || fault_busy)
		return false;
	fault_busy = true;
	_Unwind_Backtrace(add_frame, &w);
	w.hash |= 1;
	for (uint32_t i = (uint32_t)(w.hash >> 33) & (STACKS_MAX - 1);; i = (i + 1) & (STACKS_MAX - 1)) {
		seen = 0;
		if (atomic_load(&fault_shared->cnt) >= STACKS_MAX / 2)
			break;
		if (atomic_compare_exchange_strong(&fault_shared->stacks[i], &seen, w.hash)) {
			hit = atomic_fetch_add(&fault_shared->cnt, 1) + 1 == fault_at;
			break;
		}
		if (seen == w.hash)
			break;
	}
	if (hit) {
		atomic_store(&fault_shared->failed, 1);
		report(); /* one that has no memory ends without what atexit() calls */
	}
	fault_busy = false;
	return hit;
}

static void finish(void)
{
	fault_kind = FAULT_NONE;
	report();
}

__attribute__((constructor)) static void begin(void)
{
	static const char *const names[] = {
		[FAULT_ALLOC] = "alloc:", [FAULT_READ] = "read:", [FAULT_WRITE] = "write:", [FAULT_BPF] = "bpf:", [FAULT_PERF] = "perf:"
	};
	const char *what = getenv("PTBPF_FAULT");
	struct walk w = { 0 };
	enum fault_kind k;

	if (!what || strcmp(program_invocation_short_name, "ptbpf"))
		return;
	fault_shared = mmap(NULL, sizeof(*fault_shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fault_shared == MAP_FAILED)
		abort();
	_Unwind_Backtrace(add_frame, &w); /* the first one may allocate */
	for (k = FAULT_ALLOC; k <= FAULT_PERF; k++) {
		if (strncmp(what, names[k], strlen(names[k])))
			continue;
		fault_at = (uint32_t)strtoul(what + strlen(names[k]), NULL, 10);
		atexit(finish);
		fault_kind = k;
		return;
	}
	abort();
}

static void *fail_alloc(void)
{
	errno = ENOMEM;
	return NULL;
}

void *malloc(size_t size)
{
	return fails(FAULT_ALLOC) ? fail_alloc() : __libc_malloc(size);
}

void *calloc(size_t cnt, size_t size)
{
	return fails(FAULT_ALLOC) ? fail_alloc() : __libc_calloc(cnt, size);
}

void *realloc(void *old, size_t size)
{
	return fails(FAULT_ALLOC) ? fail_alloc() : __libc_realloc(old, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return fails(FAULT_ALLOC) ? fail_alloc() : __libc_memalign(align, size);
}

ssize_t read(int fd, void *buf, size_t len)
{
	if (fails(FAULT_READ)) {
		errno = EIO;
		return -1;
	}
	return __read(fd, buf, len);
}

ssize_t write(int fd, const void *buf, size_t len)
{
	if (fd != STDERR_FILENO && fails(FAULT_WRITE)) {
		errno = ENOSPC;
		return -1;
	}
	return __write(fd, buf, len);
}

static long wrap_syscall(long nr, const long *a)
{
	if (nr == SYS_bpf && fails(FAULT_BPF))
		return -ENOMEM;
	if (nr == SYS_perf_event_open && fails(FAULT_PERF))
		return -EMFILE;
	return raw_syscall(nr, a);
}
