/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_learn.h. */
#include "cli/sample_learn.h"

#include <sys/resource.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "sample/left_out.h"
#include "target/torch_proc.h"

/* A process that takes more is left out next time, or the time after: less than what ends an
 * analysis (LIMIT_ELF_SPENT_MS). */
#define SLOW_CPU_NS 9500000000ULL
#define SLOW_WALL_NS 19000000000ULL /* likewise; a machine that is overloaded may be the reason */

static uint64_t cpu_time_ns(void)
{
	struct rusage ru = { .ru_minflt = 0 };

	getrusage(RUSAGE_CHILDREN, &ru);
	return clock__cpu_ns() + 1000000000ULL * (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
	       1000ULL * (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
}

struct learn_times sample_learn__begin(const struct sample_window_spec *spec, pid_t pid)
{
	if (spec->reading)
		__atomic_store_n(spec->reading, pid, __ATOMIC_RELAXED);
	return (struct learn_times){ cpu_time_ns(), clock__mono_ns() };
}

void sample_learn__note(struct slow_process *slow, pid_t pid, const struct learn_times *since, bool failed)
{
	uint64_t cpu_ns = cpu_time_ns() - since->cpu_ns, ns = clock__mono_ns() - since->mono_ns;
	bool slow_cpu = cpu_ns >= SLOW_CPU_NS;

	if ((slow_cpu && cpu_ns > slow->cpu_ns) || (ns >= SLOW_WALL_NS && !slow->pid))
		*slow = (struct slow_process){ .pid = pid,
					       .failed = failed,
					       .strikes = failed && slow_cpu ? LEFT_OUT_STRIKES : 1,
					       .cpu_ns = cpu_ns,
					       .ns = ns };
}

void sample_learn__targets(const struct sample_window_spec *spec, struct slow_process *slow, bool *learned)
{
	for (uint32_t i = 0;
	     i < spec->pid_cnt && !cancel__pending() && clock__mono_ns() < spec->warmup_ns; i++) {
		struct learn_times since = sample_learn__begin(spec, spec->pids[i]);
		struct torch_proc *tp = NULL;
		enum torch_proc_why why;
		int err = torch_proc__open_any(spec->pids[i], &tp, &why); /* it comes again when it is attached to */
		bool failed = err;

		if (!err) {
			failed = !torch_proc__has_torch(tp);
			torch_proc__free(tp);
		}
		sample_learn__note(slow, spec->pids[i], &since, failed);
		learned[i] = slow->pid != spec->pids[i];
	}
}
