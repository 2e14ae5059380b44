/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is added to the times and to the numbers of each capture, and what collectives say of
 * that. */
#define LOG_DOMAIN "captures"
#include <string.h>

#include "base/containers.h"
#include "base/log.h"
#include "ranks/ranks_priv.h"

/* ---- machines ---- */

static void find_machines(struct join *j)
{
	for (uint32_t i = 0; i < j->cnt; i++) {
		struct join_input *in = &j->inputs[i];
		uint32_t k = 0;

		while (k < j->machine_cnt &&
		       (!*in->boot || strcmp(in->boot, j->inputs[j->machines[k].first].boot) != 0))
			k++;
		if (k == j->machine_cnt)
			vec_push(j->machines, j->machine_cnt, j->machine_cap,
				 (struct join_machine){
					 .first = i, .lo_ns = INT64_MIN, .hi_ns = INT64_MAX });
		in->machine = k;
		join_clock__join(&j->machines[k].clock, &in->clock);
	}
}

static bool shares_process(const struct join_input *a, const struct join_input *b)
{
	for (uint32_t i = 0; i < a->proc_cnt; i++)
		if (hashmap__get(&b->proc_ids, a->procs[i].tgid, 0))
			return true;
	return false;
}

/* Numbers that one kernel gave out in one namespace are moved alike, but for those of a process
 * that is in two captures. */
static void shift_pids(struct join *j)
{
	for (uint32_t i = 1; i < j->cnt; i++) {
		struct join_input *in = &j->inputs[i];
		uint32_t shift = i * REMAP_PIDS, k = 0;

		while (k < i && (in->machine != j->inputs[k].machine ||
				 strcmp(in->pid_ns, j->inputs[k].pid_ns) != 0))
			k++;
		if (k < i)
			shift = j->inputs[k].map.pid_shift;
		for (k = 0; k < i; k++)
			if (j->inputs[k].map.pid_shift == shift &&
			    shares_process(in, &j->inputs[k]))
				shift = i * REMAP_PIDS;
		in->map.pid_shift = shift;
	}
}

static void shift_times(struct join *j)
{
	for (uint32_t i = 0; i < j->cnt; i++) {
		struct join_input *in = &j->inputs[i];
		const struct join_machine *mc = &j->machines[in->machine];

		in->map.shift_ns = mc->clock.unix_ns + mc->correction_ns;
		in->map.begin_ns = in->begin_ns;
		in->map.end_ns = in->end_ns;
	}
}

/* ---- collectives ---- */

/* The process that others are compared with: that with the lowest rank, or the first. */
static const struct rank_calls *choose_first(const struct join *j)
{
	const struct rank_calls *best = NULL;
	uint32_t best_rank = UINT32_MAX;

	for (uint32_t i = 0; i < j->cnt; i++)
		for (uint32_t k = 0; k < j->inputs[i].proc_cnt; k++) {
			const struct join_process *p = &j->inputs[i].procs[k];
			const struct rank_calls *c = collectives__of(&j->calls, i, p->tgid);
			uint32_t rank = p->has_rank ? p->rank.rank : UINT32_MAX;

			if (c && (!best || rank < best_rank)) {
				best = c;
				best_rank = rank;
			}
		}
	return best;
}

static void compare_process(struct join *j, const struct rank_calls *first,
			    const struct rank_calls *c)
{
	const struct join_input *a = &j->inputs[first->input], *b = &j->inputs[c->input];
	struct join_machine *mc = &j->machines[b->machine];
	uint64_t bound = a->machine == b->machine ?
				 0 :
				 join_clock__bound(&j->machines[a->machine].clock) +
					 join_clock__bound(&mc->clock);
	struct calls_match r =
		calls_match__find(first, c, b->map.shift_ns - a->map.shift_ns, bound);

	if (!r.pairs) {
		j->unmatched++;
		return;
	}
	j->matched++;
	j->collectives += r.pairs;
	mc->pairs += r.pairs;
	mc->bounds += r.bounds;
	mc->lo_ns = r.lo_ns > mc->lo_ns ? r.lo_ns : mc->lo_ns;
	mc->hi_ns = r.hi_ns < mc->hi_ns ? r.hi_ns : mc->hi_ns;
}

/* The middle of what the calls allow, or the end of it that they name. */
static int64_t correction(const struct join_machine *mc)
{
	if (mc->lo_ns == INT64_MIN)
		return mc->hi_ns;
	return mc->hi_ns == INT64_MAX ? mc->lo_ns : mc->lo_ns + (mc->hi_ns - mc->lo_ns) / 2;
}

static void judge_machine(struct join *j, const struct join_machine *ref, struct join_machine *mc)
{
	int64_t bound = (int64_t)(mc == ref ? 0 :
					      join_clock__bound(&mc->clock) +
						      join_clock__bound(&ref->clock));
	const struct join_input *in = &j->inputs[mc->first];
	int64_t off = mc->lo_ns > 0 ? mc->lo_ns : mc->hi_ns;

	if (!mc->bounds)
		return;
	if (mc->lo_ns > mc->hi_ns) {
		pr_warn("%s: its collectives contradict each other by %.3f ms: some do not wait for all ranks; they "
			"say nothing about its clock",
			in->path, (double)(mc->lo_ns - mc->hi_ns) / 1e6);
		return;
	}
	if (mc->lo_ns <= bound && mc->hi_ns >= -bound)
		return;
	mc->contradicts = true;
	pr_warn("%s: by %u collectives the clock of %s is %s by at least %.3f ms against that of %s; by the clock "
		"pairs it is within %.3f ms",
		in->path, mc->bounds, *in->host ? in->host : "its machine",
		off > 0 ? "slow" : "fast", (double)(off > 0 ? off : -off) / 1e6,
		j->inputs[ref->first].host, (double)bound / 1e6);
	if (j->by_collectives && mc != ref)
		mc->correction_ns = correction(mc);
	else if (mc != ref)
		pr_hint("--align collectives moves its times by %.3f ms",
			(double)correction(mc) / 1e6);
}

static void check_collectives(struct join *j)
{
	const struct rank_calls *first = choose_first(j);
	const struct join_machine *ref;

	if (!first)
		return;
	ref = &j->machines[j->inputs[first->input].machine];
	for (uint32_t i = 0; i < j->calls.proc_cnt; i++) {
		const struct rank_calls *c = &j->calls.procs[i];

		if (c != first && c->cnt)
			compare_process(j, first, c);
	}
	for (uint32_t i = 0; i < j->machine_cnt; i++)
		judge_machine(j, ref, &j->machines[i]);
}

void join__align(struct join *j)
{
	find_machines(j);
	shift_pids(j);
	shift_times(j);
	check_collectives(j);
	shift_times(j);
}
