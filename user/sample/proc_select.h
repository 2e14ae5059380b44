/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which running processes with PyTorch are sampled, and which of them are left out. */
#ifndef SAMPLE_PROC_SELECT_H
#define SAMPLE_PROC_SELECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/torch.h"

#define PROC_SELECT_MAX 256 /* processes of a window; others have their turn later */

/* A process is known by its pid and start, a file by device and inode, which stay when it is
 * written. */
struct proc_id {
	pid_t pid;
	uid_t uid;
	uint64_t start;    /* clock ticks since boot; 0: it is held, and known by its pid */
	uint64_t dev, ino; /* of what it executes; ino 0: not known */
};

/* ---- proc_select.c: by name, by control group, or all; in turn ---- */

struct proc_select {
	const char *comm; /* pattern of the shell (fnmatch(3)) for /proc/PID/comm; NULL: any */
	/* processes in it or below it; /sys/fs/cgroup may be left out; NULL: any */
	const char *cgroup;
	bool all_torch; /* neither of both is needed */
};

struct proc_item {
	pid_t pid;
	uid_t uid;
	struct proc_id id; /* of proc_scout__select(), else zeroed */
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
void proc_list__add(struct proc_list *list, pid_t pid, uid_t uid);
/*
 * The list becomes `now`, which has been filled in any order and is empty then; what is in both
 * keeps its turn.
 */
void proc_list__replace(struct proc_list *list, struct proc_list *now);
/* Does it match, with PyTorch or without? */
bool proc_select__matches(const struct proc_select *sel, pid_t pid);
/*
 * The processes of the next window, at most `limit`, in the order of their pids: of each user as
 * many as of any other, as far as they have so many, and of a user those that have waited longest.
 * So nobody keeps out the processes of others by having more. Returns how many they are.
 */
uint32_t proc_select__turn(struct proc_list *list, uint32_t limit, pid_t *pids);

/* ---- left_out.c: processes whose inspection takes what others need, for an hour ---- */

#define LEFT_OUT_NS 3600000000000ULL
/* Reading and attaching to a process may take so much: less than an analysis
 * (LIMIT_ELF_SPENT_MS). */
#define LEFT_OUT_CPU_NS 9500000000ULL
#define LEFT_OUT_WALL_NS 19000000000ULL /* a machine that is overloaded may be the reason */
#define LEFT_OUT_MAX 256                /* processes that are remembered; the oldest is forgotten */
#define LEFT_OUT_STRIKES 2              /* against a process */
/* So many left-out processes of a user that execute one file: then all others of them are left out,
 * too, since whoever wants to be in the way starts another one. */
#define LEFT_OUT_OF_FILE 2
#define LEFT_OUT_OF_USER 8 /* likewise, then all processes of a user who is not root */

struct left_out { /* zeroed: empty */
	struct left_out_row {
		struct proc_id id;
		uint32_t strikes;
		uint64_t ns; /* of the last one, CLOCK_MONOTONIC */
	} rows[LEFT_OUT_MAX];
	uint32_t cnt;
};

/* True: it is left out from now on, and was not before. */
bool left_out__add(struct left_out *lo, const struct proc_id *id, uint32_t strikes,
		   uint64_t now_ns);
bool left_out__has(const struct left_out *lo, const struct proc_id *id, uint64_t now_ns);

/*
 * ---- proc_scout.c: what is known of processes ----
 *
 * A child finds it out and may be lost, since a process can keep whoever reads its files in /proc
 * waiting, or busy. The child has SCOUT_NS; what it has not said by then is not known, it is
 * killed, and the process at which it was is left out. So is a process that takes more than
 * SCOUT_PROC_NS of processor time; of one user's processes no more are inspected than SCOUT_USER_NS
 * allows. One scout for the whole program, not in several threads.
 */

#define SCOUT_NS 3000000000ULL
#define SCOUT_PROC_NS 200000000ULL
#define SCOUT_USER_NS 1000000000ULL
#define PROC_SCRIPT_MAX 128

struct proc_facts {
	struct proc_id id; /* pid 0: nothing is known */
	bool torch;        /* it has mapped PyTorch */
	int32_t rank;      /* -1: none */
	char comm[16];     /* "": not known, as below */
	char job[80];      /* "slurm:42", "torchrun:ID" (cut), "pod:UID", "container:ID" */
	char script[PROC_SCRIPT_MAX]; /* command__script() */
};

/* And what people choose a process by. */
struct proc_view {
	struct proc_facts facts;
	struct torch_seen has;
	pid_t parent;
	uint32_t threads, children;
	double cpu;         /* processors that it keeps busy now; negative: not known */
	uint64_t gpus;      /* proc__gpus() */
	char container[13]; /* the begin of its id; "": none */
	char command[1024]; /* its arguments, cut */
};

enum scout_depth {
	SCOUT_BRIEF, /* without `cpu`, which takes a moment, and `children` */
	SCOUT_WHOLE,
};
/*
 * All processes that have PyTorch mapped now, by their pids, from malloc. *unseen: that may not be
 * inspected, threads of the kernel aside. 0 or negative errno.
 */
int proc_scout__list(enum scout_depth depth, struct proc_view **views, uint32_t *cnt,
		     uint32_t *unseen);

/*
 * The list becomes all matching processes that have PyTorch mapped now. 0, or negative errno: the
 * list is as it was.
 */
int proc_scout__select(const struct proc_select *sel, struct proc_list *list);
/* Are there processes that have PyTorch mapped and do not match? True: there may be. */
bool proc_scout__others(const struct proc_select *sel);
/* of each of them */
void proc_scout__facts(const pid_t *pids, uint32_t cnt, struct proc_facts *facts);
/* To inspect this process took too much, for a reason that is reported when it is left out. */
void proc_scout__strike(const struct proc_id *id, uint32_t strikes, const char *why);
bool proc_scout__left_out(pid_t pid); /* of a process that is held */

#endif /* SAMPLE_PROC_SELECT_H */
