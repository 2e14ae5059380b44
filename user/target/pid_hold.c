/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Whose pid it is; see proc.h. */
#include "target/proc.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/proc_info.h"

/* The start time is in hundredths of a second; a number comes round again only after thousands of
 * forks. */
#define SLACK_NS 300000000LL

int pid_hold__open(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

bool pid_hold__alive(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	if (fd < 0)
		return false;
	do
		n = poll(&p, 1, 0);
	while (n < 0 && errno == EINTR);
	return n == 0;
}

static int64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

uint64_t pid_hold__began_ns(uint64_t start)
{
	int64_t asleep = clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC),
		began = (int64_t)(start * (1000000000ULL / (unsigned long)sysconf(_SC_CLK_TCK)));

	return began > asleep ? (uint64_t)(began - asleep) : 0;
}

bool pid_hold__began_by(pid_t pid, uint64_t ns)
{
	struct proc_stat st;

	if (proc_stat__read(pid, &st))
		return false;
	return (int64_t)pid_hold__began_ns(st.start) <= (int64_t)ns + SLACK_NS;
}

bool pid_hold__ended(pid_t pid, uint64_t ns)
{
	int fd = pid_hold__open(pid);
	bool lives = pid_hold__alive(fd) && pid_hold__began_by(pid, ns);

	if (fd >= 0)
		close(fd);
	return !lives;
}

bool pid_hold__has_parent(pid_t pid, pid_t parent)
{
	struct proc_stat st;

	return !proc_stat__read(pid, &st) && st.parent == parent;
}
