/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_learn.h. */
#include "cli/sample_learn.h"

#include <sys/resource.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "target/torch_proc.h"

#define SLOW_CPU_NS                                                                                \
	10000000000ULL /* a process that takes more is left out next time, or the time after */

uint64_t sample_learn__cpu_ns(void)
{
	struct rusage ru = { .ru_minflt = 0 };

	getrusage(RUSAGE_CHILDREN, &ru);
	return clock__cpu_ns() + 1000000000ULL * (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
	       1000ULL * (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
}

void sample_learn__note(struct slow_process *slow, pid_t pid, uint64_t since_ns, bool failed)
{
	uint64_t ns = sample_learn__cpu_ns() - since_ns;

	if (ns >= SLOW_CPU_NS && ns > slow->cpu_ns)
		*slow = (struct slow_process){ .pid = pid, .failed = failed, .cpu_ns = ns };
}

void sample_learn__targets(const struct sample_window_spec *spec, struct slow_process *slow)
{
	for (uint32_t i = 0;
	     i < spec->pid_cnt && !cancel__pending() && clock__mono_ns() < spec->warmup_ns; i++) {
		uint64_t since = sample_learn__cpu_ns();
		struct torch_proc *tp = NULL;
		enum torch_proc_why why;
		int err = torch_proc__open_any(spec->pids[i], &tp, &why); /* it comes again when it is attached to */

		if (!err)
			torch_proc__free(tp);
		sample_learn__note(slow, spec->pids[i], since, err);
	}
}
