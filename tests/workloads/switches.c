/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Pairs of threads that wake each other through pipes, as fast as they can. Loaded by switch_storm.py. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct half {
	int in, out;
	long rounds;
};

static atomic_int over;

static void *run(void *arg)
{
	struct half *h = arg;
	char c = 0;

	while (!atomic_load(&over) && read(h->in, &c, 1) == 1 && write(h->out, &c, 1) == 1)
		h->rounds++;
	close(h->out); /* the other one ends, too */
	return NULL;
}

long switches(int pairs, int ms);

/* How often one of them was woken in so many milliseconds. */
long switches(int pairs, int ms)
{
	struct half *halves = calloc((size_t)pairs * 2, sizeof(*halves));
	pthread_t *threads = calloc((size_t)pairs * 2, sizeof(*threads));
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
	long sum = 0;

	atomic_store(&over, 0);
	for (int i = 0; i < pairs; i++) {
		int there[2], back[2];

		if (pipe(there) || pipe(back))
			return -1;
		halves[2 * i] = (struct half){ there[0], back[1], 0 };
		halves[2 * i + 1] = (struct half){ back[0], there[1], 0 };
		if (write(there[1], "", 1) != 1)
			return -1;
	}
	for (int i = 0; i < pairs * 2; i++)
		if (pthread_create(&threads[i], NULL, run, &halves[i]))
			return -1;
	nanosleep(&t, NULL);
	atomic_store(&over, 1);
	for (int i = 0; i < pairs * 2; i++) {
		pthread_join(threads[i], NULL);
		sum += halves[i].rounds;
		close(halves[i].in);
	}
	free(halves);
	free(threads);
	return sum;
}
