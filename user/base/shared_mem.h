/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory that a process shares with those that it forks from then on. */
#ifndef BASE_SHARED_MEM_H
#define BASE_SHARED_MEM_H

#include <stddef.h>
#include <sys/mman.h>

#include "base/mem.h"

/* size bytes, zeroed, for munmap(). */
static inline void *shared_mem__new(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		mem__end(size);
	return p;
}

#endif /* BASE_SHARED_MEM_H */
