/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process that maps a probed file and holds the lock of its own memory does not keep ptbpf, and every fork of the machine, waiting: its
 * connection of FUSE is aborted, long before the server would answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/guards.h"
#include "base/limits.h"
#include "lock_holder.h"
#include "probe/probe_impl.h"
#include "probe_target.h"
#include "suite.h"

#define LIMIT_NS (HOLD_S * 1000000000ull - 1500000000ull)

static struct probe_set *attach(struct target *t, enum links links)
{
	struct probe_set *ps = open_set(0, links, false);

	CU_ASSERT_EQUAL(attach_sites_to(ps, t, NULL, op_sites, 2, NULL), 2);
	return ps;
}

TEST_LINKS("probes are removed")
{
	struct lock_holder h;
	struct probe_set *ps;
	struct target t;
	uint64_t t0, sum;

	target__start(&t, TARGET_CALLS);
	sum = target__run(&t, "calls 500 3");
	CU_ASSERT_FATAL(lock_holder__start(&h, TARGET_CALLS, 65534));
	ps = attach(&t, links);
	lock_holder__hold(&h, false);
	t0 = clock__mono_ns();
	probe_set__free(ps);
	CU_ASSERT(clock__mono_ns() - t0 < LIMIT_NS);
	CU_ASSERT_FALSE(lock_holder__was_answered(&h));
	lock_holder__end(&h);
	CU_ASSERT_EQUAL(target__run(&t, "calls 500 3"), sum);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* The kernel removes the probes of a process that was killed: then no thread of it is left to do anything. */
TEST("kill -9 of the tracer")
{
	struct lock_holder h;
	struct target t;
	int ready[2], status;
	uint64_t t0;
	pid_t pid;
	char c;

	target__start(&t, TARGET_CALLS);
	CU_ASSERT_FATAL(lock_holder__start(&h, TARGET_CALLS, 65534));
	CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		link_guard__start();
		attach(&t, LINKS_MULTI);
		(void)!write(ready[1], "r", 1);
		pause();
	}
	CU_ASSERT_EQUAL(read(ready[0], &c, 1), 1);
	lock_holder__hold(&h, false);
	t0 = clock__mono_ns();
	kill(pid, SIGKILL);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT(clock__mono_ns() - t0 < LIMIT_NS);
	CU_ASSERT_FALSE(lock_holder__was_answered(&h));
	lock_holder__end(&h);
	close(ready[0]);
	close(ready[1]);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* Before a probe is placed, whoever holds its lock already is seen. */
static void run_attach(enum links links)
{
	struct probe_set *ps = open_set(0, links, false);
	struct lock_holder h;
	struct target t;
	uint64_t t0;

	target__start(&t, TARGET_CALLS);
	CU_ASSERT_FATAL(lock_holder__start(&h, TARGET_CALLS, 65534));
	lock_holder__map(&h);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, op_sites, 2, NULL), 2); /* it serves its files */
	usleep(1100000); /* mappings are read again */
	lock_holder__hold(&h, false);
	t0 = clock__mono_ns();
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, op_sites, 2, NULL), -EUSERS);
	CU_ASSERT(clock__mono_ns() - t0 < 1000000000ull);
	CU_ASSERT(lock_holder__was_answered(&h));
	lock_holder__end(&h);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

TEST("who holds its lock already")
{
	if (!attach_multi__known()) /* what follows is there from Linux 6.6 on */
		return;
	run_attach(LINKS_MULTI);
	run_attach(LINKS_TRACE);
}

static pid_t start_mapper(const char *code)
{
	int fd = open(code, O_RDONLY | O_CLOEXEC);
	void *p = mmap(NULL, 1 << 14, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	munmap(p, 1 << 14);
	close(fd);
	return pid;
}

/* The kernel visits all of them for each site. */
TEST("more processes than the limit")
{
	static pid_t pids[LIMIT_MAPPERS + 1];
	struct probe_set *ps;
	uint32_t cnt = 0;
	struct target t;

	if (!attach_multi__known())
		return;
	ps = open_set(0, LINKS_MULTI, false);
	target__start(&t, TARGET_CALLS);
	while (cnt < LIMIT_MAPPERS && (pids[cnt] = start_mapper(TARGET_CALLS)) > 0)
		cnt++;
	CU_ASSERT_EQUAL(cnt, LIMIT_MAPPERS);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, op_sites, 2, NULL), -EUSERS);
	kill(pids[--cnt], SIGKILL);
	waitpid(pids[cnt], NULL, 0);
	usleep(1100000);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, op_sites, 2, NULL), 2);
	while (cnt) {
		kill(pids[--cnt], SIGKILL);
		waitpid(pids[cnt], NULL, 0);
	}
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* Root's file systems are not aborted: its servers are trusted, and others may use them. */
TEST("FUSE of root")
{
	struct lock_holder h;
	struct probe_set *ps;
	struct target t;

	target__start(&t, TARGET_CALLS);
	CU_ASSERT_FATAL(lock_holder__start(&h, TARGET_CALLS, 0));
	ps = attach(&t, LINKS_MULTI);
	lock_holder__hold(&h, false);
	probe_set__free(ps);
	CU_ASSERT(lock_holder__was_answered(&h));
	lock_holder__end(&h);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

int main(void)
{
	if (must_skip() || access("/dev/fuse", W_OK))
		return 77;
	link_guard__start();
	return run_suite("link_guard");
}
