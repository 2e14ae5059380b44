/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Above a table: where the time of the main thread went, and what stands out, each with the
 * command that shows more. The conclusions are the reports'; nothing is said that they do not
 * know.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "ranks/rank_times.h"
#include "report/report_priv.h"

/* From which share of the window, or rate, on something stands out. */
#define LOADER_SHARE 0.3
#define PYTHON_SHARE 0.5
#define QUEUED_SHARE 0.2
#define ITEMS_PER_S 1000.0
#define RSS_SHARE 0.01
#define RSS_BYTES (8 << 20)
#define RSS_OPS 1000

#define FINDINGS_SHOWN 3

struct item_line {
	uint64_t cnt, ns;
	uint32_t tgid;
};

struct overview {
	const struct output_args *args;
	void *memory, *gpus;
	struct rank_times *ranks;
	struct py_lines lines;
	struct text_ids texts;
	struct item_line *items; /* by process and line */
	uint32_t item_cnt, item_cap;
	struct hashmap item_ids;
	const char *item; /* the session's "aten::item" */
	struct findings found;
};

bool overview__has(const struct output *report)
{
	return report == &operators_report || report == &lines_report ||
	       report == &modules_report || report == &sampled_operators_report;
}

struct overview *overview__new(const struct output_args *args)
{
	const struct session_info *info = session__info(args->s);
	struct overview *ov;

	if (!overview__has(args->output) || args->json)
		return NULL;
	ov = xcalloc(1, sizeof(*ov));
	ov->args = args;
	text_ids__init(&ov->texts);
	py_lines__init(&ov->lines, args->s);
	if (info->has_memory)
		memory_report.open(args, &ov->memory);
	if (info->has_gpu)
		gpus_report.open(args, &ov->gpus);
	if (info->process_cnt > 1 && !info->sample_hz)
		ov->ranks = rank_times__new(args->s);
	return ov;
}

void overview__free(struct overview *ov)
{
	if (!ov)
		return;
	memory_report.free(ov->memory);
	gpus_report.free(ov->gpus);
	rank_times__free(ov->ranks);
	text_ids__free(&ov->texts);
	py_lines__free(&ov->lines);
	hashmap__clear(&ov->item_ids);
	free(ov->items);
	free(ov);
}

/* ---- what is counted here ---- */

/* The line of Python, as a number of ov->texts; 0: not recorded. */
static uint32_t line_of(struct overview *ov, uint32_t stack)
{
	return py_lines__id(&ov->lines, ov->args->s, &ov->texts, stack);
}

/* A tensor's value is fetched: on a GPU the program waits for all that was launched. */
static void take_slice(void *arg, const struct slice *sl)
{
	struct overview *ov = arg;
	struct item_line *l;

	if (sl->name != ov->item && (ov->item || strcmp(sl->name, "aten::item") != 0))
		return;
	ov->item = sl->name;
	l = list__keyed(KEYED_LIST(ov, items, item), sl->tgid, line_of(ov, sl->stack));
	l->tgid = sl->tgid;
	l->cnt++;
	l->ns += sl->end_ns - sl->begin_ns;
}

uint32_t overview__sinks(struct overview *ov, struct session_sink sinks[OVERVIEW_SINKS])
{
	uint32_t n = 0;

	if (!ov)
		return 0;
	sinks[n++] = (struct session_sink){ .arg = ov, .slice = take_slice };
	if (ov->memory)
		sinks[n++] = memory_report.sink(ov->memory);
	if (ov->gpus)
		sinks[n++] = gpus_report.sink(ov->gpus);
	if (ov->ranks)
		sinks[n++] = rank_times__sink(ov->ranks);
	return n;
}

/* ---- what stands out ---- */

static uint32_t pid_of(const struct overview *ov, uint32_t tgid)
{
	const struct session_process *p = session__process(ov->args->s, tgid);

	return p ? p->pid : tgid;
}

static void judge_thread(struct overview *ov, const struct thread_time *t)
{
	const struct session_info *info = session__info(ov->args->s);
	bool sampled = info->sample_hz;
	double loader = time__share(t->ns[TIME_LOADER], t->window_ns);
	double python = time__share(t->python_ns, t->window_ns);
	double queued = time__share(t->sampled_ns[SAMPLE_QUEUED], thread_time__samples(t));
	uint32_t pid = pid_of(ov, t->tgid), line = line_of(ov, t->loader_stack);
	bool workers = t->loader && strstr(t->loader, "MultiProcessing");
	struct finding *f = NULL;

	if (loader > LOADER_SHARE)
		finding__next(findings__add(&ov->found, loader,
					    "data loader %.0f%% of the window: %s%s%s",
					    100 * loader,
					    workers ? "the program waits for its workers" :
						      "it runs in the main thread (num_workers=0)",
					    line ? " at " : "", text_ids__text(&ov->texts, line)),
			      "sudo ptbpf attach --pid %u%s -d 5s --sample-stacks 99", pid,
			      workers ? " --children" : "");
	if (python > PYTHON_SHARE && !sampled)
		f = findings__add(
			&ov->found, python,
			"%.0f%% of the window is outside of operators: Python, or waiting",
			100 * python);
	if (info->with_samples)
		finding__next(f, "ptbpf report %s --by line%s", ov->args->capture,
			      ov->args->output == &lines_report ? " --all-lines" : "");
	else
		finding__next(f, "sudo ptbpf attach --pid %u -d 5s --sample-stacks 99", pid);
	if (queued > QUEUED_SHARE)
		finding__next(
			findings__add(
				&ov->found, queued,
				"waits for a CPU %.0f%% of the window: more threads want to run than there are CPUs",
				100 * queued),
			"ptbpf export %s --format threads -o -", ov->args->capture);
}

static void judge_items(struct overview *ov)
{
	const struct session_info *info = session__info(ov->args->s);
	uint64_t window = info->end_ns - info->begin_ns;
	struct hashmap_slot *slot;
	uint64_t pos = 0;

	while ((slot = hashmap__next(&ov->item_ids, &pos))) {
		const struct item_line *l = &ov->items[slot->val];
		double rate = window ? (double)l->cnt * 1e9 / (double)window : 0;
		const char *line = text_ids__text(&ov->texts, (uint32_t)slot->k1);
		struct finding *f;

		if (rate <= ITEMS_PER_S)
			continue;
		f = findings__add(&ov->found, time__share(l->ns, window) + 0.1,
				  "item() %s times a second%s%s: %.0f%% of the window is in it",
				  cell__count((uint64_t)rate).text, *line ? " at " : "", line,
				  100 * time__share(l->ns, window));
		if (*line)
			finding__next(f, "ptbpf report %s --by line", ov->args->capture);
		else
			finding__next(f, "sudo ptbpf attach --pid %u -d 5s --with-stack",
				      pid_of(ov, l->tgid));
	}
}

static double rss_change(const struct session_info *info, uint32_t tgid, double *before)
{
	const struct session_rss *first = NULL, *last = NULL;

	for (uint32_t i = 0; i < info->rss_cnt; i++)
		if (info->rss[i].tgid == tgid) {
			first = first ? first : &info->rss[i];
			last = &info->rss[i];
		}
	*before = first ? (double)mr__resident(first->rss) : 0;
	return first ? (double)mr__resident(last->rss) - *before : 0;
}

/* Without the allocations it is known that a process grew, and not by what. One that has hardly
 * begun grows. */
static void judge_rss(struct overview *ov, const struct session_totals *t)
{
	const struct session_info *info = session__info(ov->args->s);
	const struct session_process *most = NULL;
	double best = RSS_BYTES, before;

	for (uint32_t i = 0; i < info->process_cnt && t->ops >= RSS_OPS; i++) {
		double change = rss_change(info, info->processes[i].tgid, &before);

		if (change > best && change > before * RSS_SHARE) {
			best = change;
			most = &info->processes[i];
		}
	}
	if (most)
		finding__next(findings__add(&ov->found, 0.2, "process %u grew by %s in the window",
					    most->pid, cell__bytes(best).text),
			      "sudo ptbpf attach --pid %u -d 30s --profile-memory --with-stack",
			      most->pid);
}

static void judge_losses(struct overview *ov)
{
	const struct session_info *info = session__info(ov->args->s);
	uint64_t lost = session_info__counter(info, PTB_CNT_RING_FULL);

	if (lost)
		finding__next(
			findings__add(&ov->found, 2.0,
				      "%s records are lost: the shares below are of what is left",
				      cell__count(lost).text),
			"the same command with --ringbuf 64MiB");
}

/* ---- the text ---- */

static void say_thread(struct doc *d, const struct thread_time *t, const struct session_process *p)
{
	struct time_part parts[TIME_PARTS_MAX];
	bool sampled = session__info(d->args->s)->sample_hz;
	uint32_t cnt = sampled ? time_parts__of_samples(parts, t->sampled_ns) :
				 time_parts__of(parts, t->ns, t->python_ns);

	time_thread__say(d, t, p);
	doc__say(d, ": ");
	time_parts__say(d, parts, cnt, sampled ? thread_time__samples(t) : t->window_ns);
	doc__end_line(d);
}

static void judge(struct overview *ov)
{
	judge_losses(ov);
	judge_items(ov);
	if (ov->gpus)
		gpu_report__find(ov->gpus, ov->args, &ov->found);
	if (ov->ranks)
		rank_times__find(ov->ranks, ov->args, &ov->found);
	if (ov->memory)
		mem_report__find(ov->memory, ov->args, &ov->found);
	else
		judge_rss(ov, ov->args->totals);
}

int overview__put(struct overview *ov, const struct output_args *args)
{
	struct thread_time t = { .window_ns = 0 };
	const struct session_process *proc = thread_times__busiest(args->times, &t);
	struct doc d;

	doc__begin(&d, args);
	d.no_losses = true;
	judge(ov);
	if (proc) {
		say_thread(&d, &t, proc);
		judge_thread(ov, &t);
	}
	findings__sort(&ov->found);
	for (uint32_t i = 0; i < report__shown(ov->found.cnt, FINDINGS_SHOWN); i++) {
		const struct finding *f = &ov->found.list[i];

		doc__style(&d, DOC_ALERT);
		doc__line(&d, "  ! %s", f->text);
		doc__line(&d, "    next: %s", f->next);
	}
	if (proc || ov->found.cnt)
		doc__gap(&d);
	return doc__finish(&d);
}
