/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The last sentences of a command: what was recorded, what is missing of it, what it cost. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/text.h"
#include "export/facts_json.h"
#include "export/texts.h"
#include "report/report_priv.h"

static void say_who(struct doc *d, const struct session_info *info)
{
	char name[128];

	if (info->process_cnt != 1) {
		doc__say(d, "%u processes", info->process_cnt);
		return;
	}
	doc__say(d, "%s (%u)", command__short(name, sizeof(name), info->processes->cmdline),
		 info->processes->pid);
}

/* "59.7 k operators, 1 thread, nothing lost." Of what there is none is not mentioned. */
static void say_what(struct doc *d, const struct session_info *info, const struct session_totals *t,
		     uint64_t threads, bool incomplete)
{
	const struct {
		uint64_t cnt;
		const char *one, *several;
	} rows[] = {
		{ t->samples, "sample", "samples" },
		{ t->ops, "operator", "operators" },
		{ t->gpu_work, "GPU activity", "GPU activities" },
		{ threads, "thread", "threads" },
		{ t->unwound, "call left by an exception", "calls left by an exception" },
		{ loss_account__unseen_operators(info), "operator not visible",
		  "operators not visible" },
		{ session_info__counter(info, PTB_CNT_RING_FULL), "record lost", "records lost" },
	};
	const char *sep = ": ";

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (!rows[i].cnt)
			continue;
		doc__say(d, "%s%s %s", sep, cell__count(rows[i].cnt).text,
			 rows[i].cnt == 1 ? rows[i].one : rows[i].several);
		sep = ", ";
	}
	doc__say(d, "%s%s.", incomplete ? "" : sep, incomplete ? "" : "nothing lost");
}

/*
 * Every hit times the measured cost of one. A lower bound: it was measured in a tight loop, and a
 * job's caches are colder. The trace's metadata has the figures.
 */
static void say_cost(struct doc *d, const struct session_info *info)
{
	double window = (double)(info->end_ns - info->begin_ns);
	uint32_t agents = 0;

	for (uint32_t i = 0; i < info->process_cnt; i++)
		agents += info->processes[i].source == 1;
	if (window <= 0)
		return;
	if (info->sample_hz)
		doc__say(d, " Cost to the job: %.2f%%.",
			 100 * (double)session_info__counter(info, PTB_CNT_SAMPLES_NS) / window);
	else if (agents && agents == info->process_cnt)
		doc__say(d, " Operators by the agent; cost of probes: %.1f%%.",
			 100 * session_info__cost_ns(info) / window);
	else if (agents)
		doc__say(d, " Operators of %u process%s by the agent; cost of probes: %.1f%%.",
			 agents, plural(agents, "es"), 100 * session_info__cost_ns(info) / window);
	else if (session_info__counter(info, PTB_CNT_COST_PS))
		doc__say(d, " Cost to the job: at least %.1f%%.",
			 100 * session_info__cost_ns(info) / window);
	else
		doc__say(d, " Cost to the job: not measured.");
}

/* Where a process's environment says what ends its steps. */
static void say_steps(struct doc *d, const struct session_info *info)
{
	const char *first = NULL;
	bool others = false;

	for (uint32_t i = 0; i < info->process_cnt && !info->sample_hz; i++) {
		const char *name = info->processes[i].step_on;

		first = first ? first : name;
		others |= name && strcmp(name, first) != 0;
	}
	if (first)
		doc__say(d, " Steps end with '%s'%s (PTBPF_STEP_ON).", first,
			 others ? " and others" : "");
}

static void say_left_out(struct doc *d, const struct session_totals *t)
{
	if (t->when)
		doc__say(d,
			 " In '%s' only (%" PRIu64 " annotation%s): %s slices and events left out.",
			 t->when, t->when_found, plural(t->when_found, "s"),
			 cell__count(t->when_left_out).text);
	if (t->truncated_annotations || t->truncated_ops)
		doc__say(d,
			 " Cut where they cross an annotation: %" PRIu64 " annotation%s, %" PRIu64
			 " operator%s.",
			 t->truncated_annotations, plural(t->truncated_annotations, "s"),
			 t->truncated_ops, plural(t->truncated_ops, "s"));
}

/* A process that ended by itself after a window without an end did what was expected. */
static void say_ends(struct doc *d, const struct session_info *info, uint64_t requested_ns)
{
	double window = (double)(info->end_ns - info->begin_ns) / 1e9;

	for (uint32_t i = 0; i < info->process_cnt; i++) {
		const struct session_process *p = &info->processes[i];
		int signal = WIFSIGNALED((int)p->status) ? WTERMSIG((int)p->status) : 0;

		if (!p->ended || (!p->status && (!requested_ns || info->process_cnt > 1)))
			continue;
		doc__style(d, DOC_ALERT);
		doc__say(d, info->process_cnt > 1 ? "process %u ended" : "the process ended",
			 p->pid);
		if (info->process_cnt == 1 && requested_ns)
			doc__say(d, " after %.1f of %.3g s", window, (double)requested_ns / 1e9);
		else if (info->process_cnt == 1)
			doc__say(d, " after %.1f s", window);
		if (signal)
			doc__line(d, " (SIG%s)", sigabbrev_np(signal) ? sigabbrev_np(signal) : "?");
		else
			doc__line(d, " (exit code %d)", WEXITSTATUS((int)p->status));
	}
}

int summary__put(const struct output_args *args, uint64_t threads, uint64_t requested_ns)
{
	const struct session_info *info = session__info(args->s);
	const struct session_totals *t = args->totals;
	struct unseen_open open = loss_account__unseen_open(info, t);
	bool incomplete = loss_account__incomplete(info, t, NULL, 0);
	struct doc d;

	doc__begin(&d, args);
	d.no_losses = true;
	say_ends(&d, info, requested_ns);
	doc__say(&d, "%.2f s of ", (double)(info->end_ns - info->begin_ns) / 1e9);
	say_who(&d, info);
	say_what(&d, info, t, threads, incomplete);
	say_cost(&d, info);
	say_steps(&d, info);
	say_left_out(&d, t);
	if (open.text[0] && !incomplete)
		doc__say(&d, " %c%s.", open.text[0] - 'a' + 'A', open.text + 1);
	doc__end_line(&d);
	return doc__finish(&d);
}
