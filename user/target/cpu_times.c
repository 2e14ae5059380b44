/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See proc_info.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/containers.h"
#include "target/proc_info.h"

#define CPUS_MAX 4096

void cpu_times__read(struct cpu_times *t)
{
	FILE *f = fopen("/proc/stat", "re");
	uint32_t cap = 0, cpu;
	char line[4096];
	uint64_t idle;

	*t = (struct cpu_times){ .ns = clock__mono_ns() };
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "cpu%" SCNu32 " %*u %*u %*u %" SCNu64, &cpu, &idle) != 2 ||
		    cpu < t->cnt || cpu >= CPUS_MAX)
			continue;
		while (t->cnt < cpu) /* off line */
			vec_push(t->idle, t->cnt, cap, 0);
		vec_push(t->idle, t->cnt, cap, idle);
	}
	if (f)
		fclose(f);
}

void cpu_times__clear(struct cpu_times *t)
{
	free(t->idle);
	*t = (struct cpu_times){ .cnt = 0 };
}
