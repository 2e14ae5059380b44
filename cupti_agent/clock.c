/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which clock, and how it lies to CLOCK_MONOTONIC; see clock.h. */
#include "clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define READINGS 8

bool clock_is_tsc;

uint64_t agent__mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* What the kernel trusts: it watches the counter and leaves it when that stops, changes pace, or
 * processors disagree. */
static bool kernel_uses_tsc(void)
{
	char name[8] = "";
	int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		      O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (read(fd, name, sizeof(name) - 1) < 0)
		name[0] = '\0';
	close(fd);
	return !strcmp(name, "tsc\n");
}

void clock__choose(void)
{
	clock_is_tsc = kernel_uses_tsc();
	agent__set_state(PTB_AGENT_TSC, clock_is_tsc);
}

void clock__pair(struct ptb_arec_clock *r)
{
	uint64_t best = UINT64_MAX, before, mono, after;

	*r = (struct ptb_arec_clock){ .r = { .len = sizeof(*r), .kind = PTB_AREC_CLOCK } };
	for (int i = 0; i < READINGS; i++) {
		before = clock__ticks();
		mono = agent__mono_ns();
		after = clock__ticks();
		if (after - before >= best)
			continue;
		best = after - before;
		r->r.ticks = before + best / 2;
		r->mono_ns = mono;
		r->err_ticks = (best + 1) / 2;
	}
}
