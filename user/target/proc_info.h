/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Facts about a process from /proc. */
#ifndef TARGET_PROC_INFO_H
#define TARGET_PROC_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

bool proc_info__is_kthread(pid_t pid);
pid_t proc_info__tgid(pid_t pid);     /* the process that thread pid belongs to; 0: none */
char *proc_info__exe_name(pid_t pid); /* base name, "" if unknown; NULL: out of memory */
char *proc_info__cmdline(pid_t pid);  /* control characters replaced; NULL: out of memory */

/* Thread ids of pid; *tids from malloc. Count or negative errno. */
int proc__threads(pid_t pid, pid_t **tids);
/* Direct children of all threads of pid (descendants: call again on them). Count or negative errno. */
int proc__children(pid_t pid, pid_t **pids);
int proc__comm(pid_t pid, pid_t tid, char buf[16]); /* tid 0: the process */
/* Value of a variable of the environment that pid was started with. 0, -ENOENT, or negative errno. */
int proc__env(pid_t pid, const char *name, char *buf, size_t cap);
/* State letter of /proc/PID/stat ('R', 'S', 'Z', ...), or 0 when there is no such process. */
char proc__state(pid_t pid);
/* The thread of pid that has this number in pid's own pid namespace. 0 or -ESRCH. */
int proc__tid_of_ns(pid_t pid, pid_t ns_tid, pid_t *tid);
bool proc__same_pidns(pid_t pid); /* same pid namespace as ptbpf's own */

#endif /* TARGET_PROC_INFO_H */
