/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The end of a recording: the window closes, agents stop, probes go, the capture is sealed; see run.h. */
#include <sys/resource.h>
#include <time.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem_limit.h"
#include "record/recorder_agent.h"
#include "record/run_priv.h"

static void write_counters(struct run *run, uint64_t detach_ns)
{
	struct recorder_stats st = recorder__stats(run->rec);
	struct rusage ru;
	uint32_t id;

	for (id = 0; id < PTB_CNT_BPF_MAX; id++) {
		uint64_t v = probe_set__counter(run->ps, id);

		if (v)
			recorder__counter(run->rec, id, v);
	}
	recorder__counter(run->rec, PTB_CNT_MISSED, probe_set__counter(run->ps, PTB_CNT_MISSED));
	recorder__counter(run->rec, PTB_CNT_CAPTURE_DROPPED, st.write_dropped);
	if (run->cost_ps > 0)
		recorder__counter(run->rec, PTB_CNT_COST_PS, (uint64_t)run->cost_ps);
	recorder__counter(run->rec, PTB_CNT_ATTACH_NS, run->targets.attach_ns);
	recorder__counter(run->rec, PTB_CNT_DETACH_NS, detach_ns);
	recorder__counter(run->rec, PTB_CNT_PLAN_NS, run->targets.plan_ns);
	recorder__counter(run->rec, PTB_CNT_PROBES, run->targets.probes);
	recorder__counter(run->rec, PTB_CNT_REFUSED, run->targets.refused);
	recorder__counter(run->rec, PTB_CNT_NAME_UNRESOLVED, st.unresolved);
	recorder__counter(run->rec, PTB_CNT_UNCOVERED_NS, run->targets.uncovered_ns);
	recorder__counter(run->rec, PTB_CNT_CUDA_LATE_NS, run->targets.cuda_late_ns);
	recorder__counter(run->rec, PTB_CNT_CHILDREN_MISSED, run->targets.children_missed);
	recorder__counter(run->rec, PTB_CNT_NO_TRACEPOINT, run->no_tracepoint);
	recorder__counter(run->rec, PTB_CNT_NO_SHAPES, run->targets.no_shapes);
	recorder__counter(run->rec, PTB_CNT_ARGS_UNPLACED, run->targets.unplaced);
	for (id = PTB_CNT_AGENT_LOST; id <= PTB_CNT_GPU_DROPPED; id++)
		recorder__counter(run->rec, id, recorder__agent_counter(run->rec, id));
	recorder__counter(run->rec, PTB_CNT_AGENT_CUT, run->targets.agents_cut);
	recorder__counter(run->rec, PTB_CNT_AGENT_GAVE_UP, run->targets.agents_gave_up);
	recorder__counter(run->rec, PTB_CNT_AGENT_REFUSED, targets__gpu_refused(&run->targets));
	recorder__counter(run->rec, PTB_CNT_OVER_MEMORY, mem_limit__refused());
	recorder__counter(run->rec, PTB_CNT_OVER_NAMES, st.over_names);
	recorder__counter(run->rec, PTB_CNT_OVER_OPERATORS, st.over_operators);
	recorder__counter(run->rec, PTB_CNT_OVER_LIBS, run->targets.over_libs);
	recorder__counter(run->rec, PTB_CNT_REFUSED_PIDS, run->refused_pids);
	recorder__counter(run->rec, PTB_CNT_FOREIGN_FILES, torch_proc__refused_files());
	recorder__counter(run->rec, PTB_CNT_OVER_PROCESSES, run->targets.over_processes);
	recorder__counter(run->rec, PTB_CNT_OVER_AGENT,
			  recorder__agent_counter(run->rec, PTB_CNT_OVER_AGENT));
	recorder__counter(run->rec, PTB_CNT_COLLECTOR_CPU_NS, clock__cpu_ns());
	if (!getrusage(RUSAGE_SELF, &ru))
		recorder__counter(run->rec, PTB_CNT_COLLECTOR_RSS, (uint64_t)ru.ru_maxrss * 1024);
}

#define SIGNALLED_WAIT_NS 700000000ULL /* after a signal: everything ends within a second */

/*
 * Agents stop and send what they have: they look at their semaphores every 50 ms. One that does not within the
 * time it has is left as it is; the kernel lowers its semaphores, and it stops when it runs again.
 */
static void end_agents(struct run *run)
{
	const struct timespec nap = { .tv_nsec = 5000000 };
	uint64_t t0 = clock__mono_ns(), limit = run->signal ? SIGNALLED_WAIT_NS : PTB_AGENT_ANSWER_NS;
	uint32_t i;

	targets__dismiss_agents(&run->targets, run->ps);
	while (!cancel__pending() && !targets__agents_quiet(&run->targets, run->rec) &&
	       clock__mono_ns() - t0 < limit) {
		run__drain(run);
		nanosleep(&nap, NULL);
	}
	run__drain(run);
	for (i = 0; i < run->targets.cnt; i++)
		run->targets.agents_cut += !recorder__agent_end(run->rec, run->targets.items[i].pid);
	targets__agents_meta(&run->targets, run->rec);
	if (recorder__agent_gpu(run->rec))
		recorder__meta(run->rec, "gpu", "true");
	if (run->opts.gpu)
		recorder__meta(run->rec, "cuda_calls", "true");
}

/*
 * Where the window ends in the capture: where its records do. Those after that are of some threads only, and an operator
 * whose end is not there would seem to last.
 */
static uint64_t cut_window(struct run *run, uint64_t end)
{
	struct recorder_stats st;

	recorder__flush(run->rec);
	st = recorder__stats(run->rec);
	if (!st.cut || st.covered_ns >= end)
		return end;
	if (st.covered_ns < run->begin_ns)
		st.covered_ns = run->begin_ns;
	recorder__counter(run->rec, PTB_CNT_UNWRITTEN_NS, end - st.covered_ns);
	run->stop_reason = PTB_STOP_NOT_WRITTEN;
	pr_error("the capture covers the first %.3f s of %.3f s",
		 (double)(st.covered_ns - run->begin_ns) / 1e9, (double)(end - run->begin_ns) / 1e9);
	return st.covered_ns;
}

int run__finish(struct run *run, int *capture)
{
	uint64_t end, t0;
	int err;

	run__sample_memory(run, clock__mono_ns());
	if (run->opts.kernel_memory)
		probe_set__flush_kmem(run->ps);
	end = clock__mono_ns();
	probe_set__deactivate(run->ps);
	recorder__window_ends(run->rec, end);
	end_agents(run);
	t0 = clock__mono_ns();
	probe_set__detach(run->ps);
	t0 = clock__mono_ns() - t0;
	run__drain(run); /* programs that were on their way when the window closed */
	end = cut_window(run, end);
	recorder__clock(run->rec);
	recorder__window(run->rec, false, end, run->stop_reason);
	write_counters(run, t0);
	*capture = recorder__dup_capture(run->rec);
	err = recorder__close(run->rec);
	run->rec = NULL;
	mem_limit__set(0); /* what is made of the capture has limits of its own */
	return err;
}
