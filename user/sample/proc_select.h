/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which running processes with PyTorch are sampled: by name, by control group, or all. */
#ifndef SAMPLE_PROC_SELECT_H
#define SAMPLE_PROC_SELECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_SELECT_MAX 256 /* processes of a window */

struct proc_select {
	const char *comm; /* pattern of the shell (fnmatch(3)) for the name in /proc/PID/comm; NULL: any */
	const char *cgroup; /* below /sys/fs/cgroup, which may be left out; processes in it or below it; NULL: any */
	bool all_torch; /* neither of both is needed */
};

/* Processes that have PyTorch mapped now, in the order of their pids; fills at most cap. *over: so many more fit. Count or
 * negative errno. */
int proc_select__find(const struct proc_select *sel, pid_t *pids, uint32_t cap, uint32_t *over);

/* Are there processes that have PyTorch mapped and are not selected? */
bool proc_select__leaves_out(const struct proc_select *sel);

/* Those of the next window, when it may have `limit` of them: the ones that follow *last in the order of pids, as in a ring. Returns how
 * many they are; *last is the last one of them. */
uint32_t proc_select__turn(pid_t *pids, uint32_t cnt, uint32_t limit, pid_t *last);

#endif /* SAMPLE_PROC_SELECT_H */
