/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The end of a recording: the window closes, agents stop, probes are removed, the capture is
 * sealed. */
#define LOG_DOMAIN "run"
#include "record/run_priv.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "base/limits.h"
#include "base/log.h"
#include "probe/probe_set.h"
#include "record/recorder.h"
#include "record/recorder_agent.h"
#include "steps/step_count.h"
#include "target/proc_info.h"

/* for agents after a signal, which ends everything within a second */
#define SIGNALLED_WAIT_NS 700000000ULL

/* Of the process that had to wait most. */
static uint64_t throttled_ns(const struct run *run)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < run->targets.cnt; i++) {
		const struct target *t = &run->targets.items[i];
		uint64_t ns = t->state == TARGET_TRACED ? proc__throttled_ns(t->pid) : 0;

		if (ns > t->throttled_ns && ns - t->throttled_ns > most)
			most = ns - t->throttled_ns;
	}
	return most;
}

/* In percent of the time, of each CPU of the host. */
static void write_idle(struct jsonw *w, const void *arg)
{
	const struct cpu_times *since = arg;
	struct cpu_times now;

	cpu_times__read(&now);
	jsonw__begin_arr(w);
	for (uint32_t i = 0; i < now.cnt && i < since->cnt; i++) {
		uint64_t ns = (now.idle[i] - since->idle[i]) *
			      (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK));

		if (!since->idle[i] || now.idle[i] < since->idle[i])
			ns = 0; /* it was off line */
		jsonw__u64(w, 100 * ns / (now.ns - since->ns + 1));
	}
	jsonw__end_arr(w);
	cpu_times__clear(&now);
}

static void write_counters(struct run *run, uint64_t detach_ns)
{
	struct recorder_stats st = recorder__stats(run->targets.rec);
	struct rusage ru;

	for (uint32_t id = 0; id < PTB_CNT_MAP; id++) {
		uint64_t v = run__counted(run, id);

		v -= id == PTB_CNT_HITS ? run->surplus_hits : 0;
		v += id == PTB_CNT_OUT_OF_WINDOW ? run->surplus_hits : 0;
		if (v)
			recorder__counter(run->targets.rec, id, v);
	}
	recorder__counter(run->targets.rec, PTB_CNT_CAPTURE_DROPPED, st.write_dropped);
	if (run->opts.sched)
		recorder__counter(run->targets.rec, PTB_CNT_THROTTLED_NS, throttled_ns(run));
	if (run->cost_ps > 0)
		recorder__counter(run->targets.rec, PTB_CNT_COST_PS, (uint64_t)run->cost_ps);
	recorder__counter(run->targets.rec, PTB_CNT_ATTACH_NS, run->targets.attach_ns);
	recorder__counter(run->targets.rec, PTB_CNT_DETACH_NS, detach_ns);
	recorder__counter(run->targets.rec, PTB_CNT_CHANGES_NS, probe_set__changes_ns());
	recorder__counter(run->targets.rec, PTB_CNT_PLAN_NS, run->targets.plan_ns);
	recorder__counter(run->targets.rec, PTB_CNT_PROBES, run->targets.probes);
	recorder__counter(run->targets.rec, PTB_CNT_REFUSED, run->targets.refused);
	recorder__counter(run->targets.rec, PTB_CNT_NAME_UNRESOLVED, st.unresolved);
	recorder__counter(run->targets.rec, PTB_CNT_UNCOVERED_NS, run->targets.uncovered_ns);
	recorder__counter(run->targets.rec, PTB_CNT_CUDA_LATE_NS, run->targets.cuda_late_ns);
	recorder__counter(run->targets.rec, PTB_CNT_CHILDREN_MISSED, run->targets.children_missed);
	recorder__counter(run->targets.rec, PTB_CNT_NO_TRACEPOINT, run->no_tracepoint);
	recorder__counter(run->targets.rec, PTB_CNT_NO_SHAPES, run->targets.no_shapes);
	recorder__counter(run->targets.rec, PTB_CNT_ARGS_UNPLACED, run->targets.unplaced);
	recorder__counter(run->targets.rec, PTB_CNT_NO_STACKS, run->targets.no_stacks);
	recorder__counter(run->targets.rec, PTB_CNT_PY_CODE_GONE, st.py_codes_gone);
	recorder__counter(run->targets.rec, PTB_CNT_PY_CLASS_GONE, st.py_classes_gone);
	for (uint32_t id = PTB_CNT_AGENT_LOST; id <= PTB_CNT_GPU_DROPPED; id++)
		recorder__counter(run->targets.rec, id,
				  recorder__agent_counter(run->targets.rec, id));
	recorder__counter(run->targets.rec, PTB_CNT_GPU_NO_TIMES,
			  recorder__agent_counter(run->targets.rec, PTB_CNT_GPU_NO_TIMES));
	recorder__counter(run->targets.rec, PTB_CNT_AGENT_CUT, run->targets.agents_cut);
	recorder__counter(run->targets.rec, PTB_CNT_AGENT_GAVE_UP, run->targets.agents_gave_up);
	recorder__counter(run->targets.rec, PTB_CNT_AGENT_RESTARTED, run->targets.agents_restarted);
	recorder__counter(run->targets.rec, PTB_CNT_AGENT_REFUSED,
			  targets__gpu_refused(&run->targets));
	recorder__counter(run->targets.rec, PTB_CNT_OVER_MEMORY, mem_limit__refused());
	recorder__counter(run->targets.rec, PTB_CNT_OVER_NAMES, st.over_names);
	recorder__counter(run->targets.rec, PTB_CNT_OVER_OPERATORS, st.over_operators);
	recorder__counter(run->targets.rec, PTB_CNT_OVER_LIBS, run->targets.over_libs);
	recorder__counter(run->targets.rec, PTB_CNT_REFUSED_PIDS, run->refused_pids);
	recorder__counter(run->targets.rec, PTB_CNT_OVER_COST, run->cut_cnt);
	recorder__counter(run->targets.rec, PTB_CNT_NEW_OPS, run->targets.new_ops);
	recorder__counter(run->targets.rec, PTB_CNT_FOREIGN_FILES, torch_proc__refused_files());
	recorder__counter(run->targets.rec, PTB_CNT_OVER_PROCESSES, run->targets.over_processes);
	recorder__counter(run->targets.rec, PTB_CNT_OVER_AGENT,
			  recorder__agent_counter(run->targets.rec, PTB_CNT_OVER_AGENT));
	recorder__counter(run->targets.rec, PTB_CNT_COLLECTOR_CPU_NS, clock__cpu_ns());
	if (!getrusage(RUSAGE_SELF, &ru))
		recorder__counter(run->targets.rec, PTB_CNT_COLLECTOR_RSS,
				  (uint64_t)ru.ru_maxrss * 1024);
}

void run__gpu_meta(const struct run *run)
{
	if (recorder__agent_gpu(run->targets.rec))
		recorder__meta(run->targets.rec, "gpu", "true");
	if (run->opts.gpu)
		recorder__meta(run->targets.rec, "cuda_calls", "true");
}

/*
 * Waits until the agents have sent everything; they poll their semaphores every 50 ms. An agent
 * that does not answer in time is left as it is: the kernel lowers its semaphores, and it stops
 * when it runs again.
 */
static void end_agents(struct run *run)
{
	const struct timespec nap = { .tv_nsec = 5000000 };
	uint64_t t0 = clock__mono_ns(),
		 limit = run->signal ? SIGNALLED_WAIT_NS : PTB_AGENT_ANSWER_NS;

	targets__dismiss_agents(&run->targets);
	while (!cancel__pending() && !targets__agents_quiet(&run->targets) &&
	       clock__mono_ns() - t0 < limit) {
		run__drain(run);
		nanosleep(&nap, NULL);
	}
	run__drain(run);
	for (uint32_t i = 0; i < run->targets.cnt; i++)
		run__end_agent(run, &run->targets.items[i]);
	targets__agents_meta(&run->targets);
	target_python__meta(&run->targets);
	run__gpu_meta(run);
}

/* Moves the hits after the last step, by their share of the time, to the hits outside the
 * window. */
static uint64_t cut_steps(struct run *run, uint64_t end)
{
	uint64_t surplus_ns = step_count__surplus_ns(recorder__steps(run->targets.rec));
	double hits = (double)run__counted(run, PTB_CNT_HITS), ns = (double)(end - run->begin_ns);

	if (surplus_ns > end || surplus_ns <= run->begin_ns) /* an agent's times are its own */
		return end;
	run->surplus_hits = (uint64_t)(hits * (double)(end - surplus_ns) / ns);
	return surplus_ns - 1;
}

/*
 * Ends the window in the capture where its records end. Later records are from some threads only,
 * and an operator without its end would seem to last.
 */
static uint64_t cut_window(struct run *run, uint64_t end)
{
	struct recorder_stats st;

	/* the file also has records of later steps, which readers ignore */
	if (run->opts.steps.name)
		end = cut_steps(run, end);
	recorder__flush(run->targets.rec);
	st = recorder__stats(run->targets.rec);
	if (!st.cut || st.covered_ns >= end)
		return end;
	if (st.covered_ns < run->begin_ns)
		st.covered_ns = run->begin_ns;
	recorder__counter(run->targets.rec, PTB_CNT_UNWRITTEN_NS, end - st.covered_ns);
	run->stop_reason = PTB_STOP_NOT_WRITTEN;
	pr_error("the capture covers the first %.3f s of %.3f s",
		 (double)(st.covered_ns - run->begin_ns) / 1e9,
		 (double)(end - run->begin_ns) / 1e9);
	return st.covered_ns;
}

/* Refuses processes whose Python version cannot be read; until now they were tried again and
 * again. */
static void refuse_waiting(struct run *run)
{
	for (uint32_t i = 0; i < run->targets.cnt && run->opts.sample_hz; i++) {
		struct target *t = &run->targets.items[i];

		if (t->state != TARGET_WAITING || !t->python.layout.version)
			continue;
		t->python.state = PYTHON_REFUSED;
		run->targets.no_stacks++;
		pr_warn("pid %d: no Python stacks: %s", t->pid, t->python.why);
	}
}

/* The kernel finds a process's memory by its main thread. It removes the probes of a process that
 * lives on without it, at once or at the next change of any probe. */
static void count_headless(struct run *run, uint64_t end)
{
	for (uint32_t i = 0; i < run->targets.cnt && !run->opts.sample_hz; i++) {
		const struct target *t = &run->targets.items[i];
		uint64_t since = t->main_ended_ns > run->begin_ns ? t->main_ended_ns :
								    run->begin_ns;
		struct proc_stat st;

		if (t->state != TARGET_TRACED || !t->main_ended_ns ||
		    proc_stat__read(t->pid, &st) || st.state != 'Z' || st.threads <= 1)
			continue;
		pr_warn("pid %d: its main thread has ended: what its other threads did since then is "
			"missing, in part or as a whole",
			t->pid);
		run->targets.uncovered_ns += end > since ? end - since : 0;
	}
}

static void count_new_ops(struct run *run)
{
	for (uint32_t i = 0; i < run->targets.cnt; i++)
		if (run->targets.items[i].state == TARGET_TRACED)
			run->targets.new_ops += target_calls__new(&run->targets.items[i]);
}

int run__finish(struct run *run, int *capture)
{
	uint64_t end, t0, changes_ns;
	int err;

	if (run->holding)
		run__release(run, run->signal                              ? "a signal" :
				  run->stop_reason == PTB_STOP_TARGET_EXIT ? "the target's end" :
									     "an error");
	refuse_waiting(run);
	run__sample_memory(run, clock__mono_ns());
	if (run->cpus.cnt)
		recorder__meta_json(run->targets.rec, "cpu_idle", write_idle, &run->cpus);
	probe_set__flush_sums(run->targets.ps);
	end = clock__mono_ns();
	count_headless(run, end);
	count_new_ops(run);
	probe_set__deactivate(run->targets.ps);
	target_python__count_collections(&run->targets, true);
	recorder__window_ends(run->targets.rec, end);
	end_agents(run);
	t0 = clock__mono_ns();
	changes_ns = probe_set__changes_ns();
	probe_set__detach(run->targets.ps);
	run__charge_detach(run, probe_set__changes_ns() - changes_ns);
	t0 = clock__mono_ns() - t0;
	run__drain(run); /* programs may have been running when the window closed */
	run__count_missed(run, end);
	recorder__read_at_end(run->targets.rec);
	end = cut_window(run, end);
	recorder__clock(run->targets.rec);
	recorder__window(run->targets.rec, false, end, run->stop_reason);
	write_counters(run, t0);
	*capture = recorder__dup_capture(run->targets.rec);
	err = recorder__close(run->targets.rec);
	run->targets.rec = NULL;
	mem_limit__set(0); /* exports of the capture have limits of their own */
	return err;
}
