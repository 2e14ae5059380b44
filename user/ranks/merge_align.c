/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is added to the times and to the numbers of each capture, and what collectives say of that. */
#define LOG_DOMAIN "merge"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cancel.h"
#include "base/effort.h"
#include "base/log.h"
#include "base/vec.h"
#include "ranks/merge_priv.h"

/* ---- machines ---- */

static int find_machines(struct merge *m)
{
	for (uint32_t i = 0; i < m->cnt; i++) {
		struct merge_input *in = &m->inputs[i];
		uint32_t k = 0;

		while (k < m->machine_cnt &&
		       (!*in->boot || strcmp(in->boot, m->inputs[m->machines[k].first].boot) != 0))
			k++;
		if (k == m->machine_cnt &&
		    vec_push(m->machines, m->machine_cnt, m->machine_cap,
			     (struct merge_machine){ .first = i, .lo_ns = INT64_MIN, .hi_ns = INT64_MAX }))
			return -ENOMEM;
		in->machine = k;
		merge_clock__join(&m->machines[k].clock, &in->clock);
	}
	return 0;
}

static bool shares_process(const struct merge_input *a, const struct merge_input *b)
{
	for (uint32_t i = 0; i < a->proc_cnt; i++)
		if (hashmap__get(&b->proc_ids, a->procs[i].tgid, 0))
			return true;
	return false;
}

/* Numbers that one kernel gave out in one namespace are moved alike, but for those of a process that is in two captures. */
static void shift_pids(struct merge *m)
{
	for (uint32_t i = 1; i < m->cnt; i++) {
		struct merge_input *in = &m->inputs[i];
		uint32_t shift = i * REMAP_PIDS, k = 0;

		while (k < i && (in->machine != m->inputs[k].machine ||
				 strcmp(in->pid_ns, m->inputs[k].pid_ns) != 0))
			k++;
		if (k < i)
			shift = m->inputs[k].map.pid_shift;
		for (k = 0; k < i && !cancel__pending(); k++) /* merge__align() answers that */
			if (m->inputs[k].map.pid_shift == shift && shares_process(in, &m->inputs[k]))
				shift = i * REMAP_PIDS;
		in->map.pid_shift = shift;
	}
}

static void shift_times(struct merge *m)
{
	for (uint32_t i = 0; i < m->cnt; i++) {
		struct merge_input *in = &m->inputs[i];
		const struct merge_machine *mc = &m->machines[in->machine];

		in->map.shift_ns = mc->clock.unix_ns + mc->correction_ns;
		in->map.begin_ns = in->begin_ns;
		in->map.end_ns = in->end_ns;
	}
}

/* ---- collectives ---- */

/* The process that others are compared with: that with the lowest rank, or the first. */
static const struct rank_calls *choose_first(const struct merge *m)
{
	const struct rank_calls *best = NULL;
	uint32_t best_rank = UINT32_MAX;

	for (uint32_t i = 0; i < m->cnt; i++)
		for (uint32_t k = 0; k < m->inputs[i].proc_cnt; k++) {
			const struct merge_process *p = &m->inputs[i].procs[k];
			const struct rank_calls *c = collectives__of(&m->calls, i, p->tgid);
			uint32_t rank = p->has_rank ? p->rank.rank : UINT32_MAX;

			if (c && (!best || rank < best_rank)) {
				best = c;
				best_rank = rank;
			}
		}
	return best;
}

static void compare_process(struct merge *m, const struct rank_calls *first, const struct rank_calls *c)
{
	const struct merge_input *a = &m->inputs[first->input], *b = &m->inputs[c->input];
	struct merge_machine *mc = &m->machines[b->machine];
	uint64_t bound = a->machine == b->machine ? 0 :
						    merge_clock__bound(&m->machines[a->machine].clock) +
							    merge_clock__bound(&mc->clock);
	struct calls_match r = calls_match__find(first, c, b->map.shift_ns - a->map.shift_ns, bound);

	if (!r.pairs) {
		m->unmatched++;
		return;
	}
	m->matched++;
	m->collectives += r.pairs;
	mc->pairs += r.pairs;
	mc->bounds += r.bounds;
	mc->lo_ns = r.lo_ns > mc->lo_ns ? r.lo_ns : mc->lo_ns;
	mc->hi_ns = r.hi_ns < mc->hi_ns ? r.hi_ns : mc->hi_ns;
}

/* The middle of what the calls allow, or the end of it that they name. */
static int64_t correction(const struct merge_machine *mc)
{
	if (mc->lo_ns == INT64_MIN)
		return mc->hi_ns;
	return mc->hi_ns == INT64_MAX ? mc->lo_ns : mc->lo_ns + (mc->hi_ns - mc->lo_ns) / 2;
}

static void judge_machine(struct merge *m, const struct merge_machine *ref, struct merge_machine *mc)
{
	int64_t bound =
		(int64_t)(mc == ref ? 0 : merge_clock__bound(&mc->clock) + merge_clock__bound(&ref->clock));
	const struct merge_input *in = &m->inputs[mc->first];
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
		in->path, mc->bounds, *in->host ? in->host : "its machine", off > 0 ? "slow" : "fast",
		(double)(off > 0 ? off : -off) / 1e6, m->inputs[ref->first].host, (double)bound / 1e6);
	if (m->opts->by_collectives && mc != ref)
		mc->correction_ns = correction(mc);
	else if (mc != ref)
		pr_hint("--align collectives moves its times by %.3f ms", (double)correction(mc) / 1e6);
}

static void check_collectives(struct merge *m)
{
	const struct rank_calls *first = choose_first(m);
	const struct merge_machine *ref;

	if (!first)
		return;
	ref = &m->machines[m->inputs[first->input].machine];
	for (uint32_t i = 0; i < m->calls.proc_cnt; i++) {
		const struct rank_calls *c = &m->calls.procs[i];

		if (c != first && c->cnt)
			compare_process(m, first, c);
	}
	for (uint32_t i = 0; i < m->machine_cnt; i++)
		judge_machine(m, ref, &m->machines[i]);
}

int merge__align(struct merge *m)
{
	int err = find_machines(m);
	uint64_t bytes = 0;

	if (err)
		return err;
	for (uint32_t i = 0; i < m->cnt; i++)
		bytes += capture_reader__bytes(m->inputs[i].cr);
	shift_pids(m);
	shift_times(m);
	effort__begin(bytes);
	check_collectives(m);
	effort__end();
	shift_times(m);
	return cancel__pending() ? -ECANCELED : 0;
}
