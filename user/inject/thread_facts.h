/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What /proc says of one thread and of its memory map, for the decision whether to stop it. Reads only. */
#ifndef INJECT_THREAD_FACTS_H
#define INJECT_THREAD_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "inject/safe_point.h"
#include "target/proc_info.h"

/* The system call in which it sleeps; nr -1: none. False: not known. */
bool thread_facts__call(pid_t pid, pid_t tid, struct blocked_call *out);

struct stack_map {
	uint64_t start, end;
	uint64_t floor; /* as far as it may grow down: start, unless it is the main thread's */
};

/* The readable and writable mapping that holds addr. */
bool thread_facts__stack(pid_t pid, uint64_t addr, struct stack_map *out);

#endif /* INJECT_THREAD_FACTS_H */
