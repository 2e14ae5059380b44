/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * LD_PRELOAD beside the agent: its thread polls the semaphores every 100 us instead of every 50 ms, so that they
 * can be raised and lowered thousands of times. Other threads sleep as usual.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "ptb_agent.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int agent_rounds(volatile __u16 *const sem[4], const volatile struct ptb_agent_ctl *ctl,
			unsigned int rounds, unsigned int *seed, int limit_s);
EXPORT __u64 agent_dropped(const volatile struct ptb_agent_ctl *ctl);

__u64 agent_dropped(const volatile struct ptb_agent_ctl *ctl)
{
	return ctl->dropped;
}

EXPORT int nanosleep(const struct timespec *want, struct timespec *left)
{
	struct timespec haste = { .tv_nsec = 100000 };
	char name[16] = "";
	int err;

	if (want && !want->tv_sec && want->tv_nsec == PTB_AGENT_POLL_NS &&
	    !pthread_getname_np(pthread_self(), name, sizeof(name)) && !strcmp(name, "ptbpf-agent"))
		want = &haste;
	err = clock_nanosleep(CLOCK_MONOTONIC, 0, want, left);
	if (err)
		errno = err;
	return err ? -1 : 0;
}

static unsigned int rnd(unsigned int *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	return *seed >> 16;
}

static void rest(unsigned int us)
{
	const struct timespec t = { .tv_nsec = us * 1000L };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static int wait_for(const volatile struct ptb_agent_ctl *ctl, int on, int limit_s)
{
	struct timespec now, begin;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (((ctl->state & PTB_AGENT_OPS_ON) != 0) != on) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec - begin.tv_sec > limit_s)
			return -1;
		rest(50);
	}
	return 0;
}

/* Requests operators, with and without values, and takes the request back; the semaphores are those of the sites chunk,
 * ops, inputs, outputs. 0; -1, -2: the agent did not register, remove its callback in time. */
int agent_rounds(volatile __u16 *const sem[4], const volatile struct ptb_agent_ctl *ctl,
		 unsigned int rounds, unsigned int *seed, int limit_s)
{
	unsigned int what;

	for (unsigned int i = 0; i < rounds; i++) {
		what = rnd(seed) % 3;
		*sem[3] = what == 2;
		*sem[2] = what >= 1;
		*sem[0] = 1;
		*sem[1] = 1;
		if (wait_for(ctl, 1, limit_s))
			return -1;
		if (rnd(seed) % 3 == 0)
			rest(rnd(seed) % 3000);
		*sem[1] = 0; /* sometimes the listener goes first, as when it is killed */
		if (rnd(seed) % 2)
			*sem[0] = 0;
		if (wait_for(ctl, 0, limit_s))
			return -2;
	}
	return 0;
}
