/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which running processes with PyTorch are sampled: by name, by control group, or all. */
#ifndef SAMPLE_PROC_SELECT_H
#define SAMPLE_PROC_SELECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/left_out.h"

#define PROC_SELECT_MAX 256 /* processes of a window; others have their turn later */

struct proc_select {
	const char *comm; /* pattern of the shell (fnmatch(3)) for the name in /proc/PID/comm; NULL: any */
	const char *cgroup; /* below /sys/fs/cgroup, which may be left out; processes in it or below it; NULL: any */
	bool all_torch; /* neither of both is needed */
};

struct proc_item {
	pid_t pid;
	uid_t uid;
	struct proc_id id; /* of proc_scout.h, else zeroed */
	uint64_t turn;     /* the last one that it was chosen in; 0: none, or the process is new */
	uint32_t rank;     /* of proc_select__turn() */
};

/* In the order of their pids. Zeroed: empty. */
struct proc_list {
	struct proc_item *items;
	uint32_t cnt, cap;
	uint64_t turn; /* the last one */
};

void proc_list__free(struct proc_list *list);

int proc_list__add(struct proc_list *list, pid_t pid, uid_t uid);
/* The list becomes `now`, which has been filled in any order and is empty then; what is in both keeps its turn. */
void proc_list__replace(struct proc_list *list, struct proc_list *now);

/* Is it one of those, with PyTorch or without? */
bool proc_select__matches(const struct proc_select *sel, pid_t pid);

/*
 * Those of the next window, at most `limit`, in the order of their pids: of each user as many as of any other, as far as they have so many, and of a
 * user's the ones that have waited longest. So nobody keeps out the processes of others by having more. Returns how many they are.
 */
uint32_t proc_select__turn(struct proc_list *list, uint32_t limit, pid_t *pids);

#endif /* SAMPLE_PROC_SELECT_H */
