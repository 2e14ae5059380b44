/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See guards.h. */
#include "base/guards.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/shared_mem.h"

#define POLL_MS 200
#define STILL_POLLS 5 /* in which the thread has not run: it waits for one lock */
#define LATE_POLLS 25 /* of one system call: for many, one after the other */
#define SLOTS 64      /* calls, and processes, at the same time */
#define CONNECTIONS_MAX 4096
#define PF_EXITING 4 /* Linux include/linux/sched.h */
/* at each connection: one that gets answers has none to wait for at one of them, as a rule */
#define LOOKS 3
#define LOOK_MS 20

/* Shared with the process that watches, and with those that this one forks. */
static struct guard {
	atomic_int pids[SLOTS]; /* processes that have probes; 0: none */
	struct {
		atomic_int tid; /* 0: none */
		atomic_uint nr;
	} calls[SLOTS];
	atomic_bool abort;
} * guard;

/* ---- connections of FUSE ---- */

/* The kernel's list of them (fs/fuse/control.c). Where it does not know FUSE yet, to mount it would
 * load a module. */
static int open_connections(void)
{
	char text[8192] = "";
	int fd = open("/proc/filesystems", O_RDONLY | O_CLOEXEC), fs, dir = -1;

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	if (fd >= 0)
		close(fd);
	if (!strstr(text, "fusectl"))
		return -1;
	fs = fsopen("fusectl", FSOPEN_CLOEXEC);
	if (fs >= 0 && !fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		dir = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	if (fs >= 0)
		close(fs);
	return dir < 0 ? open("/sys/fs/fuse/connections", O_PATH | O_DIRECTORY | O_CLOEXEC) : dir;
}

/* Requests wait for an answer, and a user other than root has mounted it, who is the owner of these
 * files. */
static bool waits(int dir, uint32_t nr, uid_t *uid)
{
	char name[32], text[16] = "";
	struct stat st;
	int fd;

	snprintf(name, sizeof(name), "%u/waiting", nr);
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) || read(fd, text, sizeof(text) - 1) < 0)
		st.st_uid = 0;
	close(fd);
	*uid = st.st_uid;
	return st.st_uid && atoi(text) > 0;
}

static uint32_t find_waiting(int dir, uint32_t *nrs)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;
	uint32_t cnt = 0, nr;
	char *end;
	uid_t uid;

	while (list && cnt < CONNECTIONS_MAX && (de = readdir(list))) {
		nr = (uint32_t)strtoul(de->d_name, &end, 10);
		if (!*end && waits(dir, nr, &uid))
			nrs[cnt++] = nr;
	}
	if (list)
		closedir(list);
	else if (fd >= 0)
		close(fd);
	return cnt;
}

static void abort_connection(int dir, uint32_t nr, uid_t uid)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "%u/abort", nr);
	setfsuid(uid); /* the file is the user's, and a service may lack CAP_DAC_OVERRIDE */
	fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
	setfsuid(geteuid());
	if (fd >= 0 && write(fd, "1", 1) == 1)
		pr_warn("the FUSE file system of device 0:%u of user %u is aborted: requests to it are not answered, while ptbpf and "
			"every fork on this machine may wait for a process that uses it",
			nr, (unsigned int)uid);
	if (fd >= 0)
		close(fd);
}

static void abort_waiting(void)
{
	static uint32_t nrs[CONNECTIONS_MAX];
	int dir = open_connections();
	uint32_t cnt = dir < 0 ? 0 : find_waiting(dir, nrs), kept;
	uid_t uid;

	for (int look = 1; look < LOOKS && cnt; look++) {
		poll(NULL, 0, LOOK_MS);
		kept = 0;
		for (uint32_t i = 0; i < cnt; i++)
			if (waits(dir, nrs[i], &uid))
				nrs[kept++] = nrs[i];
		cnt = kept;
	}
	for (uint32_t i = 0; i < cnt; i++)
		if (waits(dir, nrs[i], &uid))
			abort_connection(dir, nrs[i], uid);
	if (dir >= 0)
		close(dir);
}

bool link_guard__waits(uint32_t connection)
{
	int dir = open_connections();
	uid_t uid;
	bool yes = dir >= 0 && waits(dir, connection, &uid);

	for (int look = 1; look < LOOKS && yes; look++) {
		poll(NULL, 0, LOOK_MS);
		yes = waits(dir, connection, &uid);
	}
	if (dir >= 0)
		close(dir);
	return yes;
}

/* ---- the process that watches ---- */

struct seen {
	uint32_t call, polls, still;
	uint64_t switches;
};

/* Neither file takes a lock of the process's memory. */
static void read_proc(pid_t tid, bool status, char *text, size_t cap)
{
	char path[32];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), status ? "/proc/%d/status" : "/proc/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, cap - 1);
	text[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
}

/* Does it sleep where no signal wakes it, and has it not run meanwhile? *switches: so often has it
 * been switched from, at the last look. */
static bool sleeps(pid_t tid, uint64_t *switches)
{
	char text[4096], *at = text, state;
	uint64_t last = *switches;

	read_proc(tid, true, text, sizeof(text));
	*switches = 0;
	while ((at = strstr(at, "ctxt_switches:"))) { /* of two kinds */
		at += strlen("ctxt_switches:");
		*switches += strtoull(at, NULL, 10);
	}
	at = strstr(text, "\nState:\t");
	state = at ? at[8] : 0;
	/* Z: the main thread of one that ends */
	return *switches == last && (state == 'D' || state == 'Z');
}

static bool is_late(struct seen *seen, pid_t tid, uint32_t call)
{
	if (call != seen->call)
		*seen = (struct seen){ .call = call };
	seen->polls++;
	seen->still = sleeps(tid, &seen->switches) ? seen->still + 1 : 0;
	return seen->still >= STILL_POLLS || seen->polls >= LATE_POLLS;
}

/* Killed, but not at an end yet: it waits in a system call, or the kernel removes its probes. */
static bool is_ending(pid_t pid)
{
	char text[4096], *at;
	unsigned int flags = 0;

	read_proc(pid, false, text, sizeof(text));
	at = strrchr(text, ')');
	if (at)
		sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %u", &flags);
	read_proc(pid, true, text, sizeof(text));
	at = strstr(text, "\nSigPnd:\t");
	return flags & PF_EXITING || (at && strtoull(at + 9, NULL, 16) & 1u << (SIGKILL - 1));
}

/* True: one of the processes is there. ends: of those that are. */
static bool look_at_processes(struct seen *seen, struct pollfd *ends, bool *late)
{
	bool any = false;

	for (int i = 0; i < SLOTS; i++) {
		pid_t pid = atomic_load(&guard->pids[i]);

		if (!pid)
			continue;
		if (ends[i].fd < 0) {
			seen[i] = (struct seen){ .polls = 0 };
			ends[i].fd = (int)syscall(SYS_pidfd_open, pid, 0);
		}
		if (ends[i].fd < 0 || poll(&ends[i], 1, 0) > 0) { /* it has no probes any more */
			close(ends[i].fd);
			ends[i].fd = -1;
			atomic_store(&guard->pids[i], 0);
			continue;
		}
		any = true;
		if (is_ending(pid))
			*late |= is_late(&seen[i], pid, 0);
	}
	return any;
}

/* True: one has not returned. */
static bool look_at_calls(struct seen *seen, bool *late)
{
	bool any = false;

	for (int i = 0; i < SLOTS; i++) {
		pid_t tid = atomic_load(&guard->calls[i].tid);

		if (!tid || (kill(tid, 0) && errno == ESRCH)) /* killed with its process */
			continue;
		any = true;
		*late |= is_late(&seen[i], tid, atomic_load(&guard->calls[i].nr));
	}
	return any;
}

static void __attribute__((noreturn)) watch(void)
{
	static struct seen calls[SLOTS], processes[SLOTS];
	static struct pollfd ends[SLOTS];
	bool late, any;

	prctl(PR_SET_NAME, "ptbpf-guard");
	syscall(SYS_close_range, 0, 1, 0);
	syscall(SYS_close_range, 3, ~0U, 0);
	(void)!chdir("/");
	for (int i = 0; i < SLOTS; i++)
		ends[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	for (;;) {
		late = atomic_exchange(&guard->abort, false);
		any = look_at_processes(processes, ends, &late);
		any |= look_at_calls(calls, &late);
		if (late)
			abort_waiting();
		if (!any)
			_exit(0);
		poll(ends, SLOTS, POLL_MS);
	}
}

/* ---- the processes that have probes ---- */

static void add_process(pid_t pid)
{
	for (int i = 0; i < SLOTS; i++) {
		int none = 0;

		if (atomic_compare_exchange_strong(&guard->pids[i], &none, pid))
			return;
	}
}

/* One that nobody else can wait for: its parent ends at once. 0 or negative errno. */
static int start_watching(void)
{
	sigset_t all, old;
	int status = 0;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old); /* it ends with those that it watches only */
	pid = fork();
	if (!pid) {
		pid = fork();
		if (!pid)
			watch();
		_exit(pid < 0);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		return -errno;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status ? -EAGAIN : 0;
}

void link_guard__start(void)
{
	int err;

	if (guard) { /* of the process that has forked this one */
		add_process(getpid());
		return;
	}
	guard = shared_mem__new(sizeof(*guard));
	add_process(getpid());
	err = start_watching();
	if (err)
		pr_warn("nobody watches whether a probe is set in time: %s", errstr(err));
}

int link_guard__begin(void)
{
	for (int i = 0; guard && i < SLOTS; i++) {
		int none = 0;

		if (!atomic_load(&guard->calls[i].tid) &&
		    atomic_compare_exchange_strong(&guard->calls[i].tid, &none,
						   (int)syscall(SYS_gettid))) {
			atomic_fetch_add(&guard->calls[i].nr, 1);
			return i;
		}
	}
	return -1;
}

void link_guard__end(int slot)
{
	if (slot >= 0)
		atomic_store(&guard->calls[slot].tid, 0);
}

void link_guard__abort(void)
{
	if (guard)
		atomic_store(&guard->abort, true);
}
