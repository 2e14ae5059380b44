/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The inside of inject: one request, shared by the methods. */
#ifndef INJECT_INJECT_PRIV_H
#define INJECT_INJECT_PRIV_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/user.h>

#include "inject/inject.h"
#include "target/elf.h"
#include "target/proc_info.h"

/*
 * What a diverted thread needs to know of its process's code: the loader's and the C library's
 * functions that are called, and the code in which a thread must not be diverted. Reads files and
 * memory, writes nothing.
 */

enum code_kind {
	CODE_LOADER,    /* ld.so: nothing of it may be on the stack */
	CODE_LIBC,      /* libc, and libpthread and libdl where they are files of their own */
	CODE_ALLOCATOR, /* another library that is malloc here */
};

struct code_object {
	enum code_kind kind;
	uint64_t start, end; /* runtime range of the executable mappings */
	uint64_t load_bias;
	int fd; /* the open file; 0: not open (tests) */
	struct elf_outline outline;
};

struct code_range {
	uint64_t start, end;
	bool calls_out; /* calls functions that it was given, while it holds a lock */
};

#define CODE_OBJECTS_MAX 16
#define CODE_RANGES_MAX 96

struct target_code {
	struct code_object objs[CODE_OBJECTS_MAX];
	uint32_t obj_cnt;
	/* functions of libc that hold locks of the loader's or the allocator's kind */
	struct code_range busy[CODE_RANGES_MAX];
	uint32_t busy_cnt;
	uint64_t dlopen; /* runtime addresses */
	uint64_t dlopen_flags;
	bool two_dlopens; /* by two files that are called as the C library's are */
	/* void swab(const void *from, void *to, ssize_t n): plain code that copies */
	uint64_t swab;
	uint64_t restore_rt;  /* `mov $15, %rax; syscall`: where a signal handler returns to */
	uint64_t errno_tpoff; /* errno of a thread, from its fs base */
};

/* 0; -ENOTSUP: nothing can be loaded into this process; another negative errno. why: a sentence, if
 * not 0. */
int target_code__find(pid_t pid, struct target_code *out, char *why, size_t cap);
void target_code__clear(struct target_code *cp);

/* The object whose text holds addr, NULL: none of these. */
const struct code_object *target_code__object(const struct target_code *cp, uint64_t addr);
/* Reads the 8 bytes of the object's file before addr. False: they are not in its text. */
bool code_object__before(const struct code_object *o, uint64_t addr, uint8_t bytes[8]);
/* The function of `busy` that holds addr, NULL: none. */
const struct code_range *target_code__busy(const struct target_code *cp, uint64_t addr);

/*
 * May this stopped thread call dlopen() now, as a signal handler would that is allowed to? Decides
 * on what it is shown: registers, the system call that was interrupted, the bytes of its stack.
 * When in doubt: no.
 */

/* What becomes of a system call that was interrupted (Linux arch/x86/kernel/signal.c). */
enum call_fate {
	CALL_NONE,  /* not in one, or it is complete: nothing is to be done */
	CALL_AGAIN, /* made again with the same arguments: the same as what the kernel does */
	/* only the kernel can go on with it (a relative time limit): leave this thread alone */
	CALL_KERNEL,
};

struct blocked_call {
	long nr; /* -1: not in a system call */
	uint64_t args[6];
	bool on_pipe; /* its first argument is a pipe */
};

/* `result`: rax at the stop. */
enum call_fate safe_point__call_fate(const struct blocked_call *call, int64_t result);

/*
 * A thread that sleeps in this call: may it be stopped at all, and be of use? False where a stop
 * would be seen (EINTR from calls that the kernel never restarts) or the call cannot be made again.
 */
bool safe_point__may_stop(const struct blocked_call *call);
/*
 * After a stop that changes nothing else: is the call to be made again by hand? Either the stop
 * made it fail with EINTR; or the kernel would go on with restart_syscall, under which it cannot be
 * seen any more which call it is.
 */
bool safe_point__make_again(const struct blocked_call *call, int64_t result);

struct thread_view {
	struct user_regs_struct regs;
	const uint8_t *code;  /* the two bytes before regs.rip */
	const uint8_t *stack; /* from regs.rsp up to the end of its mapping, or a part */
	size_t stack_sz;
	uint64_t mapped, room; /* bytes below rsp: in its mapping, and that it may grow to */
};

/* NULL: yes. Else why not now (static storage). */
const char *safe_point__refuse(const struct target_code *cp, const struct thread_view *tv);

#define SAFE_POINT_ROOM 131072  /* of stack, for the loader and constructors */
#define SAFE_POINT_MAPPED 24576 /* of it, for what is written there from outside */
#define SAFE_POINT_STACK_MAX (1u << 20)

/* What /proc says of one thread and of its memory map, for the decision whether to stop it. Reads
 * only. */

/* The system call in which it sleeps; nr -1: none. False: not known. */
bool thread_facts__call(pid_t pid, pid_t tid, struct blocked_call *out);

struct stack_map {
	uint64_t start, end;
	uint64_t floor; /* as far as it may grow down: start, unless it is the main thread's */
};

/* The readable and writable mapping that holds addr. */
bool thread_facts__stack(pid_t pid, uint64_t addr, struct stack_map *out);

/*
 * Temporary files in the root directory and mount namespace of a process. No symbolic link is
 * followed, and no file system that a process or another machine serves is entered (target/proc.h).
 */

enum root_temp_use {
	ROOT_TEMP_CODE,   /* a library, mapped by the process: not where code may not be mapped */
	ROOT_TEMP_SCRIPT, /* a text, read by the process */
	ROOT_TEMP_ANSWER, /* written by the process */
};

struct root_temp {
	char path[320]; /* as the process names it */
	int fd;         /* for reading and writing; -1: closed */
	int dir;        /* the directory */
	bool exists;
};

#define ROOT_TEMP_NONE                                                                             \
	{                                                                                          \
		.fd = -1, .dir = -1                                                                \
	}

/* Writes the content of a new file. 0 or negative errno. */
typedef int (*root_temp_fill_fn)(void *arg, int fd);

/*
 * A new file in one of the directories for temporary files, with a new random name:
 * STEM-NUMBERSUFFIX, and what fill writes. What the process executes or reads belongs to root, or
 * where only users of its user namespace own files to the root of that, in a directory of the same
 * root: no other process of its user can write to it or put another file in its place. An answer
 * belongs to the process's user. fill: NULL for an empty file. 0, or negative errno of the last
 * directory that was tried.
 */
int root_temp__create(pid_t pid, const char *stem, const char *suffix, enum root_temp_use use,
		      root_temp_fill_fn fill, void *arg, struct root_temp *out);
void root_temp__remove(struct root_temp *t); /* also closes it */

/*
 * The detour of a thread, as bytes for its stack: the frames of two signals that were never sent.
 * The thread calls dlopen(), as if it were a handler; dlopen() returns to libc's own rt_sigreturn,
 * by which the kernel sets the registers for a call that puts errno back, and that returns to
 * rt_sigreturn once more, by which the kernel puts back every register, the floating point and
 * vector state and the signal mask. So there is no code of ours in the process, nothing is patched
 * or mapped, and ptbpf is not needed at the end: once the thread's registers are set, it returns by
 * itself.
 */

#define SIG_FRAME_XSTATE_MAX 16384
#define SIG_FRAME_MARK_SZ 16
#define SIG_FRAME_MAX (SIG_FRAME_XSTATE_MAX + 4096 + 2048)

struct detour_in {
	struct user_regs_struct regs; /* of the thread as it was stopped */
	bool call_again;              /* its system call was interrupted: it makes it again */
	uint64_t sigmask;             /* the thread's own */
	const uint8_t *xstate;        /* NT_X86_XSTATE */
	size_t xstate_sz;
	uint32_t saved_errno;
	const char *path; /* of the library, as the target names it */
	/* random: by it the block is recognized in the thread's memory */
	uint8_t mark[SIG_FRAME_MARK_SZ];
};

struct detour {
	uint8_t bytes[SIG_FRAME_MAX]; /* for the stack at addr */
	size_t len;
	uint64_t addr;
	struct user_regs_struct regs; /* to start with */
	uint64_t sigmask; /* while it lasts; its last bit differs from the thread's own */
};

/* 0; -E2BIG: path or state too large; -ENOTSUP: a vector state that sigreturn would not take
 * back. */
int sig_frame__build(const struct target_code *cp, const struct detour_in *in, struct detour *out);

#define SIG_FRAME_MARK (1ULL << 63) /* the bit of the mask that shows whether the detour lasts */

/*
 * Where CPython (3.14 and later) wants a script's name for remote execution (PEP 768), read off the
 * table that the interpreter carries for that purpose: Include/internal/pycore_debug_offsets.h. The
 * groups between those that are needed grow from version to version, so the last one is found by
 * its shape, and all is checked against the live interpreter. Hostile bytes: everything is bounded.
 */

#define PY_OFFSETS_READ 2048 /* of _PyRuntime, more than the table has */

struct py_offsets {
	uint32_t minor;
	bool free_threaded;
	uint64_t interpreters_head;        /* in _PyRuntime */
	uint64_t threads_main, enabled;    /* in PyInterpreterState */
	uint64_t eval_breaker, support;    /* in PyThreadState */
	uint64_t pending, path, path_size; /* in it, at support */
};

/* 0, or -ENOTSUP and a sentence (static storage). */
int py_offsets__parse(const uint8_t *bytes, size_t len, struct py_offsets *out, const char **why);

struct py_remote {
	struct py_offsets off;
	uint64_t interp, tstate; /* the main interpreter, the main thread */
};

/* 0; -ENOTSUP: it has none, or one that is switched off (why: a sentence). */
int py_remote__find(pid_t pid, struct py_remote *out, const char **why);

/*
 * Stops one thread, checks whether it is at a safe point, and if so starts its detour. The thread
 * is let go before this returns, whatever happened, and stands still for about a millisecond.
 *
 * When ptbpf is killed in the middle: before the registers are set (by one system call), the thread
 * goes on as if it had not been stopped; after that, it makes its detour alone. There is no state
 * in between, with one exception: threads that wait in epoll_wait() and other calls that the kernel
 * never restarts are not stopped, but one may enter such a call in the very moment of the stop. It
 * has the call made again; if ptbpf is killed just then, the call fails with EINTR.
 */

struct remote_mem;

enum divert_end {
	DIVERT_DONE,    /* its detour has begun */
	DIVERT_NOT_NOW, /* why: a sentence about the thread */
	DIVERT_GONE,    /* no such thread any more */
	DIVERT_REFUSED, /* never: err and why */
};

struct divert_req {
	pid_t pid, tid;
	int pidfd;                    /* of the job */
	const struct remote_mem *mem; /* likewise */
	const struct target_code *cp;
	const char *path;
	bool asleep_too; /* also out of a system call in which it waits: see ptrace_load.c */
	/* no detour: DIVERT_DONE means that its seccomp filters would let the library be loaded */
	bool only_filters;
	/* results */
	enum divert_end end;
	int err;
	const char *why;
	char text[192];      /* for why */
	uint64_t own_mask;   /* DIVERT_DONE */
	uint64_t stopped_ns; /* how long it was stopped, at most */
};

/* Fills the results. Runs in a thread of its own, so that even one that does not stop is let go. */
void divert__try(struct divert_req *req);

/* Has that thread returned from its detour, or ended? */
bool divert__is_over(pid_t pid, pid_t tid, uint64_t own_mask);

struct inject_job {
	pid_t pid;
	int pidfd; /* a process that gets the same pid later is another one */
	/* of the address space that it had at first; what it executes later has another one, which
	 * is never written to */
	struct remote_mem *mem;
	const char *path;    /* as the process names it */
	char real[PATH_MAX]; /* ... and without links */
	struct stat file;    /* of it, or of its copy */
	struct root_temp copy;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	struct inject_result *res;
};

#define refuse(job, ...) snprintf((job)->res->why, sizeof((job)->res->why), __VA_ARGS__)

bool inject__is_mapped(const struct inject_job *job);
/* false: and says that the process has ended */
bool inject__is_alive(const struct inject_job *job);
bool inject__is_running(int pidfd); /* not reaped yet, so its pid is still its own */
bool inject__is_time(const struct inject_job *job); /* is there any left, and no signal pending? */
void inject__nap(uint64_t ns);                      /* other work goes on: sandbox__idle() */

/* 0, or negative errno with job->res->why; -EAGAIN from remote execution: nothing happened, another
 * method may be tried. */
int remote_exec__load(struct inject_job *job);
int ptrace_load__library(struct inject_job *job);

/* Stops the main thread for a moment, to read its seccomp filters: would they let the library be
 * loaded? 0; -EPERM: no; -EAGAIN: it was not at a point where it may be stopped, until `end_ns`. */
int ptrace_load__check_filters(struct inject_job *job, uint64_t end_ns);

#endif /* INJECT_INJECT_PRIV_H */
