/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A pid that is reused belongs to another process: the hold detects that, as do the start and the parent. */
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "suite.h"
#include "target/proc.h"

/* A child with this pid (0: any), which waits to be killed; negative: it could not be had. */
static pid_t child_with(pid_t pid)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	long got;

	if (pid) {
		args.set_tid = (uint64_t)(uintptr_t)&pid;
		args.set_tid_size = 1;
	}
	got = syscall(SYS_clone3, &args, sizeof(args));
	if (!got)
		for (;;)
			pause();
	return (pid_t)got;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

TEST("a pid comes round again")
{
	uint64_t first_ns, ns;
	pid_t a = child_with(0), b;
	int hold = pid_hold__open(a);

	first_ns = clock__mono_ns();
	CU_ASSERT_FATAL(a > 0 && hold >= 0);
	CU_ASSERT(pid_hold__alive(hold));
	CU_ASSERT(pid_hold__began_by(a, first_ns));
	CU_ASSERT(pid_hold__has_parent(a, getpid()));
	CU_ASSERT_FALSE(pid_hold__has_parent(a, getpid() + 1));
	end(a);
	CU_ASSERT_FALSE(pid_hold__alive(hold));
	CU_ASSERT_FALSE(pid_hold__began_by(a, first_ns));
	usleep(600000); /* numbers do not come round sooner */
	b = child_with(a);
	if (b != a) { /* the pid may not be chosen, or is in use */
		close(hold);
		return;
	}
	ns = clock__mono_ns();
	CU_ASSERT_EQUAL(kill(a, 0), 0);
	CU_ASSERT_FALSE(pid_hold__alive(hold));
	CU_ASSERT_FALSE(pid_hold__began_by(a, first_ns));
	CU_ASSERT(pid_hold__began_by(a, ns));
	end(b);
	close(hold);
}

TEST("no process")
{
	CU_ASSERT(pid_hold__open(0x3fffffff) < 0);
	CU_ASSERT_FALSE(pid_hold__alive(-3));
	CU_ASSERT_FALSE(pid_hold__has_parent(0x3fffffff, 1));
}

SUITE("pid_hold")
