/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Definitions that a killed ptbpf left in tracefs: one scan finds them all, and no others. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/probe_impl.h"
#include "probe/probe_set.h"
#include "probe_target.h"
#include "suite.h"

/* clang-format off */
#define TRIES  10 /* another ptbpf on this machine may remove them meanwhile */
#define EVENTS 150
#define SITES  16 /* of each: the file of definitions is much longer than what one read of it gives */
/* clang-format on */

static uint32_t ns_inum(void)
{
	uint32_t level, inum = 0;

	CU_ASSERT_EQUAL_FATAL(pidns__self(&level, &inum), 0);
	return inum;
}

static int open_events(void)
{
	int dir = trace_fs__mount(), fd;

	CU_ASSERT_FATAL(dir >= 0);
	fd = openat(dir, "uprobe_events", O_WRONLY | O_APPEND | O_CLOEXEC);
	CU_ASSERT_FATAL(fd >= 0);
	close(dir);
	return fd;
}

/* As a ptbpf with this pid defines them; they are never enabled. */
static void define(int fd, pid_t pid, uint32_t events)
{
	char buf[SITES * 120];

	for (uint32_t e = 0; e < events; e++) {
		size_t len = 0;

		for (uint32_t i = 0; i < SITES; i++)
			len += (size_t)snprintf(buf + len, sizeof(buf) - len,
						"p:ptbpf_%u_%d/s%u /proc/self/exe:0x%x\n", ns_inum(),
						(int)pid, e, 0x1000 + 8 * (e * SITES + i));
		CU_ASSERT_FATAL(write(fd, buf, len) == (ssize_t)len || errno == EEXIST);
	}
}

static pid_t ended(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	CU_ASSERT_EQUAL_FATAL(waitpid(pid, NULL, 0), pid);
	return pid;
}

static const struct feature *feature(const char *title)
{
	for (size_t i = 0; i < kern_feature_cnt; i++)
		if (strstr(kern_features[i].title, title))
			return &kern_features[i];
	return NULL;
}

TEST("stale probes go at once, those of the living stay")
{
	const struct feature *f = feature("left-over");
	int fd = open_events();
	pid_t dead = ended(), dead_too = ended(), living = fork();
	struct trace_fs *tf;
	char detail[128] = "", line[64];

	if (!living) {
		pause();
		_exit(0);
	}
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	define(fd, living, 3);
	for (int i = 0; i < TRIES && strtol(detail, NULL, 10) < 2 * EVENTS * SITES; i++) {
		define(fd, dead, EVENTS);
		define(fd, dead_too, EVENTS);
		CU_ASSERT(f->check(detail, sizeof(detail)) == FEATURE_NO || i + 1 < TRIES);
	}
	CU_ASSERT(strtol(detail, NULL, 10) >= 2 * EVENTS * SITES);
	tf = trace_fs__open(ns_inum());
	CU_ASSERT_PTR_NOT_NULL_FATAL(tf);
	CU_ASSERT_EQUAL(trace_events_of(dead), 0);
	CU_ASSERT_EQUAL(trace_events_of(dead_too), 0);
	CU_ASSERT_EQUAL(trace_events_of(living), 3 * SITES);
	trace_fs__free(tf);
	kill(living, SIGKILL);
	waitpid(living, NULL, 0);
	for (uint32_t e = 0; e < 3; e++) {
		int n = snprintf(line, sizeof(line), "-:ptbpf_%u_%d/s%u\n", ns_inum(), (int)living, e);

		(void)!write(fd, line, (size_t)n); /* another ptbpf may have been faster by now */
	}
	CU_ASSERT_EQUAL(trace_events_of(living), 0);
	close(fd);
}

/* doctor calls groups usable because it has defined one, of which nothing is left; and removes none of others. */
TEST("a group is tried")
{
	const struct feature *f = feature("probes in groups");
	pid_t dead = ended(), child;
	char detail[128] = "", line[64];
	int fd = open_events(), status = 0;
	uint32_t left = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	for (int i = 0; i < TRIES && !left; i++) {
		define(fd, dead, 1);
		CU_ASSERT_EQUAL(f->check(detail, sizeof(detail)), FEATURE_YES);
		CU_ASSERT_PTR_NOT_NULL(strstr(detail, "is defined"));
		CU_ASSERT_EQUAL(trace_events_of(getpid()), 0);
		left = trace_events_of(dead);
	}
	CU_ASSERT(left >= SITES);
	child = fork();
	if (!child) { /* may not mount tracefs */
		if (setresuid(65534, 65534, 65534))
			_exit(2);
		_exit(f->check(detail, sizeof(detail)) == FEATURE_NO ? 0 : 1);
	}
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
	snprintf(line, sizeof(line), "-:ptbpf_%u_%d/s0\n", ns_inum(), (int)dead);
	(void)!write(fd, line, strlen(line)); /* another ptbpf may have been faster */
	CU_ASSERT_EQUAL(trace_events_of(dead), 0);
	close(fd);
}

PROBE_SUITE("probe_stale")
