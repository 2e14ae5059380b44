/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Above a table: where the time of the main thread went, and what stands out, each with the
 * command that shows more. The conclusions are the reports'; nothing is said that they do not
 * know.
 */
#include <inttypes.h>
#include <stdarg.h>
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
#define GPU_IDLE_SHARE 0.3
#define ITEMS_PER_S 1000.0
#define RSS_SHARE 0.01
#define RSS_BYTES (8 << 20)
#define RSS_OPS 1000

#define FINDINGS_MAX 16
#define FINDINGS_SHOWN 3

struct finding {
	double weight; /* the highest come first */
	char text[512], next[256];
};

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
	struct finding findings[FINDINGS_MAX];
	uint32_t finding_cnt;
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

static struct finding *add(struct overview *ov, double weight, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* NULL: there are enough. */
static struct finding *add(struct overview *ov, double weight, const char *fmt, ...)
{
	struct finding *f;
	va_list ap;

	if (ov->finding_cnt == FINDINGS_MAX)
		return NULL;
	f = &ov->findings[ov->finding_cnt++];
	f->weight = weight;
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return f;
}

__attribute__((format(printf, 2, 3))) static void next(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	if (!f)
		return;
	va_start(ap, fmt);
	vsnprintf(f->next, sizeof(f->next), fmt, ap);
	va_end(ap);
}

static uint32_t pid_of(const struct overview *ov, uint32_t tgid)
{
	const struct session_process *p = session__process(ov->args->s, tgid);

	return p ? p->pid : tgid;
}

static double share(uint64_t ns, uint64_t window)
{
	return window ? (double)ns / (double)window : 0;
}

static uint64_t all_samples(const struct thread_time *t)
{
	return t->sampled_ns[SAMPLE_RUNNING] + t->sampled_ns[SAMPLE_QUEUED] +
	       t->sampled_ns[SAMPLE_BLOCKED];
}

static void judge_thread(struct overview *ov, const struct thread_time *t)
{
	const struct session_info *info = session__info(ov->args->s);
	bool sampled = info->sample_hz;
	double loader = share(t->ns[TIME_LOADER], t->window_ns);
	double python = share(t->python_ns, t->window_ns);
	double queued = share(t->sampled_ns[SAMPLE_QUEUED], all_samples(t));
	uint32_t pid = pid_of(ov, t->tgid), line = line_of(ov, t->loader_stack);
	bool workers = t->loader && strstr(t->loader, "MultiProcessing");
	struct finding *f = NULL;

	if (loader > LOADER_SHARE)
		next(add(ov, loader, "data loader %.0f%% of the window: %s%s%s", 100 * loader,
			 workers ? "the program waits for its workers" :
				   "it runs in the main thread (num_workers=0)",
			 line ? " at " : "", text_ids__text(&ov->texts, line)),
		     "sudo ptbpf attach --pid %u%s -d 5s --sample-stacks 99", pid,
		     workers ? " --children" : "");
	if (python > PYTHON_SHARE && !sampled)
		f = add(ov, python,
			"%.0f%% of the window is outside of operators: Python, or waiting",
			100 * python);
	if (info->with_samples)
		next(f, "ptbpf report %s --by line%s", ov->args->capture,
		     ov->args->output == &lines_report ? " --all-lines" : "");
	else
		next(f, "sudo ptbpf attach --pid %u -d 5s --sample-stacks 99", pid);
	if (queued > QUEUED_SHARE)
		next(add(ov, queued,
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
		f = add(ov, share(l->ns, window) + 0.1,
			"item() %s times a second%s%s: %.0f%% of the window is in it",
			cell__count((uint64_t)rate).text, *line ? " at " : "", line,
			100 * share(l->ns, window));
		if (*line)
			next(f, "ptbpf report %s --by line", ov->args->capture);
		else
			next(f, "sudo ptbpf attach --pid %u -d 5s --with-stack",
			     pid_of(ov, l->tgid));
	}
}

static void judge_leak(struct overview *ov, const struct mr_printer *p)
{
	const struct mr_view *v = p->v;
	const struct mr_group *g = v->leaks;
	struct mr_who_text who;

	if (v->leak_cnt && v->periods_before >= MR_LEAK_PERIODS_MIN) {
		who = mr_say__who(p, &g->who);
		next(add(ov, 0.9, "GROWS %s%s, %s a %s: %s kept from %u of %u", who.text, who.line,
			 cell__change((double)g->kept_before / v->periods_before).text,
			 v->by_step ? "step" : "tenth of the window",
			 cell__bytes((double)g->kept).text, g->periods, v->periods_before + 1),
		     "ptbpf report %s --memory", ov->args->capture);
	} else if (v->other.per_period > 0) {
		next(add(ov, 0.8,
			 "GROWS the process by %s a %s, not PyTorch's tensors: Python objects or a library",
			 cell__change(v->other.per_period).text,
			 v->by_step ? "step" : "tenth of the window"),
		     "ptbpf report %s --memory", ov->args->capture);
	}
}

static void judge_memory(struct overview *ov)
{
	struct mem_report *mr = ov->memory;
	struct mr_view *views = mr_rank__new(mr);
	struct doc d = { .args = ov->args };
	struct mr_printer p = { .d = &d, .mr = mr };

	for (uint32_t i = 0; i < mr->proc_cnt; i++) {
		p.v = &views[i];
		judge_leak(ov, &p);
	}
	mr_rank__free(views, mr->proc_cnt);
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
		next(add(ov, 0.2, "process %u grew by %s in the window", most->pid,
			 cell__bytes(best).text),
		     "sudo ptbpf attach --pid %u -d 30s --profile-memory --with-stack", most->pid);
}

static void judge_gpus(struct overview *ov)
{
	struct gpu_report *gr = ov->gpus;

	gr_rank__all(gr);
	for (uint32_t i = 0; i < gr->device_cnt; i++) {
		const struct gr_device *dev = &gr->devices[i];
		double idle = share(dev->idle_ns + dev->short_ns, gr__window_ns(gr));
		const struct gr_why *why = NULL;
		char where[320] = "";

		for (uint32_t k = 0; k < gr->why_cnt && !why; k++)
			if (gr->whys[k].device == dev->id)
				why = &gr->whys[k];
		if (idle <= GPU_IDLE_SHARE || dev->last_work == dev->first_work)
			continue;
		if (why)
			gr__where_text(gr, where, sizeof(where), &why->why);
		next(add(ov, idle, "GPU %u runs no kernel %.0f%% of the window%s%s%s%s", dev->id,
			 100 * idle, why ? ", mostly " : "",
			 why ? gr_causes[why->why.cause].text : "", *where ? ": " : "", where),
		     "ptbpf report %s --gpu", ov->args->capture);
	}
}

static void judge_ranks(struct overview *ov)
{
	const struct rank_times_result *r = rank_times__finish(ov->ranks);

	for (uint32_t i = 0; i < r->rank_cnt && r->rank_cnt > 1 && r->matched; i++) {
		const struct rank_time *t = &r->ranks[i];

		if (!t->verdict.slow)
			continue;
		next(add(ov, t->verdict.share, "%s %u %s late by %s a step (%.0f%%)%s%s",
			 t->has_rank ? "rank" : "process",
			 t->has_rank ? t->rank.rank : t->proc->pid, r->guessed ? "seems" : "is",
			 unit__ns(t->verdict.excess_ns).text, 100 * t->verdict.share,
			 t->what_cnt ? ", mostly in " : "", t->what_cnt ? t->what[0].name : ""),
		     "ptbpf report %s --skew", ov->args->capture);
	}
}

static void judge_losses(struct overview *ov)
{
	const struct session_info *info = session__info(ov->args->s);
	uint64_t lost = session_info__counter(info, PTB_CNT_RING_FULL);

	if (lost)
		next(add(ov, 2.0, "%s records are lost: the shares below are of what is left",
			 cell__count(lost).text),
		     "the same command with --ringbuf 64MiB");
}

static int by_weight(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	return (x->weight < y->weight) - (x->weight > y->weight);
}

/* ---- the text ---- */

#define STATE(s)                                                                                   \
	{                                                                                          \
		py_sample__state_name(SAMPLE_##s), t->sampled_ns[SAMPLE_##s]                       \
	}

/* "operators 8.1%, data loader 91.0%", most first. */
static void say_shares(struct doc *d, const struct thread_time *t, bool sampled)
{
	struct part {
		const char *name;
		uint64_t ns;
	} parts[] = { { "operators", t->ns[TIME_OPERATORS] },
		      { "data loader", t->ns[TIME_LOADER] },
		      { "optimizer", t->ns[TIME_OPTIMIZER] },
		      { "collectives", t->ns[TIME_COLLECTIVES] },
		      { "outside of operators", sampled ? 0 : t->python_ns },
		      STATE(RUNNING),
		      STATE(QUEUED),
		      STATE(BLOCKED) };
	size_t cnt = sizeof(parts) / sizeof(*parts);
	uint64_t window = sampled ? all_samples(t) : t->window_ns;
	const char *sep = ": ";

	for (size_t n = 0; n < cnt; n++) {
		struct part *most = &parts[0];

		for (size_t i = 1; i < cnt; i++)
			most = parts[i].ns > most->ns ? &parts[i] : most;
		if (share(most->ns, window) < 0.001)
			break;
		doc__say(d, "%s%s %.1f%%", sep, most->name, 100 * share(most->ns, window));
		most->ns = 0;
		sep = ", ";
	}
	doc__end_line(d);
}

static void say_thread(struct doc *d, const struct thread_time *t, const struct session_process *p)
{
	const struct session *s = d->args->s;
	char name[128];

	command__short(name, sizeof(name), *p->cmdline ? p->cmdline : p->comm);
	if (t->tid == t->tgid)
		doc__say(d, "Main thread of %s (%u)", name, p->pid);
	else
		doc__say(d, "Thread %u (%s) of %s (%u)", t->tid,
			 session__thread_label(s, t->tgid, t->tid), name, p->pid);
	if (session__info(s)->process_cnt > 1)
		doc__say(d, ", the busiest of %u processes", session__info(s)->process_cnt);
	say_shares(d, t, session__info(s)->sample_hz);
}

static void judge(struct overview *ov)
{
	judge_losses(ov);
	judge_items(ov);
	if (ov->gpus)
		judge_gpus(ov);
	if (ov->ranks)
		judge_ranks(ov);
	if (ov->memory)
		judge_memory(ov);
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
	sort__array(ov->findings, ov->finding_cnt, sizeof(*ov->findings), by_weight);
	for (uint32_t i = 0; i < report__shown(ov->finding_cnt, FINDINGS_SHOWN); i++) {
		const struct finding *f = &ov->findings[i];

		doc__style(&d, DOC_ALERT);
		doc__line(&d, "  ! %s", f->text);
		doc__line(&d, "    next: %s", f->next);
	}
	if (proc || ov->finding_cnt)
		doc__gap(&d);
	return doc__finish(&d);
}
