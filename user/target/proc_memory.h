/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A process's memory according to /proc. */
#ifndef TARGET_PROC_MEMORY_H
#define TARGET_PROC_MEMORY_H

#include <stdint.h>
#include <sys/types.h>

#include "ptb_event.h"

struct proc_memory {
	uint64_t rss[PTB_RSS_KINDS]; /* bytes, by enum ptb_rss_kind */
	uint64_t vm_bytes;           /* VmSize */
	uint64_t minor, major;       /* faults of the process since it began */
};

/* /proc/PID/status and /proc/PID/stat (Linux fs/proc/task_mmu.c, array.c). 0; -ESRCH: no such process, or
 * it has no memory any more; another negative errno. */
int proc_memory__read(pid_t pid, struct proc_memory *out);

/* Executable mappings of the process, in bytes: a file that is loaded or unloaded changes it, memory for data does
 * not. Takes none of the process's locks. Errors as above. */
int proc_memory__code(pid_t pid, uint64_t *bytes);

#endif /* TARGET_PROC_MEMORY_H */
