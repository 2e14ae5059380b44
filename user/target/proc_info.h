/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Facts from /proc that only torch_proc.c needs. Private to target. */
#ifndef TARGET_PROC_INFO_H
#define TARGET_PROC_INFO_H

#include <stdbool.h>
#include <sys/types.h>

bool proc_info__is_kthread(pid_t pid);
pid_t proc_info__tgid(pid_t pid); /* the process that thread pid belongs to; 0: none */
char *proc_info__exe_name(pid_t pid); /* base name, "" if unknown; NULL: out of memory */
char *proc_info__cmdline(pid_t pid);  /* control characters replaced; NULL: out of memory */

#endif /* TARGET_PROC_INFO_H */
