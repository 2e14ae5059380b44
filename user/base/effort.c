/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See effort.h. */
#include "base/effort.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"

#define MEASURE_EVERY (8 << 20) /* bytes */
#define STEPS_UNLIMITED INT64_MAX

_Thread_local int64_t effort__left = STEPS_UNLIMITED;
_Thread_local int64_t effort__unmeasured;
#define TIGHT 75 /* percent */

static _Thread_local uint64_t memory_base, memory_limit; /* of the process's data; limit 0: none */
static _Thread_local unsigned int share;
static struct rlimit before;
static bool limited;

/* Private memory of the process that can be written, as RLIMIT_DATA counts it; 0: not known. */
static uint64_t data_bytes(void)
{
	unsigned long long pages;
	char buf[128];
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	buf[n] = '\0';
	if (sscanf(buf, "%*u %*u %*u %*u %*u %llu", &pages) != 1)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void effort__begin(uint64_t file_bytes)
{
	uint64_t size = file_bytes < 1ULL << 40 ? file_bytes : 1ULL << 40;
	uint64_t memory = LIMIT_READ_MEMORY + size * LIMIT_READ_MEMORY_PER_BYTE;
	uint64_t now = data_bytes();
	struct rlimit limit;

	effort__end();
	mem__set_limit("a capture of this size may not take more to read");
	effort__left = (int64_t)LIMIT_READ_MEGASTEPS * 1000000 +
		       (int64_t)(size * LIMIT_READ_STEPS_PER_BYTE);
	memory_base = now;
	memory_limit = now + memory - memory / 16; /* the program itself counts, too */
#ifndef __SANITIZE_ADDRESS__                       /* whose shadow is private memory, too */
	if (!getrlimit(RLIMIT_DATA, &before) && before.rlim_cur > memory_limit) {
		limit = before;
		limit.rlim_cur = memory_limit;
		limited = !setrlimit(RLIMIT_DATA, &limit);
	}
#else
	(void)limit;
	memory_limit = 0;
#endif
}

void effort__end(void)
{
	if (limited)
		setrlimit(RLIMIT_DATA, &before);
	limited = false;
	mem__set_limit(NULL);
	share = 0;
	effort__left = STEPS_UNLIMITED;
	effort__unmeasured = 0;
	memory_limit = 0;
}

unsigned int effort__memory_share(void)
{
	uint64_t now;

	if (effort__unmeasured >= MEASURE_EVERY && memory_limit) {
		effort__unmeasured = 0;
		now = data_bytes();
		share = now > memory_base ?
				(unsigned int)((now - memory_base) * 100 / (memory_limit - memory_base)) :
				0;
	}
	return share;
}

enum effort_end effort__check(void)
{
	if (effort__left < 0)
		return EFFORT_STEPS;
	return effort__memory_share() >= TIGHT ? EFFORT_MEMORY : EFFORT_GOES_ON;
}
