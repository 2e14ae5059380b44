/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The cost of a recording for each of its processes, and the removal of probes at a cost limit; see
 * run.h. */
#define LOG_DOMAIN "run"
#include "record/run_priv.h"

#include "base/clock.h"
#include "base/log.h"
#include "probe/probe_set.h"
#include "record/recorder.h"
#include "steps/step_count.h"

/* cost of a hit if it cannot be measured: more than on any host so far */
#define COST_UNKNOWN_PS 5000000

/* ---- hits by process ---- */

void cost_meter__clear(struct cost_meter *m)
{
	hashmap__clear(&m->hits);
	*m = (struct cost_meter){ .cnt = 0 };
}

void cost_meter__settle(struct cost_meter *m)
{
	uint64_t *known = m->run ? hashmap__get(&m->hits, m->tgid, 0) : NULL;

	if (known)
		*known += m->run;
	else if (m->run)
		hashmap__put(&m->hits, m->tgid, 0, m->run);
	m->cnt += m->run;
	m->run = 0;
}

uint64_t cost_meter__of(struct cost_meter *m, uint32_t tgid)
{
	const uint64_t *own;

	cost_meter__settle(m);
	own = hashmap__get(&m->hits, tgid, 0);
	return own ? *own : 0;
}

/* ---- costs ---- */

static uint64_t cost_of_hits(const struct run *run, uint64_t hits)
{
	return hits * (run->cost_ps > 0 ? (uint64_t)run->cost_ps : COST_UNKNOWN_PS) / 1000;
}

uint64_t run__hits_cost_ns(struct run *run, pid_t pid)
{
	uint64_t hits = cost_meter__of(&run->hits, (uint32_t)pid) +
			probe_set__bare_hits(run->targets.ps, (uint32_t)pid);

	return cost_of_hits(run, hits) * RUN_COST_FACTOR;
}

/* Reads the hits without a record of each process, if there are new ones. */
static void read_bare_hits(struct run *run)
{
	static const uint32_t kinds[] = { PTB_CNT_RING_FULL, PTB_CNT_OUT_OF_WINDOW,
					  PTB_CNT_AGENT_EDGES };
	uint64_t hits = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		hits += probe_set__counter(run->targets.ps, kinds[i]);
	if (hits == run->bare_hits)
		return;
	run->bare_hits = hits;
	for (uint32_t i = 0; i < run->targets.cnt; i++) {
		struct target *t = &run->targets.items[i];

		t->bare_hits = probe_set__bare_hits(run->targets.ps, (uint32_t)t->pid);
	}
}

/* The process's share of the time of all samples, by their number. */
static uint64_t cost_of_samples(struct run *run, const struct target *t)
{
	uint64_t own = cost_meter__of(&run->samples, (uint32_t)t->pid);

	if (!own)
		return 0;
	return (uint64_t)((double)probe_set__counter(run->targets.ps, PTB_CNT_SAMPLES_NS) *
			  (double)own / (double)run->samples.cnt);
}

/* After read_bare_hits(). Removing probes is assumed to cost as much as placing them. */
static uint64_t cost_of(struct run *run, const struct target *t)
{
	uint64_t removal = t->state == TARGET_TRACED && !run->detached && !t->unprobed ?
				   t->changes_ns :
				   0,
		 hits = cost_meter__of(&run->hits, (uint32_t)t->pid) + t->bare_hits;

	if (run->opts.sample_hz)
		return cost_of_samples(run, t);
	return (cost_of_hits(run, hits) + t->changes_ns + removal) * RUN_COST_FACTOR +
	       cost_of_samples(run, t);
}

void run__charge_detach(struct run *run, uint64_t ns)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < run->targets.cnt; i++)
		if (run->targets.items[i].state == TARGET_TRACED)
			all += run->targets.items[i].changes_ns;
	run->detached = true;
	for (uint32_t i = 0; i < run->targets.cnt && all; i++) {
		struct target *t = &run->targets.items[i];

		if (t->state == TARGET_TRACED)
			t->changes_ns +=
				(uint64_t)((double)ns * (double)t->changes_ns / (double)all);
	}
}

struct run_cost run__cost_of(struct run *run, pid_t pid)
{
	const struct target *t = targets__find_any(&run->targets, pid);

	read_bare_hits(run);
	if (!t)
		return (struct run_cost){ .ns = 0 };
	return (struct run_cost){ cost_of(run, t), t->cut_ns, t->over_cost };
}

uint64_t run__cost_ns(struct run *run)
{
	uint64_t max = 0;

	read_bare_hits(run);
	for (uint32_t i = 0; i < run->targets.cnt; i++) {
		uint64_t ns = cost_of(run, &run->targets.items[i]);

		max = ns > max ? ns : max;
	}
	return max;
}

uint64_t run__fixed_cost_ns(const struct run *run)
{
	uint64_t min = UINT64_MAX;

	for (uint32_t i = 0; i < run->targets.cnt; i++) {
		const struct target *t = &run->targets.items[i];

		if (t->state == TARGET_TRACED && t->changes_ns < min)
			min = t->changes_ns;
	}
	return min == UINT64_MAX || run->opts.sample_hz ? 0 : 2 * min * RUN_COST_FACTOR;
}

void run__limit_cost(struct run *run, pid_t pid, uint64_t max_ns)
{
	struct target *t = targets__find(&run->targets, pid);

	if (!t || !max_ns)
		return;
	t->max_cost_ns = max_ns;
	run->limited = true;
}

/* Does another process remain, and are the probes of this one its own? */
static bool can_go_alone(const struct run *run, const struct target *t)
{
	bool others = false;

	for (uint32_t i = 0; i < run->targets.cnt && !others; i++) {
		const struct target *o = &run->targets.items[i];

		others = o != t &&
			 (o->state == TARGET_TRACED || (o->state == TARGET_WAITING && !o->parent));
	}
	return others && !probe_set__shares(run->targets.ps, t->proc_idx);
}

/* Is it too early to end anything? */
static bool is_unlimited(struct run *run)
{
	uint64_t now = clock__mono_ns();

	if (now >= run->opened_ns + run->opts.unlimited_ns)
		return false;
	if (!run->opts.least_steps)
		return true;
	return step_count__verdict(recorder__steps(run->targets.rec), now, UINT64_MAX / 2) !=
	       STEPS_DONE;
}

/* Names of annotations, by which steps are counted, are recorded until they have cost as much
 * again as a quarter of the limit. */
static void end_operators(struct run *run, struct target *t)
{
	double ns = (double)run->opts.duration_ns;
	bool again = t->unprobed;

	if (!again) {
		pr_info("pid %d: operators end after %.2g s of %.3g s: their probes have cost the process %.2g%% of all this time (--max-overhead)",
			t->pid, (double)(clock__mono_ns() - run->opened_ns) / 1e9, ns / 1e9,
			100 * (double)cost_of(run, t) / ns);
		recorder__unprobed(run->targets.rec, (uint32_t)t->pid);
	}
	targets__remove_probes(&run->targets, t);
	run__read_rings(run); /* their last hits are not on account of what goes on */
	t->max_names_ns = again ? 0 : cost_of(run, t) + t->max_cost_ns / 4;
}

bool run__over_cost(struct run *run)
{
	if (is_unlimited(run))
		return false;
	read_bare_hits(run);
	for (uint32_t i = 0; i < run->targets.cnt; i++) {
		struct target *t = &run->targets.items[i];
		uint64_t max_ns = t->unprobed ? t->max_names_ns : t->max_cost_ns;

		if (t->state != TARGET_TRACED || !max_ns || cost_of(run, t) <= max_ns)
			continue;
		t->over_cost = true;
		if (run->opts.limit_ops) {
			end_operators(run, t);
			continue;
		}
		if (!can_go_alone(run, t))
			return true;
		t->cut_ns = clock__mono_ns();
		recorder__unprobed(run->targets.rec, (uint32_t)t->pid);
		run__mark_gone(run, t);
		if (run->opts.steps.name) /* its steps are not waited for any more */
			step_count__forget(recorder__steps(run->targets.rec), (uint32_t)t->pid);
		run->cut_cnt++;
		pr_warn("pid %d: its probes are removed before the window's end: it has cost this process what --max-overhead allows",
			t->pid);
	}
	return false;
}
