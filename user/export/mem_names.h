/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Names of what memory events speak of, as torch, Linux and the C library call them. Knows no output format. */
#ifndef EXPORT_MEM_NAMES_H
#define EXPORT_MEM_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* By value: mem_name__device(...).text may be used until the end of the expression. */
struct mem_name {
	char text[32];
};
struct mem_name mem_name__device(int32_t type, int32_t index); /* "CPU", "cuda:0", "device 3:1" */
const char *mem_name__rss(uint32_t kind);                      /* "anonymous"; enum ptb_rss_kind */
const char *mem_name__call(uint32_t call);                     /* "mmap"; enum ptb_kmem_calls */
const char *mem_name__stall(uint32_t what);     /* "reclaim stall"; enum ptb_kmem_stalls */
const char *mem_name__event(uint32_t what);     /* "OOM kill"; enum ptb_kmem_events */
const char *mem_name__migrate(uint32_t reason); /* "numa_misplaced"; enum migrate_reason */
const char *mem_name__advice(uint32_t advice);  /* "MADV_DONTNEED" */

#endif /* EXPORT_MEM_NAMES_H */
