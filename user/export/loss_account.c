/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What is missing from a session, in one sentence: each loss with its number and what to do about
 * it. The only place that decides between "done" and "done but incomplete".
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "export/facts_json.h"

const struct loss_counter loss_counters[] = {
#define X(name, nr, where, loss, text) { nr, loss, #name, text },
	PTB_COUNTERS(X)
#undef X
		{ 0, false, NULL, NULL },
};

struct sentence {
	char *text;
	size_t cap, len;
	uint32_t parts;
};

__attribute__((format(printf, 2, 3))) static void add_text(struct sentence *s, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (s->len >= s->cap)
		return;
	va_start(ap, fmt);
	n = vsnprintf(s->text + s->len, s->cap - s->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		s->len += (size_t)n;
}

/* Opens the next part of the sentence. */
static void begin_part(struct sentence *s)
{
	if (s->parts++)
		add_text(s, "; ");
}

/* What the user can do about a loss counter, "" if nothing is known to help. */
static const char *advice(uint32_t id)
{
	switch (id) {
	case PTB_CNT_RING_FULL:
		return "raise --ringbuf";
	case PTB_CNT_RECURSION:
		return "another tracer's probes run inside ptbpf's: stop it";
	case PTB_CNT_MISSED:
		return "another tracer's probes run inside ptbpf's, or the Linux kernel preempts "
		       "programs at system calls";
	case PTB_CNT_CAPTURE_DROPPED:
	case PTB_CNT_UNWRITTEN_NS:
		return "is the disk full? write to another one with -o";
	case PTB_CNT_NAME_UNRESOLVED:
		return "the target exited before they could be read; their slices are named by address";
	case PTB_CNT_ARGS_CUT:
		return "an Execution Trace marks them";
	case PTB_CNT_NO_SHAPES:
		return "attach --dry-run prints the derived layout";
	case PTB_CNT_PY_CODE_GONE:
		return "their frames have no name: code that exec() makes and drops, or of a process that exited";
	case PTB_CNT_PY_CLASS_GONE:
		return "their calls are shown as functions: of modules whose class was dropped, or of a process that exited";
	case PTB_CNT_UNCOVERED_NS:
		return "a new process has none until ptbpf finds it; one whose main thread ends loses them";
	case PTB_CNT_NEW_OPS:
		return "record again, now that they have been called";
	case PTB_CNT_CHUNK_FAULT:
		return "the target was short of memory when they were sent";
	case PTB_CNT_AGENT_LOST:
		return "raise --ringbuf";
	case PTB_CNT_AGENT_DROPPED:
		return "the target was short of memory, or made records faster than they could be sent";
	case PTB_CNT_AGENT_LATE:
		return "their threads were not scheduled in time: the machine is overloaded";
	case PTB_CNT_AGENT_BAD:
		return "the target has the agent of another ptbpf: restart it with this one's";
	case PTB_CNT_GPU_DROPPED:
		return "CUPTI had no buffers left: record a shorter window";
	case PTB_CNT_GPU_NO_TIMES:
		return "the GPU's driver could not take them; restart the target";
	default:
		return "";
	}
}

static void add_counters(struct sentence *s, const struct session_info *info)
{
	const struct loss_counter *row;
	size_t len;

	for (row = loss_counters; row->text; row++) {
		uint64_t v = session_info__counter(info, row->id);
		const char *hint = advice(row->id);

		if (!row->loss || !v)
			continue;
		begin_part(s);
		len = strlen(row->text);
		if (len > 4 && !strcmp(row->text + len - 4, ", ns"))
			add_text(s, "%.3f ms of %.*s", (double)v / 1e6, (int)(len - 4), row->text);
		else
			add_text(s, "%" PRIu64 " %s", v, row->text);
		if (*hint)
			add_text(s, " (%s)", hint);
	}
}

struct loss_intervals loss_account__intervals(const struct session_info *info)
{
	struct loss_intervals sum = { 0, 0 };

	for (uint32_t i = 0; i < info->lost_cnt; i++) {
		const struct session_lost *l = &info->lost[i];

		sum.records += l->cnt;
		sum.ns += l->end_ns > l->begin_ns ? l->end_ns - l->begin_ns : 0;
	}
	return sum;
}

/* The intervals hold records that a counter counted already; they add where in time these were. */
static void add_intervals(struct sentence *s, const struct session_info *info)
{
	struct loss_intervals sum = loss_account__intervals(info);

	if (!info->lost_cnt)
		return;
	begin_part(s);
	add_text(s, "%" PRIu64 " records missing from %u interval%s of %.3f ms in all", sum.records,
		 info->lost_cnt, info->lost_cnt == 1 ? "" : "s", (double)sum.ns / 1e6);
	if (!session_info__counter(info, PTB_CNT_RING_FULL))
		add_text(s, " (raise --ringbuf)");
}

/* A few of many do not matter to sums. */
static void add_samples(struct sentence *s, const struct session_info *info,
			const struct session_totals *t)
{
	uint64_t late = session_info__counter(info, PTB_CNT_SAMPLES_LATE);

	if (late <= 1 + t->samples / 100)
		return;
	begin_part(s);
	add_text(s,
		 "%" PRIu64 " samples missed, %" PRIu64
		 " taken (the machine is overloaded: take fewer a second)",
		 late, t->samples);
}

static void add_totals(struct sentence *s, const struct session_totals *t)
{
	const struct {
		uint64_t cnt;
		const char *noun; /* with an "s" of several; NULL: the text has it */
		const char *text;
	} rows[] = {
		{ t->end_lost, "slice",
		  "whose end may be among the lost records (marked ptbpf.end_lost)" },
		{ t->stacks_unknown, "Python stack", "whose frames are not in the capture" },
		{ t->gpu_no_clock, "GPU record", "of processes whose agent sent no clock pair" },
		{ t->gpu_wrong_times, "GPU record",
		  "left out: they end before they begin, before the window that they were launched in, or after they "
		  "arrived (the clock of CUPTI is wrong; restart the target)" },
		{ t->late_records, "record",
		  "arrived too late to be sorted (the machine is overloaded)" },
		{ t->tensors_over, NULL,
		  "times a tensor or storage got a new number because too many are alive" },
		{ t->bad_records, "malformed record", "skipped (is the capture damaged?)" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!rows[i].cnt)
			continue;
		begin_part(s);
		if (rows[i].noun)
			add_text(s, "%" PRIu64 " %s%s %s", rows[i].cnt, rows[i].noun,
				 rows[i].cnt == 1 ? "" : "s", rows[i].text);
		else
			add_text(s, "%" PRIu64 " %s", rows[i].cnt, rows[i].text);
	}
}

static bool is_unseen_operator(const struct session_refusal *r)
{
	static const char ops[] = "at::_ops::";

	if ((r->kind != PTB_FUNC_OP && r->kind != PTB_FUNC_BOXED) ||
	    r->reason == PTB_REFUSE_NO_EXIT)
		return false;
	return r->reason != PTB_REFUSE_NO_NAME || !strncmp(r->name, ops, sizeof(ops) - 1);
}

uint32_t loss_account__unseen_operators(const struct session_info *info)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < info->refusal_cnt; i++)
		cnt += is_unseen_operator(&info->refusals[i]);
	return cnt;
}

static void add_threads(struct sentence *s, const struct session_totals *t)
{
	add_text(s, " on %" PRIu64 " thread%s", t->silent_threads,
		 t->silent_threads == 1 ? "" : "s");
	if (t->silent_mains == 1)
		add_text(s, ", the main thread of process %u among them", t->silent_main);
	else if (t->silent_mains)
		add_text(s, ", the main threads of %" PRIu64 " processes among them",
			 t->silent_mains);
}

struct unseen_open loss_account__unseen_open(const struct session_info *info,
					     const struct session_totals *t)
{
	struct unseen_open open = { "" };
	struct sentence s = { .text = open.text, .cap = sizeof(open.text) };

	if (!info->open_unknown)
		return open;
	if (t->slices && !t->annotations) {
		begin_part(&s);
		add_text(&s,
			 "no annotation began or ended: one that is open all the time is not seen");
	}
	if (t->slices && !t->silent_mains) /* threads of pools are idle in every program */
		return open;
	begin_part(&s);
	add_text(&s, "nothing began or ended");
	if (t->silent_threads)
		add_threads(&s, t);
	add_text(&s,
		 ": an operator or annotation that is open%s all the time is not seen "
		 "(--sample-stacks says where threads are)",
		 t->silent_threads ? " there" : "");
	return open;
}

bool loss_account__incomplete(const struct session_info *info, const struct session_totals *totals,
			      char *text, size_t cap)
{
	struct sentence s = { .text = text, .cap = cap };
	uint32_t unseen = loss_account__unseen_operators(info);
	struct unseen_open open = loss_account__unseen_open(info, totals);
	bool incomplete;

	if (cap)
		text[0] = '\0';
	if (!info->sealed) {
		begin_part(&s);
		add_text(&s,
			 "the capture was not sealed: ptbpf ended before it could write the rest");
	}
	if (info->stop_reason == PTB_STOP_NO_STEP) {
		begin_part(&s);
		add_text(
			&s,
			"the window ended before its steps did: none ended in time (--step-timeout)");
	}
	add_counters(&s, info);
	add_intervals(&s, info);
	add_samples(&s, info, totals);
	add_totals(&s, totals);
	incomplete = s.parts > 0;
	if (!incomplete)
		add_text(&s, "complete: nothing lost");
	if (totals->gpu_before_launch)
		add_text(&s,
			 "; %" PRIu64 " of %" PRIu64 " GPU activities began before their launch by "
			 "more than the clock error (marked "
			 "ptbpf.before_launch)",
			 totals->gpu_before_launch, totals->gpu_work);
	if (totals->truncated_annotations || totals->truncated_ops)
		add_text(&s,
			 "; cut where they cross an annotation (marked ptbpf.truncated): %" PRIu64
			 " annotation%s, %" PRIu64 " operator%s",
			 totals->truncated_annotations,
			 totals->truncated_annotations == 1 ? "" : "s", totals->truncated_ops,
			 totals->truncated_ops == 1 ? "" : "s");
	if (unseen)
		add_text(&s, "; %u operator%s not visible (attach --dry-run lists them)", unseen,
			 unseen == 1 ? "" : "s");
	if (open.text[0])
		add_text(&s, "; %s", open.text);
	if (s.cap && s.len >= s.cap && s.cap > 4) /* cut: mark it */
		memcpy(text + cap - 4, "...", 4);
	return incomplete;
}
