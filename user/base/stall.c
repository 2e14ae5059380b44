/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See guards.h. */
#include "base/guards.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

#define POLL_NS 250000000L /* how often the thread looks */
#define POLLS_A_SECOND (1000000000L / POLL_NS)

/* A read is under way while the two differ. */
static atomic_ullong begun, ended;
static atomic_int of_pid;

static int tell_fd = -1;

static void pause_ns(long ns)
{
	const struct timespec ts = { .tv_nsec = ns };

	nanosleep(&ts, NULL);
}

/* A signal that would end the program has come, and the thread that is to handle it waits. */
static int waiting_signal(void)
{
	sigset_t set;

	if (sigpending(&set))
		return 0;
	return sigismember(&set, SIGINT) ? SIGINT : sigismember(&set, SIGTERM) ? SIGTERM : 0;
}

const char *stall__text(pid_t pid, char *buf, size_t cap)
{
	if (pid > 0)
		snprintf(buf, cap, "a read of the memory of pid %d is not answered", pid);
	else
		snprintf(buf, cap, "a read of the memory of a process is not answered");
	return buf;
}

static void __attribute__((noreturn)) give_up(pid_t pid, int code)
{
	char text[STALL_TEXT];

	if (tell_fd >= 0)
		dprintf(tell_fd, "{\"event\": \"stuck\", \"pid\": %d}\n", pid);
	pr_error("%s: whoever serves what it maps does not respond (FUSE, userfaultfd)",
		 stall__text(pid, text, sizeof(text)));
	pr_hint("nothing is traced any more; what was captured remains in the .partial file; this process ends when that server does");
	link_guard__begin();
	/* whoever reads its output waits for nothing, either */
	syscall(SYS_close_range, 0, ~0U, 0);
	link_guard__abort(); /* what it waits for, so that it ends */
	_exit(code);
}

static void *watch(void *arg)
{
	const int code = (int)(intptr_t)arg;
	unsigned long long call, last = 0;
	uint32_t polls = 0; /* not a time: this process may have been stopped */

	for (;; pause_ns(POLL_NS)) {
		int sig;

		call = atomic_load(&begun);
		if (call == atomic_load(&ended) || call != last) {
			last = call;
			polls = 0;
			continue;
		}
		polls++;
		sig = polls > POLLS_A_SECOND ? waiting_signal() : 0;
		if (sig || polls > STALL_S * POLLS_A_SECOND)
			give_up(atomic_load(&of_pid), sig ? 128 + sig : code);
	}
	return NULL;
}

void stall__watch(int exit_code)
{
	pthread_t thread;
	sigset_t all, old;
	int err;

	link_guard__start();
	sigfillset(&all); /* signals are for the other threads; it only sees that they wait */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, NULL, watch, (void *)(intptr_t)exit_code);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		pr_warn("reads of processes' memory are not watched: %s", errstr(err));
	else
		pthread_detach(thread);
}

void stall__begin(pid_t pid)
{
	atomic_store_explicit(&of_pid, pid, memory_order_relaxed);
	atomic_fetch_add_explicit(&begun, 1, memory_order_release);
}

void stall__end(void)
{
	atomic_fetch_add_explicit(&ended, 1, memory_order_release);
}

void stall__tell(int fd)
{
	tell_fd = fd;
}
