/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What `ptbpf sample` wants to know of processes, found out by a child that may be lost: a process can keep whoever reads its files in /proc waiting, or busy. The
 * child answers by a pipe and has SCOUT_NS for it; what it has not said by then is not known, it is killed, and the process at which it was is left out
 * (left_out.h). So is one that takes more than SCOUT_PROC_NS of processor time; of one user's processes no more are inspected than SCOUT_USER_NS allows.
 * One for the whole program, not in several threads.
 */
#ifndef SAMPLE_PROC_SCOUT_H
#define SAMPLE_PROC_SCOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/left_out.h"
#include "sample/proc_select.h"

#define SCOUT_NS 3000000000ULL
#define SCOUT_PROC_NS 200000000ULL
#define SCOUT_USER_NS 1000000000ULL

struct proc_facts {
	struct proc_id id;      /* pid 0: nothing is known */
	bool torch;             /* has it mapped PyTorch? */
	int32_t rank;           /* -1: none */
	char comm[16], job[80]; /* "": not known */
};

/* All processes that have PyTorch mapped now; those that were in the list keep their turn. 0, or negative errno: the list is as it was. */
int proc_scout__select(const struct proc_select *sel, struct proc_list *list);
/* Are there processes that have PyTorch mapped and are not selected? True: there may be. */
bool proc_scout__others(const struct proc_select *sel);
/* Of these processes, cnt of them, in their order. */
void proc_scout__facts(const pid_t *pids, uint32_t cnt, struct proc_facts *facts);

/* To inspect this one took too much, for a reason that is reported when it is left out. */
void proc_scout__strike(const struct proc_id *id, uint32_t strikes, const char *why);
/* Is a process that is held left out? */
bool proc_scout__left_out(pid_t pid);

#endif /* SAMPLE_PROC_SCOUT_H */
