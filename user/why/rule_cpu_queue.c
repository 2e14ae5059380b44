/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The thread is ready to run, and other threads have the CPUs. */
#include "why/why_priv.h"

static void take_wait(const struct why_seen *seen, const struct sched_event *ev, void *state)
{
	why_amount__add(seen, state, ev->ns[PTB_WAIT_CPU], ev->preempted);
}

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	const struct session_info *info = session__info(c->args->s);
	uint64_t throttled = session_info__counter(info, PTB_CNT_THROTTLED_NS);
	uint64_t ns = why_amount__ns(c->thread, state);

	(void)report;
	if (time__share(ns, c->whole_ns) < WHY_CPU_QUEUE_SHARE)
		return;
	why_cause__costs(c, out, ns);
	why_cause__evidence(
		out, "the thread is ready to run and waits for a CPU: %s%s, preempted %s times%s",
		unit__ns((double)out->step_ns).text, why__per(c),
		cell__count(why_amount__cnt(c->thread, state) / c->steps).text,
		throttled > ns / 2 ? "; the CPU quota of its control group is used up" : "");
	why_cause__change(
		out, "%s",
		throttled > ns / 2 ?
			"a higher quota (cpu.max, the container's CPU limit), or fewer threads" :
			"fewer threads (OMP_NUM_THREADS, num_workers), or more CPUs (affinity)");
	why_cause__next(out, "ptbpf report %s --sched", c->args->capture);
}

const struct why_rule rule_cpu_queue = {
	.name = "cpu_queue",
	.title = "too few CPUs",
	.needs = WHY_SCHED,
	.state = sizeof(struct why_amount),
	.throughout = true,
	.sched = take_wait,
	.judge = judge,
};
