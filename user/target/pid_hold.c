/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Whose pid it is; see pid_hold.h. */
#include "target/pid_hold.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The start time is in hundredths of a second; a number comes round again only after thousands of forks. */
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

/* Fields 4 (parent) and 22 (start, in clock ticks since boot) of proc(5)'s stat. */
static bool read_stat(pid_t pid, long *parent, unsigned long long *start)
{
	char path[64], text[1024], *at;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	at = strrchr(text, ')'); /* the name before it may hold anything */
	return at && sscanf(at + 1,
			    " %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
			    parent, start) == 2;
}

static int64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

bool pid_hold__began_by(pid_t pid, uint64_t ns)
{
	int64_t asleep = clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC), began;
	unsigned long long start;
	long parent;

	if (!read_stat(pid, &parent, &start))
		return false;
	began = (int64_t)(start * (1000000000ULL / (unsigned long)sysconf(_SC_CLK_TCK))) - asleep;
	return began <= (int64_t)ns + SLACK_NS;
}

bool pid_hold__has_parent(pid_t pid, pid_t parent)
{
	unsigned long long start;
	long now;

	return read_stat(pid, &now, &start) && now == parent;
}
