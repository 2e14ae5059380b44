/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * See text.h. The demangler has no memory but its stack, and append_part() allocates nothing, so
 * that both can be left at any instruction: by a timer of the thread's processor time, whose signal
 * comes to this thread only.
 */
#include "base/text.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"

#define TIME_UP SIGVTALRM
#define MS 1000000ull
#define NAME_NS (LIMIT_DEMANGLE_MS * MS)

/* gcc libiberty/cp-demangle.c: in libstdc++.a only. 0: demangled. */
int __gcclibcxx_demangle_callback(const char *mangled,
				  void (*put)(const char *text, size_t len, void *arg), void *arg);

struct text {
	uint32_t len;
	char buf[LIMIT_DEMANGLED + 1];
};

static _Thread_local sigjmp_buf stop;
static _Thread_local volatile sig_atomic_t running;

static void leave(void)
{
	running = 0;
	siglongjmp(stop, 1);
}

static void on_time_up(int sig)
{
	(void)sig;
	if (running)
		leave();
}

static void append_part(const char *part, size_t len, void *arg)
{
	struct text *t = arg;

	if (len > LIMIT_DEMANGLED - t->len)
		leave();
	memcpy(t->buf + t->len, part, len);
	t->len += (uint32_t)len;
}

static bool run(const char *mangled, struct text *t)
{
	int err;

	t->len = 0;
	if (sigsetjmp(stop, 0)) /* the handler blocks no signal */
		return false;
	running = 1;
	err = __gcclibcxx_demangle_callback(mangled, append_part, t);
	running = 0;
	t->buf[t->len] = '\0';
	return !err;
}

/* ---- time ---- */

static bool start_timer(timer_t *timer)
{
	const struct itimerspec once = { .it_value.tv_nsec = NAME_NS };
	struct sigaction sa = { .sa_handler = on_time_up, .sa_flags = SA_NODEFER | SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TIME_UP };
	sigset_t set;

	event._sigev_un._tid = gettid();
	sigemptyset(&set);
	sigaddset(&set, TIME_UP);
	if (sigaction(TIME_UP, &sa, NULL) || pthread_sigmask(SIG_UNBLOCK, &set, NULL) ||
	    timer_create(CLOCK_THREAD_CPUTIME_ID, &event, timer))
		return false;
	if (!timer_settime(*timer, 0, &once, NULL))
		return true;
	timer_delete(*timer);
	return false;
}

/* What of its time was used. */
static uint64_t stop_timer(timer_t timer)
{
	struct itimerspec left = { .it_value.tv_nsec = 0 };

	timer_gettime(timer, &left);
	timer_delete(timer);
	return NAME_NS - (uint64_t)left.it_value.tv_nsec;
}

char *demangle(const char *mangled, uint64_t *spent_ns)
{
	struct text t;
	timer_t timer;
	bool ok;

	if (strnlen(mangled, LIMIT_MANGLED) == LIMIT_MANGLED)
		return NULL;
	if (spent_ns && (*spent_ns >= LIMIT_DEMANGLE_ALL_MS * MS || !start_timer(&timer)))
		return NULL;
	ok = run(mangled, &t);
	if (spent_ns)
		*spent_ns += stop_timer(timer);
	return ok ? xstrdup(t.buf) : NULL;
}
