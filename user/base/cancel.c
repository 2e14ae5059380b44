/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Signals that end the program; see cancel.h. */
#include "base/cancel.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

/* timeout(1) and service managers signal the process and its group: that is one request, not two */
#define SAME_NS 200000000ULL
#define FORCE_AFTER_NS 500000000ULL

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
static atomic_int pending;
static atomic_ullong since_ns; /* arrival of the last signal that counted, 0: none yet */
static int event_fd = -1, reload_fd = -1;
static pid_t owner;

static void on_signal(int sig)
{
	const uint64_t one = 1;
	int saved = errno, none = 0;
	uint64_t since = atomic_load(&since_ns), now = clock__mono_ns();

	if (getpid() != owner)
		_exit(128 + sig); /* a child that has not called cancel__child() */
	if (since && now - since < SAME_NS)
		return;
	if (!atomic_compare_exchange_strong(&pending, &none, sig)) {
		if (now - since >= FORCE_AFTER_NS)
			_exit(128 + sig);
		return;
	}
	atomic_store(&since_ns, now);
	if (write(event_fd, &one, sizeof(one)) < 0)
		errno = saved; /* the flag is set all the same */
	errno = saved;
}

int cancel__install(void)
{
	struct sigaction sa, old;

	owner = getpid();
	event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (event_fd < 0)
		return -errno;
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = on_signal;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		if (signals[i] == SIGHUP && !sigaction(SIGHUP, NULL, &old) &&
		    old.sa_handler == SIG_IGN)
			continue;
		if (sigaction(signals[i], &sa, NULL))
			return -errno;
	}
	return 0;
}

int cancel__pending(void)
{
	return atomic_load_explicit(&pending, memory_order_relaxed);
}

int cancel__fd(void)
{
	return event_fd;
}

int cancel__take(void)
{
	uint64_t cnt;
	int sig = cancel__pending();

	if (!sig)
		return 0;
	if (read(event_fd, &cnt, sizeof(cnt)) < 0 && errno != EAGAIN)
		return 0;
	atomic_store(&pending, 0);
	return sig;
}

static void on_reload(int sig)
{
	const uint64_t one = 1;
	int saved = errno;

	(void)sig;
	if (getpid() == owner && write(reload_fd, &one, sizeof(one)) < 0)
		errno = saved; /* there is a request already */
	errno = saved;
}

int cancel__reload_fd(void)
{
	struct sigaction sa;

	if (reload_fd < 0)
		reload_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = on_reload;
	sa.sa_flags = SA_RESTART;
	return reload_fd < 0 || sigaction(SIGHUP, &sa, NULL) ? -errno : reload_fd;
}

bool cancel__take_reload(void)
{
	uint64_t cnt;

	return reload_fd >= 0 && read(reload_fd, &cnt, sizeof(cnt)) > 0;
}

void cancel__child(void)
{
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		signal(signals[i], SIG_DFL);
}
