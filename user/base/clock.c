/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Clock readings; see clock.h. */
#include "base/clock.h"

#include <sys/resource.h>
#include <time.h>

static uint64_t read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

uint64_t clock__mono_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock__cpu_ns(void)
{
	return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t clock__cpu_ns_with_children(void)
{
	struct rusage ru = { .ru_minflt = 0 };

	getrusage(RUSAGE_CHILDREN, &ru);
	return clock__cpu_ns() +
	       1000000000ULL * (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
	       1000ULL * (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
}

struct clock_pair clock__pair(void)
{
	struct clock_pair best = { .err_ns = UINT64_MAX };

	for (int i = 0; i < 8; i++) {
		uint64_t a = clock__mono_ns(), r = read_clock(CLOCK_REALTIME), b = clock__mono_ns();

		if ((b - a) / 2 < best.err_ns)
			best = (struct clock_pair){ .mono_ns = a + (b - a) / 2,
						    .real_ns = r,
						    .err_ns = (b - a) / 2 };
	}
	return best;
}
