/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --sched`: what each thread did, and what the waits were for. Key names are a contract:
 * schemas/formats/sched_report.schema.json.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "report/report_priv.h"

struct sched_thread {
	uint32_t tgid, tid;
	uint64_t since_ns, until_ns; /* known from, to */
	uint64_t ns[PTB_WAIT_CNT];
	uint64_t voluntary, preempted;
};

struct place { /* where a thread was in the program */
	const char *op, *annotation;
	uint32_t line; /* of texts */
	bool unprobed; /* operators were not recorded any more */
	uint32_t nr;
};

struct wait_row {                     /* what a thread waited for in one place */
	uint32_t thread, place;       /* indices */
	uint32_t what;                /* enum ptb_wait */
	uint32_t holder;              /* of the GIL: its tid */
	bool idle;                    /* the thread hardly ran: it is one of a pool */
	uint64_t ns, longest_ns, cnt; /* the last two: of waits with a record of their own */
};

struct sched_report {
	const struct session *s;
	struct sched_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_ids;
	struct place *places;
	uint32_t place_cnt, place_cap;
	struct hashmap place_ids;
	struct wait_row *rows;
	uint32_t row_cnt, row_cap;
	struct hashmap row_ids;
	struct text_ids texts;
	struct py_lines lines;
	void *work; /* struct pool_work */
};

static int open_report(const struct output_args *args, void **out)
{
	struct sched_report *sr = xcalloc(1, sizeof(*sr));

	sr->s = args->s;
	text_ids__init(&sr->texts);
	py_lines__init(&sr->lines, args->s);
	*out = sr;
	return pool_work.open(args, &sr->work);
}

static void free_report(void *o)
{
	struct sched_report *sr = o;

	if (!sr)
		return;
	pool_work.free(sr->work);
	py_lines__free(&sr->lines);
	text_ids__free(&sr->texts);
	hashmap__clear(&sr->thread_ids);
	hashmap__clear(&sr->place_ids);
	hashmap__clear(&sr->row_ids);
	free(sr->threads);
	free(sr->places);
	free(sr->rows);
	free(sr);
}

/* ---- sums ---- */

static uint32_t place_of(struct sched_report *sr, const struct sched_event *ev)
{
	const struct op_context *at = &ev->at;
	bool unprobed = ev->end_ns > session__probed_until(sr->s, at->tgid);
	uint32_t line = py_lines__id(&sr->lines, sr->s, &sr->texts, at->stack);
	uint64_t names = (uint64_t)text_ids__get(&sr->texts, at->op) << 32 |
			 text_ids__get(&sr->texts, at->annotation);
	struct place *p =
		list__keyed(KEYED_LIST(sr, places, place), names, (uint64_t)unprobed << 32 | line);

	*p = (struct place){ at->op, at->annotation, line, unprobed, (uint32_t)(p - sr->places) };
	return p->nr;
}

static void add_row(struct sched_report *sr, uint32_t thread, uint32_t place, uint32_t what,
		    const struct sched_event *ev)
{
	uint32_t holder = what == PTB_WAIT_GIL && ev->wait ? ev->wait->holder : 0;
	struct wait_row *r = list__keyed(KEYED_LIST(sr, rows, row), (uint64_t)thread << 32 | place,
					 (uint64_t)what << 32 | holder);

	r->thread = thread;
	r->place = place;
	r->what = what;
	r->holder = holder;
	r->ns += ev->ns[what];
	r->cnt += ev->wait != NULL;
	if (ev->wait && ev->ns[what] > r->longest_ns)
		r->longest_ns = ev->ns[what];
}

static void take_wait(void *arg, const struct sched_event *ev)
{
	struct sched_report *sr = arg;
	struct sched_thread *t =
		list__keyed(KEYED_LIST(sr, threads, thread), ev->at.tgid, ev->at.tid);
	uint32_t place = place_of(sr, ev);

	t->tgid = ev->at.tgid;
	t->tid = ev->at.tid;
	t->voluntary += ev->voluntary;
	t->preempted += ev->preempted;
	if (ev->since_ns) {
		t->since_ns = ev->since_ns;
		t->until_ns = ev->end_ns;
	}
	for (uint32_t i = 0; i < PTB_WAIT_CNT; i++) {
		t->ns[i] += ev->ns[i];
		if (ev->ns[i])
			add_row(sr, (uint32_t)(t - sr->threads), place, i, ev);
	}
}

static uint32_t report_sinks(void *o, struct session_sink *list)
{
	list[0] = (struct session_sink){ .arg = o, .sched = take_wait };
	list[1] = pool_work.sink(((struct sched_report *)o)->work);
	return 2;
}

static uint64_t waited(const struct sched_thread *t)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < PTB_WAIT_CNT; i++)
		ns += t->ns[i];
	return ns;
}

static uint64_t on_cpu(const struct sched_thread *t)
{
	uint64_t lived = t->until_ns - t->since_ns, ns = waited(t);

	return lived > ns ? lived - ns : 0;
}

/* ---- the document ---- */

static int by_cpu(const void *a, const void *b)
{
	const struct sched_thread *x = a, *y = b;
	uint64_t cx = on_cpu(x), cy = on_cpu(y);

	if (cx != cy)
		return cx < cy ? 1 : -1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

#define IDLE_SHARE 0.001

/* Threads that hardly ran come last. */
static int by_ns(const void *a, const void *b)
{
	const struct wait_row *x = a, *y = b;

	if (x->idle != y->idle)
		return x->idle ? 1 : -1;
	return (x->ns < y->ns) - (x->ns > y->ns);
}

static void add_threads(struct doc *d, const struct sched_report *sr,
			const struct sched_thread *threads, double window)
{
	const struct doc_column columns[] = {
		{ "name", "thread", -16, NULL, 0, 0 },
		{ "tid", "tid", 7, NULL, 0, 3 },
		{ "on_cpu_ns", "on CPU", 7, NULL, window, 0 },
		{ ".cpu", "CPU", 6, NULL, window, 0 },
		{ ".gil", "GIL", 6, NULL, window, 0 },
		{ ".lock", "lock", 6, NULL, window, 0 },
		{ ".io", "I/O", 6, NULL, window, 0 },
		{ ".sleep", "sleep", 6, NULL, window, 0 },
		{ ".other", "other", 6, NULL, window, 0 },
		{ ".switches", "switches", 9, unit__count, 0, 2 },
		{ "preempted", "preempted", 9, unit__count, 0, 1 },
		{ 0 },
	};
	static const char *const keys[WAITS_CNT] = { ".cpu", ".gil",   ".lock",
						     ".io",  ".sleep", ".other" };

	doc__list(d, "threads", sr->thread_cnt, columns);
	for (uint32_t i; doc__next(d, &i);) {
		const struct sched_thread *t = &threads[i];
		uint64_t sums[WAITS_CNT] = { 0 };

		DOC(d, FACT("name", session__thread_label(sr->s, t->tgid, t->tid)),
		    FACT("pid", t->tgid), FACT("tid", t->tid),
		    FACT("lived_ns", t->until_ns - t->since_ns), FACT("on_cpu_ns", on_cpu(t)),
		    FACT("voluntary", t->voluntary), FACT("preempted", t->preempted),
		    FACT(".switches", t->voluntary + t->preempted));
		doc__object(d, "waits_ns");
		for (uint32_t k = 0; k < PTB_WAIT_CNT; k++) {
			DOC(d, FACT(wait__name(k), t->ns[k]));
			sums[wait__group(k)] += t->ns[k];
		}
		doc__end(d);
		for (uint32_t k = 0; k < WAITS_CNT; k++)
			DOC(d, FACT(keys[k], sums[k]));
	}
}

static int by_cpu_ns(const void *a, const void *b)
{
	double x = pool_row__cpu_ns(a), y = pool_row__cpu_ns(b);

	return (x < y) - (x > y);
}

static void add_operators(struct doc *d, const struct sched_report *sr)
{
	const struct doc_column columns[] = {
		{ "ns", "time", 9, unit__ns, 0, 0 },
		{ "cpu_ns", "CPU time", 9, unit__ns, 0, 1 },
		{ ".cpus", "CPUs", 6, NULL, 0, 0 },
		{ "count", "calls", 7, unit__count, 0, 2 },
		{ ".where", "thread and operator", -1, NULL, 0, 0 },
		{ 0 },
	};
	uint32_t cnt, n = 0;
	const struct pool_row *all = pool_work__rows(sr->work, &cnt);
	struct pool_row *rows = xcalloc(cnt + 1ULL, sizeof(*rows));

	for (uint32_t i = 0; i < cnt; i++)
		if (all[i].cnt && !d->args->totals->when) /* pools are in no annotation */
			rows[n++] = all[i];
	sort__array(rows, n, sizeof(*rows), by_cpu_ns);
	doc__title(d, "Operators of 0.1 ms or more, and the CPUs that they used");
	doc__list(d, "operators", n, columns);
	for (uint32_t i; doc__next(d, &i);) {
		const struct pool_row *r = &rows[i];
		double cpu_ns = pool_row__cpu_ns(r);

		DOC(d, FACT("pid", r->tgid), FACT("tid", r->tid), FACT("operator", r->op),
		    FACT("count", r->cnt), FACT("ns", r->ns), FACT("cpu_ns", (uint64_t)cpu_ns),
		    FACT("pool_ns", (uint64_t)r->pool_ns));
		doc__cell(d, ".cpus", "%.1f", cpu_ns / (double)r->ns);
		doc__cell(d, ".where", "%s in %s", session__thread_label(sr->s, r->tgid, r->tid),
			  r->op);
	}
	free(rows);
}

static void add_waits(struct doc *d, const struct sched_report *sr, double window)
{
	const struct doc_column columns[] = {
		{ "ns", "time", 9, unit__ns, 0, 0 },
		{ "ns", "%", 6, NULL, window, 0 },
		{ "longest_ns", "longest", 9, unit__ns, 0, 1 },
		{ "count", "waits", 7, unit__count, 0, 2 },
		{ ".for", "for", -16, NULL, 0, 0 },
		{ ".where", "thread and place", -1, NULL, 0, 0 },
		{ 0 },
	};

	doc__title(d, "Waits, longest first; those of threads that hardly ran are the last ones");
	doc__list(d, "waits", sr->row_cnt, columns);
	for (uint32_t i; doc__next(d, &i);) {
		const struct wait_row *r = &sr->rows[i];
		const struct sched_thread *t = &sr->threads[r->thread];
		const struct place *p = &sr->places[r->place];
		const char *line = text_ids__text(&sr->texts, p->line);

		DOC(d, FACT("pid", t->tgid), FACT("tid", t->tid), FACT("what", wait__name(r->what)),
		    FACT("ns", r->ns), FACT("longest_ns", r->longest_ns), FACT("count", r->cnt),
		    FACT("operator", p->op), FACT("annotation", p->annotation), FACT("line", line),
		    r->holder ? FACT("holder_tid", r->holder) : NO_FACT);
		doc__cell(d, ".for", r->holder ? "%s (%s)" : "%s", wait__name(r->what),
			  session__thread_label(sr->s, t->tgid, r->holder));
		doc__cell(d, ".where", "%s %s%s%s%s%s%s",
			  session__thread_label(sr->s, t->tgid, t->tid),
			  *p->op || *p->annotation ? "in " :
			  p->unprobed              ? "when operators were not recorded" :
						     "outside of operators",
			  *p->op ? p->op : p->annotation, *p->op && *p->annotation ? " of " : "",
			  *p->op ? p->annotation : "", *line ? " at " : "", line);
	}
}

static int finish_report(void *o, const struct output_args *args)
{
	struct sched_report *sr = o;
	const struct session_info *info = session__info(args->s);
	double window = (double)(info->end_ns - info->begin_ns);
	/* sorted; rows refer to the others by their index */
	struct sched_thread *threads = xcalloc(sr->thread_cnt + 1ULL, sizeof(*threads));
	struct doc d;
	int err;

	for (uint32_t i = 0; i < sr->thread_cnt; i++)
		threads[i] = sr->threads[i];
	for (uint32_t i = 0; i < sr->row_cnt; i++)
		sr->rows[i].idle = (double)on_cpu(&sr->threads[sr->rows[i].thread]) <
				   IDLE_SHARE * window;
	sort__array(threads, sr->thread_cnt, sizeof(*threads), by_cpu);
	sort__array(sr->rows, sr->row_cnt, sizeof(*sr->rows), by_ns);
	doc__begin(&d, args);
	doc__line(&d, "Threads, %.3f s, %u process%s; %%: of the window", window / 1e9,
		  info->process_cnt, info->process_cnt == 1 ? "" : "es");
	doc__gap(&d);
	DOC(&d, FACT("long_ns", (uint32_t)PTB_SCHED_LONG_NS));
	add_threads(&d, sr, threads, window);
	add_operators(&d, sr);
	add_waits(&d, sr, window);
	err = doc__finish(&d);
	free(threads);
	return err;
}

const struct output sched_report = {
	.needs = NEEDS_SCHED,
	.rows = ROWS_OF_LISTS,
	.open = open_report,
	.sinks = report_sinks,
	.finish = finish_report,
	.free = free_report,
};
