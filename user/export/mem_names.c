/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Names of what memory events speak of; see texts.h. A number without a name is not an error. */
#include "export/texts.h"

#include <stdio.h>
#include <sys/mman.h>

#include "args/values.h"
#include "ptb_event.h"

/* Newer than the C library's headers of supported distributions: Linux
 * include/uapi/asm-generic/mman-common.h */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define NAME_OF(names, nr)                                                                         \
	((nr) < sizeof(names) / sizeof((names)[0]) && (names)[nr] ? (names)[nr] : "unknown")

struct mem_name mem_name__device(int32_t type, int32_t index)
{
	const char *name = type == 0 ? "CPU" : type > 0 ? device__type_name((uint32_t)type) : NULL;
	struct mem_name n;

	if (!name)
		snprintf(n.text, sizeof(n.text), "device %d:%d", type, index);
	else if (type == 0 || index < 0)
		snprintf(n.text, sizeof(n.text), "%s", name);
	else
		snprintf(n.text, sizeof(n.text), "%s:%d", name, index);
	return n;
}

const char *mem_name__rss(uint32_t kind)
{
	static const char *const names[] = { [PTB_RSS_FILE] = "file",
					     [PTB_RSS_ANON] = "anonymous",
					     [PTB_RSS_SWAP] = "swap",
					     [PTB_RSS_SHMEM] = "shared" };

	return NAME_OF(names, kind);
}

const char *mem_name__call(uint32_t call)
{
	static const char *const names[] = { [PTB_CALL_MMAP] = "mmap",
					     [PTB_CALL_MUNMAP] = "munmap",
					     [PTB_CALL_MREMAP] = "mremap",
					     [PTB_CALL_BRK] = "brk",
					     [PTB_CALL_MADVISE] = "madvise" };

	return NAME_OF(names, call);
}

const char *mem_name__stall(uint32_t what)
{
	static const char *const names[] = { [PTB_STALL_RECLAIM] = "reclaim stall",
					     [PTB_STALL_MEMCG_RECLAIM] = "cgroup reclaim stall",
					     [PTB_STALL_COMPACTION] = "compaction stall" };

	return NAME_OF(names, what);
}

const char *mem_name__event(uint32_t what)
{
	static const char *const names[] = { [PTB_KMEM_OOM_KILL] = "OOM kill",
					     [PTB_KMEM_HUGE_PAGE] = "huge page collapse",
					     [PTB_KMEM_MIGRATE] = "page migration" };

	return NAME_OF(names, what);
}

const char *mem_name__migrate(uint32_t reason)
{
	/* Linux include/trace/events/migrate.h, MIGRATE_REASON */
	static const char *const names[] = { "compaction",      "memory_failure",
					     "memory_hotplug",  "syscall_or_cpuset",
					     "mempolicy_mbind", "numa_misplaced",
					     "contig_range",    "longterm_pin",
					     "demotion",        "damon" };

	return NAME_OF(names, reason);
}

const char *mem_name__advice(uint32_t advice)
{
	static const char *const names[] = {
		[MADV_NORMAL] = "MADV_NORMAL",
		[MADV_RANDOM] = "MADV_RANDOM",
		[MADV_SEQUENTIAL] = "MADV_SEQUENTIAL",
		[MADV_WILLNEED] = "MADV_WILLNEED",
		[MADV_DONTNEED] = "MADV_DONTNEED",
		[MADV_FREE] = "MADV_FREE",
		[MADV_REMOVE] = "MADV_REMOVE",
		[MADV_DONTFORK] = "MADV_DONTFORK",
		[MADV_HUGEPAGE] = "MADV_HUGEPAGE",
		[MADV_NOHUGEPAGE] = "MADV_NOHUGEPAGE",
		[MADV_COLD] = "MADV_COLD",
		[MADV_PAGEOUT] = "MADV_PAGEOUT",
		[MADV_COLLAPSE] = "MADV_COLLAPSE",
	};

	return NAME_OF(names, advice);
}
