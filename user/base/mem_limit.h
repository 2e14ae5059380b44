/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A hard limit on the memory of this process. What others make grow (the *_try_* functions of
 * vec.h, hashmap.h and strtab.h, and allocations that ask here by themselves) is refused when the
 * anonymous resident memory and the request together pass the limit; callers drop what they have no
 * room for and go on. It is measured, not added up: whatever the C library and other libraries use
 * counts, and what was freed may be used again. One state for the process; safe in threads.
 */
#ifndef BASE_MEM_LIMIT_H
#define BASE_MEM_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* From now on; 0: no limit. Also forgets earlier refusals. 0, or negative errno: this process's memory cannot be
 * measured. */
int mem_limit__set(uint64_t bytes);
/* May the process grow by so many bytes? False is counted: the caller drops something. */
bool mem_limit__allows(uint64_t bytes);
bool mem_limit__fits(uint64_t bytes); /* likewise, not counted: the caller can do with less */
uint64_t mem_limit__refused(void);    /* times that it may not */

#endif /* BASE_MEM_LIMIT_H */
