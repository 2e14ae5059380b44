/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Signals that end the program: pending until taken, one request for a pair, the end by a second request. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "suite.h"

static void nap_ms(long ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

static int readable(void)
{
	struct pollfd p = { .fd = cancel__fd(), .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* Each case in a child: the state is the process's. Exit code of fn, or 128 + the signal that killed it. */
static int in_child(int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(cancel__install() ? 99 : fn());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int pends_until_taken(void)
{
	if (cancel__pending() || readable() || cancel__take())
		return 1;
	raise(SIGINT);
	if (cancel__pending() != SIGINT || !readable())
		return 2;
	if (cancel__take() != SIGINT || cancel__pending() || readable())
		return 3;
	nap_ms(250);
	raise(SIGTERM);
	return cancel__take() == SIGTERM ? 0 : 4;
}

static int a_pair_is_one(void)
{
	raise(SIGTERM);
	if (cancel__take() != SIGTERM)
		return 1;
	raise(SIGTERM);
	return cancel__pending() || readable();
}

static int second_forces(void)
{
	raise(SIGINT);
	nap_ms(600);
	raise(SIGTERM);
	return 0;
}

static int interrupts_waits(void)
{
	struct timespec ts = { .tv_sec = 20 };
	pid_t pid = getpid();

	if (!fork()) {
		cancel__child();
		nap_ms(50);
		kill(pid, SIGINT);
		_exit(0);
	}
	return nanosleep(&ts, NULL) == -1 && errno == EINTR ? 0 : 1;
}

static int child_dies(void)
{
	cancel__child();
	raise(SIGTERM);
	return 0;
}

static int ignored_hangup(void)
{
	raise(SIGHUP);
	return cancel__pending();
}

/* Requests to read the configuration again are one until it is taken, and end nothing. */
static int hangup_reloads(void)
{
	struct pollfd p = { .fd = cancel__reload_fd(), .events = POLLIN };

	if (p.fd < 0 || cancel__take_reload())
		return 1;
	raise(SIGHUP);
	raise(SIGHUP);
	if (cancel__pending() || readable() || poll(&p, 1, 0) != 1)
		return 2;
	return cancel__take_reload() && !cancel__take_reload() && !poll(&p, 1, 0) ? 0 : 3;
}

TEST("cancel")
{
	CU_ASSERT_EQUAL(in_child(pends_until_taken), 0);
	CU_ASSERT_EQUAL(in_child(a_pair_is_one), 0);
	CU_ASSERT_EQUAL(in_child(second_forces), 128 + SIGTERM);
	CU_ASSERT_EQUAL(in_child(interrupts_waits), 0);
	CU_ASSERT_EQUAL(in_child(child_dies), 1000 + SIGTERM);
	CU_ASSERT_EQUAL(in_child(hangup_reloads), 0);
	signal(SIGHUP, SIG_IGN);
	CU_ASSERT_EQUAL(in_child(ignored_hangup), 0);
	signal(SIGHUP, SIG_DFL);
	CU_ASSERT_EQUAL(in_child(ignored_hangup), SIGHUP);
}

SUITE("cancel")
