/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which running processes with PyTorch are sampled: by name, by control group, or all. */
#ifndef SAMPLE_PROC_SELECT_H
#define SAMPLE_PROC_SELECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_SELECT_MAX 256 /* processes of a window; others have their turn later */

struct proc_select {
	const char *comm; /* pattern of the shell (fnmatch(3)) for the name in /proc/PID/comm; NULL: any */
	const char *cgroup; /* below /sys/fs/cgroup, which may be left out; processes in it or below it; NULL: any */
	bool all_torch; /* neither of both is needed */
};

struct proc_item {
	pid_t pid;
	uid_t uid;
	uint64_t turn; /* the last one that it was chosen in; 0: none, or the process is new */
	uint32_t rank; /* of proc_select__turn() */
};

/* In the order of their pids. Zeroed: empty. */
struct proc_list {
	struct proc_item *items;
	uint32_t cnt, cap;
	uint64_t turn; /* the last one */
};

void proc_list__free(struct proc_list *list);
/* 0 or -ENOMEM. */
int proc_list__add(struct proc_list *list, pid_t pid, uid_t uid);
/* The list becomes `now`, which has been filled in any order and is empty then; what is in both keeps its turn. */
void proc_list__replace(struct proc_list *list, struct proc_list *now);

/* All processes that have PyTorch mapped now; those that were in the list keep their turn. 0, or negative errno: the list is as it was. */
int proc_select__find(const struct proc_select *sel, struct proc_list *list);

/* Has a read of its memory been given up (base/stall.h)? Then it is not selected. */
bool proc_select__given_up(pid_t pid);

/* Are there processes that have PyTorch mapped and are not selected? */
bool proc_select__leaves_out(const struct proc_select *sel);

/*
 * Those of the next window, at most `limit`, in the order of their pids: of each user as many as of any other, as far as they have so many, and of a
 * user's the ones that have waited longest. So nobody keeps out the processes of others by having more. Returns how many they are.
 */
uint32_t proc_select__turn(struct proc_list *list, uint32_t limit, pid_t *pids);

#endif /* SAMPLE_PROC_SELECT_H */
