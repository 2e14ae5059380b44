/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Names of what memory events speak of, as torch, Linux and the C library call them. Knows no output format. */
#ifndef EXPORT_MEM_NAMES_H
#define EXPORT_MEM_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define MEM_NAME_MAX 32

/* "CPU", "cuda:0", "device 3:1" into buf of MEM_NAME_MAX bytes, which is returned. */
const char *mem_name__device(char *buf, int32_t type, int32_t index);
const char *mem_name__rss(uint32_t kind);       /* "anonymous"; enum ptb_rss_kind */
const char *mem_name__call(uint32_t call);      /* "mmap"; enum ptb_kmem_calls */
const char *mem_name__stall(uint32_t what);     /* "reclaim stall"; enum ptb_kmem_stalls */
const char *mem_name__event(uint32_t what);     /* "OOM kill"; enum ptb_kmem_events */
const char *mem_name__migrate(uint32_t reason); /* "numa_misplaced"; enum migrate_reason */
const char *mem_name__advice(uint32_t advice);  /* "MADV_DONTNEED" */

#endif /* EXPORT_MEM_NAMES_H */
