/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A few short-lived threads for work that is nothing but waiting: each change of a probe waits for
 * a grace period of the kernel's, and callers that wait together share one.
 */
#include <pthread.h>

#include "probe/probe_impl.h"

#define THREADS_MAX 16

struct crew {
	void (*fn)(void *arg, uint32_t i);
	void *arg;
	uint32_t next, cnt;
};

static void *crew__work(void *arg)
{
	struct crew *c = arg;
	uint32_t i;

	while ((i = __atomic_fetch_add(&c->next, 1, __ATOMIC_RELAXED)) < c->cnt)
		c->fn(c->arg, i);
	return NULL;
}

void parallel__run(void (*fn)(void *arg, uint32_t i), void *arg, uint32_t cnt)
{
	struct crew c = { .fn = fn, .arg = arg, .cnt = cnt };
	pthread_t threads[THREADS_MAX];
	uint32_t n = 0;

	while (n < THREADS_MAX && n + 1 < cnt && !pthread_create(&threads[n], NULL, crew__work, &c))
		n++;
	crew__work(&c);
	while (n)
		pthread_join(threads[--n], NULL);
}
