/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Whatever a process may keep its reader waiting for is given up: its memory where nobody serves it, and what needs the lock of its memory, which it
 * holds. Each read runs in a child to which a signal has come, so that it is given up a second later.
 */
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/guards.h"
#include "base/proc_read.h"
#include "lock_holder.h"
#include "suite.h"
#include "target/job_facts.h"
#include "target/proc_info.h"
#include "target/torch.h"

static void read_environ(const struct lock_holder *h)
{
	struct job_facts f;

	job_facts__read(h->pid, &f);
	job_facts__clear(&f);
}

static void read_cmdline(const struct lock_holder *h)
{
	free(proc_info__cmdline(h->pid));
}

static void find_mapped_file(const struct lock_holder *h)
{
	struct statx st;

	proc_map_file__stat(h->pid, h->page, h->page + 4096, &st);
}

static void read_control_block(const struct lock_holder *h)
{
	const struct agent_lib al = { .ctl = h->page };
	struct ptb_agent_ctl ctl;

	agent_lib__read(h->pid, &al, &ctl);
}

static void read_open_operators(const struct lock_holder *h)
{
	const struct agent_lib al = { .open = h->page };
	struct ptb_agent_open open;

	agent_lib__read_open(h->pid, &al, &open);
}

static void write_memory(const struct lock_holder *h)
{
	struct remote_mem *rm;

	if (!remote_mem__open(h->pid, true, &rm))
		remote_mem__write(rm, h->page, "x", 1);
	remote_mem__close(rm);
}

static void run(void (*fn)(const struct lock_holder *h), bool locked)
{
	struct lock_holder h;
	char line[64] = "", expected[64];
	int status = 0, fds[2];
	uint64_t t0;
	pid_t pid;

	CU_ASSERT_FATAL(lock_holder__start(&h, "/proc/self/exe", 65534));
	if (locked)
		lock_holder__hold(&h, true);
	else
		lock_holder__map(&h);
	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	t0 = clock__mono_ns();
	pid = fork();
	if (!pid) {
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGTERM);
		sigprocmask(SIG_BLOCK, &set, NULL);
		stall__tell(fds[1]);
		stall__watch(7);
		kill(getpid(), SIGTERM);
		fn(&h);
		_exit(0);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM);
	CU_ASSERT(clock__mono_ns() - t0 < 4000000000ull);
	snprintf(expected, sizeof(expected), "{\"event\": \"stuck\", \"pid\": %d}\n", h.pid);
	close(fds[1]);
	CU_ASSERT(read(fds[0], line, sizeof(line) - 1) > 0);
	CU_ASSERT_STRING_EQUAL(line, expected); /* it names its process */
	close(fds[0]);
	if (locked)
		(void)lock_holder__was_answered(&h);
	lock_holder__end(&h);
}

/* It does not wait until the server answers. */
TEST("kill -9 of who reads")
{
	struct lock_holder h;
	uint64_t begin_ns = clock__mono_ns();
	int status = 0;
	pid_t pid;

	CU_ASSERT_FATAL(lock_holder__start(&h, "/proc/self/exe", 65534));
	lock_holder__map(&h);
	pid = fork();
	if (!pid) {
		stall__watch(7);
		read_control_block(&h);
		_exit(0);
	}
	usleep(500000);
	kill(pid, SIGKILL);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT(WIFSIGNALED(status) && clock__mono_ns() - begin_ns < 3500000000ull);
	lock_holder__end(&h);
}

TEST("the environment of a process that holds its own lock")
{
	run(read_environ, true);
}

TEST("its command line")
{
	run(read_cmdline, true);
}

TEST("its mapped files")
{
	run(find_mapped_file, true);
}

TEST("a control block that is not served")
{
	run(read_control_block, false);
}

TEST("operators of an agent that are not served")
{
	run(read_open_operators, false);
}

TEST("a write to memory that is not served")
{
	run(write_memory, false);
}

int main(void)
{
	if (geteuid() || access("/dev/fuse", W_OK))
		return 77;
	return run_suite("proc_read");
}
