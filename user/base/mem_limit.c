/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The limit on this process's memory; see limits.h. */
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define MEASURE_EVERY (1u << 20) /* bytes that are granted on one measurement */

static atomic_ullong limit, measured, granted, refused; /* granted: since measured */
static int statm_fd = -1;

/* Resident pages without those of files and shared memory (proc(5), statm), in bytes; 0: cannot be
 * read. */
static uint64_t anonymous_bytes(void)
{
	unsigned long long size, resident, shared;
	char text[128];
	ssize_t n = pread(statm_fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	if (sscanf(text, "%llu %llu %llu", &size, &resident, &shared) != 3 || resident < shared)
		return 0;
	return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

int mem_limit__set(uint64_t bytes)
{
	atomic_store(&limit, 0);
	atomic_store(&refused, 0);
	if (!bytes)
		return 0;
	if (statm_fd < 0)
		statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (statm_fd < 0)
		return -errno;
	if (!anonymous_bytes())
		return -ENODATA;
	atomic_store(&measured, 0);
	atomic_store(&granted, MEASURE_EVERY); /* measure at once */
	atomic_store(&limit, bytes);
	return 0;
}

bool mem_limit__fits(uint64_t bytes)
{
	uint64_t most = atomic_load_explicit(&limit, memory_order_relaxed), now, given;

	if (!most)
		return true;
	given = atomic_fetch_add(&granted, bytes) + bytes;
	if (given < MEASURE_EVERY && atomic_load(&measured) + given <= most)
		return true;
	now = anonymous_bytes();
	atomic_store(&measured, now);
	atomic_store(&granted, bytes);
	if (bytes <= most && now <= most - bytes)
		return true;
	atomic_store(&granted, 0);
	return false;
}

bool mem_limit__allows(uint64_t bytes)
{
	if (mem_limit__fits(bytes))
		return true;
	atomic_fetch_add(&refused, 1);
	return false;
}

uint64_t mem_limit__refused(void)
{
	return atomic_load(&refused);
}
