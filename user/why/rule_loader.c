/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The program waits for its data loader, or loads in its main thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "why/why_priv.h"

struct state {
	struct why_lines lines;
	uint64_t *waits; /* how long each took */
	uint32_t wait_cnt, wait_cap;
	const char *name;
	struct why_lines
		ran; /* by samples: of a loader in this thread, of a process that has none */
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

/* Workers run nothing else; the main thread's own loader is an annotation. */
static void take_sample(const struct why_seen *seen, const struct py_sample *ps, void *state)
{
	struct state *st = state;

	if (py_sample__state(ps) != SAMPLE_RUNNING)
		return;
	if (!st->name || time_class__of_annotation(ps->at.annotation) == TIME_LOADER)
		why_lines__add(seen, &st->ran, ps->stack, ps->ns, 1);
}

/* ", mostly at dataset.py:61": of the workers, or of the thread itself. */
static void say_line(const struct why_case *c, bool workers, char *buf, size_t cap)
{
	const struct why_line *most = NULL;
	uint64_t best = 0, ns, cnt;
	struct why_thread *t;
	char at[PY_TEXT_MAX + 8];

	for (uint32_t i = 0; (t = why__thread_nr(c->w, i)); i++) {
		struct state *st = why__state(c->w, t->tgid, t->tid, &rule_loader);
		const struct why_line *line;

		if (!st || (workers ? t->tgid == c->t.tgid : t != c->thread))
			continue;
		line = why_lines__most(t, &st->ran, &ns, &cnt);
		if (line && line->amount.all_ns > best) {
			best = line->amount.all_ns;
			most = line;
		}
	}
	snprintf(buf, cap, "%s%s", most && most->line ? ", mostly" : "",
		 why__at(c, most ? most->line : 0, at));
}

/* Waits of a loader that has just begun: a few that are long beside all others. Their share. */
static double first_batches(struct state *st, uint32_t *cnt)
{
	uint64_t all = 0, first = 0, median;

	*cnt = 0;
	if (!st->wait_cnt)
		return 0;
	sort__u64(st->waits, st->wait_cnt);
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
	const struct why_line *most = why_lines__most(c->thread, &st->lines, &ns, &cnt);
	bool workers = st->name && strstr(st->name, "MultiProcessing");
	char at[PY_TEXT_MAX + 8], line[384];
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
		say_line(c, workers, line, sizeof(line));
		why_cause__evidence(out, "%s%s: %s%s%s; without it %s",
				    workers ? "the program waits for its workers" :
					      "loads in the main thread (num_workers=0)",
				    why__at(c, most->line, at), unit__ns((double)out->step_ns).text,
				    why__per(c), line,
				    unit__ns((double)(c->mean_ns - out->step_ns)).text);
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
	why_lines__free(&st->ran);
}

const struct why_rule rule_loader = {
	.name = "data_loader",
	.title = "data loader",
	.needs = WHY_OPERATORS,
	.state = sizeof(struct state),
	.takes = takes,
	.slice = take_slice,
	.all_samples = take_sample,
	.judge = judge,
	.free = free_state,
};
