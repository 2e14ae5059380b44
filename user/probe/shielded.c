/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * System calls that a SIGKILL of ptbpf does not interrupt. The kernel changes a process's code page
 * by page and gives up if the caller has a pending SIGKILL (kernel mm/gup.c, __get_user_pages()):
 * it logs "failed to unregister, leaking uprobe", and the breakpoints stay in the target until it
 * ends. So calls that set or remove probes run in a process of their own. It shares memory and
 * descriptors with this thread, as after vfork(), and survives when ptbpf is killed. An ending
 * process has no pending signal any more, so descriptors that are still open then are closed
 * properly.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/guards.h"
#include "probe/probe_impl.h"

#define STACK_BYTES 65536

static uint64_t cpu_ns; /* of all calls */

struct call {
	void (*fn)(void *arg);
	void *arg;
};

static int child(void *arg)
{
	struct call *c = arg;
	int slot = link_guard__begin();

	c->fn(c->arg);
	link_guard__end(slot);
	__atomic_fetch_add(&cpu_ns, clock__cpu_ns(), __ATOMIC_RELAXED);
	return 0;
}

void shielded__run(void (*fn)(void *arg), void *arg)
{
	char stack[STACK_BYTES] __attribute__((aligned(16)));
	struct call c = { .fn = fn, .arg = arg };
	sigset_t all, old;
	int pid;

	sigfillset(&all);
	/* signal handlers must not run in both processes */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone(child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS,
		    &c);
	if (pid < 0)
		child(&c);
	while (pid > 0 && waitpid(pid, NULL, (int)__WCLONE) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

uint64_t shielded__cpu_ns(void)
{
	return __atomic_load_n(&cpu_ns, __ATOMIC_RELAXED);
}

static void close_fd(void *arg)
{
	close(*(int *)arg);
}

void shielded__close(int fd)
{
	shielded__run(close_fd, &fd);
}
