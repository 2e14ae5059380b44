/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Facts about processes and threads from /proc (Linux fs/proc/array.c, base.c, task_mmu.c). */
#ifndef TARGET_PROC_INFO_H
#define TARGET_PROC_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ptb_event.h"
#include "ptb_probe.h"
#include "target/torch.h"

/*
 * CPython in the target: where its types are and how its numbers and texts are laid out, found in
 * the live process, not by its version. Optional: without it, Python objects are opaque and nothing
 * else is lost.
 */

/*
 * Fills py; what could not be found stays 0, and with the types all is. variable_class: runtime
 * address of THPVariableClass, a pointer to the type torch.Tensor; 0: not known. 0, or negative
 * errno: no interpreter that is understood.
 */
int python_proc__fill(const struct torch_proc *tp, uint64_t variable_class, uint16_t variable_off,
		      struct ptb_python_cfg *py);

/* Runtime addresses of data or functions of the Python interpreter: the executable's own, or
 * libpython's. 0; -ENOENT: no file has them all; another negative errno. */
int python_proc__symbols(pid_t pid, const char *const *symbols, uint32_t cnt, uint64_t *addrs);

/* ---- texts ---- */

/* What follows `name` in a text of lines, "" if it is not there. name: "\nVmSize:" */
const char *proc_file__field(const char *text, const char *name);
/* Cuts off the " (deleted)" that the kernel appends to a path. True: it was there. */
bool proc_path__cut_deleted(char *path);

/* ---- /proc/PID/cgroup ---- */

/* A hierarchy of control groups: "0::/path" of version 2, "7:memory:/path" of version 1
 * (cgroups(7)). */
struct proc_cgroup {
	const char *controllers, *path; /* in the text */
	size_t controllers_len, len;
	bool v2;
};

/* The next one of the text, which *at goes through. False: there is none. */
bool proc_cgroup__next(const char **at, struct proc_cgroup *cg);

/* ---- /proc/PID/stat ---- */

#define PROC_KTHREAD 0x00200000 /* of `flags`: linux/sched.h PF_KTHREAD */

struct proc_stat {
	char state; /* 'R', 'S', 'Z', ... */
	pid_t parent;
	uint32_t flags;        /* PF_* of the kernel */
	uint64_t minor, major; /* page faults of the process since it began */
	uint32_t threads;      /* one that has ended is among them if it is the first */
	uint64_t cpu;          /* time of a processor, in clock ticks */
	uint64_t start;        /* clock ticks since boot */
};

int proc_stat__read(pid_t pid, struct proc_stat *out); /* 0 or negative errno */
/* Its state, or 0 when there is no such process. */
char proc__state(pid_t pid);

/* ---- /proc/PID/status ---- */

#define CPU_LIST_MAX 255

struct thread_status {
	char state;
	pid_t tgid; /* the process that it belongs to */
	pid_t tracer;
	pid_t ns_pid;     /* in its own pid namespace */
	uint32_t seccomp; /* 0: none, 1: strict, 2: filter */
	uint32_t filters; /* how many of them (Linux 5.9; else 0) */
	bool shadow_stack;
	uint32_t uid, gid;           /* of the file system */
	uint64_t pending, blocked;   /* signals: of the thread or the process, bit 0 is signal 1 */
	char cpus[CPU_LIST_MAX + 1]; /* on which it may run: "0-3,8"; "": not known, too long */
};

/* tid 0: the main thread. 0 or negative errno (-ESRCH: it is gone). */
int thread_status__read(pid_t pid, pid_t tid, struct thread_status *out);

struct proc_memory {
	uint64_t rss[PTB_RSS_KINDS]; /* bytes, by enum ptb_rss_kind */
	uint64_t vm_bytes;           /* VmSize */
	uint64_t minor, major;       /* faults of the process since it began */
};

/* 0; -ESRCH: no such process, or it has no memory any more; another negative errno. */
int proc_memory__read(pid_t pid, struct proc_memory *out);
/* Executable mappings of the process, in bytes: a file that is loaded or unloaded changes it,
 * memory for data does not. Takes none of the process's locks. Errors as above. */
int proc_memory__code(pid_t pid, uint64_t *bytes);

/* ---- other files of it ---- */

char *proc_info__exe_name(pid_t pid); /* base name, "" if unknown; NULL: out of memory */
char *proc_info__cmdline(pid_t pid);  /* control characters replaced; NULL: out of memory */

/* Numbers of NVIDIA's devices (/dev/nvidiaN) that it has open, by bits. 0: none, or not known. */
uint64_t proc__gpus(pid_t pid);

/* Thread ids of pid; *tids from malloc. Count or negative errno. */
int proc__threads(pid_t pid, pid_t **tids);
/* Direct children of all threads of pid (descendants: call again on them). Count or negative
 * errno. */
int proc__children(pid_t pid, pid_t **pids);
/* tid 0: the process. That of a program which the dynamic loader runs is the program's. */
int proc__comm(pid_t pid, pid_t tid, char buf[16]);
bool proc__is_loader(const char *comm); /* the kernel's name of such a program */
/* Same namespace as ptbpf's own: of pids; of time, where CLOCK_MONOTONIC is the same. */
bool proc__same_pidns(pid_t pid);
bool proc__same_timens(pid_t pid);
/* What has stopped it as a whole ("a signal"); NULL: nothing. */
const char *proc__stopped(pid_t pid);
/* Time for which the CPU quotas of its control group and of those above have stopped threads, on
 * all CPUs together. 0: never, or not known. */
uint64_t proc__throttled_ns(pid_t pid);
/* The lowest of their quotas, in percent of a CPU; 0: there is none, or it is not known. */
uint64_t proc__cpu_quota(pid_t pid);

/* ---- CPUs of the host ---- */

struct cpu_times {
	uint64_t ns;    /* when they were read */
	uint64_t *idle; /* of each CPU, in clock ticks */
	uint32_t cnt;
};
/* What is not known is 0. cpu_times__clear() afterwards. */
void cpu_times__read(struct cpu_times *t);
void cpu_times__clear(struct cpu_times *t);

#endif /* TARGET_PROC_INFO_H */
