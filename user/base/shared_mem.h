/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory that a process shares with those that it forks from then on. */
#ifndef BASE_SHARED_MEM_H
#define BASE_SHARED_MEM_H

#include <stddef.h>
#include <sys/mman.h>

/* size bytes, zeroed, for munmap(); NULL: no memory. */
static inline void *shared_mem__new(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

#endif /* BASE_SHARED_MEM_H */
