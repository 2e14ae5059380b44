/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Are the instructions that were analysed still where the probes go? Private to probe. The kernel copies the
 * instruction from the file's page cache and puts its breakpoint into the process's memory without comparing
 * the two (kernel/events/uprobes.c, copy_insn() and uprobe_write_opcode()), so both are compared here: the file,
 * through the descriptor that is probed, and every executable mapping of it in the process, which the process may
 * have changed.
 */
#ifndef PROBE_SITE_CHECK_H
#define PROBE_SITE_CHECK_H

#include <sys/types.h>

#include "probe/probe_set.h"

/* 0; -ESTALE: one differs (logged, with its offset); -EINVAL: a site without bytes; another negative errno (logged
 * unless -ESRCH). Breakpoints, our own and other tracers', are not differences. */
int site_check__lib(pid_t tgid, const struct probe_lib *lib);

#endif /* PROBE_SITE_CHECK_H */
