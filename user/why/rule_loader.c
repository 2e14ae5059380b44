/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The program waits for its data loader, or loads in its main thread. */
#include <stdlib.h>
#include <string.h>

#include "why/why_priv.h"

struct state {
	struct why_lines lines;
	uint64_t *waits; /* how long each took */
	uint32_t wait_cnt, wait_cap;
	const char *name;
};

static bool takes(const struct slice *sl)
{
	return sl->cat == SLICE_USER_ANNOTATION &&
	       time_class__of_annotation(sl->name) == TIME_LOADER;
}

static void take_slice(const struct why_seen *seen, void *state)
{
	struct state *st = state;
	uint64_t ns = seen->sl->end_ns - seen->sl->begin_ns;

	st->name = seen->sl->name;
	vec_push(st->waits, st->wait_cnt, st->wait_cap, ns);
	why_lines__add(seen, &st->lines, seen->sl->stack, ns, 1);
}

static int by_time(const void *a, const void *b)
{
	return sort__cmp(*(const uint64_t *)a, *(const uint64_t *)b);
}

/* Waits of a loader that has just begun: a few that are long beside all others. Their share. */
static double first_batches(struct state *st, uint32_t *cnt)
{
	uint64_t all = 0, first = 0, median;

	*cnt = 0;
	if (!st->wait_cnt)
		return 0;
	sort__array(st->waits, st->wait_cnt, sizeof(*st->waits), by_time);
	median = st->waits[st->wait_cnt / 2];
	for (uint32_t i = 0; i < st->wait_cnt; i++) {
		bool is_first = st->waits[i] > WHY_FIRST_BATCH * median;

		all += st->waits[i];
		first += is_first ? st->waits[i] : 0;
		*cnt += is_first;
	}
	return time__share(first, all);
}

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	struct state *st = state;
	uint64_t ns, cnt;
	const struct why_line *most = why_lines__most(c, &st->lines, &ns, &cnt);
	bool workers = st->name && strstr(st->name, "MultiProcessing");
	char at[PY_TEXT_MAX + 8];
	uint32_t first_cnt;
	double first = first_batches(st, &first_cnt);

	(void)report;
	if (!most || time__share(ns, c->whole_ns) < WHY_LOADER_SHARE)
		return;
	why_cause__costs(c, out, ns);
	out->line = most->line;
	if (workers && first >= WHY_FIRST_SHARE) {
		why_cause__evidence(
			out,
			"%u of %u waits for workers%s are %.0f%% of them: as the first batch of an epoch, "
			"for which workers start",
			first_cnt, st->wait_cnt, why__at(c, most->line, at), 100 * first);
		why_cause__change(out, "DataLoader(persistent_workers=True), or longer epochs");
	} else {
		why_cause__evidence(out, "%s%s: %s%s; without it %s",
				    workers ? "the program waits for its workers" :
					      "loads in the main thread (num_workers=0)",
				    why__at(c, most->line, at), unit__ns((double)out->step_ns).text,
				    why__per(c),
				    unit__ns((double)((c->whole_ns - ns) / c->steps)).text);
		why_cause__change(
			out,
			workers ?
				"more workers (num_workers), or less work for each item" :
				"DataLoader(num_workers=N), so that batches are made beside the steps");
	}
	why_cause__next(out, "sudo ptbpf attach --pid %u%s -d 5s --sample-stacks 99", c->proc->pid,
			workers ? " --children" : "");
}

static void free_state(void *state)
{
	struct state *st = state;

	free(st->waits);
	why_lines__free(&st->lines);
}

const struct why_rule rule_loader = {
	.name = "data_loader",
	.title = "data loader",
	.needs = WHY_OPERATORS,
	.state = sizeof(struct state),
	.takes = takes,
	.slice = take_slice,
	.judge = judge,
	.free = free_state,
};
